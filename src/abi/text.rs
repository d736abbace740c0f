//! JSON text of the simple values, where both styles write alike: strings, numbers, names, hexadecimal digits.

use std::borrow::Cow;

use super::out::Out;
use super::style::Style;

/// Appends `bytes` as a JSON string, and says whether any of them were no text: each of those becomes `?`.
#[inline]
pub(super) fn string<S: Style>(out: &mut Out, bytes: &[u8]) -> bool {
    if !is_plain(bytes) {
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
        _ => {
            let mut word = [0; 8];
            for (to, &from) in word.iter_mut().zip(bytes) {
                *to = from;
            }
            odd(u64::from_le_bytes(word) | filler(bytes.len())) == 0
        }
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

/// Whether JSON may have to escape a byte.
static SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let mut i = 0;
    while i < 0x20 {
        table[i] = true;
        i += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table[0x7f] = true;
    table
};

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
    while let Some(at) = text.iter().position(|&byte| SPECIAL[usize::from(byte)]) {
        out.append(&text[..at]);
        S::escape(out, text[at]);
        text = &text[at + 1..];
    }
    out.append(text);
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

/// Decimal digits, right-aligned before [`Digits::END`]; zeros before them, zero bytes behind.
pub(super) struct Digits {
    /// The text.
    pub text: [u8; 64],
    /// Where the first digit is.
    pub from: usize,
}

// === impl Digits ===

impl Digits {
    /// Place behind the last digit.
    pub const END: usize = 40;

    /// The digits of `value`.
    #[inline]
    pub fn of(mut value: u64) -> Digits {
        let mut text = [b'0'; 64];
        let mut from = Digits::END;
        while value >= 100 {
            let pair = PAIRS[(value % 100) as usize];
            value /= 100;
            from -= 2;
            (text[from], text[from + 1]) = (pair[0], pair[1]);
        }
        let pair = PAIRS[value as usize];
        from -= 2;
        (text[from], text[from + 1]) = (pair[0], pair[1]);
        Digits { text, from: from + usize::from(value < 10) }
    }

    /// Appends them, with what stands in `text` behind them up to `end`.
    #[inline]
    pub fn append(&self, out: &mut Out, from: usize, end: usize) {
        if let Some(chunk) = self.text.get(from..).and_then(|rest| rest.first_chunk::<24>()) {
            out.chunk(chunk, end - from);
        }
    }
}

/// Appends an integer.
#[inline]
pub(super) fn unsigned(out: &mut Out, value: u64) {
    let digits = Digits::of(value);
    digits.append(out, digits.from, Digits::END);
}

/// Appends an integer.
#[inline]
pub(super) fn signed(out: &mut Out, value: i64) {
    let mut digits = Digits::of(value.unsigned_abs());
    digits.text[digits.from - 1] = b'-';
    digits.append(out, digits.from - usize::from(value < 0), Digits::END);
}

/// Appends an integer as a JSON string: what a double cannot hold.
#[inline]
pub(super) fn quoted_unsigned(out: &mut Out, value: u64) {
    let mut digits = Digits::of(value);
    digits.text[digits.from - 1] = b'"';
    digits.text[Digits::END] = b'"';
    digits.append(out, digits.from - 1, Digits::END + 1);
}

/// Appends an integer as a JSON string.
#[inline]
pub(super) fn quoted_signed(out: &mut Out, value: i64) {
    let mut digits = Digits::of(value.unsigned_abs());
    digits.text[digits.from - 1] = b'-';
    let from = digits.from - usize::from(value < 0);
    digits.text[from - 1] = b'"';
    digits.text[Digits::END] = b'"';
    digits.append(out, from - 1, Digits::END + 1);
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

/// Appends `bytes` as a JSON string of hexadecimal digits.
#[inline]
pub(super) fn hex(out: &mut Out, bytes: &[u8], digits: &[[u8; 2]; 256]) {
    out.push(b'"');
    hex_digits(out, bytes, digits);
    out.push(b'"');
}

/// As [`hex`], without the quotes.
pub(super) fn hex_digits(out: &mut Out, bytes: &[u8], digits: &[[u8; 2]; 256]) {
    let (pairs, _) = out.space(bytes.len() * 2).as_chunks_mut::<2>();
    for (pair, &byte) in pairs.iter_mut().zip(bytes) {
        *pair = digits[usize::from(byte)];
    }
}

const NAME: &[u8; 32] = b".12345abcdefghijklmnopqrstuvwxyz";

/// Ten bits of a name at a time.
static NAME_PAIRS: [[u8; 2]; 1024] = {
    let mut table = [[0; 2]; 1024];
    let mut i = 0;
    while i < 1024 {
        table[i] = [NAME[i >> 5], NAME[i & 31]];
        i += 1;
    }
    table
};

/// Appends a name as a JSON string.
#[inline]
pub(super) fn name(out: &mut Out, value: u64) {
    let mut text = [b'"'; 16];
    for i in 0..6 {
        let pair = NAME_PAIRS[(value >> (54 - 10 * i)) as usize & 1023];
        text[1 + 2 * i] = pair[0];
        text[2 + 2 * i] = pair[1];
    }
    text[13] = NAME[value as usize & 15];
    // Dots at the end are padding: the lowest bit set tells the last character.
    let length =
        if value & 15 != 0 { 13 } else { 12 - (((value >> 4).trailing_zeros().min(60)) / 5) as usize };
    text[length + 1] = b'"';
    out.chunk(&text, length + 2);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::style::{Abieos, Wharfkit};
    use crate::hex;

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
                    let mut bytes = [b'~'; 40];
                    bytes[place] = byte;
                    assert_eq!(is_plain(&bytes[..length]), plain, "{byte:#x} at {place} of {length}");
                }
            }
        }
    }

    #[test]
    fn names_of_every_length() {
        for text in
            ["", "a", "eosio", "eosio.token", "abcdefghijkl", "zzzzzzzzzzzzj", ".1", "............1", "a.b"]
        {
            let value: crate::name::Name = text.parse().expect("a name");
            assert_eq!(Out::text(|out| name(out, value.0)), format!("\"{text}\""));
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
        assert_eq!(Out::text(|out| super::hex(out, &[0, 0x1f, 0xab], &hex::UPPER)), "\"001FAB\"");
        assert_eq!(Out::text(|out| super::hex(out, &[0, 0x1f, 0xab], &hex::LOWER)), "\"001fab\"");
    }
}
