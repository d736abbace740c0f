//! As @wharfkit/antelope 1.x writes values: `JSON.stringify` of what its `Serializer` decodes.
//!
//! Where that throws or reads past what was sent, and abieos decodes, the bytes are read as abieos reads them, and
//! written in this style: text that is not UTF-8, symbols that are none, more than 18 decimals, years beyond
//! 275,760, arrays of fixed size, types it does not know, values nested deeper than 32 levels.

use std::io::Write;

use super::Style;
use crate::abi::{text, value};
use crate::hex;
use crate::number;
use crate::out::{Out, Room};

/// Integers of up to 32 bits as numbers, whatever their type, larger ones as strings; floats as strings; lower-case
/// hexadecimal digits.
pub(in crate::abi) struct Wharfkit;

/// What a JavaScript decoder of text drops at its start.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

// === impl Wharfkit ===

impl Style for Wharfkit {
    const MISSING: Option<&'static [u8; 4]> = Some(b"null");
    const WEBAUTHN_AS_SENT: bool = true;

    fn escape(out: &mut Out, byte: u8) {
        match byte {
            b'"' => out.append(b"\\\""),
            b'\\' => out.append(b"\\\\"),
            0x08 => out.append(b"\\b"),
            b'\t' => out.append(b"\\t"),
            b'\n' => out.append(b"\\n"),
            0x0c => out.append(b"\\f"),
            b'\r' => out.append(b"\\r"),
            0x7f => out.push(byte),
            _ => {
                out.append(b"\\u00");
                out.append(&hex::LOWER[usize::from(byte)]);
            }
        }
    }

    /// Without a byte order mark at its start.
    #[inline]
    fn string(out: &mut Out, bytes: &[u8]) -> bool {
        text::string::<Wharfkit>(out, bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes))
    }

    fn boolean(room: &mut Room, byte: u8) {
        text::boolean(room, byte == 1);
    }

    fn int64(room: &mut Room, value: i64) {
        match value.unsigned_abs() >> 32 {
            0 => number::signed(room, value),
            _ => number::quoted_signed(room, value),
        }
    }

    fn uint64(room: &mut Room, value: u64) {
        match value >> 32 {
            0 => number::unsigned(room, value),
            _ => number::quoted_unsigned(room, value),
        }
    }

    fn int128(out: &mut Out, value: i128) {
        match i64::try_from(value) {
            Ok(value) => out.short(|room| Wharfkit::int64(room, value)),
            Err(_) => number::quoted_large(out, value),
        }
    }

    fn uint128(out: &mut Out, value: u128) {
        match u64::try_from(value) {
            Ok(value) => out.short(|room| Wharfkit::uint64(room, value)),
            Err(_) => number::quoted_large(out, value),
        }
    }

    fn hex(out: &mut Out, bytes: &[u8]) {
        text::hex::<false>(out, bytes);
    }

    /// Seven decimals, rounded half up; from 10²¹ on as a `float64`.
    fn float32(out: &mut Out, value: f32) {
        const DECIMALS: u32 = 7;
        if !value.is_finite() || value.abs() >= 1e21 {
            return Wharfkit::float64(out, f64::from(value));
        }
        // The float is `mantissa` times 2 to the power of `exponent`.
        let bits = value.to_bits();
        let (mantissa, exponent) = match (bits >> 23 & 0xff, bits & 0x7f_ffff) {
            (0, fraction) => (fraction, -149),
            (exponent, fraction) => (fraction | 0x80_0000, exponent as i32 - 150),
        };
        let scaled = u128::from(mantissa) * 10u128.pow(DECIMALS);
        let scaled = match exponent {
            0.. => scaled << exponent,
            // Less than half of the last decimal.
            ..-60 => 0,
            _ => (scaled + (1 << (-exponent - 1))) >> -exponent,
        };
        let (whole, decimals) = (scaled / 10u128.pow(DECIMALS), (scaled % 10u128.pow(DECIMALS)) as u32);
        // As JavaScript has it: 0 has no sign, but what is rounded to it has.
        let sign = if value < 0.0 { "-" } else { "" };
        let mut written = Vec::with_capacity(40);
        // Writing to a Vec cannot fail.
        let _ = write!(written, "\"{sign}{whole}.{decimals:07}\"");
        out.append(&written);
    }

    /// The shortest digits that give the same double, written out from 10⁻⁶ to below 10²¹.
    fn float64(out: &mut Out, value: f64) {
        out.push(b'"');
        if value.is_finite() {
            let mut buffer = zmij::Buffer::new();
            digits(out, buffer.format_finite(value));
        } else {
            match value {
                f64::INFINITY => out.append(b"Infinity"),
                f64::NEG_INFINITY => out.append(b"-Infinity"),
                _ => out.append(b"NaN"),
            }
        }
        out.push(b'"');
    }

    fn float128(out: &mut Out, bytes: &[u8; 16]) {
        out.append(b"\"0x");
        hex::write_lower(out, bytes);
        out.push(b'"');
    }

    /// Rounded to milliseconds, halves away from 1970; years before 0 and after 9999 with a sign and six digits.
    fn time_point(out: &mut Out, microseconds: i64) {
        let size = (microseconds.unsigned_abs() + 500) / 1000;
        let milliseconds = if microseconds < 0 { -(size as i64) } else { size as i64 };
        let year = value::year(milliseconds);
        let from = out.len();
        value::time(out, milliseconds);
        if !(0..10_000).contains(&year) {
            out.replace(from..from + 5, format!("\"{year:+07}").as_bytes());
        }
    }

    /// Without milliseconds.
    fn time_point_sec(out: &mut Out, seconds: u32) {
        value::time(out, i64::from(seconds) * 1000);
        out.truncate(out.len() - 5);
        out.push(b'"');
    }

    /// The library checks all characters but the first, and has one of 0 for the empty code.
    fn symbol_code(out: &mut Out, value: u64) -> bool {
        let [first, rest @ ..] = value.to_le_bytes();
        let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
        let letters =
            rest[..end].iter().all(u8::is_ascii_uppercase) && rest[end..].iter().all(|&byte| byte == 0);
        if !letters {
            return value::symbol_code::<Wharfkit>(out, value);
        }
        let mut text = [0; 2];
        let text = char::from(first).encode_utf8(&mut text);
        out.push(b'"');
        text::characters::<Wharfkit>(out, text.as_bytes());
        out.append(&rest[..end]);
        out.push(b'"');
        false
    }
}

/// Appends the digits of a float as JavaScript writes them, from zmij's: `-0.0`, `1.25e-6`, `1.5e+16`, `1e+21`.
fn digits(out: &mut Out, text: &str) {
    let Some((mantissa, exponent)) = text.split_once('e') else {
        let text = text.strip_suffix(".0").unwrap_or(text);
        return out.append(if text == "-0" { b"0" } else { text.as_bytes() });
    };
    let (sign, mantissa) = mantissa.split_at(usize::from(mantissa.starts_with('-')));
    let (first, rest) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    out.append(sign.as_bytes());
    match exponent.parse::<usize>() {
        Ok(exponent @ ..21) => {
            out.append(first.as_bytes());
            out.append(rest.as_bytes());
            // Above 10¹⁶ no digit is behind the point.
            out.space(exponent.saturating_sub(rest.len())).fill(b'0');
        }
        _ if exponent == "-6" => {
            out.append(b"0.00000");
            out.append(first.as_bytes());
            out.append(rest.as_bytes());
        }
        _ => {
            out.append(mantissa.as_bytes());
            out.push(b'e');
            out.append(exponent.as_bytes());
        }
    }
}
