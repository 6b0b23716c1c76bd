//! Mirrors mysql/binlog/values.py: values of fixed width in row images.
//!
//! ```text
//! TINY SHORT INT24 LONG LONGLONG    1 2 3 4 8 bytes, little-endian          FLOAT DOUBLE  4 8 bytes, IEEE 754
//! YEAR                              1 byte, from 1900; 0 is 0000            BIT(n)        (n + 7) / 8 bytes, big-endian
//! ```
//!
//! Rule 1. NaN has one form, that of Python.

use std::marker::PhantomData;

use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type, UInt16Type, UInt64Type};

use crate::cursor::Cursor;
use crate::forms::Form;

/// An integer of `N` bytes in two's complement.
pub struct Signed<T, const N: usize>(PhantomData<fn() -> T>);

/// The same without sign.
pub struct Unsigned<T, const N: usize>(PhantomData<fn() -> T>);

impl<T, const N: usize> Default for Signed<T, N> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, const N: usize> Default for Unsigned<T, N> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T: ArrowPrimitiveType<Native: TryFrom<i64>>, const N: usize> Form for Signed<T, N> {
    type Arrow = T;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<T::Native> {
        let unused = 64 - 8 * N;
        T::Native::try_from((number::<N>(c)? << unused) as i64 >> unused).ok()
    }
}

impl<T: ArrowPrimitiveType<Native: TryFrom<u64>>, const N: usize> Form for Unsigned<T, N> {
    type Arrow = T;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<T::Native> {
        T::Native::try_from(number::<N>(c)?).ok()
    }
}

#[inline]
fn number<const N: usize>(c: &mut Cursor<'_>) -> Option<u64> {
    let mut bytes = [0; 8];
    bytes.first_chunk_mut::<N>()?.copy_from_slice(&c.chunk::<N>()?);
    Some(u64::from_le_bytes(bytes))
}

/// FLOAT.
pub struct Single;

impl Form for Single {
    type Arrow = Float32Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<f32> {
        Some(f32::from_le_bytes(c.chunk()?)).map(|number| if number.is_nan() { f32::NAN } else { number })
    }
}

/// DOUBLE.
pub struct Double;

impl Form for Double {
    type Arrow = Float64Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<f64> {
        Some(f64::from_le_bytes(c.chunk()?)).map(|number| if number.is_nan() { f64::NAN } else { number })
    }
}

/// YEAR.
pub struct Year;

impl Form for Year {
    type Arrow = UInt16Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<u16> {
        let [number] = c.chunk()?;
        Some(if number == 0 { 0 } else { 1900 + u16::from(number) })
    }
}

/// BIT of so many bits, 1 to 64.
pub struct Bits(pub u32);

impl Form for Bits {
    type Arrow = UInt64Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<u64> {
        let bytes = c.take(usize::try_from(self.0.div_ceil(8)).ok()?)?;
        let number = bytes.iter().fold(0, |sum: u64, &byte| sum << 8 | u64::from(byte));
        (self.0 == 64 || number >> self.0 == 0).then_some(number)
    }
}
