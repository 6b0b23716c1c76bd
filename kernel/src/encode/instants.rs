//! Mirrors columnar/templates.py: the forms of dates and times: as text, and as numbers.

use super::numbers::integer;
use super::templates::{Count, Moment};
use crate::values::is_time;

const DAY_US: i64 = 86_400_000_000;
/// The first and the last day of years 1 to 9999, counted from 1970-01-01.
const CALENDAR: std::ops::RangeInclusive<i64> = -719_162..=2_932_896;

/// Appends `YYYY-MM-DD`.
pub fn date(days: i64, out: &mut Vec<u8>) -> Option<()> {
    if !CALENDAR.contains(&days) {
        return None;
    }
    // Years begin in March here, so that the leap day is the last; eras have 400 years.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * march + 2) / 5 + 1, if march < 10 { march + 3 } else { march - 9 });
    let year = year + era * 400 + i64::from(month <= 2);
    pair(year / 100, out)?;
    pair(year % 100, out)?;
    out.push(b'-');
    pair(month, out)?;
    out.push(b'-');
    pair(day, out)
}

/// Appends a date and time between quotes.
pub fn moment(us: i64, form: &Moment, out: &mut Vec<u8>) -> Option<()> {
    let local = us.checked_add(form.ahead)?;
    if us < form.from || !CALENDAR.contains(&us.div_euclid(DAY_US)) {
        return None;
    }
    let rest = local.rem_euclid(DAY_US);
    let (second, fraction) = (rest / 1_000_000, rest % 1_000_000);
    out.push(b'"');
    date(local.div_euclid(DAY_US), out)?;
    out.extend_from_slice(form.separator.encode_utf8(&mut [0; 4]).as_bytes());
    pair(second / 3600, out)?;
    out.push(b':');
    pair(second / 60 % 60, out)?;
    out.push(b':');
    pair(second % 60, out)?;
    if form.digits > 0 {
        out.push(b'.');
        let end = out.len() + form.digits;
        for part in [fraction / 10_000, fraction / 100 % 100, fraction % 100] {
            pair(part, out)?;
        }
        out.truncate(end);
    }
    out.extend_from_slice(form.suffix.as_bytes());
    out.push(b'"');
    Some(())
}

/// Appends days or microseconds as a number.
pub fn count(value: i64, form: &Count, out: &mut Vec<u8>) -> Option<()> {
    if !(form.from..=form.to).contains(&value) {
        return None;
    }
    integer(value.checked_mul(form.times)?.div_euclid(form.by), out)
}

/// Microseconds of a TIME. A negative zero has none.
pub fn microseconds(text: &[u8]) -> Option<i64> {
    if !is_time(text) {
        return None;
    }
    let (negative, clock) = text.strip_prefix(b"-").map_or((false, text), |clock| (true, clock));
    let (clock, fraction) = match clock.iter().position(|&b| b == b'.') {
        Some(at) => (clock.get(..at)?, clock.get(at + 1..)?),
        None => (clock, &[][..]),
    };
    let number = |digits: &[u8]| digits.iter().fold(0, |sum, b| sum * 10 + i64::from(b - b'0'));
    let seconds = clock.split(|&b| b == b':').fold(0, |sum, part| sum * 60 + number(part));
    let us = seconds * 1_000_000 + (fraction.len()..6).fold(number(fraction), |sum, _| sum * 10);
    match (negative, us) {
        (true, 0) => None,
        (true, us) => Some(-us),
        (false, us) => Some(us),
    }
}

fn pair(number: i64, out: &mut Vec<u8>) -> Option<()> {
    let digit = |n: i64| u8::try_from(n).ok().map(|n| b'0' + n);
    out.push(digit(number / 10)?);
    out.push(digit(number % 10)?);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::text;
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        for days in CALENDAR {
            let written = text(|out| date(days, out)).unwrap();
            assert_eq!(crate::values::date(written.as_bytes()).map(i64::from), Some(days), "{written}");
        }
        assert_eq!(text(|out| date(CALENDAR.start() - 1, out)), None);
        assert_eq!(text(|out| date(CALENDAR.end() + 1, out)), None);
    }

    #[test]
    fn moments_have_the_digits_that_are_asked_for() {
        let form = |digits, ahead| Moment { digits, ahead, separator: 'T', suffix: "Z".into(), from: i64::MIN };
        assert_eq!(text(|out| moment(-1, &form(6, 0), out)).unwrap(), "\"1969-12-31T23:59:59.999999Z\"");
        assert_eq!(text(|out| moment(1_500_000, &form(0, 0), out)).unwrap(), "\"1970-01-01T00:00:01Z\"");
        assert_eq!(text(|out| moment(0, &form(3, 3_600_000_000), out)).unwrap(), "\"1970-01-01T01:00:00.000Z\"");
        assert_eq!(text(|out| moment(i64::MAX, &form(3, 1), out)), None);
        let last = 253_402_300_799_999_999;
        assert!(text(|out| moment(last, &form(3, 0), out)).is_some());
        assert_eq!(text(|out| moment(last, &form(3, 1), out)), None);
    }

    #[test]
    fn times_are_microseconds() {
        for (text, expected) in [
            ("-838:59:59.000001", Some(-3_020_399_000_001)),
            ("00:00:01.5", Some(1_500_000)),
            ("-00:00:00", None),
            ("1:00:00", None),
        ] {
            assert_eq!(microseconds(text.as_bytes()), expected, "{text}");
        }
        let milliseconds = Count { times: 1, by: 1000, from: -1500, to: 1500 };
        assert_eq!(text(|out| count(-1500, &milliseconds, out)).unwrap(), "-2");
        assert_eq!(text(|out| count(1501, &milliseconds, out)), None);
    }
}
