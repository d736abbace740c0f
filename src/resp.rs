//! Writing Redis commands (RESP arrays of bulk strings) straight into a buffer that goes to the
//! socket, so that nothing is built twice.

use crate::number;
use crate::out::Out;

/// Starts a command of `parts` strings (its name counts as one).
#[inline]
pub fn start(out: &mut Out, parts: usize) {
    out.push(b'*');
    decimal(out, parts as u64);
    out.append(b"\r\n");
}

/// Adds one string.
#[inline]
pub fn bulk(out: &mut Out, value: &[u8]) {
    out.push(b'$');
    decimal(out, value.len() as u64);
    out.append(b"\r\n");
    out.append(value);
    out.append(b"\r\n");
}

/// Adds one string that is a whole number.
pub fn number(out: &mut Out, value: u64) {
    bulk(out, itoa::Buffer::new().format(value).as_bytes());
}

/// A whole command.
pub fn command(out: &mut Out, parts: &[&[u8]]) {
    start(out, parts.len());
    for part in parts {
        bulk(out, part);
    }
}

/// Appends `value` in decimal digits.
#[inline]
pub fn decimal(out: &mut Out, value: u64) {
    out.short(|room| number::unsigned(room, value));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_an_array_of_bulk_strings() {
        let mut out = Out::default();
        command(&mut out, &[b"SET", b"k", b""]);
        assert_eq!(&out[..], b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$0\r\n\r\n");
        out.clear();
        number(&mut out, 1234);
        assert_eq!(&out[..], b"$4\r\n1234\r\n");
    }
}
