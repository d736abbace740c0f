//! JSON text of the values with a form of their own: times, floats, symbols, assets, bit sets.

use std::io::Write;

use super::text;

/// Seconds from 1970 to 2000, where block timestamps begin.
const BLOCK_TIMESTAMP_EPOCH: i64 = 946_684_800;

/// Appends a `block_timestamp_type`: half seconds since 2000.
pub(crate) fn block_timestamp(out: &mut Vec<u8>, slot: u32) {
    milliseconds(out, i64::from(slot) * 500 + BLOCK_TIMESTAMP_EPOCH * 1000);
}

/// Appends a `time_point_sec`: seconds since 1970.
pub(super) fn seconds(out: &mut Vec<u8>, seconds: u32) {
    milliseconds(out, i64::from(seconds) * 1000);
}

/// Appends a `time_point`: microseconds since 1970, before it if negative.
pub(super) fn microseconds(out: &mut Vec<u8>, microseconds: i64) {
    milliseconds(out, microseconds.div_euclid(1000));
}

/// `"YYYY-MM-DDTHH:MM:SS.mmm"`. As abieos does, years keep their last four digits only; a negative year counts
/// as its 32-bit complement.
fn milliseconds(out: &mut Vec<u8>, milliseconds: i64) {
    const DAY: i64 = 86_400_000;
    let (year, month, day) = civil_date(milliseconds.div_euclid(DAY));
    let rest = milliseconds.rem_euclid(DAY) as u32;
    let (seconds, thousandths) = (rest / 1000, rest % 1000);
    let year = year as u32 % 10_000;

    let mut text = *b"\"0000-00-00T00:00:00.000\"";
    let mut put = |at: usize, digits: [u8; 2]| {
        text[at] = digits[0];
        text[at + 1] = digits[1];
    };
    put(1, text::two_digits(year / 100));
    put(3, text::two_digits(year));
    put(6, text::two_digits(month));
    put(9, text::two_digits(day));
    put(12, text::two_digits(seconds / 3600));
    put(15, text::two_digits(seconds / 60 % 60));
    put(18, text::two_digits(seconds % 60));
    put(21, text::two_digits(thousandths / 10));
    text[23] = b'0' + (thousandths % 10) as u8;
    out.extend_from_slice(&text);
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

/// Appends a float: the shortest digits that give the same double, written out if that takes no more than 25
/// characters, else with an exponent. What JSON has no number for is a string.
pub(super) fn float(out: &mut Vec<u8>, value: f64) {
    const WRITTEN_OUT: usize = 25;
    /// Whole numbers below this are their own shortest digits.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if !value.is_finite() {
        let text: &[u8] = match value {
            f64::INFINITY => b"\"Infinity\"",
            f64::NEG_INFINITY => b"\"-Infinity\"",
            _ => b"\"NaN\"",
        };
        return out.extend_from_slice(text);
    }
    let size = value.abs();
    let whole = value.fract() == 0.0;
    if whole && size < EXACT && (size > 0.0 || value.is_sign_positive()) {
        return text::integer(out, value as i64);
    }
    let from = out.len();
    // Writing to a Vec cannot fail. Very large and very small ones are too long for sure, and slow to write out.
    if size < 1e25 && (size >= 1e-23 || whole) {
        let _ = if whole {
            // A whole number's own digits, not the shortest ones.
            write!(out, "{value:.0}")
        } else {
            write!(out, "{value}")
        };
        if out.len() - from <= WRITTEN_OUT {
            return;
        }
        out.truncate(from);
    }
    let _ = write!(out, "{value:?}");
    if let Some(e) = out[from..].iter().position(|&c| c == b'e')
        && out.get(from + e + 1) != Some(&b'-')
    {
        out.insert(from + e + 1, b'+');
    }
}

/// Appends a `symbol_code`'s characters; says whether any were no text.
#[inline]
fn code(out: &mut Vec<u8>, code: u64) -> bool {
    let length = 8 - code.leading_zeros() as usize / 8;
    text::short(out, code.to_le_bytes(), length)
}

