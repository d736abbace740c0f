//! The clock, and times as they are written.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Time since 1970, by this machine's clock.
pub fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// How long so many blocks take at this speed; none at the head, where two a second are made and nothing is left to wait for.
pub fn left(blocks: u32, per_second: f64) -> Option<Duration> {
    (blocks > 10 && per_second > 2.0).then(|| Duration::from_secs_f64(f64::from(blocks) / per_second))
}

/// A time since 1970 in ISO 8601 with milliseconds and `Z`.
pub fn iso8601(since_1970: Duration) -> String {
    let (seconds, milliseconds) = (since_1970.as_secs(), since_1970.subsec_millis());
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    // Years that begin in March, counted from 0000-03-01, so that the leap day comes last; 400 of them have
    // 146,097 days.
    let day = days + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) =
        if month < 10 { (400 * era + year, month + 3) } else { (400 * era + year + 1, month - 9) };
    let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

/// The time since 1970 that a text in ISO 8601 means (`2024-02-29T12:34:56`, with or without fractions and `Z`); `None` for any
/// other text and for times before 1970.
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let (date, time) = whole.split_once('T')?;
    let number =
        |part: Option<&str>| part.filter(|p| p.bytes().all(|c| c.is_ascii_digit()))?.parse::<u64>().ok();
    let (mut date, mut time) = (date.split('-'), time.split(':'));
    let (year, month, day) = (number(date.next())?, number(date.next())?, number(date.next())?);
    let (hour, minute, second) = (number(time.next())?, number(time.next())?, number(time.next())?);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // 60: a leap second.
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // As above: years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1 - 719_468;
    let nanos = number(format!("{fraction:0<9}").get(..9))?;
    Some(Duration::new(days * 86_400 + hour * 3_600 + minute * 60 + second, u32::try_from(nanos).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_iso_8601() {
        // From `date -u -d @N`.
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_827_696, "2000-02-29T12:34:56.007Z"),
            (1_709_164_800, "2024-02-29T00:00:00.007Z"),
            (1_735_689_599, "2024-12-31T23:59:59.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            assert_eq!(iso8601(Duration::new(seconds, 7_000_000)), text);
            assert_eq!(parse(text), Some(Duration::new(seconds, 7_000_000)));
        }
        assert_eq!(parse("2000-02-29T12:34:56"), Some(Duration::from_secs(951_827_696)));
        for text in [
            "",
            "2000-02-29",
            "2000-13-01T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2000-02-29T12:34:5xZ",
            "2000-02-29T24:00:00Z",
            "2000-02-29T18446744073709551615:00:00Z",
            "2000-02-29T00:60:18446744073709551615",
            "-1-1-1T1:1:1",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
