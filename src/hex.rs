//! Hexadecimal digits.

use crate::out::Out;

const fn pairs(digits: &[u8; 16]) -> [[u8; 2]; 256] {
    let mut table = [[0u8; 2]; 256];
    let mut i = 0;
    while i < 256 {
        table[i] = [digits[i >> 4], digits[i & 15]];
        i += 1;
    }
    table
}

/// The two lower-case digits of each byte.
pub(crate) static LOWER: [[u8; 2]; 256] = pairs(b"0123456789abcdef");
/// The two upper-case digits of each byte.
pub(crate) static UPPER: [[u8; 2]; 256] = pairs(b"0123456789ABCDEF");

/// Appends `bytes` in lower-case digits.
pub fn write_lower(out: &mut Out, bytes: &[u8]) {
    digits::<false>(out.space(bytes.len() * 2), bytes);
}

/// Appends `bytes` in upper-case digits.
pub fn write_upper(out: &mut Out, bytes: &[u8]) {
    digits::<true>(out.space(bytes.len() * 2), bytes);
}

/// Writes the digits of `bytes`, twice as many, to `digits`.
#[inline]
pub(crate) fn digits<const UPPER_CASE: bool>(digits: &mut [u8], bytes: &[u8]) {
    let (sixteens, rest) = bytes.as_chunks::<16>();
    let (texts, digits) = digits.split_at_mut(sixteens.len() * 32);
    for (text, bytes) in texts.as_chunks_mut::<32>().0.iter_mut().zip(sixteens) {
        for i in 0..16 {
            text[2 * i] = digit::<UPPER_CASE>(bytes[i] >> 4);
            text[2 * i + 1] = digit::<UPPER_CASE>(bytes[i] & 15);
        }
    }
    for (pair, &byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(rest) {
        *pair = if UPPER_CASE { UPPER } else { LOWER }[usize::from(byte)];
    }
}

#[inline]
fn digit<const UPPER_CASE: bool>(value: u8) -> u8 {
    let letters = if UPPER_CASE { b'A' - 10 } else { b'a' - 10 };
    value + if value < 10 { b'0' } else { letters }
}

/// `bytes` in lower-case digits.
pub fn lower(bytes: &[u8]) -> String {
    let mut text = vec![0; bytes.len() * 2];
    digits::<false>(&mut text, bytes);
    String::from_utf8(text).unwrap_or_default()
}

/// The bytes that `text` spells, or `None` when it has an odd number of digits or a character that is none.
pub fn parse(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let value = |c: u8| char::from(c).to_digit(16).map(|d| d as u8);
    digits.chunks_exact(2).map(|pair| Some(value(pair[0])? << 4 | value(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_both_ways() {
        assert_eq!(lower(&[0, 0x1f, 0xab]), "001fab");
        assert_eq!(Out::text(|out| write_upper(out, &[0xab, 0])), "AB00");
        let all: Vec<u8> = (0..=255).rev().collect();
        for length in [0, 15, 16, 17, 33, 256] {
            let expected: String = all[..length].iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(Out::text(|out| write_lower(out, &all[..length])), expected);
            assert_eq!(Out::text(|out| write_upper(out, &all[..length])), expected.to_uppercase());
        }
        assert_eq!(parse("001fAB"), Some(vec![0, 0x1f, 0xab]));
        assert_eq!((parse("0"), parse("0g"), parse("+1")), (None, None, None));
    }
}
