//! JSON text of the simple values: strings, numbers, names, hexadecimal digits.

use std::borrow::Cow;

/// Appends `bytes` as a JSON string, and says whether any of them were no text: each of those becomes `?`.
#[inline]
pub(super) fn string(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    let repaired = characters(out, bytes);
    out.push(b'"');
    repaired
}

/// As [`string`], without the quotes.
#[inline]
pub(super) fn characters(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
    if is_plain(bytes) {
        out.extend_from_slice(bytes);
        return false;
    }
    escaped(out, bytes)
}

/// As [`characters`], of the first `length` of eight bytes, the others being 0.
#[inline]
pub(super) fn short(out: &mut Vec<u8>, bytes: [u8; 8], length: usize) -> bool {
    const SPACES: u64 = u64::from_ne_bytes([b' '; 8]);
    let filler = if length < 8 { SPACES << (8 * length) } else { 0 };
    if odd(u64::from_le_bytes(bytes) | filler) == 0 {
        append(out, &bytes, length);
        return false;
    }
    escaped(out, &bytes[..length])
}

/// Appends the first `length` bytes of `chunk`: all of them, then back, as a copy of known size is a single move.
#[inline(always)]
pub(super) fn append<const N: usize>(out: &mut Vec<u8>, chunk: &[u8; N], length: usize) {
    let end = out.len() + length;
    out.extend_from_slice(chunk);
    out.truncate(end);
}

/// ASCII without anything that JSON escapes.
#[inline]
fn is_plain(bytes: &[u8]) -> bool {
    match bytes.last_chunk::<8>() {
        // The last eight may overlap the ones before.
        Some(last) => {
            let words = bytes.as_chunks::<8>().0.iter();
            words.chain([last]).fold(0, |found, word| found | odd(u64::from_le_bytes(*word))) == 0
        }
        None => bytes.iter().all(|&byte| (b' '..0x7f).contains(&byte) && byte != b'"' && byte != b'\\'),
    }
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

#[cold]
fn escaped(out: &mut Vec<u8>, bytes: &[u8]) -> bool {
    let mut repaired = false;
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid().as_bytes();
        let mut from = 0;
        for (i, &byte) in valid.iter().enumerate() {
            if matches!(byte, b'"' | b'\\' | 0x7f | 0..0x20) {
                out.extend_from_slice(&valid[from..i]);
                from = i + 1;
                escape(out, byte);
            }
        }
        out.extend_from_slice(&valid[from..]);
        let invalid = chunk.invalid().len();
        out.resize(out.len() + invalid, b'?');
        repaired |= invalid > 0;
    }
    repaired
}

fn escape(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        _ => {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&HEX[usize::from(byte)]);
        }
    }
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

/// Appends an integer.
#[inline]
pub(super) fn integer(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends an integer as a JSON string: what a double cannot hold.
#[inline]
pub(super) fn quoted_integer(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.push(b'"');
    integer(out, value);
    out.push(b'"');
}

static HEX: [[u8; 2]; 256] = {
    let digits = b"0123456789ABCDEF";
    let mut table = [[0; 2]; 256];
    let mut i = 0;
    while i < 256 {
        table[i] = [digits[i >> 4], digits[i & 15]];
        i += 1;
    }
    table
};

/// Appends `bytes` as a JSON string of upper-case hexadecimal digits.
#[inline]
pub(super) fn hex(out: &mut Vec<u8>, bytes: &[u8]) {
    out.reserve(bytes.len() * 2 + 2);
    out.push(b'"');
    let from = out.len();
    out.resize(from + bytes.len() * 2, 0);
    let (pairs, _) = out[from..].as_chunks_mut::<2>();
    for (pair, &byte) in pairs.iter_mut().zip(bytes) {
        *pair = HEX[usize::from(byte)];
    }
    out.push(b'"');
}

/// Decimal digits, two at a time.
static DECIMAL: [[u8; 2]; 100] = {
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
    DECIMAL[(value % 100) as usize]
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
pub(super) fn name(out: &mut Vec<u8>, value: u64) {
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
    append(out, &text, length + 2);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(bytes: &[u8]) -> (String, bool) {
        let mut out = Vec::new();
        let repaired = string(&mut out, bytes);
        (String::from_utf8(out).expect("JSON is text"), repaired)
    }

    #[test]
    fn strings_are_escaped_as_abieos_escapes_them() {
        for (bytes, json) in [
            (&b""[..], r#""""#),
            (b"plain and longer than eight bytes", r#""plain and longer than eight bytes""#),
            (b"a\"b\\c/d", r#""a\"b\\c/d""#),
            (b"\n\r\t", r#""\n\r\t""#),
            (b"\x00\x08\x0c\x1b\x1f\x7f", r#""\u0000\u0008\u000C\u001B\u001F\u007F""#),
            ("кириллица 🙂".as_bytes(), "\"кириллица 🙂\""),
        ] {
            assert_eq!(written(bytes), (json.to_owned(), false));
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
            for length in 1..20 {
                for place in 0..length {
                    let mut bytes = [b'~'; 20];
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
            let mut out = b"x".to_vec();
            name(&mut out, value.0);
            assert_eq!(String::from_utf8(out), Ok(format!("x\"{text}\"")));
        }
    }

    #[test]
    fn digits() {
        let mut out = Vec::new();
        hex(&mut out, &[0, 0x1f, 0xab]);
        quoted_integer(&mut out, i128::MIN);
        integer(&mut out, -1i8);
        assert_eq!(out, b"\"001FAB\"\"-170141183460469231731687303715884105728\"-1");
        assert_eq!((two_digits(7), two_digits(199)), (*b"07", *b"99"));
    }
}
