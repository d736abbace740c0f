//! JSON text of the simple values, where both styles write alike: strings, numbers, names, hexadecimal digits.

use std::borrow::Cow;

use super::out::Out;
use super::style::Style;
use crate::hex;
use crate::name::Name;

/// Appends `bytes` as a JSON string, and says whether any of them were no text: each of those becomes `?`.
#[inline]
pub(super) fn string<S: Style>(out: &mut Out, bytes: &[u8]) -> bool {
    let length = bytes.len();
    if length <= 16 {
        let text = sixteen(bytes);
        let (low, high) =
            (text as u64 | filler(length), (text >> 64) as u64 | filler(length.saturating_sub(8)));
        if odd(low) | odd(high) == 0 {
            out.quoted(text, length);
            return false;
        }
    }
    if length <= 16 || !is_plain(bytes) {
        out.push(b'"');
        let repaired = escaped::<S>(out, bytes);
        out.push(b'"');
        return repaired;
    }
    if let [first, text @ .., last] = out.space(bytes.len() + 2) {
        *first = b'"';
        *last = b'"';
        text.copy_from_slice(bytes);
    }
    false
}

/// As [`string`], without the quotes.
#[inline]
pub(super) fn characters<S: Style>(out: &mut Out, bytes: &[u8]) -> bool {
    if !is_plain(bytes) {
        return escaped::<S>(out, bytes);
    }
    out.append(bytes);
    false
}

/// As [`characters`], of the first `length` of eight bytes, the others being 0.
#[inline]
pub(super) fn short<S: Style>(out: &mut Out, bytes: [u8; 8], length: usize) -> bool {
    if odd(u64::from_le_bytes(bytes) | filler(length)) == 0 {
        out.chunk(&bytes, length);
        return false;
    }
    escaped::<S>(out, &bytes[..length])
}

/// ASCII without anything that JSON escapes.
#[inline]
fn is_plain(bytes: &[u8]) -> bool {
    // The last piece may overlap the one before.
    match (bytes.last_chunk::<16>(), bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (Some(last), ..) => {
            let mut found = [0; 16];
            for piece in bytes.as_chunks::<16>().0.iter().chain([last]) {
                for (found, &byte) in found.iter_mut().zip(piece) {
                    let beyond = byte.wrapping_sub(b' ') > b'~' - b' ';
                    *found |= u8::from(beyond) | u8::from(byte == b'"') | u8::from(byte == b'\\');
                }
            }
            u128::from_ne_bytes(found) == 0
        }
        (None, Some(first), Some(last)) => {
            odd(u64::from_le_bytes(*first)) | odd(u64::from_le_bytes(*last)) == 0
        }
        _ => odd(eight(bytes) | filler(bytes.len())) == 0,
    }
}

/// At most sixteen bytes, the first in the lowest place, with zeros behind them.
#[inline]
fn sixteen(bytes: &[u8]) -> u128 {
    match (bytes.first_chunk(), bytes.last_chunk()) {
        // They may overlap.
        (Some(first), Some(last)) => {
            u128::from(u64::from_le_bytes(*first))
                | u128::from(u64::from_le_bytes(*last)) << (8 * (bytes.len() - 8))
        }
        _ => eight(bytes).into(),
    }
}

/// As [`sixteen`], of at most eight.
#[inline]
fn eight(bytes: &[u8]) -> u64 {
    match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first))
                | u64::from(u32::from_le_bytes(*last)) << (8 * (bytes.len() - 4))
        }
        _ => bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    }
}

/// Spaces behind the first `length` of eight bytes.
#[inline]
fn filler(length: usize) -> u64 {
    const SPACES: u64 = u64::from_ne_bytes([b' '; 8]);
    if length < 8 { SPACES << (8 * length) } else { 0 }
}

/// Eight bytes at a time: the high bit of some byte is set if any is `"`, `\`, below a space, DEL or not ASCII.
#[inline]
fn odd(word: u64) -> u64 {
    const LOW: u64 = u64::from_ne_bytes([1; 8]);
    let is = |byte: u8| {
        let x = word ^ (LOW * u64::from(byte));
        x.wrapping_sub(LOW) & !x
    };
    let control = word.wrapping_sub(LOW * 0x20) & !word;
    (word | control | is(b'"') | is(b'\\') | is(0x7f)) & (LOW << 7)
}

