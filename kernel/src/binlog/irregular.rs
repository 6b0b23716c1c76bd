//! Mirrors sources/mysql/columns.py, mysql/binlog/moments.py: values that an Arrow type cannot hold, as the reference keeps them.
//!
//! ```text
//! DATE, DATETIME     a day that is not in the calendar, such as 2024-02-00: its text      TIMESTAMP    0: a zero date
//! texts              not valid in the character set: the bytes                          GEOMETRY     shorter than an SRID: the bytes
//! ```
//!
//! Rule 1. No day of the year 0 is in the calendar.

use crate::cursor::Cursor;
use crate::values::days;

use super::moments::{big_endian, clock_text, fraction_text, width};

/// How an irregular value of a column is read.
pub enum Odd {
    /// DATE.
    Day,
    /// DATETIME2 with so many digits of a fraction.
    Local(u32),
    /// TIMESTAMP2 with so many digits of a fraction.
    Instant(u32),
    /// Bytes behind a length of so many bytes.
    Sized(usize),
}

impl Odd {
    /// That of a column, by its type code and metadata; nothing if it has no irregular values.
    pub fn of(code: u8, metadata: u16, is_text: bool) -> Option<Self> {
        let (size, digits) = (usize::from(metadata), u32::from(metadata));
        Some(match code {
            10 | 14 => Self::Day,
            17 => Self::Instant(digits),
            18 => Self::Local(digits),
            15 | 253 | 254 if is_text => Self::Sized(if size < 256 { 1 } else { 2 }),
            249 if is_text => Self::Sized(1),
            250 if is_text => Self::Sized(3),
            251 if is_text => Self::Sized(4),
            252 if is_text => Self::Sized(size),
            255 => Self::Sized(size),
            _ => return None,
        })
    }

    /// Reads a value that its column has refused.
    pub fn read(&self, c: &mut Cursor<'_>) -> Option<Vec<u8>> {
        match *self {
            Self::Day => {
                let packed = c.uint(3)?;
                Some(day_text(packed >> 9, packed >> 5 & 15, packed & 31)?.into_bytes())
            }
            Self::Local(digits) => {
                let packed = big_endian(c, 5)?.checked_sub(1 << 39)?;
                let (months, clock) = (packed >> 22, clock_text(packed & 0x1_ffff)?);
                let day = day_text(months / 13, months % 13, packed >> 17 & 31)?;
                let fraction = fraction_text(big_endian(c, width(digits))?, digits)?;
                Some(format!("{day} {clock}{fraction}").into_bytes())
            }
            Self::Instant(digits) => {
                let (seconds, fraction) = (big_endian(c, 4)?, big_endian(c, width(digits))?);
                let fraction = fraction_text(fraction, digits)?;
                let is_zero = seconds == 0 && fraction.bytes().all(|byte| matches!(byte, b'0' | b'.'));
                is_zero.then(|| format!("0000-00-00 00:00:00{fraction}").into_bytes())
            }
            Self::Sized(size) => {
                let length = usize::try_from(c.uint(size)?).ok()?;
                c.take(length).map(<[u8]>::to_vec)
            }
        }
    }
}

/// The text of a day that is not in the calendar.
fn day_text(year: u64, month: u64, day: u64) -> Option<String> {
    let number = |value: u64| i32::try_from(value).ok();
    let is_day = days(number(year)?, number(month)?, number(day)?).is_some();
    (!is_day && year <= 9999 && month <= 12).then(|| format!("{year:04}-{month:02}-{day:02}"))
}
