//! Mirrors protocols/debezium_mysql/decoder.py: the op of a row, by the members of its record, in JSON or Avro.

/// The first and the last microsecond of the calendar.
const CALENDAR_US: std::ops::RangeInclusive<i64> = -62_135_596_800_000_000..=253_402_300_799_999_999;

/// The time in microseconds, of one in milliseconds or microseconds; None outside the calendar.
#[inline]
pub fn time_us(ms: Option<i64>, us: Option<i64>) -> Option<i64> {
    us.or_else(|| ms?.checked_mul(1000)).filter(|us| CALENDAR_US.contains(us))
}

/// What happened, by the record's letter and by the images that it has: before and after.
#[inline]
pub fn op(letter: u8, images: (bool, bool)) -> Option<&'static str> {
    Some(match (letter, images) {
        (b'c', (false, true)) => "insert",
        (b'r', (false, true)) => "read",
        (b'u', (_, true)) => "update",
        (b'd', (true, false)) => "delete",
        _ => return None,
    })
}

/// The number at the end of a file's name.
#[inline]
pub fn number_of(file: &[u8]) -> Option<u64> {
    let digits = file.iter().rev().take_while(|b| b.is_ascii_digit()).count().min(12);
    let digits = file.get(file.len() - digits..).filter(|d| !d.is_empty())?;
    let number = digits.iter().fold(0u64, |sum, b| sum * 10 + u64::from(b - b'0'));
    (number >> 24 == 0).then_some(number)
}

/// `file number << 40 | pos`, where there is such a place.
#[inline]
pub fn sequence(file: u64, pos: i64) -> Option<u64> {
    let pos = u64::try_from(pos).ok().filter(|pos| pos >> 40 == 0)?;
    Some(file << 40 | pos)
}
