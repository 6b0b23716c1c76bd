//! Mirrors protocols/tencent_dts/values.py: columns of Data; the fields before a value are its type and charset, NULL is an empty Data.
//!
//! ```text
//! 05 │ 08 04 │ 1a 01 "7"                    13 │ 08 0d │ 12 04 "utf8" │ 22 09 "cancelled"        00
//!    │ INT64 │ sv                              │ STRING│ charset      │ bv                       NULL
//! ```
//!
//! Rule 1. A column has the bytes before the value: dataType and charset, and the tag of sv or bv.
//! Rule 2. An empty text is sent without bv. A number always has a text.

use arrow_array::ArrayRef;
use arrow_schema::ArrowError;

use super::messages::sized;
use crate::check::Check;
use crate::columns::{Bytes, Column, Fixed, Spelling};
use crate::cursor::Cursor;
use crate::forms::Form;
use crate::geometries::Geometries;

/// What can be read into a column where NULL is announced before the value.
pub trait Values: Column {
    /// Appends the value that is these bytes.
    fn value(&mut self, raw: &[u8]) -> Option<()>;
    /// Appends NULL.
    fn null(&mut self) -> Option<()>;
}

/// Values that all have one encoding.
pub struct Sent<V> {
    opening: Vec<u8>,
    values: V,
}

impl<V: Values> Sent<V> {
    /// An empty column; `opening` is what stands before the length of a value.
    pub fn new(opening: Vec<u8>, values: V) -> Self {
        Self { opening, values }
    }

    #[inline]
    fn value<'a>(&self, data: &'a [u8]) -> Option<&'a [u8]> {
        let mut c = Cursor::new(data);
        if c.eat(&self.opening).is_none() {
            return (data == self.opening.split_last()?.1).then_some(b"");
        }
        let raw = sized(&mut c)?;
        (c.is_empty() && !raw.is_empty()).then_some(raw)
    }
}

impl<V: Values> Column for Sent<V> {
    fn read(&mut self, c: &mut Cursor<'_>) -> Option<bool> {
        let data = sized(c)?;
        if data.is_empty() {
            self.values.null()?;
            return Some(false);
        }
        self.values.value(self.value(data)?)?;
        Some(true)
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
    fn value(&mut self, raw: &[u8]) -> Option<()> {
        let mut c = Cursor::new(raw);
        self.push(&mut c)?;
        (c.is_empty() && !raw.is_empty()).then_some(())
    }

    fn null(&mut self) -> Option<()> {
        self.push_null();
        Some(())
    }
}

/// cp1252 from 80 to 9f; its five holes are the control characters of these numbers.
const CP1252: &str = "€\u{81}‚ƒ„…†‡ˆ‰Š‹Œ\u{8d}Ž\u{8f}\u{90}‘’“”•–—˜™š›œ\u{9d}žŸ";

/// Texts or bytes, kept as they are, or as UTF-8.
pub struct Raw {
    check: Check,
    labels: bool,
    data: Bytes,
    scratch: String,
}

impl Raw {
    /// An empty column. Among `labels`, a text of digits alone may be a member's number.
    pub fn new(check: Check, labels: bool) -> Self {
        Self { check, labels, data: Bytes::new(Spelling::Plain, check != Check::Bytes), scratch: String::new() }
    }
}

impl Values for Raw {
    #[inline]
    fn value(&mut self, raw: &[u8]) -> Option<()> {
        let number = self.labels && !raw.is_empty() && raw.iter().all(u8::is_ascii_digit);
        (self.check.passes(raw) && !number).then_some(())?;
        if self.check == Check::Latin1 && !raw.is_ascii() {
            self.scratch.clear();
            for &byte in raw {
                let known = CP1252.chars().nth(usize::from(byte).wrapping_sub(0x80));
                self.scratch.push(known.unwrap_or_else(|| char::from(byte)));
            }
            return self.data.push(Some(self.scratch.as_bytes()));
        }
        self.data.push(Some(raw))
    }

    fn null(&mut self) -> Option<()> {
        self.data.push(None)
    }
}

impl Column for Raw {
    fn read(&mut self, c: &mut Cursor<'_>) -> Option<bool> {
        self.value(sized(c)?).map(|()| true)
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

/// Geometries.
pub struct Places(pub Geometries);

impl Values for Places {
    fn value(&mut self, raw: &[u8]) -> Option<()> {
        self.0.push(raw)
    }

    fn null(&mut self) -> Option<()> {
        self.0.push_null();
        Some(())
    }
}

impl Column for Places {
    fn read(&mut self, c: &mut Cursor<'_>) -> Option<bool> {
        self.value(sized(c)?).map(|()| true)
    }

    fn pad(&mut self, rows: usize) {
        self.0.pad(rows);
    }

    fn truncate(&mut self, rows: usize) {
        self.0.truncate(rows);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.0.finish()
    }
}