#[inline(never)]
fn escaped<S: Style>(out: &mut Out, bytes: &[u8]) -> bool {
    if std::str::from_utf8(bytes).is_ok() {
        escaped_text::<S>(out, bytes);
        return false;
    }
    for chunk in bytes.utf8_chunks() {
        escaped_text::<S>(out, chunk.valid().as_bytes());
        out.space(chunk.invalid().len()).fill(b'?');
    }
    true
}

#[inline]
fn escaped_text<S: Style>(out: &mut Out, mut text: &[u8]) {
    while let Some((eight, rest)) = text.split_first_chunk::<8>() {
        match first_special(*eight) {
            None => {
                out.fixed(eight);
                text = rest;
            }
            Some(at) => {
                out.chunk(eight, at);
                S::escape(out, eight[at]);
                text = &text[at + 1..];
            }
        }
    }
    for &byte in text {
        match byte {
            b'"' | b'\\' | 0x7f | ..b' ' => S::escape(out, byte),
            _ => out.push(byte),
        }
    }
}

/// Which of eight bytes is the first that JSON may have to escape.
#[inline]
fn first_special(eight: [u8; 8]) -> Option<usize> {
    let word = u64::from_le_bytes(eight);
    // Bytes that are not ASCII only begin behind the first that is special.
    let special = odd(word) & !word;
    (special != 0).then(|| special.trailing_zeros() as usize / 8)
}

/// `bytes` as text, each byte that is none as `?`.
pub(super) fn repaired(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let mut text = String::with_capacity(bytes.len());
            for chunk in bytes.utf8_chunks() {
                text.push_str(chunk.valid());
                text.extend(chunk.invalid().iter().map(|_| '?'));
            }
            Cow::Owned(text)
        }
    }
}

/// Decimal digits, two at a time.
static PAIRS: [[u8; 2]; 100] = {
    let mut table = [[0; 2]; 100];
    let mut i = 0;
    while i < 100 {
        table[i] = [b'0' + (i / 10) as u8, b'0' + (i % 10) as u8];
        i += 1;
    }
    table
};

/// The two last decimal digits of `value`.
#[inline]
pub(super) fn two_digits(value: u32) -> [u8; 2] {
    PAIRS[(value % 100) as usize]
}

/// Values below this have at most eight digits.
const EIGHT: u64 = 100_000_000;

/// Eight zeros as text.
const ZEROS: u64 = u64::from_ne_bytes([b'0'; 8]);

/// The eight decimal digits of a value below 10⁸, one a byte, the first in the lowest: halved into four, two and one
/// digits at once. The divisions are multiplications that are exact in their range.
#[inline]
fn eight_digits(value: u64) -> u64 {
    let (high, low) = (value / 10_000, value % 10_000);
    let fours = high | (low << 32);
    let hundreds = (fours * 10_486) >> 20 & 0x0000_007f_0000_007f;
    let twos = hundreds | (fours - hundreds * 100) << 16;
    let tens = (twos * 103) >> 10 & 0x000f_000f_000f_000f;
    tens | (twos - tens * 10) << 8
}

/// Appends the last `count` digits of a value below 10⁸, at most eight.
#[inline]
pub(super) fn last_digits(out: &mut Out, value: u64, count: usize) {
    let text = (eight_digits(value) | ZEROS) >> (8 * (8 - count));
    out.chunk(&text.to_le_bytes(), count);
}

/// Appends an integer. Digits go from registers to the output: what is put together in memory from small pieces and
/// read as a large one is waited for.
#[inline]
pub(super) fn unsigned(out: &mut Out, value: u64) {
    let mut first = |value: u64| {
        let digits = eight_digits(value);
        // How many zeros it begins with; the last digit counts even so.
        let zeros = (digits | 1 << 56).trailing_zeros() & !7;
        out.chunk(&((digits | ZEROS) >> zeros).to_le_bytes(), 8 - zeros as usize / 8);
    };
    if value < EIGHT {
        first(value);
    } else if value < EIGHT * EIGHT {
        first(value / EIGHT);
        last_digits(out, value % EIGHT, 8);
    } else {
        first(value / EIGHT / EIGHT);
        last_digits(out, value / EIGHT % EIGHT, 8);
        last_digits(out, value % EIGHT, 8);
    }
}

/// Appends an integer.
#[inline]
pub(super) fn signed(out: &mut Out, value: i64) {
    out.chunk(b"-", usize::from(value < 0));
    unsigned(out, value.unsigned_abs());
}

/// Appends an integer as a JSON string: what a double cannot hold.
#[inline]
pub(super) fn quoted_unsigned(out: &mut Out, value: u64) {
    out.push(b'"');
    unsigned(out, value);
    out.push(b'"');
}

