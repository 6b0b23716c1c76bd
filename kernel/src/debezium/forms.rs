//! Mirrors protocols/debezium_mysql/values/reading.py, protocols/ticdc_debezium/values.py: values of fixed width: numbers, base64, text.

use std::marker::PhantomData;

use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, Decimal256Type, Float32Type, Float64Type, TimestampMicrosecondType, UInt64Type,
};
use arrow_buffer::i256;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::floats::{Style, read};
use super::token::between_quotes;
use crate::cursor::Cursor;
use crate::forms::Form;
use crate::strict_json::int64;
use crate::values::datetime_with;

/// What is between the quotes of a string, which is all that is left, where it has no escapes.
#[inline]
fn quoted<'a>(c: &mut Cursor<'a>) -> Option<&'a [u8]> {
    between_quotes(c.take(c.rest().len())?)
}

/// A double in the style's spelling.
pub struct Double(pub Style);

impl Form for Double {
    type Arrow = Float64Type;

    fn read(&self, c: &mut Cursor<'_>) -> Option<f64> {
        read(c, self.0)
    }
}

/// A single in the style's spelling.
pub struct Single(pub Style);

impl Form for Single {
    type Arrow = Float32Type;

    fn read(&self, c: &mut Cursor<'_>) -> Option<f32> {
        read(c, self.0)
    }
}

/// An integer that counts something: in a range, then times or divided by a factor.
pub struct Counted<T> {
    /// The least and the greatest number on the wire.
    pub range: (i64, i64),
    /// What to multiply it with.
    pub times: i64,
    /// What it must be a multiple of, and is divided by.
    pub over: i64,
    /// Whether it counts days, microseconds or something else.
    pub arrow: PhantomData<fn() -> T>,
}

impl<T: ArrowPrimitiveType<Native: TryFrom<i64>>> Form for Counted<T> {
    type Arrow = T;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<T::Native> {
        let number = int64(c)?;
        if !(self.range.0..=self.range.1).contains(&number) || number % self.over != 0 {
            return None;
        }
        (number / self.over).checked_mul(self.times)?.try_into().ok()
    }
}

/// A number without sign that is sent with one: from 2^63 on it is negative.
pub struct Wrapped;

impl Form for Wrapped {
    type Arrow = UInt64Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<u64> {
        int64(c).map(i64::cast_unsigned)
    }
}

/// `true` or `false` as a BIT(1).
pub struct OneBit;

impl Form for OneBit {
    type Arrow = UInt64Type;

    fn read(&self, c: &mut Cursor<'_>) -> Option<u64> {
        flag(c).map(u64::from)
    }
}

pub(super) fn flag(c: &mut Cursor<'_>) -> Option<bool> {
    match c.peek()? {
        b't' => c.eat(b"true").map(|()| true),
        _ => c.eat(b"false").map(|()| false),
    }
}

/// Base64 of exactly so many bytes, the least first, of a number of at most so many bits.
pub struct Bits {
    /// Bytes on the wire.
    pub bytes: usize,
    /// Bits that may be set.
    pub bits: usize,
}

impl Form for Bits {
    type Arrow = UInt64Type;

    fn read(&self, c: &mut Cursor<'_>) -> Option<u64> {
        let mut buffer = [0; 8];
        let sent = decoded::<48>(c)?;
        let sent = sent.0.get(..sent.1).filter(|f| f.len() == self.bytes)?;
        buffer.get_mut(..sent.len())?.copy_from_slice(sent);
        let value = u64::from_le_bytes(buffer);
        (self.bits >= 64 || value >> self.bits == 0).then_some(value)
    }
}

/// The bytes of a string in base64, and how many there are.
fn decoded<const N: usize>(c: &mut Cursor<'_>) -> Option<([u8; N], usize)> {
    let mut out = [0; N];
    let count = STANDARD.decode_slice(quoted(c)?, &mut out).ok()?;
    Some((out, count))
}

