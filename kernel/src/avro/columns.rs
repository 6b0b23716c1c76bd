//! Mirrors wire/avro/read.py: columns of Avro values; the branch of the union before it distinguishes NULL from a value.

use arrow_array::ArrayRef;
use arrow_schema::ArrowError;

use super::{Union, bytes};
use crate::check::Check;
use crate::columns::{Bytes, Column, Fixed, Spelling, Vectors};
use crate::cursor::Cursor;
use crate::forms::Form;

/// What can be read into a column where NULL is announced before the value.
pub trait Values: Column {
    /// Reads a value.
    fn value(&mut self, c: &mut Cursor<'_>) -> Option<()>;
    /// Appends NULL.
    fn null(&mut self) -> Option<()>;
}

/// Values behind the branch of a union, or behind nothing.
pub struct Branched<V> {
    union: Union,
    values: V,
}

impl<V: Values> Branched<V> {
    /// An empty column.
    pub fn new(union: Union, values: V) -> Self {
        Self { union, values }
    }
}

impl<V: Values> Column for Branched<V> {
    fn read(&mut self, c: &mut Cursor<'_>) -> Option<bool> {
        let there = self.union.open(c)?;
        if there {
            self.values.value(c)?
        } else {
            self.values.null()?
        }
        Some(there)
    }

    fn pad(&mut self, rows: usize) {
        self.values.pad(rows);
    }

    fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.values.finish()
    }
}

impl<F: Form> Values for Fixed<F> {
    #[inline]
    fn value(&mut self, c: &mut Cursor<'_>) -> Option<()> {
        self.push(c)
    }

    fn null(&mut self) -> Option<()> {
        self.push_null();
        Some(())
    }
}

/// Strings or bytes, kept as they are.
pub struct Raw {
    check: Check,
    data: Bytes,
}

impl Raw {
    /// An empty column.
    pub fn new(check: Check) -> Self {
        Self { check, data: Bytes::new(Spelling::Plain, !matches!(check, Check::Bytes)) }
    }
}

impl Values for Raw {
    #[inline]
    fn value(&mut self, c: &mut Cursor<'_>) -> Option<()> {
        let raw = bytes(c)?;
        if !self.check.passes(raw) {
            return None;
        }
        self.data.push(Some(raw))
    }

    fn null(&mut self) -> Option<()> {
        self.data.push(None)
    }
}

impl Column for Raw {
    fn read(&mut self, c: &mut Cursor<'_>) -> Option<bool> {
        self.value(c).map(|()| true)
    }

    fn pad(&mut self, rows: usize) {
        self.data.pad(rows);
    }

    fn truncate(&mut self, rows: usize) {
        self.data.truncate(rows);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.data.finish()
    }
}

impl Values for Vectors {
    fn value(&mut self, c: &mut Cursor<'_>) -> Option<()> {
        self.push(Some(bytes(c)?))
    }

    fn null(&mut self) -> Option<()> {
        self.push(None)
    }
}

/// From the bytes of a value to the text that stands for it.
pub type Make = Box<dyn Fn(&mut Cursor<'_>, &mut Vec<u8>) -> Option<()> + Send + Sync>;

/// Texts that are made of something else, or checked.
pub struct Made {
    make: Make,
    texts: Bytes,
    scratch: Vec<u8>,
}

impl Made {
    /// An empty column.
    pub fn new(make: Make) -> Self {
        Self { make, texts: Bytes::new(Spelling::Plain, true), scratch: Vec::new() }
    }
}

impl Values for Made {
    fn value(&mut self, c: &mut Cursor<'_>) -> Option<()> {
        self.scratch.clear();
        (self.make)(c, &mut self.scratch)?;
        self.texts.push(Some(&self.scratch))
    }

    fn null(&mut self) -> Option<()> {
        self.texts.push(None)
    }
}

impl Column for Made {
    fn read(&mut self, c: &mut Cursor<'_>) -> Option<bool> {
        self.value(c).map(|()| true)
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
