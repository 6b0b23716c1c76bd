//! Mirrors wire/avro/read.py: forms of fixed width; each reads one value off the cursor in full, or returns `None`.

use std::marker::PhantomData;

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int32Type, Int64Type,
    TimestampMicrosecondType, UInt64Type,
};
use arrow_buffer::i256;

use super::{bytes, int, long};
use crate::cursor::Cursor;
use crate::forms::{Form, Moment};
use crate::values::date;

/// An int.
pub struct Int;

impl Form for Int {
    type Arrow = Int32Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<i32> {
        int(c)?.try_into().ok()
    }
}

/// A long.
pub struct Long;

impl Form for Long {
    type Arrow = Int64Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<i64> {
        long(c)
    }
}

/// An int or a long that is never negative and at most `high`.
pub struct Natural<T> {
    wide: bool,
    high: i64,
    arrow: PhantomData<fn() -> T>,
}

impl<T> Natural<T> {
    /// A long (`wide`) or an int, up to and with `high`.
    pub fn up_to(high: i64, wide: bool) -> Self {
        Self { wide, high, arrow: PhantomData }
    }
}

impl<T: ArrowPrimitiveType<Native: TryFrom<i64>>> Form for Natural<T> {
    type Arrow = T;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<T::Native> {
        let value = if self.wide { long(c)? } else { int(c)? };
        (0..=self.high).contains(&value).then_some(value)?.try_into().ok()
    }
}

/// 64 bits without sign in a long: from 2^63 on it is less 2^64.
pub struct Wrapped;

impl Form for Wrapped {
    type Arrow = UInt64Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<u64> {
        long(c).map(i64::cast_unsigned)
    }
}

/// 64 bits without sign in a string, as decimal digits.
pub struct Digits;

impl Form for Digits {
    type Arrow = UInt64Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<u64> {
        match bytes(c)? {
            [] | [b'0', _, ..] => None,
            digits => digits.iter().try_fold(0u64, |sum, b| {
                let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
                sum.checked_mul(10)?.checked_add(digit)
            }),
        }
    }
}

/// A float, NaN excepted.
pub struct Single;

impl Form for Single {
    type Arrow = Float32Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<f32> {
        let value = f32::from_le_bytes(*c.take(4)?.first_chunk()?);
        (!value.is_nan()).then_some(value)
    }
}

/// A double, NaN excepted.
pub struct Double;

impl Form for Double {
    type Arrow = Float64Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<f64> {
        let value = f64::from_le_bytes(*c.take(8)?.first_chunk()?);
        (!value.is_nan()).then_some(value)
    }
}

/// A string `YYYY-MM-DD`.
pub struct Day;

impl Form for Day {
    type Arrow = Date32Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<i32> {
        date(bytes(c)?)
    }
}

/// A string with a date and time.
pub struct Text(pub Moment);

impl Form for Text {
    type Arrow = TimestampMicrosecondType;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<i64> {
        self.0.of(bytes(c)?)
    }
}

/// Bytes of a number without sign, the highest first: as many as the type has, or as the number needs.
pub struct Bits(pub u32);

impl Form for Bits {
    type Arrow = UInt64Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<u64> {
        let raw = bytes(c)?;
        if raw.is_empty() || raw.len() > 8 {
            return None;
        }
        let value = raw.iter().fold(0u64, |sum, b| sum << 8 | u64::from(*b));
        let whole = raw.len() == self.0.div_ceil(8) as usize;
        let shortest = raw.len() == 1 || raw.first() != Some(&0);
        ((whole || shortest) && value.checked_shr(self.0).unwrap_or_default() == 0).then_some(value)
    }
}

/// Bytes of an unscaled number in two's complement, the highest first, no more of them than it needs.
#[inline]
fn unscaled<'a>(c: &mut Cursor<'a>) -> Option<(u8, &'a [u8])> {
    match bytes(c)? {
        [0, 0..0x80, ..] | [0xff, 0x80..=0xff, ..] | [] => None,
        raw => Some((if raw.first()? < &0x80 { 0 } else { 0xff }, raw)),
    }
}

/// A decimal whose unscaled number is below `limit`.
pub struct Decimal(u128);

impl Decimal {
    /// So many digits, at most 38.
    pub fn digits(precision: u32) -> Option<Self> {
        Some(Self(10u128.checked_pow(precision)?))
    }
}

impl Form for Decimal {
    type Arrow = Decimal128Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<i128> {
        let (sign, raw) = unscaled(c)?;
        let start = i64::from(sign.cast_signed());
        let value = match raw.len() {
            0..=8 => i128::from(raw.iter().fold(start, |sum, b| sum << 8 | i64::from(*b))),
            9..=16 => raw.iter().fold(i128::from(start), |sum, b| sum << 8 | i128::from(*b)),
            _ => return None,
        };
        (value.unsigned_abs() < self.0).then_some(value)
    }
}

/// The same with up to 76 digits.
pub struct LongDecimal(i256);

impl LongDecimal {
    /// So many digits, at most 76.
    pub fn digits(precision: u32) -> Option<Self> {
        Some(Self(i256::from_i128(10).checked_pow(precision)?))
    }
}

impl Form for LongDecimal {
    type Arrow = Decimal256Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<i256> {
        let (sign, raw) = unscaled(c)?;
        let mut whole = [sign; 32];
        whole.get_mut(32usize.checked_sub(raw.len())?..)?.copy_from_slice(raw);
        let value = i256::from_be_bytes(whole);
        (value < self.0 && value > self.0.wrapping_neg()).then_some(value)
    }
}