/// Base64 of an unscaled decimal of at most so many bytes in two's complement, big-endian, without a needless one.
fn unscaled<const N: usize>(c: &mut Cursor<'_>) -> Option<[u8; N]> {
    let (bytes, count) = decoded::<48>(c)?;
    let sent = bytes.get(..count)?;
    let (&first, more) = sent.split_first()?;
    let fill = if first & 0x80 == 0 { 0 } else { 0xff };
    if more.first().is_some_and(|second| first == fill && (second ^ fill) & 0x80 == 0) {
        return None;
    }
    let mut wide = [fill; N];
    wide.get_mut(N.checked_sub(count)?..)?.copy_from_slice(sent);
    Some(wide)
}

/// A decimal of up to 38 digits; its unscaled value is below the limit.
pub struct Decimal(pub i128);

impl Form for Decimal {
    type Arrow = Decimal128Type;

    fn read(&self, c: &mut Cursor<'_>) -> Option<i128> {
        let value = i128::from_be_bytes(unscaled(c)?);
        (-self.0 < value && value < self.0).then_some(value)
    }
}

/// A longer one.
pub struct LongDecimal(pub i256);

impl Form for LongDecimal {
    type Arrow = Decimal256Type;

    fn read(&self, c: &mut Cursor<'_>) -> Option<i256> {
        let value = i256::from_be_bytes(unscaled(c)?);
        (self.0.wrapping_neg() < value && value < self.0).then_some(value)
    }
}

/// The text that stands for many invalid timestamps: it shows no digits.
pub const EPOCH: &[u8] = b"\"1970-01-01T00:00:00Z\"";

/// `"YYYY-MM-DDTHH:MM:SS.fZ"` with exactly `digits` of a fraction.
pub struct Instant {
    /// Digits of the fraction.
    pub digits: usize,
    /// Whether `EPOCH` stands for all moments before second 1.
    pub epoch: bool,
}

impl Form for Instant {
    type Arrow = TimestampMicrosecondType;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<i64> {
        if self.epoch && c.rest() == EPOCH {
            c.take(EPOCH.len())?;
            return Some(0);
        }
        let us = instant(quoted(c)?, self.digits)?;
        (!self.epoch || us >= 1_000_000).then_some(us)
    }
}

/// Microseconds since 1970 of `YYYY-MM-DDTHH:MM:SS.fZ` with exactly so many digits of a fraction.
#[inline]
pub fn instant(text: &[u8], digits: usize) -> Option<i64> {
    datetime_with(b'T', text.strip_suffix(b"Z")?, digits)
}

/// How many digits the text of an instant has, with its quotes.
pub fn instant_digits(text: &[u8]) -> Option<u8> {
    match text.len() {
        22 => Some(0),
        length @ 24..=29 => u8::try_from(length - 23).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_shortest_two_s_complement() {
        let read = |text: &str| Decimal(10i128.pow(12)).read(&mut Cursor::new(text.as_bytes()));
        assert_eq!(read("\"CwBk\""), Some(720_996));
        assert_eq!(read("\"/w==\""), Some(-1));
        assert_eq!(read("\"AA==\""), Some(0));
        for bad in ["\"\"", "\"AAE=\"", "\"//8=\"", "\"AAE\"", "12", "\"AQAAAAAAAAAA\""] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn instants_have_exactly_their_digits() {
        let read = |digits, text: &str| Instant { digits, epoch: true }.read(&mut Cursor::new(text.as_bytes()));
        assert_eq!(read(3, "\"1970-01-01T00:00:01.100Z\""), Some(1_100_000));
        assert_eq!(read(3, "\"1970-01-01T00:00:00Z\""), Some(0));
        for bad in ["\"1970-01-01T00:00:00.100Z\"", "\"1970-01-01T00:00:01Z\"", "\"1970-01-01 00:00:01.100Z\"", "1"] {
            assert_eq!(read(3, bad), None, "{bad}");
        }
    }
}
