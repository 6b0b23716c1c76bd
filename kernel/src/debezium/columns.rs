//! Kernel only: columns of flags, of NULL, and of checked texts.

use std::mem::take;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, NullArray};
use arrow_buffer::BooleanBuffer;
use arrow_schema::ArrowError;

use super::forms::flag;
use super::token::between_quotes;
use crate::columns::{Bytes, Column, Spelling};
use crate::cursor::Cursor;
use crate::nulls::Nulls;
use crate::strict_json::unescape;

/// `true` and `false`.
#[derive(Default)]
pub struct Booleans {
    values: Vec<bool>,
    nulls: Nulls,
}

impl Booleans {
    /// Appends a flag.
    pub fn push(&mut self, flag: bool) {
        self.values.push(flag);
    }

    /// Appends NULL.
    pub fn push_null(&mut self) {
        self.pad(self.values.len() + 1);
    }
}

impl Column for Booleans {
    fn read(&mut self, c: &mut Cursor<'_>) -> Option<bool> {
        if c.eat(b"null").is_some() {
            self.push_null();
            return Some(false);
        }
        self.push(flag(c)?);
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
        let raw = between_quotes(whole)?;
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
