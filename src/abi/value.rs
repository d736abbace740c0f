//! JSON text of the values with a form of their own, where both styles write alike: times, floats, symbols, assets,
//! bit sets.

use super::style::Style;
use super::text;
use crate::number::{self, EIGHT};
use crate::out::{Out, Room};

/// Seconds from 1970 to 2000, where block timestamps begin.
const BLOCK_TIMESTAMP_EPOCH: i64 = 946_684_800;

/// A day in milliseconds.
const DAY: i64 = 86_400_000;

/// A `block_timestamp_type`, half seconds since 2000, as JSON.
pub(crate) fn block_timestamp(value: u32) -> [u8; 25] {
    let mut text = TIME;
    put_time(&mut text, slot(value));
    text
}

/// Milliseconds since 1970 of a `block_timestamp_type`.
pub(super) fn slot(value: u32) -> i64 {
    i64::from(value) * 500 + BLOCK_TIMESTAMP_EPOCH * 1000
}

const TIME: [u8; 25] = *b"\"0000-00-00T00:00:00.000\"";

/// Appends `"YYYY-MM-DDTHH:MM:SS.mmm"` of milliseconds since 1970. Years keep their last four digits only; a negative
/// year counts as its 32-bit complement.
pub(super) fn time(out: &mut Out, milliseconds: i64) {
    if let Some(text) = out.space(TIME.len()).first_chunk_mut() {
        *text = TIME;
        put_time(text, milliseconds);
    }
}

fn put_time(text: &mut [u8; 25], milliseconds: i64) {
    let (year, month, day) = civil_date(milliseconds.div_euclid(DAY));
    let rest = milliseconds.rem_euclid(DAY) as u32;
    let (seconds, thousandths) = (rest / 1000, rest % 1000);
    let year = year as u32 % 10_000;

    let mut put = |at: usize, digits: [u8; 2]| {
        text[at] = digits[0];
        text[at + 1] = digits[1];
    };
    put(1, number::two_digits(year / 100));
    put(3, number::two_digits(year));
    put(6, number::two_digits(month));
    put(9, number::two_digits(day));
    put(12, number::two_digits(seconds / 3600));
    put(15, number::two_digits(seconds / 60 % 60));
    put(18, number::two_digits(seconds % 60));
    put(21, number::two_digits(thousandths / 10));
    text[23] = b'0' + (thousandths % 10) as u8;
}

