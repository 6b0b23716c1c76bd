//! Mirrors protocols/tencent_dts/values.py: forms of fixed width in a Data: the whole text is the value, as the producer spells it.

use arrow_array::types::{
    Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, TimestampMicrosecondType, UInt64Type,
};
use arrow_buffer::i256;

use crate::cursor::Cursor;
use crate::debezium::floats::{Style, spelled};
use crate::forms::{Form, Moment};
use crate::strict_json::integer;
use crate::values::date;

#[inline]
fn whole<'a>(c: &mut Cursor<'a>) -> Option<&'a [u8]> {
    c.take(c.rest().len())
}

/// A float, as Go writes it.
pub struct Single;

impl Form for Single {
    type Arrow = Float32Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<f32> {
        spelled(whole(c)?, Style::Go)
    }
}

/// A double, as Go writes it.
pub struct Double;

impl Form for Double {
    type Arrow = Float64Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<f64> {
        spelled(whole(c)?, Style::Go)
    }
}

/// So many bits as a number; of 64 with the top one set it is less 2^64, if `signed`.
pub struct Bits {
    /// How many.
    pub bits: u32,
    /// Whether 64 bits may be negative.
    pub signed: bool,
}

impl Form for Bits {
    type Arrow = UInt64Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<u64> {
        let wraps = self.signed && self.bits == 64;
        match integer(c)? {
            (true, value) if wraps && value <= 1 << 63 => Some(value.wrapping_neg()),
            (false, value) if wraps && value >> 63 == 1 => None,
            (false, value) if value.checked_shr(self.bits).unwrap_or_default() == 0 => Some(value),
            _ => None,
        }
    }
}

/// `YYYY-MM-DD`.
pub struct Day;

impl Form for Day {
    type Arrow = Date32Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<i32> {
        date(whole(c)?)
    }
}

/// `YYYY-MM-DD HH:MM:SS[.f]`.
pub struct Local(pub Moment);

impl Form for Local {
    type Arrow = TimestampMicrosecondType;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<i64> {
        self.0.of(whole(c)?)
    }
}

/// The same with UTC's offset behind it.
pub struct Instant(pub Moment);

impl Form for Instant {
    type Arrow = TimestampMicrosecondType;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<i64> {
        let (local, offset) = whole(c)?.split_last_chunk::<7>()?;
        (offset == b" +00:00").then_some(())?;
        self.0.of(local)
    }
}

/// How many digits a DECIMAL has, and how many of them behind the point.
#[derive(Clone, Copy)]
pub struct Digits {
    /// In all.
    pub precision: usize,
    /// Behind the point.
    pub scale: usize,
}

impl Digits {
    /// Sign, and the digits before and behind the point: as many behind it as there are to be, no needless zero before.
    #[inline]
    fn split(self, text: &[u8]) -> Option<(bool, &[u8], &[u8])> {
        let (negative, text) = text.strip_prefix(b"-").map_or((false, text), |text| (true, text));
        let (before, behind) = if self.scale == 0 {
            (text, &b""[..])
        } else {
            let (before, behind) = text.split_at_checked(text.len().checked_sub(self.scale)?)?;
            (before.strip_suffix(b".")?, behind)
        };
        let fits = match before {
            [] | [b'0', _, ..] => false,
            [b'0'] => true,
            _ => before.len() <= self.precision - self.scale,
        };
        fits.then_some((negative, before, behind))
    }
}

#[inline]
fn digit(b: u8) -> Option<u64> {
    b.is_ascii_digit().then(|| u64::from(b - b'0'))
}

/// A decimal of up to 38 digits.
pub struct Decimal(pub Digits);

impl Form for Decimal {
    type Arrow = Decimal128Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<i128> {
        let (negative, before, behind) = self.0.split(whole(c)?)?;
        let mut digits = before.iter().chain(behind);
        let value = if before.len() + behind.len() <= 19 {
            digits.try_fold(0u64, |sum, &b| Some(sum.wrapping_mul(10).wrapping_add(digit(b)?))).map(i128::from)?
        } else {
            digits.try_fold(0i128, |sum, &b| Some(sum.wrapping_mul(10).wrapping_add(digit(b)?.into())))?
        };
        match (negative, value) {
            (true, 0) => None,
            (true, value) => Some(-value),
            (false, value) => Some(value),
        }
    }
}

/// The same of up to 76.
pub struct LongDecimal(pub Digits);

impl Form for LongDecimal {
    type Arrow = Decimal256Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<i256> {
        let (negative, before, behind) = self.0.split(whole(c)?)?;
        let ten = i256::from_i128(10);
        let mut digits = before.iter().chain(behind);
        let value = digits.try_fold(i256::ZERO, |sum, &b| {
            Some(sum.wrapping_mul(ten).wrapping_add(i256::from_i128(digit(b)?.into())))
        })?;
        match negative {
            true if value == i256::ZERO => None,
            true => Some(value.wrapping_neg()),
            false => Some(value),
        }
    }
}
