//! Mirrors mysql/binlog/moments.py: dates and times of row images. Zero dates and impossible ones are refused: no Arrow type has them.
//!
//! ```text
//! DATE          3 bytes, little-endian       year << 9 | month << 5 | day
//! TIME2(f)      3 bytes + fraction           CLOCK + 2^23, as one number with the fraction
//! DATETIME2(f)  5 bytes + fraction           2^39 + (year * 13 + month) << 22 | day << 17 | CLOCK
//! TIMESTAMP2(f) 4 bytes + fraction           seconds since 1970; 0 is the zero timestamp
//! CLOCK                                      hours << 12 | minutes << 6 | seconds
//! fraction      0, 1, 1, 2, 2, 3, 3 bytes    for f = 0 to 6, big-endian: hundredths, ten-thousandths, millionths
//! ```

use arrow_array::types::{Date32Type, TimestampMicrosecondType};

use crate::cursor::Cursor;
use crate::forms::Form;
use crate::values::days;

const MICROS: i64 = 1_000_000;
const MOST_HOURS: u64 = 838;

/// DATE.
pub struct Day;

impl Form for Day {
    type Arrow = Date32Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<i32> {
        let packed = i32::try_from(c.uint(3)?).ok()?;
        days(packed >> 9, packed >> 5 & 15, packed & 31)
    }
}

/// DATETIME2 with so many digits of a fraction, as microseconds since 1970-01-01 00:00:00.
pub struct Local(pub u32);

impl Form for Local {
    type Arrow = TimestampMicrosecondType;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<i64> {
        let packed = big_endian(c, 5)?.checked_sub(1 << 39)?;
        let (months, day) = (i32::try_from(packed >> 22).ok()?, i32::try_from(packed >> 17 & 31).ok()?);
        let clock = Clock::unpacked(packed & 0x1_ffff)?;
        (clock.hours < 24).then_some(())?;
        let date = i64::from(days(months / 13, months % 13, day)?);
        Some((date * 86_400 + clock.seconds()) * MICROS + micros(big_endian(c, width(self.0))?, self.0)?)
    }
}

/// TIMESTAMP2 with so many digits of a fraction, as microseconds since 1970.
pub struct Instant(pub u32);

impl Form for Instant {
    type Arrow = TimestampMicrosecondType;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<i64> {
        let seconds = i64::from(u32::from_be_bytes(c.chunk()?));
        let instant = seconds * MICROS + micros(big_endian(c, width(self.0))?, self.0)?;
        (instant != 0).then_some(instant)
    }
}

/// Appends the text of a TIME2, `-838:59:59.000`, to `out`.
pub fn write_time(c: &mut Cursor<'_>, digits: u32, out: &mut Vec<u8>) -> Option<()> {
    let bits = 8 * width(digits);
    let packed = i64::try_from(big_endian(c, 3 + width(digits))?).ok()? - (1 << (23 + bits));
    let (whole, fraction) = (packed.unsigned_abs() >> bits, packed.unsigned_abs() & ((1 << bits) - 1));
    let clock = Clock::unpacked(whole)?;
    micros(fraction, digits)?;
    if packed < 0 {
        out.push(b'-');
    }
    if clock.hours >= 100 {
        write_digits(clock.hours / 100, 1, out);
    }
    write_digits(clock.hours % 100, 2, out);
    for number in [clock.minutes, clock.second] {
        out.push(b':');
        write_digits(number, 2, out);
    }
    write_fraction(fraction, digits, out);
    Some(())
}

fn write_fraction(stored: u64, digits: u32, out: &mut Vec<u8>) {
    if digits > 0 {
        out.push(b'.');
        write_digits(if digits % 2 == 1 { stored / 10 } else { stored }, digits, out);
    }
}

/// The text of a DATETIME(6) in JSON: the 5 bytes of DATETIME2 without 2^39, and the fraction in 3.
pub fn packed_datetime(packed: i64) -> Option<String> {
    let packed = u64::try_from(packed).ok()?;
    let (moment, fraction) = (packed >> 24, packed & 0xff_ffff);
    let (year, month) = ((moment >> 22) / 13, (moment >> 22) % 13);
    (year <= 9999).then_some(())?;
    let clock = packed_clock(moment & 0x1_ffff, fraction)?;
    Some(format!("{year:04}-{month:02}-{:02} {clock}", moment >> 17 & 31))
}

/// The text of a TIME(6) in JSON.
pub fn packed_time(packed: i64) -> Option<String> {
    let (whole, fraction) = (packed.unsigned_abs() >> 24, packed.unsigned_abs() & 0xff_ffff);
    Some(format!("{}{}", if packed < 0 { "-" } else { "" }, packed_clock(whole, fraction)?))
}

fn packed_clock(packed: u64, micros: u64) -> Option<String> {
    let Clock { hours, minutes, second } = Clock::unpacked(packed)?;
    (micros < 1_000_000).then(|| format!("{hours:02}:{minutes:02}:{second:02}.{micros:06}"))
}

/// The text of a packed clock of a day.
pub fn clock_text(packed: u64) -> Option<String> {
    let Clock { hours, minutes, second } = Clock::unpacked(packed)?;
    (hours < 24).then(|| format!("{hours:02}:{minutes:02}:{second:02}"))
}

/// The text of a stored fraction with its point; nothing before it without digits.
pub fn fraction_text(stored: u64, digits: u32) -> Option<String> {
    micros(stored, digits)?;
    let mut text = Vec::new();
    write_fraction(stored, digits, &mut text);
    String::from_utf8(text).ok()
}

struct Clock {
    hours: u64,
    minutes: u64,
    second: u64,
}

impl Clock {
    #[inline]
    fn unpacked(packed: u64) -> Option<Self> {
        let clock = Self { hours: packed >> 12, minutes: packed >> 6 & 63, second: packed & 63 };
        (clock.hours <= MOST_HOURS && clock.minutes < 60 && clock.second < 60).then_some(clock)
    }

    #[inline]
    fn seconds(&self) -> i64 {
        (self.hours * 3600 + self.minutes * 60 + self.second) as i64
    }
}

/// Bytes of a fraction of so many digits.
#[inline]
pub fn width(digits: u32) -> usize {
    (digits as usize).div_ceil(2)
}

/// A big-endian integer of so many bytes, at most eight.
#[inline]
pub fn big_endian(c: &mut Cursor<'_>, size: usize) -> Option<u64> {
    Some(c.take(size)?.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte)))
}

/// Microseconds of a stored fraction, which has an even count of digits, of which the last may be too many.
#[inline]
fn micros(stored: u64, digits: u32) -> Option<i64> {
    let even = digits + digits % 2;
    (stored < 10u64.pow(even)).then_some(())?;
    let kept = stored - if digits % 2 == 1 { stored % 10 } else { 0 };
    i64::try_from(kept * 10u64.pow(6 - even)).ok()
}

fn write_digits(number: u64, digits: u32, out: &mut Vec<u8>) {
    out.extend((0..digits).rev().map(|place| b'0' + (number / 10u64.pow(place) % 10) as u8));
}