/// The year of milliseconds since 1970.
pub(super) fn year(milliseconds: i64) -> i32 {
    civil_date(milliseconds.div_euclid(DAY)).0
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar (the usual reckoning in eras
/// of 400 years that begin on the first of March).
fn civil_date(days: i64) -> (i32, u32, u32) {
    const ERA: i64 = 146_097;
    let days = days + 719_468;
    let era = days.div_euclid(ERA);
    let day_of_era = days.rem_euclid(ERA) as u32;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era as i32 + era as i32 * 400 + i32::from(month <= 2);
    (year, month, day)
}

/// Appends a `symbol_code`'s characters; says whether any were no text.
#[inline(always)]
fn code<S: Style>(out: &mut Out, code: u64) -> bool {
    let length = 8 - code.leading_zeros() as usize / 8;
    text::short::<S>(out, code.to_le_bytes(), length)
}

/// Appends a `symbol_code`; says whether any character was no text.
pub(super) fn symbol_code<S: Style>(out: &mut Out, value: u64) -> bool {
    out.push(b'"');
    let repaired = code::<S>(out, value);
    out.push(b'"');
    repaired
}

/// Appends a `symbol` (`"4,EOS"`); says whether any character was no text.
pub(super) fn symbol<S: Style>(out: &mut Out, value: u64) -> bool {
    out.push(b'"');
    out.short(|room| number::byte(room, value as u8));
    out.push(b',');
    let repaired = code::<S>(out, value >> 8);
    out.push(b'"');
    repaired
}

/// Appends an `asset` (`"1.0000 EOS"`) if it is short and its code plain.
#[inline(always)]
pub(super) fn short_asset(room: &mut Room, amount: i64, symbol: u64) -> bool {
    let (units, precision, code) = (amount.unsigned_abs(), usize::from(symbol as u8), symbol >> 8);
    let Some(length) = text::plain_length(code) else { return false };
    if units >= number::SIXTEEN || precision > 15 {
        return false;
    }
    let (text, zeros) = number::sixteen_digits(units);
    // At least one digit stands before the point.
    let zeros = zeros.min(15 - precision);
    room.chunk(b"\"-", 1 + usize::from(amount < 0));
    room.chunk(&(text >> (8 * zeros)).to_le_bytes(), 16 - precision - zeros);
    if precision > 0 {
        room.push(b'.');
        room.chunk(&(text >> (8 * (16 - precision))).to_le_bytes(), precision);
    }
    room.push(b' ');
    room.chunk(&code.to_le_bytes(), length);
    room.push(b'"');
    true
}

/// Appends an `asset` (`"1.0000 EOS"`); says whether any character was no text.
#[inline(never)]
pub(super) fn asset<S: Style>(out: &mut Out, amount: i64, symbol: u64) -> bool {
    if out.short(|room| short_asset(room, amount, symbol)) {
        return false;
    }
    out.chunk(b"\"-", 1 + usize::from(amount < 0));
    fraction(out, amount.unsigned_abs(), (symbol as u8).into());
    out.push(b' ');
    let repaired = code::<S>(out, symbol >> 8);
    out.push(b'"');
    repaired
}

/// Powers of ten.
static POWERS: [u64; 20] = {
    let mut table = [1; 20];
    let mut i = 1;
    while i < table.len() {
        table[i] = table[i - 1] * 10;
        i += 1;
    }
    table
};

/// Appends units of 10 to the power of minus `precision`.
fn fraction(out: &mut Out, units: u64, precision: u32) {
    if precision == 0 {
        return out.short(|room| number::unsigned(room, units));
    }
    // Of more digits none is left before the point.
    let (whole, part) =
        POWERS.get(precision as usize).map_or((0, units), |unit| (units / unit, units % unit));
    out.short(|room| number::unsigned(room, whole));
    out.push(b'.');
    out.space(precision.saturating_sub(24) as usize).fill(b'0');
    let digits = precision.min(24) as usize;
    if digits > 16 {
        number::last_digits(out, part / EIGHT / EIGHT, digits - 16);
    }
    if digits > 8 {
        number::last_digits(out, part / EIGHT % EIGHT, (digits - 8).min(8));
    }
    number::last_digits(out, part % EIGHT, digits.min(8));
}

/// Appends a `bitset` of `count` bits, the highest first.
pub(super) fn bitset(out: &mut Out, count: usize, bytes: &[u8]) {
    out.push(b'"');
    for (to, bit) in out.space(count).iter_mut().zip((0..count).rev()) {
        *to = b'0' + (bytes[bit / 8] >> (bit % 8) & 1);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::style::{Abieos, Wharfkit};

    #[test]
    fn times_around_the_epochs_and_at_the_limits() {
        // Calendar facts, and from the recordings what C++ abieos wrote for the limits; the others from
        // tests/data/wharfkit.ndjson.
        for (us, abieos, wharfkit) in [
            (0, "1970-01-01T00:00:00.000", "1970-01-01T00:00:00.000"),
            (-1, "1969-12-31T23:59:59.999", "1970-01-01T00:00:00.000"),
            (-500, "1969-12-31T23:59:59.999", "1969-12-31T23:59:59.999"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000", "2000-02-29T00:00:00.000"),
            (1_709_251_199_999_999, "2024-02-29T23:59:59.999", "2024-03-01T00:00:00.000"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000", "2100-03-01T00:00:00.000"),
            (253_402_300_800_000_000, "0000-01-01T00:00:00.000", "+010000-01-01T00:00:00.000"),
            (-62_167_219_200_001_000, "7295-12-31T23:59:59.999", "-000001-12-31T23:59:59.999"),
            (i64::MAX, "4247-01-10T04:00:54.775", "+294247-01-10T04:00:54.776"),
        ] {
            assert_eq!(Out::text(|out| Abieos::time_point(out, us)), format!("\"{abieos}\""));
            assert_eq!(Out::text(|out| Wharfkit::time_point(out, us)), format!("\"{wharfkit}\""));
        }
        assert_eq!(Out::text(|out| Abieos::time_point_sec(out, u32::MAX)), "\"2106-02-07T06:28:15.000\"");
        assert_eq!(Out::text(|out| Wharfkit::time_point_sec(out, u32::MAX)), "\"2106-02-07T06:28:15\"");
        assert_eq!(block_timestamp(1), *b"\"2000-01-01T00:00:00.500\"");
        assert_eq!(block_timestamp(u32::MAX), *b"\"2068-01-19T03:14:07.500\"");
    }

    #[test]
    fn assets_and_symbols() {
        let eos = u64::from_le_bytes(*b"\x04EOS\0\0\0\0");
        let whole = u64::from_le_bytes(*b"\0WHOLE\0\0");
        for (amount, symbol, text) in [
            (10_000, eos, "1.0000 EOS"),
            (12, eos, "0.0012 EOS"),
            (-1, eos, "-0.0001 EOS"),
            (0, eos, "0.0000 EOS"),
            (i64::MIN, eos, "-922337203685477.5808 EOS"),
            (42, whole, "42 WHOLE"),
            (0, 0, "0 "),
            (-5, whole + 1, "-0.5 WHOLE"),
            (i64::MAX, whole, "9223372036854775807 WHOLE"),
            (9_999_999_999_999_999, whole, "9999999999999999 WHOLE"),
            (9_999_999_999_999_999, whole + 15, "9.999999999999999 WHOLE"),
            (-10_000_000_000_000_000, whole + 15, "-10.000000000000000 WHOLE"),
            (7, whole + 15, "0.000000000000007 WHOLE"),
            (7, whole + 16, "0.0000000000000007 WHOLE"),
            (100_000_000, whole + 8, "1.00000000 WHOLE"),
            (i64::MIN, whole + 18, "-9.223372036854775808 WHOLE"),
            (i64::MAX, whole + 19, "0.9223372036854775807 WHOLE"),
            (-1, whole + 20, "-0.00000000000000000001 WHOLE"),
        ] {
            let json = Out::text(|out| assert!(!asset::<Abieos>(out, amount, symbol)));
            assert_eq!(json, format!("\"{text}\""));
        }
        let json = Out::text(|out| assert!(asset::<Abieos>(out, 1, u64::MAX)));
        assert_eq!(json, format!("\"0.{}1 ???????\"", "0".repeat(254)));
        assert_eq!(Out::text(|out| assert!(!super::symbol::<Abieos>(out, eos))), "\"4,EOS\"");
        assert_eq!(Out::text(|out| assert!(!super::symbol::<Abieos>(out, 0))), "\"0,\"");
        assert_eq!(Out::text(|out| assert!(!symbol_code::<Abieos>(out, eos >> 8))), "\"EOS\"");
        // Eight characters, with a zero among them.
        let odd = u64::from_le_bytes(*b"A\0C\xffEFGH");
        assert_eq!(Out::text(|out| assert!(symbol_code::<Abieos>(out, odd))), "\"A\\u0000C?EFGH\"");
    }

    #[test]
    fn bits_from_the_highest() {
        assert_eq!(Out::text(|out| bitset(out, 0, &[])), "\"\"");
        assert_eq!(Out::text(|out| bitset(out, 10, &[0b0000_0101, 0b10])), "\"1000000101\"");
    }
}