/// Appends an integer as a JSON string.
#[inline]
pub(super) fn quoted_signed(out: &mut Out, value: i64) {
    out.push(b'"');
    signed(out, value);
    out.push(b'"');
}

/// Appends an integer of 128 bits as a JSON string.
pub(super) fn quoted_large(out: &mut Out, value: impl itoa::Integer) {
    out.push(b'"');
    out.append(itoa::Buffer::new().format(value).as_bytes());
    out.push(b'"');
}

/// The decimal digits of each byte, a comma behind them, and how many characters that is.
static BYTES: [([u8; 4], u8); 256] = {
    let mut table = [(*b"0000", 0); 256];
    let mut i = 0;
    while i < 256 {
        let (a, b, c) = (b'0' + (i / 100) as u8, b'0' + (i / 10 % 10) as u8, b'0' + (i % 10) as u8);
        table[i] = match i {
            0..10 => ([c, b',', 0, 0], 2),
            10..100 => ([b, c, b',', 0], 3),
            _ => ([a, b, c, b','], 4),
        };
        i += 1;
    }
    table
};

/// Appends a number of eight bits.
#[inline]
pub(super) fn byte(out: &mut Out, value: u8) {
    let (text, length) = &BYTES[usize::from(value)];
    out.chunk(text, usize::from(length - 1));
}

/// Appends numbers of eight bits with commas between them.
pub(super) fn bytes(out: &mut Out, values: &[u8]) {
    for &value in values {
        let (text, length) = &BYTES[usize::from(value)];
        out.chunk(text, usize::from(*length));
    }
    if !values.is_empty() {
        out.truncate(out.len() - 1);
    }
}

/// Appends `true` or `false`.
#[inline]
pub(super) fn boolean(out: &mut Out, value: bool) {
    if value { out.fixed(b"true") } else { out.fixed(b"false") }
}

/// Appends `bytes` as a JSON string of hexadecimal digits, upper-case or lower-case.
#[inline]
pub(super) fn hex<const UPPER: bool>(out: &mut Out, bytes: &[u8]) {
    let space = out.space(bytes.len() * 2 + 2);
    if let [first, digits @ .., last] = space {
        *first = b'"';
        *last = b'"';
        hex_digits::<UPPER>(digits, bytes);
    }
}

