//! Mirrors model/values.py: forms of values of fixed width. A form reads one value off the cursor in full, or returns `None`.

use std::marker::PhantomData;

use arrow_array::types::{ArrowPrimitiveType, Date32Type, Float32Type, Float64Type, TimestampMicrosecondType};

use crate::cursor::Cursor;
use crate::strict_json::{float, float32, int64, uint64};
use crate::values::{date, datetime};

/// How a value of fixed width stands on the wire.
pub trait Form: Send + Sync {
    /// The Arrow type that holds it.
    type Arrow: ArrowPrimitiveType;
    /// Reads one.
    fn read(&self, c: &mut Cursor<'_>) -> Option<<Self::Arrow as ArrowPrimitiveType>::Native>;
}

/// An integer in a range, which its Arrow type holds.
pub struct Signed<T> {
    pub(crate) low: i64,
    pub(crate) high: i64,
    arrow: PhantomData<fn() -> T>,
}

/// The same without sign.
pub struct Unsigned<T> {
    high: u64,
    arrow: PhantomData<fn() -> T>,
}

impl<T> Signed<T> {
    /// A number of so many bits in two's complement.
    pub fn bits(bits: u32) -> Self {
        let high = i64::MAX >> (64 - bits);
        Self { low: !high, high, arrow: PhantomData }
    }
}

impl<T> Unsigned<T> {
    /// A number of so many bits.
    pub fn bits(bits: u32) -> Self {
        Self::up_to(u64::MAX >> (64 - bits))
    }

    /// A number up to and with `high`.
    pub fn up_to(high: u64) -> Self {
        Self { high, arrow: PhantomData }
    }
}

impl<T: ArrowPrimitiveType<Native: TryFrom<i64>>> Form for Signed<T> {
    type Arrow = T;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<T::Native> {
        let value = int64(c)?;
        (self.low..=self.high).contains(&value).then_some(value)?.try_into().ok()
    }
}

impl<T: ArrowPrimitiveType<Native: TryFrom<u64>>> Form for Unsigned<T> {
    type Arrow = T;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<T::Native> {
        let value = uint64(c)?;
        (value <= self.high).then_some(value)?.try_into().ok()
    }
}

/// A number, as the nearest float32.
pub struct Single;

impl Form for Single {
    type Arrow = Float32Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<f32> {
        float32(c)
    }
}

/// A number, as the nearest float64.
pub struct Double;

impl Form for Double {
    type Arrow = Float64Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<f64> {
        float(c)
    }
}

/// What is between the quotes of a string of this width: whatever reads it accepts digits and their separators only.
#[inline]
fn exactly<'a>(c: &mut Cursor<'a>, width: usize) -> Option<&'a [u8]> {
    c.eat(b"\"")?;
    let text = c.take(width)?;
    c.eat(b"\"")?;
    Some(text)
}

/// `"YYYY-MM-DD"`.
pub struct Day;

impl Form for Day {
    type Arrow = Date32Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<i32> {
        date(exactly(c, 10)?)
    }
}

/// Microseconds from the beginning of year 1 to the end of year 9999: a zone must not lead out of it.
const CALENDAR: std::ops::Range<i64> = -62_135_596_800_000_000..253_402_300_800_000_000;

/// `"YYYY-MM-DD HH:MM:SS"` with exactly `digits` of a fraction, on a clock that is `ahead` of UTC by so many microseconds.
pub struct Moment {
    /// Digits of the fraction.
    pub digits: usize,
    /// What to subtract.
    pub ahead: i64,
}

impl Moment {
    /// The moment that a text without quotes is.
    #[inline]
    pub fn of(&self, text: &[u8]) -> Option<i64> {
        let utc = datetime(text, self.digits)? - self.ahead;
        CALENDAR.contains(&utc).then_some(utc)
    }
}

impl Form for Moment {
    type Arrow = TimestampMicrosecondType;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<i64> {
        let width = if self.digits == 0 { 19 } else { 20 + self.digits };
        self.of(exactly(c, width)?)
    }
}
