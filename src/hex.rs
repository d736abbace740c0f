//! Hexadecimal digits, written straight into an output buffer.

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
pub fn write_lower(out: &mut Vec<u8>, bytes: &[u8]) {
    write(out, bytes, &LOWER);
}

/// Appends `bytes` in upper-case digits.
pub fn write_upper(out: &mut Vec<u8>, bytes: &[u8]) {
    write(out, bytes, &UPPER);
}

fn write(out: &mut Vec<u8>, bytes: &[u8], table: &[[u8; 2]; 256]) {
    let from = out.len();
    out.resize(from + bytes.len() * 2, 0);
    for (pair, &byte) in out[from..].as_chunks_mut().0.iter_mut().zip(bytes) {
        *pair = table[usize::from(byte)];
    }
}

/// `bytes` in lower-case digits.
pub fn lower(bytes: &[u8]) -> String {
    let mut out = Vec::new();
    write_lower(&mut out, bytes);
    String::from_utf8(out).unwrap_or_default()
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
        let mut out = b"x".to_vec();
        write_upper(&mut out, &[0xab]);
        assert_eq!(out, b"xAB");
        assert_eq!(parse("001fAB"), Some(vec![0, 0x1f, 0xab]));
        assert_eq!((parse("0"), parse("0g"), parse("+1")), (None, None, None));
    }
}