/// Writes the digits of `bytes`, of twice their number.
#[inline]
pub(super) fn hex_digits<const UPPER: bool>(digits: &mut [u8], bytes: &[u8]) {
    let (sixteens, rest) = bytes.as_chunks::<16>();
    let (texts, digits) = digits.split_at_mut(sixteens.len() * 32);
    for (text, bytes) in texts.as_chunks_mut::<32>().0.iter_mut().zip(sixteens) {
        for i in 0..16 {
            text[2 * i] = hex_digit::<UPPER>(bytes[i] >> 4);
            text[2 * i + 1] = hex_digit::<UPPER>(bytes[i] & 15);
        }
    }
    for (pair, &byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(rest) {
        *pair = if UPPER { hex::UPPER } else { hex::LOWER }[usize::from(byte)];
    }
}

#[inline]
fn hex_digit<const UPPER: bool>(value: u8) -> u8 {
    let letters = if UPPER { b'A' - 10 } else { b'a' - 10 };
    value + if value < 10 { b'0' } else { letters }
}

/// Appends a name as a JSON string.
#[inline]
pub(super) fn name(out: &mut Out, value: u64) {
    let (text, length) = Name(value).characters();
    out.quoted(text, length);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::style::{Abieos, Wharfkit};

    fn written(bytes: &[u8]) -> (String, bool) {
        let mut repaired = false;
        let text = Out::text(|out| repaired = string::<Abieos>(out, bytes));
        (text, repaired)
    }

    #[test]
    fn what_is_no_plain_text_is_escaped() {
        for (bytes, json) in [
            (&b""[..], r#""""#),
            (b"plain and longer than sixteen bytes", r#""plain and longer than sixteen bytes""#),
            (b"a\"b\\c/d", r#""a\"b\\c/d""#),
            ("кириллица 🙂".as_bytes(), "\"кириллица 🙂\""),
        ] {
            assert_eq!(written(bytes), (json.to_owned(), false));
            assert_eq!(Out::text(|out| assert!(!string::<Wharfkit>(out, bytes))), json);
        }
    }

    #[test]
    fn every_byte_that_is_no_text_becomes_a_question_mark() {
        // The strings and results of the recorded `dostr` actions, as C++ abieos wrote them.
        for (bytes, json) in [
            (&b"\xff"[..], "?"),
            (b"\xc3(", "?("),
            (b"\xe2\x82(", "??("),
            (b"\xf0(\x8c\xbc", "?(??"),
            (b"\xed\xa0\x80", "???"),
            (b"\xc0\x80", "??"),
            (b"\x80", "?"),
            (b"\xf4\x90\x80\x80", "????"),
            (b"a\xffb", "a?b"),
            (b"\xe2", "?"),
        ] {
            assert_eq!(written(bytes), (format!("\"{json}\""), true), "{bytes:?}");
            assert_eq!(repaired(bytes), json);
        }
        assert_eq!(written(b"?"), ("\"?\"".to_owned(), false));
    }

    #[test]
    fn each_single_byte_is_told_plain_or_not_at_every_place() {
        for byte in 0..=255u8 {
            let plain = (0x20..0x7f).contains(&byte) && byte != b'"' && byte != b'\\';
            for length in 1..40 {
                for place in 0..length {
                    let mut bytes = *b"the quick brown fox jumps over lazy dogs";
                    bytes[place] = byte;
                    let bytes = &bytes[..length];
                    assert_eq!(is_plain(bytes), plain, "{byte:#x} at {place} of {length}");
                    if plain {
                        let text = std::str::from_utf8(bytes).expect("text");
                        assert_eq!(written(bytes), (format!("\"{text}\""), false));
                    }
                }
            }
        }
    }

    #[test]
    fn names_of_every_length() {
        for text in
            ["", "a", "eosio", "eosio.token", "abcdefghijkl", "zzzzzzzzzzzzj", ".1", "............1", "a.b"]
        {
            let value: Name = text.parse().expect("a name");
            assert_eq!(Out::text(|out| name(out, value.0)), format!("\"{text}\""));
        }
    }

    #[test]
    fn eight_digits_are_exact() {
        for four in 0..10_000 {
            for value in [four, four * 10_000, four * 10_001, four * 10_000 + 9_999] {
                let text = (eight_digits(value) | ZEROS).to_le_bytes();
                assert_eq!(std::str::from_utf8(&text), Ok(&*format!("{value:08}")));
            }
        }
    }

    #[test]
    fn integers_of_every_length() {
        for digits in 0..20 {
            for value in
                [10u64.pow(digits), 10u64.pow(digits) - 1, 10u64.pow(digits).wrapping_mul(7), u64::MAX]
            {
                let signed_value = value as i64;
                assert_eq!(Out::text(|out| unsigned(out, value)), format!("{value}"));
                assert_eq!(Out::text(|out| quoted_unsigned(out, value)), format!("\"{value}\""));
                assert_eq!(Out::text(|out| signed(out, signed_value)), format!("{signed_value}"));
                assert_eq!(
                    Out::text(|out| quoted_signed(out, -signed_value)),
                    format!("\"{}\"", -signed_value)
                );
            }
        }
        assert_eq!(Out::text(|out| signed(out, i64::MIN)), "-9223372036854775808");
        assert_eq!(
            Out::text(|out| quoted_large(out, i128::MIN)),
            "\"-170141183460469231731687303715884105728\""
        );
        for value in 0..=255u8 {
            assert_eq!(Out::text(|out| byte(out, value)), value.to_string());
        }
        assert_eq!(Out::text(|out| bytes(out, &[0, 10, 255, 9])), "0,10,255,9");
        assert_eq!(Out::text(|out| bytes(out, &[])), "");
        assert_eq!((two_digits(7), two_digits(199)), (*b"07", *b"99"));
    }

    #[test]
    fn hexadecimal_digits() {
        assert_eq!(Out::text(|out| super::hex::<true>(out, &[0, 0x1f, 0xab])), "\"001FAB\"");
        assert_eq!(Out::text(|out| super::hex::<false>(out, &[0, 0x1f, 0xab])), "\"001fab\"");
        let all: Vec<u8> = (0..=255).rev().collect();
        for length in [0, 15, 16, 17, 33, 256] {
            let lower = format!("\"{}\"", crate::hex::lower(&all[..length]));
            assert_eq!(Out::text(|out| super::hex::<false>(out, &all[..length])), lower);
            assert_eq!(Out::text(|out| super::hex::<true>(out, &all[..length])), lower.to_uppercase());
        }
    }
}
