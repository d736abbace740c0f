//! Decimal digits of integers.

use crate::out::{Out, Room};

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
pub(crate) fn two_digits(value: u32) -> [u8; 2] {
    PAIRS[(value % 100) as usize]
}

/// Values below this have at most eight digits.
pub(crate) const EIGHT: u64 = 100_000_000;

/// Values below this have at most sixteen digits.
pub(crate) const SIXTEEN: u64 = EIGHT * EIGHT;

/// Eight zeros as text.
const ZEROS: u64 = u64::from_ne_bytes([b'0'; 8]);

/// The eight decimal digits of a value below 10⁸, one a byte, the first in the lowest: halved into four, two and one
/// digits at once. The divisions are multiplications that are exact in their range.
#[inline(always)]
fn eight_digits(value: u64) -> u64 {
    let (high, low) = (value / 10_000, value % 10_000);
    let fours = high | (low << 32);
    let hundreds = (fours * 10_486) >> 20 & 0x0000_007f_0000_007f;
    let twos = hundreds | (fours - hundreds * 100) << 16;
    let tens = (twos * 103) >> 10 & 0x000f_000f_000f_000f;
    tens | (twos - tens * 10) << 8
}

/// Appends the last `count` digits of a value below 10⁸, at most eight.
#[inline(always)]
pub(crate) fn last_digits(out: &mut Out, value: u64, count: usize) {
    let text = (eight_digits(value) | ZEROS) >> (8 * (8 - count));
    out.chunk(&text.to_le_bytes(), count);
}

/// The sixteen decimal digits of a value below 10¹⁶ as text, the first in the lowest place, and how many zeros it
/// begins with; the last digit counts even so.
#[inline(always)]
pub(crate) fn sixteen_digits(value: u64) -> (u128, usize) {
    let (high, low) = (eight_digits(value / EIGHT), eight_digits(value % EIGHT));
    let zeros = match high {
        0 => 64 + (low | 1 << 56).trailing_zeros(),
        _ => high.trailing_zeros(),
    };
    (u128::from(high | ZEROS) | u128::from(low | ZEROS) << 64, zeros as usize / 8)
}

/// Appends a value below 10⁸.
#[inline(always)]
fn first_digits(room: &mut Room, value: u64) {
    let digits = eight_digits(value);
    // How many zeros it begins with; the last digit counts even so.
    let zeros = (digits | 1 << 56).trailing_zeros() & !7;
    room.chunk(&((digits | ZEROS) >> zeros).to_le_bytes(), 8 - zeros as usize / 8);
}

/// Appends an integer. Digits go from registers to the output: what is put together in memory from small pieces and
/// read as a large one is waited for.
#[inline(always)]
pub(crate) fn unsigned(room: &mut Room, value: u64) {
    if value < EIGHT {
        first_digits(room, value);
    } else if value < SIXTEEN {
        let (text, zeros) = sixteen_digits(value);
        room.chunk(&(text >> (8 * zeros)).to_le_bytes(), 16 - zeros);
    } else {
        first_digits(room, value / SIXTEEN);
        room.fixed(&sixteen_digits(value % SIXTEEN).0.to_le_bytes());
    }
}

/// Appends an integer.
#[inline(always)]
pub(crate) fn signed(room: &mut Room, value: i64) {
    room.chunk(b"-", usize::from(value < 0));
    unsigned(room, value.unsigned_abs());
}

/// Appends an integer as a JSON string: what a double cannot hold.
#[inline(always)]
pub(crate) fn quoted_unsigned(room: &mut Room, value: u64) {
    room.push(b'"');
    unsigned(room, value);
    room.push(b'"');
}

/// Appends an integer as a JSON string.
#[inline(always)]
pub(crate) fn quoted_signed(room: &mut Room, value: i64) {
    room.push(b'"');
    signed(room, value);
    room.push(b'"');
}

/// Appends an integer of 128 bits as a JSON string.
pub(crate) fn quoted_large(out: &mut Out, value: impl itoa::Integer) {
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
#[inline(always)]
pub(crate) fn byte(room: &mut Room, value: u8) {
    let (text, length) = &BYTES[usize::from(value)];
    room.chunk(text, usize::from(length - 1));
}

/// Appends numbers of eight bits with commas between them.
pub(crate) fn bytes(out: &mut Out, values: &[u8]) {
    for &value in values {
        let (text, length) = &BYTES[usize::from(value)];
        out.chunk(text, usize::from(*length));
    }
    if !values.is_empty() {
        out.truncate(out.len() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                assert_eq!(Out::text(|out| out.short(|room| unsigned(room, value))), format!("{value}"));
                assert_eq!(
                    Out::text(|out| out.short(|room| quoted_unsigned(room, value))),
                    format!("\"{value}\"")
                );
                assert_eq!(
                    Out::text(|out| out.short(|room| signed(room, signed_value))),
                    format!("{signed_value}")
                );
                assert_eq!(
                    Out::text(|out| out.short(|room| quoted_signed(room, -signed_value))),
                    format!("\"{}\"", -signed_value)
                );
            }
        }
        assert_eq!(Out::text(|out| out.short(|room| signed(room, i64::MIN))), "-9223372036854775808");
        assert_eq!(
            Out::text(|out| quoted_large(out, i128::MIN)),
            "\"-170141183460469231731687303715884105728\""
        );
        for value in 0..=255u8 {
            assert_eq!(Out::text(|out| out.short(|room| byte(room, value))), value.to_string());
        }
        assert_eq!(Out::text(|out| bytes(out, &[0, 10, 255, 9])), "0,10,255,9");
        assert_eq!(Out::text(|out| bytes(out, &[])), "");
        assert_eq!((two_digits(7), two_digits(199)), (*b"07", *b"99"));
    }
}
