//! JSON text of the simple values, where both styles write alike: strings, names, hexadecimal digits.

use std::borrow::Cow;

use super::style::Style;
use crate::hex;
use crate::name::Name;
use crate::out::{Out, Room};

/// Appends `bytes` as a JSON string if they are at most sixteen characters without escapes.
#[inline(always)]
pub(super) fn short_string(room: &mut Room, bytes: &[u8]) -> bool {
    let length = bytes.len();
    if length > 16 {
        return false;
    }
    let text = sixteen(bytes);
    let (low, high) = (text as u64 | filler(length), (text >> 64) as u64 | filler(length.saturating_sub(8)));
    let plain = odd(low) | odd(high) == 0;
    if plain {
        room.quoted(text, length);
    }
    plain
}

/// Appends `bytes` as a JSON string, and says whether any of them were no text: each of those becomes `?`.
#[inline(never)]
pub(super) fn string<S: Style>(out: &mut Out, bytes: &[u8]) -> bool {
    if out.short(|room| short_string(room, bytes)) {
        return false;
    }
    long::<S>(out, bytes)
}

/// Text of more than sixteen bytes, or with escapes.
#[inline]
fn long<S: Style>(out: &mut Out, bytes: &[u8]) -> bool {
    if bytes.len() <= 16 || !is_plain(bytes) {
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

/// How many characters a `symbol_code` has, if none of them is to be escaped.
#[inline(always)]
pub(super) fn plain_length(code: u64) -> Option<usize> {
    let length = 8 - code.leading_zeros() as usize / 8;
    (odd(code | filler(length)) == 0).then_some(length)
}

/// As [`characters`], of the first `length` of eight bytes, the others being 0.
#[inline(always)]
pub(super) fn short<S: Style>(out: &mut Out, bytes: [u8; 8], length: usize) -> bool {
    if odd(u64::from_le_bytes(bytes) | filler(length)) == 0 {
        out.chunk(&bytes, length);
        return false;
    }
    out.lend(|out| escaped::<S>(out, &bytes[..length]))
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
#[inline(always)]
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
#[inline(always)]
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
#[inline(always)]
fn filler(length: usize) -> u64 {
    const SPACES: u64 = u64::from_ne_bytes([b' '; 8]);
    if length < 8 { SPACES << (8 * length) } else { 0 }
}

/// Eight bytes at a time: the high bit of some byte is set if any is `"`, `\`, below a space, DEL or not ASCII.
#[inline(always)]
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
    if bytes.is_ascii() || std::str::from_utf8(bytes).is_ok() {
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
                out.append(eight);
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

/// Appends `true` or `false`.
#[inline(always)]
pub(super) fn boolean(room: &mut Room, value: bool) {
    if value { room.fixed(b"true") } else { room.fixed(b"false") }
}

/// Appends `bytes` as a JSON string of hexadecimal digits, upper-case or lower-case.
#[inline]
pub(super) fn hex<const UPPER: bool>(out: &mut Out, bytes: &[u8]) {
    let space = out.space(bytes.len() * 2 + 2);
    if let [first, digits @ .., last] = space {
        *first = b'"';
        *last = b'"';
        hex::digits::<UPPER>(digits, bytes);
    }
}

/// Appends a name as a JSON string.
#[inline(always)]
pub(super) fn name(room: &mut Room, value: u64) {
    let (text, length) = Name(value).characters();
    room.quoted(text, length);
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
            assert_eq!(Out::text(|out| out.short(|room| name(room, value.0))), format!("\"{text}\""));
        }
    }

    #[test]
    fn hexadecimal_digits() {
        assert_eq!(Out::text(|out| super::hex::<true>(out, &[0, 0x1f, 0xab])), "\"001FAB\"");
        assert_eq!(Out::text(|out| super::hex::<false>(out, &[0, 0x1f, 0xab])), "\"001fab\"");
    }
}