/// Appends a `symbol_code`; says whether any character was no text.
pub(super) fn symbol_code(out: &mut Vec<u8>, value: u64) -> bool {
    out.push(b'"');
    let repaired = code(out, value);
    out.push(b'"');
    repaired
}

/// Appends a `symbol` (`"4,EOS"`); says whether any character was no text.
pub(super) fn symbol(out: &mut Vec<u8>, value: u64) -> bool {
    out.push(b'"');
    text::integer(out, value as u8);
    out.push(b',');
    let repaired = code(out, value >> 8);
    out.push(b'"');
    repaired
}

/// Appends an `asset` (`"1.0000 EOS"`); says whether any character was no text.
#[inline]
pub(super) fn asset(out: &mut Vec<u8>, amount: i64, symbol: u64) -> bool {
    out.push(b'"');
    if amount < 0 {
        out.push(b'-');
    }
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(amount.unsigned_abs()).as_bytes();
    let precision = usize::from(symbol as u8);
    if precision == 0 {
        out.extend_from_slice(digits);
    } else if digits.len() > precision {
        let (whole, fraction) = digits.split_at(digits.len() - precision);
        out.extend_from_slice(whole);
        out.push(b'.');
        out.extend_from_slice(fraction);
    } else {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + precision - digits.len(), b'0');
        out.extend_from_slice(digits);
    }
    out.push(b' ');
    let repaired = code(out, symbol >> 8);
    out.push(b'"');
    repaired
}

/// Appends a `bitset` of `count` bits, the highest first.
pub(super) fn bitset(out: &mut Vec<u8>, count: usize, bytes: &[u8]) {
    out.push(b'"');
    out.extend((0..count).rev().map(|bit| b'0' + (bytes[bit / 8] >> (bit % 8) & 1)));
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).expect("JSON is text")
    }

    #[test]
    fn times_around_the_epochs_and_at_the_limits() {
        // Calendar facts, and from the recordings what C++ abieos wrote for the limits.
        for (us, text) in [
            (0, "1970-01-01T00:00:00.000"),
            (-1, "1969-12-31T23:59:59.999"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000"),
            (1_709_251_199_999_999, "2024-02-29T23:59:59.999"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000"),
            (i64::MAX, "4247-01-10T04:00:54.775"),
        ] {
            assert_eq!(written(|out| microseconds(out, us)), format!("\"{text}\""));
        }
        assert_eq!(written(|out| seconds(out, u32::MAX)), "\"2106-02-07T06:28:15.000\"");
        assert_eq!(written(|out| block_timestamp(out, 1)), "\"2000-01-01T00:00:00.500\"");
        assert_eq!(written(|out| block_timestamp(out, u32::MAX)), "\"2068-01-19T03:14:07.500\"");
    }

    #[test]
    fn floats() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (f64::from(0.1f32), "0.10000000149011612"),
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
            assert_eq!(written(|out| float(out, value)), text);
        }
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
        ] {
            let json = written(|out| assert!(!asset(out, amount, symbol)));
            assert_eq!(json, format!("\"{text}\""));
        }
        let json = written(|out| assert!(asset(out, 1, u64::MAX)));
        assert_eq!(json, format!("\"0.{}1 ???????\"", "0".repeat(254)));
        assert_eq!(written(|out| assert!(!super::symbol(out, eos))), "\"4,EOS\"");
        assert_eq!(written(|out| assert!(!super::symbol(out, 0))), "\"0,\"");
        assert_eq!(written(|out| assert!(!symbol_code(out, eos >> 8))), "\"EOS\"");
        // Eight characters, with a zero among them.
        let odd = u64::from_le_bytes(*b"A\0C\xffEFGH");
        assert_eq!(written(|out| assert!(symbol_code(out, odd))), "\"A\\u0000C?EFGH\"");
    }

    #[test]
    fn bits_from_the_highest() {
        assert_eq!(written(|out| bitset(out, 0, &[])), "\"\"");
        assert_eq!(written(|out| bitset(out, 10, &[0b0000_0101, 0b10])), "\"1000000101\"");
    }
}
