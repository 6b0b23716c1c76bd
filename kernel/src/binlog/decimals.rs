//! Mirrors mysql/binlog/decimals.py: DECIMAL in binary form.
//!
//! ```text
//! digits     before the point, then after it, in groups of nine: 4 bytes, big-endian
//!            1-2, 3-4, 5-6, 7-9 digits that remain, first before the point and last after it: 1, 2, 3, 4 bytes
//! sign       the first bit: 1 for positive numbers; all bytes of negative numbers are inverted
//! ```
//!
//! Rule 1. A negative zero is refused: no Arrow type has it.

use arrow_array::types::{Decimal128Type, Decimal256Type};
use arrow_buffer::i256;

use crate::cursor::Cursor;
use crate::forms::Form;

const MOST_DIGITS: u32 = 65;
const MOST_SCALE: u32 = 38;
/// Bytes for 0 to 9 digits.
const REST: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
/// Digits of the decimals that fit an `u64`.
const SHORT: u32 = 19;
/// Bytes of the longest decimal: 65 digits in groups of nine, and a rest before and after the point.
const MOST_BYTES: usize = 32;

/// Bytes and digits of a group.
type Group = (usize, u32);

/// The groups of one precision and scale.
pub struct Groups {
    before: Vec<Group>,
    after: Vec<Group>,
    size: usize,
    precision: u32,
}

impl Groups {
    /// The groups before and after the point; nothing if there is no such DECIMAL.
    pub fn new(precision: u32, scale: u32) -> Option<Self> {
        if precision == 0 || precision > MOST_DIGITS || scale > precision.min(MOST_SCALE) {
            return None;
        }
        let rest = |digits: u32| Some((*REST.get(usize::try_from(digits).ok()?)?, digits));
        let full = |digits: u32| (0..digits / 9).map(|_| (4, 9));
        let whole = precision - scale;
        let mut before: Vec<Group> = Vec::new();
        before.extend(rest(whole % 9).filter(|&(size, _)| size > 0));
        before.extend(full(whole));
        let mut after: Vec<Group> = full(scale).collect();
        after.extend(rest(scale % 9).filter(|&(size, _)| size > 0));
        let size = before.iter().chain(&after).map(|&(size, _)| size).sum();
        Some(Self { before, after, size, precision })
    }

    /// The bytes as those of a positive number, and whether it is negative.
    #[inline]
    fn unsigned(&self, c: &mut Cursor<'_>) -> Option<([u8; MOST_BYTES], bool)> {
        let (mut bytes, raw) = ([0; MOST_BYTES], c.take(self.size)?);
        bytes.get_mut(..self.size)?.copy_from_slice(raw);
        let negative = raw.first()? & 0x80 == 0;
        if negative {
            bytes.iter_mut().for_each(|byte| *byte ^= 0xff);
        }
        *bytes.first_mut()? ^= 0x80;
        Some((bytes, negative))
    }

    /// Calls `add` with the digits of each group, as a number, and how many they are.
    #[inline]
    fn each(groups: &[Group], c: &mut Cursor<'_>, mut add: impl FnMut(u32, u32)) -> Option<()> {
        for &(size, digits) in groups {
            let number = c.take(size)?.iter().fold(0, |sum: u32, &byte| sum << 8 | u32::from(byte));
            (number < 10u32.pow(digits)).then_some(())?;
            add(number, digits);
        }
        Some(())
    }

    #[inline]
    fn all(&self, bytes: &[u8], mut add: impl FnMut(u32, u32)) -> Option<()> {
        let mut c = Cursor::new(bytes);
        Self::each(&self.before, &mut c, &mut add)?;
        Self::each(&self.after, &mut c, add)
    }

    /// The text of a decimal, `-12.50`.
    pub fn text(&self, c: &mut Cursor<'_>) -> Option<String> {
        let (bytes, negative) = self.unsigned(c)?;
        let (mut c, mut whole, mut fraction) = (Cursor::new(&bytes), String::new(), String::new());
        let write = |text: &mut String, number: u32, digits: u32| {
            text.push_str(&format!("{number:0width$}", width = usize::try_from(digits).unwrap_or_default()));
        };
        Self::each(&self.before, &mut c, |number, digits| write(&mut whole, number, digits))?;
        Self::each(&self.after, &mut c, |number, digits| write(&mut fraction, number, digits))?;
        let (sign, whole) = (if negative { "-" } else { "" }, whole.trim_start_matches('0'));
        let (whole, point) = (if whole.is_empty() { "0" } else { whole }, if fraction.is_empty() { "" } else { "." });
        Some(format!("{sign}{whole}{point}{fraction}"))
    }
}

/// A decimal of up to 38 digits.
pub struct Decimal(pub Groups);

impl Form for Decimal {
    type Arrow = Decimal128Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<i128> {
        let (bytes, negative) = self.0.unsigned(c)?;
        let value = if self.0.precision <= SHORT {
            let mut sum = 0u64;
            self.0.all(&bytes, |number, digits| sum = sum * 10u64.pow(digits) + u64::from(number))?;
            i128::from(sum)
        } else {
            let mut sum = 0i128;
            self.0.all(&bytes, |number, digits| sum = sum * 10i128.pow(digits) + i128::from(number))?;
            sum
        };
        match (negative, value) {
            (true, 0) => None,
            (true, value) => Some(-value),
            (false, value) => Some(value),
        }
    }
}

/// The same of up to 65.
pub struct LongDecimal(pub Groups);

impl Form for LongDecimal {
    type Arrow = Decimal256Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<i256> {
        let (bytes, negative) = self.0.unsigned(c)?;
        let mut sum = i256::ZERO;
        let i256_of = |number: u32| i256::from_i128(number.into());
        self.0.all(&bytes, |number, digits| {
            sum = sum.wrapping_mul(i256_of(10u32.pow(digits))).wrapping_add(i256_of(number));
        })?;
        match negative {
            true if sum == i256::ZERO => None,
            true => Some(sum.wrapping_neg()),
            false => Some(sum),
        }
    }
}
