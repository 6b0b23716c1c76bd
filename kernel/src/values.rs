//! Mirrors model/values.py: texts of MySQL values; those that are irregular there are refused here.

/// Days since 1970-01-01 of `YYYY-MM-DD`, a day of the calendar from year 1 on.
#[inline]
pub fn date(text: &[u8]) -> Option<i32> {
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text else {
        return None;
    };
    days(two(y1, y2)? * 100 + two(y3, y4)?, two(m1, m2)?, two(d1, d2)?)
}

/// The same of a day by its numbers; the year has at most four digits.
#[inline]
pub fn days(year: i32, month: i32, day: i32) -> Option<i32> {
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=days_in(year, month)).contains(&day) {
        return None;
    }
    // The year begins in March, so that the leap day is its last: 306 days from 1 March to the end of December.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before = y * 365 + y / 4 - y / 100 + y / 400;
    Some(before + (153 * m + 2) / 5 + day - 1 - 719_468)
}

fn days_in(year: i32, month: i32) -> i32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Microseconds since 1970-01-01 00:00:00 of `YYYY-MM-DD HH:MM:SS` with exactly `digits` (0 to 6) of a fraction.
#[inline]
pub fn datetime(text: &[u8], digits: usize) -> Option<i64> {
    datetime_with(b' ', text, digits)
}

/// The same with another byte between day and time.
#[inline]
pub fn datetime_with(between: u8, text: &[u8], digits: usize) -> Option<i64> {
    let (day, clock) = text.split_at_checked(10)?;
    let (&[separator, h1, h2, b':', m1, m2, b':', s1, s2], tail) = clock.split_first_chunk::<9>()? else {
        return None;
    };
    if separator != between {
        return None;
    }
    let (hour, minute, second) = (two(h1, h2)?, two(m1, m2)?, two(s1, s2)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = i64::from(date(day)?) * 86_400 + i64::from(hour * 3600 + minute * 60 + second);
    Some(seconds * 1_000_000 + fraction(tail, digits)?)
}

/// Microseconds of `.` and exactly `digits` digits; of nothing when there are to be none.
fn fraction(tail: &[u8], digits: usize) -> Option<i64> {
    let places = match (tail, digits) {
        ([], 0) => return Some(0),
        ([b'.', places @ ..], 1..=6) if places.len() == digits => places,
        _ => return None,
    };
    let value = places.iter().try_fold(0i64, |sum, b| Some(sum * 10 + i64::from(digit(*b)?)))?;
    Some((digits..6).fold(value, |sum, _| sum * 10))
}

/// Whether this is `[-]HH[H]:MM:SS[.f]`, at most 838 hours.
pub fn is_time(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let (hours, rest) = match text {
        [h1, h2, b':', rest @ ..] => (two(*h1, *h2), rest),
        [h0 @ b'1'..=b'9', h1, h2, b':', rest @ ..] => {
            (two(*h1, *h2).map(|hours| i32::from(h0 - b'0') * 100 + hours), rest)
        }
        _ => return false,
    };
    let (minute, second, tail) = match rest {
        [m1, m2, b':', s1, s2, tail @ ..] => (two(*m1, *m2), two(*s1, *s2), tail),
        _ => return false,
    };
    let digits = tail.len().saturating_sub(1);
    hours.is_some_and(|h| h <= 838)
        && minute.is_some_and(|m| m <= 59)
        && second.is_some_and(|s| s <= 59)
        && fraction(tail, digits).is_some()
}

/// Whether this is a decimal in plain notation: no needless zero in front, no minus zero, at most 68 bytes.
pub fn is_decimal(text: &[u8]) -> bool {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let whole = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    let Some((whole, tail)) = digits.split_at_checked(whole) else {
        return false;
    };
    let places = match tail {
        [] => tail,
        [b'.', places @ ..] if !places.is_empty() && places.iter().all(u8::is_ascii_digit) => places,
        _ => return false,
    };
    let zero = whole == b"0" && places.iter().all(|&b| b == b'0');
    text.len() <= 68 && !whole.is_empty() && (whole == b"0" || !whole.starts_with(b"0")) && !(negative && zero)
}

#[inline]
fn two(tens: u8, ones: u8) -> Option<i32> {
    Some(digit(tens)? * 10 + digit(ones)?)
}

#[inline]
fn digit(b: u8) -> Option<i32> {
    b.is_ascii_digit().then(|| i32::from(b - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_count_from_1970() {
        for (text, days) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-02-29", 11_016),
            ("2000-03-01", 11_017),
            ("0001-01-01", -719_162),
            ("9999-12-31", 2_932_896),
        ] {
            assert_eq!(date(text.as_bytes()), Some(days), "{text}");
        }
    }

    #[test]
    fn days_outside_the_calendar_are_refused() {
        for text in [
            "0000-00-00",
            "0000-01-01",
            "2026-00-01",
            "2026-13-01",
            "2026-02-30",
            "1900-02-29",
            "2026-04-31",
            "2026-1-01",
            "2026-01-1x",
        ] {
            assert_eq!(date(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_fraction_has_exactly_its_digits() {
        assert_eq!(datetime(b"1970-01-01 00:00:01", 0), Some(1_000_000));
        assert_eq!(datetime(b"1970-01-01 00:00:01.5", 1), Some(1_500_000));
        assert_eq!(datetime(b"1969-12-31 23:59:59.000001", 6), Some(-999_999));
        for (text, digits) in [
            ("1970-01-01 00:00:01", 1),
            ("1970-01-01 00:00:01.5", 0),
            ("1970-01-01 00:00:01.5", 2),
            ("1970-01-01 00:00:01.", 0),
            ("1970-01-01 00:00:01.1234567", 7),
            ("1970-01-01T00:00:01", 0),
            ("1970-01-01 24:00:00", 0),
            ("1970-01-01 00:60:00", 0),
            ("1970-01-01 00:00:60", 0),
        ] {
            assert_eq!(datetime(text.as_bytes(), digits), None, "{text} {digits}");
        }
    }

    #[test]
    fn times_run_to_838_hours() {
        for text in ["00:00:00", "-838:59:59.000000", "100:00:00.1", "99:59:59"] {
            assert!(is_time(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "-",
            "0:00:00",
            "839:00:00",
            "012:00:00",
            "00:60:00",
            "00:00:60",
            "00:00:00.",
            "00:00:00.1234567",
            "--00:00:00",
            "1000:00:00",
        ] {
            assert!(!is_time(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn decimals_are_plain() {
        for text in ["0", "0.00", "-0.01", "12.50", "-1", "129012.1230000"] {
            assert!(is_decimal(text.as_bytes()), "{text}");
        }
        for text in ["", "-", ".5", "1.", "00", "01.5", "-0", "-0.00", "1e5", "+1", "1.2.3", " 1", "٣"] {
            assert!(!is_decimal(text.as_bytes()), "{text}");
        }
        assert!(is_decimal("9".repeat(68).as_bytes()) && !is_decimal("9".repeat(69).as_bytes()));
    }
}
