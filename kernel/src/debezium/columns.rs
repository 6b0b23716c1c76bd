//! Columns and forms of values that are numbers, base64 or labels on the wire and something else in Arrow.

use std::marker::PhantomData;
use std::mem::take;
use std::sync::Arc;

use arrow_array::types::{
    ArrowPrimitiveType, Decimal128Type, Decimal256Type, Float32Type, Float64Type, TimestampMicrosecondType, UInt64Type,
};
use arrow_array::{ArrayRef, BooleanArray, NullArray};
use arrow_buffer::{BooleanBuffer, i256};
use arrow_schema::ArrowError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::number::{Style, double, single};
use crate::columns::{Bytes, Column, Spelling};
use crate::cursor::Cursor;
use crate::forms::Form;
use crate::json::{int64, string, unescape};
use crate::mysql::datetime;
use crate::nulls::Nulls;

/// All that is left.
fn rest<'a>(c: &mut Cursor<'a>) -> Option<&'a [u8]> {
    c.take(c.rest().len())
}

/// A double in the style's spelling.
pub struct Double(pub Style);

impl Form for Double {
    type Arrow = Float64Type;

    fn read(&self, c: &mut Cursor<'_>) -> Option<f64> {
        double(rest(c)?, self.0)
    }
}

/// A single in the style's spelling.
pub struct Single(pub Style);

impl Form for Single {
    type Arrow = Float32Type;

    fn read(&self, c: &mut Cursor<'_>) -> Option<f32> {
        single(rest(c)?, self.0)
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

fn flag(c: &mut Cursor<'_>) -> Option<bool> {
    match rest(c)? {
        b"true" => Some(true),
        b"false" => Some(false),
        _ => None,
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
        let found = decoded::<48>(c)?;
        let found = found.0.get(..found.1).filter(|f| f.len() == self.bytes)?;
        buffer.get_mut(..found.len())?.copy_from_slice(found);
        let value = u64::from_le_bytes(buffer);
        (self.bits >= 64 || value >> self.bits == 0).then_some(value)
    }
}

/// The bytes of a string in base64, and how many there are.
fn decoded<const N: usize>(c: &mut Cursor<'_>) -> Option<([u8; N], usize)> {
    let mut out = [0; N];
    let count = STANDARD.decode_slice(string(c)?.raw, &mut out).ok()?;
    Some((out, count))
}

/// Base64 of an unscaled decimal in two's complement, big-endian, without a needless byte.
fn unscaled(c: &mut Cursor<'_>) -> Option<[u8; 32]> {
    let (bytes, count) = decoded::<48>(c)?;
    let found = bytes.get(..count)?;
    let (&first, more) = found.split_first()?;
    let fill = if first & 0x80 == 0 { 0 } else { 0xff };
    if more.first().is_some_and(|second| first == fill && (second ^ fill) & 0x80 == 0) {
        return None;
    }
    let mut wide = [fill; 32];
    wide.get_mut(32usize.checked_sub(count)?..)?.copy_from_slice(found);
    Some(wide)
}

/// A decimal of up to 38 digits; its unscaled value is below the limit.
pub struct Decimal(pub i128);

impl Form for Decimal {
    type Arrow = Decimal128Type;

    fn read(&self, c: &mut Cursor<'_>) -> Option<i128> {
        let value = i256::from_be_bytes(unscaled(c)?).to_i128()?;
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

/// What stands for many timestamps that have no text: it tells no digits.
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
        let text = rest(c)?;
        if self.epoch && text == EPOCH {
            return Some(0);
        }
        let inside = text.strip_prefix(b"\"")?.strip_suffix(b"Z\"")?;
        let mut plain = [0; 26];
        let plain = plain.get_mut(..inside.len())?;
        plain.copy_from_slice(inside);
        let between = plain.get_mut(10).filter(|b| **b == b'T')?;
        *between = b' ';
        let us = datetime(plain, self.digits)?;
        (!self.epoch || us >= 1_000_000).then_some(us)
    }
}

/// How many digits the text of an instant has, with its quotes.
pub fn instant_digits(text: &[u8]) -> Option<u8> {
    match text.len() {
        22 => Some(0),
        length @ 24..=29 => u8::try_from(length - 23).ok(),
        _ => None,
    }
}

/// `true` and `false`.
#[derive(Default)]
pub struct Booleans {
    values: Vec<bool>,
    nulls: Nulls,
}

impl Column for Booleans {
    fn read(&mut self, c: &mut Cursor<'_>) -> Option<bool> {
        if c.eat(b"null").is_some() {
            self.pad(self.values.len() + 1);
            return Some(false);
        }
        self.values.push(flag(c)?);
        Some(true)
    }

    fn pad(&mut self, rows: usize) {
        if rows > self.values.len() {
            self.nulls.push(self.values.len()..rows);
            self.values.resize(rows, false);
        }
    }

    fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.nulls.truncate(rows);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let values = take(&mut self.values);
        let nulls = self.nulls.finish(values.len());
        Ok(Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls)))
    }
}

/// NULL alone.
#[derive(Default)]
pub struct Nothing {
    rows: usize,
}

impl Column for Nothing {
    fn read(&mut self, c: &mut Cursor<'_>) -> Option<bool> {
        c.eat(b"null")?;
        self.rows += 1;
        Some(false)
    }

    fn pad(&mut self, rows: usize) {
        self.rows = self.rows.max(rows);
    }

    fn truncate(&mut self, rows: usize) {
        self.rows = self.rows.min(rows);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(NullArray::new(take(&mut self.rows))))
    }
}

