//! As abieos writes values.

use std::io::Write;

use super::Style;
use crate::abi::{text, value};
use crate::hex;
use crate::number;
use crate::out::{Out, Room};

/// Byte for byte what `rs_abieos` writes: 64-bit and larger integers as strings, floats as numbers, upper-case
/// hexadecimal digits.
pub(in crate::abi) struct Abieos;

// === impl Abieos ===

impl Style for Abieos {
    const MISSING: Option<&'static [u8; 4]> = None;
    const WEBAUTHN_AS_SENT: bool = false;

    fn escape(out: &mut Out, byte: u8) {
        match byte {
            b'"' => out.append(b"\\\""),
            b'\\' => out.append(b"\\\\"),
            b'\n' => out.append(b"\\n"),
            b'\r' => out.append(b"\\r"),
            b'\t' => out.append(b"\\t"),
            _ => {
                out.append(b"\\u00");
                out.append(&hex::UPPER[usize::from(byte)]);
            }
        }
    }

    #[inline(always)]
    fn string(out: &mut Out, bytes: &[u8]) -> bool {
        text::string::<Abieos>(out, bytes)
    }

    #[inline(always)]
    fn boolean(room: &mut Room, byte: u8) {
        text::boolean(room, byte != 0);
    }

    #[inline(always)]
    fn int64(room: &mut Room, value: i64) {
        number::quoted_signed(room, value);
    }

    #[inline(always)]
    fn uint64(room: &mut Room, value: u64) {
        number::quoted_unsigned(room, value);
    }

    fn int128(out: &mut Out, value: i128) {
        number::quoted_large(out, value);
    }

    fn uint128(out: &mut Out, value: u128) {
        number::quoted_large(out, value);
    }

    #[inline]
    fn hex(out: &mut Out, bytes: &[u8]) {
        text::hex::<true>(out, bytes);
    }

    fn float32(out: &mut Out, value: f32) {
        float(out, f64::from(value));
    }

    fn float64(out: &mut Out, value: f64) {
        float(out, value);
    }

    fn float128(out: &mut Out, bytes: &[u8; 16]) {
        Abieos::hex(out, bytes);
    }

    /// The year's last four digits only; a negative year counts as its 32-bit complement.
    fn time_point(out: &mut Out, microseconds: i64) {
        value::time(out, microseconds.div_euclid(1000));
    }

    fn time_point_sec(out: &mut Out, seconds: u32) {
        value::time(out, i64::from(seconds) * 1000);
    }

    fn symbol_code(out: &mut Out, value: u64) -> bool {
        value::symbol_code::<Abieos>(out, value)
    }
}

/// Appends a float: the shortest digits that give the same double, written out if that takes no more than 25
/// characters, else with an exponent. What JSON has no number for is a string.
fn float(out: &mut Out, value: f64) {
    const WRITTEN_OUT: usize = 25;
    /// Whole numbers below this are their own shortest digits.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if !value.is_finite() {
        return match value {
            f64::INFINITY => out.append(b"\"Infinity\""),
            f64::NEG_INFINITY => out.append(b"\"-Infinity\""),
            _ => out.append(b"\"NaN\""),
        };
    }
    let size = value.abs();
    let whole = size >= EXACT || value as i64 as f64 == value;
    if whole && size < EXACT {
        return match value.to_bits() {
            0x8000_0000_0000_0000 => out.append(b"-0"),
            _ => out.short(|room| number::signed(room, value as i64)),
        };
    }
    if !whole && size >= 1e-5 {
        return fraction(out, value);
    }
    let mut written = Vec::with_capacity(32);
    // Writing to a Vec cannot fail. Very large and very small ones are too long for sure, and slow to write out.
    if size < 1e25 && (size >= 1e-23 || whole) {
        let _ = if whole {
            // A whole number's own digits, not the shortest ones.
            write!(written, "{value:.0}")
        } else {
            write!(written, "{value}")
        };
    }
    if written.is_empty() || written.len() > WRITTEN_OUT {
        written.clear();
        let _ = write!(written, "{value:?}");
        if let Some(e) = written.iter().position(|&c| c == b'e')
            && written.get(e + 1) != Some(&b'-')
        {
            written.insert(e + 1, b'+');
        }
    }
    out.append(&written);
}

/// Appends the shortest digits of a float with a fraction. Of two that are as near, the standard library, and so
/// `rs_abieos`, takes the larger, zmij, which is faster, the even one.
fn fraction(out: &mut Out, value: f64) {
    const MANTISSA: u64 = 1 << 52;
    /// From 10⁻⁵ on, with at most 17 digits that count, and one more.
    const MOST_DECIMALS: i64 = 5 + 17 + 1;
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value).as_bytes();
    out.append(text);
    // An odd number divided by 2 to the power of n has n decimals, the last being 5.
    let mantissa = value.to_bits() & (MANTISSA - 1) | MANTISSA;
    let zeros = mantissa.trailing_zeros();
    let halvings = 1075 - (value.to_bits() >> 52 & 0x7ff) as i64 - i64::from(zeros);
    if halvings > MOST_DECIMALS {
        return;
    }
    let decimals = text.iter().rev().take_while(|&&c| c != b'.').count();
    if halvings == decimals as i64 + 1 {
        let exact = u128::from(mantissa >> zeros) * 5u128.pow(halvings as u32);
        if (exact / 10).is_multiple_of(2)
            && let Some(last) = out.last_mut()
        {
            *last += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (f64::from(0.1f32), "0.10000000149011612"),
            (9_007_199_254_740_991.0, "9007199254740991"),
            (9_007_199_254_740_992.0, "9007199254740992"),
            (1e22, "10000000000000000000000"),
            (1e23, "99999999999999991611392"),
            (1e300, "1e+300"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (0.000012345678901234567, "0.000012345678901234568"),
            (f64::NAN, "\"NaN\""),
            (f64::INFINITY, "\"Infinity\""),
            (f64::NEG_INFINITY, "\"-Infinity\""),
        ] {
            assert_eq!(Out::text(|out| float(out, value)), text);
        }
    }

    /// Fractions of a power of two are often as near to one decimal number as to another.
    #[test]
    fn the_standard_library_s_digits() {
        let mut random = fastrand::Rng::with_seed(2);
        for i in 0..300_000 {
            let value = match i % 3 {
                0 => f64::from(f32::from_bits(random.u32(..))),
                1 => (random.i64(..) >> random.u32(8..63)) as f64 / f64::from(1 << random.u32(1..31)),
                _ => random.f64() * 10f64.powi(random.i32(-4..16)),
            };
            if value.fract() != 0.0 && (1e-5..1e16).contains(&value.abs()) {
                assert_eq!(Out::text(|out| float(out, value)), value.to_string());
            }
        }
    }

    #[test]
    fn strings_are_escaped_as_abieos_escapes_them() {
        for (bytes, json) in [
            (&b"\n\r\t"[..], r#""\n\r\t""#),
            (b"\x00\x08\x0c\x1b\x1f\x7f", r#""\u0000\u0008\u000C\u001B\u001F\u007F""#),
        ] {
            assert_eq!(Out::text(|out| assert!(!Abieos::string(out, bytes))), json);
        }
    }
}