/// Texts as they stand, whose strings have been checked.
pub struct Texts {
    texts: Bytes,
    scratch: Vec<u8>,
}

impl Default for Texts {
    fn default() -> Self {
        Self { texts: Bytes::new(Spelling::Plain, true), scratch: Vec::new() }
    }
}

impl Column for Texts {
    fn read(&mut self, c: &mut Cursor<'_>) -> Option<bool> {
        self.texts.read(c)
    }

    fn read_checked(&mut self, whole: &[u8], escaped: bool) -> Option<()> {
        let raw = whole.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
        if !escaped {
            return self.texts.push(Some(raw));
        }
        self.scratch.clear();
        unescape(raw, &mut self.scratch)?;
        self.texts.push(Some(&self.scratch))
    }

    fn pad(&mut self, rows: usize) {
        self.texts.pad(rows);
    }

    fn truncate(&mut self, rows: usize) {
        self.texts.truncate(rows);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.texts.finish()
    }
}

/// From a value's bytes to the text that stands for it.
pub type Derive = Box<dyn Fn(&[u8], &mut Vec<u8>) -> Option<()> + Send + Sync>;

/// Texts that are made of something else, or checked.
pub struct Derived {
    texts: Bytes,
    scratch: Vec<u8>,
    derive: Derive,
}

impl Derived {
    /// An empty column.
    pub fn new(derive: Derive) -> Self {
        Self { texts: Bytes::new(Spelling::Plain, true), scratch: Vec::new(), derive }
    }
}

impl Column for Derived {
    fn read(&mut self, c: &mut Cursor<'_>) -> Option<bool> {
        let text = rest(c)?;
        if text == b"null" {
            self.texts.push(None)?;
            return Some(false);
        }
        self.scratch.clear();
        (self.derive)(text, &mut self.scratch)?;
        self.texts.push(Some(&self.scratch))?;
        Some(true)
    }

    fn pad(&mut self, rows: usize) {
        self.texts.pad(rows);
    }

    fn truncate(&mut self, rows: usize) {
        self.texts.truncate(rows);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.texts.finish()
    }
}

/// The text of a TIME from a number of units of so many nanoseconds, at most `most` microseconds from zero, with `digits`.
pub fn time(unit_ns: i64, most: i64, digits: usize) -> Derive {
    Box::new(move |text, out| {
        let mut c = Cursor::new(text);
        let ns = i128::from(int64(&mut c)?) * i128::from(unit_ns);
        let us = i64::try_from(ns / 1000).ok()?;
        if !c.is_empty() || ns % 1000 != 0 || us.abs() > most {
            return None;
        }
        if us < 0 {
            out.push(b'-');
        }
        let (seconds, fraction) = (us.abs() / 1_000_000, us.abs() % 1_000_000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let start = out.len();
        push_padded(hour, if hour > 99 { 3 } else { 2 }, out);
        out.push(b':');
        push_padded(minute, 2, out);
        out.push(b':');
        push_padded(second, 2, out);
        out.push(b'.');
        push_padded(fraction, 6, out);
        out.truncate(out.len().max(start) - (6 - digits));
        Some(())
    })
}

fn push_padded(value: i64, width: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + width, b'0');
    let mut left = value;
    for slot in out.iter_mut().skip(start).rev() {
        *slot = b'0' + u8::try_from(left % 10).unwrap_or_default();
        left /= 10;
    }
}

/// A decimal that is a double on the wire: its text, where that is plain.
pub fn plain_decimal() -> Derive {
    Box::new(|text, out| {
        double(text, Style::Go)?;
        out.extend_from_slice(text);
        (text != b"-0" && !text.contains(&b'e')).then_some(())
    })
}

/// A string that is one of the members, or with `many` several of them with commas between, or none.
pub fn labels(members: Vec<String>, many: bool) -> Derive {
    Box::new(move |text, out| {
        let mut c = Cursor::new(text);
        let found = string(&mut c)?;
        unescape(found.raw, out)?;
        let known = |label: &[u8]| members.iter().any(|m| m.as_bytes() == label);
        let good = if many { out.split(|&b| b == b',').all(|l| l.is_empty() || known(l)) } else { known(out) };
        (c.is_empty() && good).then_some(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn derived(derive: Derive, text: &str) -> Option<String> {
        let mut out = Vec::new();
        derive(text.as_bytes(), &mut out)?;
        String::from_utf8(out).ok()
    }

    #[test]
    fn times_are_made_of_numbers() {
        const MOST: i64 = 838 * 3_600_000_000;
        assert_eq!(derived(time(1000, MOST, 6), "773138588000").unwrap(), "214:45:38.588000");
        assert_eq!(derived(time(1000, MOST, 6), "-1").unwrap(), "-00:00:00.000001");
        assert_eq!(derived(time(1_000_000, MOST, 3), "1").unwrap(), "00:00:00.001");
        assert_eq!(derived(time(1, MOST, 6), "1001"), None);
        assert_eq!(derived(time(1000, MOST, 6), "9999999999999"), None);
    }

    #[test]
    fn decimals_are_shortest_two_s_complement() {
        let read = |text: &str| Decimal(10i128.pow(12)).read(&mut Cursor::new(text.as_bytes()));
        assert_eq!(read("\"CwBk\""), Some(721_000));
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

    #[test]
    fn labels_are_members() {
        let members = || vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(derived(labels(members(), true), "\"a,b\"").unwrap(), "a,b");
        assert_eq!(derived(labels(members(), false), "\"\\u0061\"").unwrap(), "a");
        assert!(derived(labels(members(), false), "\"a,b\"").is_none());
        assert!(derived(labels(members(), true), "\"a,c\"").is_none());
    }
}
