//! Kernel only: columns under construction; each reads values of one form and keeps them as Arrow does.
//!
//! Rule 1. `read` takes one value, or `null`, off the cursor and appends it; `None` means that the bytes are not in the
//!         column's form. What it appended by then stays: the caller truncates.
//! Rule 2. Rows without the image that a column belongs to are padded in bulk, when the next value comes or at the end.

use std::mem::take;
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Float32Type};
use arrow_array::{ArrayRef, BinaryArray, ListArray, PrimitiveArray, StringArray};
use arrow_buffer::{Buffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use memchr::memmem;

use crate::capacity::emptied;
use crate::cursor::Cursor;
use crate::ends::Ends;
use crate::forms::Form;
use crate::go_quote::unquote;
use crate::nulls::Nulls;
use crate::strict_json::{float32, string, unescape};
use crate::values::{is_decimal, is_time};

/// Go writes it for a byte that is not UTF-8.
const REPLACED: &[u8] = b"\\ufffd";

/// One column under construction.
pub trait Column: Send + Sync {
    /// Reads a value or `null`; returns which of the two.
    fn read(&mut self, c: &mut Cursor<'_>) -> Option<bool>;
    /// The same of a JSON string, with its quotes, that has been checked.
    fn read_checked(&mut self, whole: &[u8], _escaped: bool) -> Option<()> {
        let mut c = Cursor::new(whole);
        self.read(&mut c)?;
        c.is_empty().then_some(())
    }
    /// Appends NULLs until there are `rows` rows.
    fn pad(&mut self, rows: usize);
    /// Forgets all rows from the given one on.
    fn truncate(&mut self, rows: usize);
    /// The array; the column is empty afterwards.
    fn finish(&mut self) -> Result<ArrayRef, ArrowError>;
}

/// Values of fixed width.
pub struct Fixed<F: Form> {
    form: F,
    arrow: DataType,
    values: Vec<<F::Arrow as ArrowPrimitiveType>::Native>,
    nulls: Nulls,
}

impl<F: Form> Fixed<F> {
    /// An empty column of this form and Arrow type.
    pub fn new(form: F, arrow: DataType) -> Self {
        Self { form, arrow, values: Vec::new(), nulls: Nulls::default() }
    }

    /// Reads a value.
    #[inline]
    pub fn push(&mut self, c: &mut Cursor<'_>) -> Option<()> {
        self.values.push(self.form.read(c)?);
        Some(())
    }

    /// Appends NULL.
    pub fn push_null(&mut self) {
        self.pad(self.values.len() + 1);
    }
}

impl<F: Form> Column for Fixed<F> {
    fn read(&mut self, c: &mut Cursor<'_>) -> Option<bool> {
        if is_null(c) {
            self.push_null();
            return Some(false);
        }
        self.push(c)?;
        Some(true)
    }

    fn pad(&mut self, rows: usize) {
        if rows > self.values.len() {
            self.nulls.push(self.values.len()..rows);
            self.values.resize(rows, Default::default());
        }
    }

    fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.nulls.truncate(rows);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let nulls = self.nulls.finish(self.values.len());
        let array = PrimitiveArray::<F::Arrow>::try_new(ScalarBuffer::from(emptied(&mut self.values)), nulls)?;
        Ok(Arc::new(array.with_data_type(self.arrow.clone())))
    }
}

/// How a value of any length stands on the wire.
pub enum Spelling {
    /// A JSON string that is the value.
    Plain,
    /// A JSON string with a DECIMAL.
    Decimal,
    /// A JSON string with a TIME.
    Time,
    /// A JSON string with the bytes in base64.
    Base64,
    /// A JSON string with the bytes as Go quotes them.
    Quoted,
}

/// Texts or bytes.
pub struct Bytes {
    spelling: Spelling,
    text: bool,
    ends: Ends,
    data: Vec<u8>,
    scratch: Vec<u8>,
}

impl Bytes {
    /// An empty column of texts (valid UTF-8), or of bytes.
    pub fn new(spelling: Spelling, text: bool) -> Self {
        Self { spelling, text, ends: Ends::default(), data: Vec::new(), scratch: Vec::new() }
    }

    /// Appends a value that was read from another column, or NULL.
    pub fn push(&mut self, value: Option<&[u8]>) -> Option<()> {
        match value {
            None => self.ends.push_null(),
            Some(bytes) => {
                self.data.extend_from_slice(bytes);
                self.ends.close(self.data.len())?;
            }
        }
        Some(())
    }

    #[inline]
    fn append(&mut self, c: &mut Cursor<'_>) -> Option<()> {
        let text = string(c)?;
        if text.escaped && memmem::find(text.raw, REPLACED).is_some() {
            return None; // the mark of a byte that is not UTF-8 must be distinguished from U+FFFD itself
        }
        match self.spelling {
            Spelling::Plain if text.escaped => unescape(text.raw, &mut self.data),
            Spelling::Plain => self.append_if(true, text.raw),
            Spelling::Decimal => self.append_if(is_decimal(text.raw), text.raw),
            Spelling::Time => self.append_if(is_time(text.raw), text.raw),
            Spelling::Base64 => {
                let start = self.data.len();
                STANDARD.decode_vec(text.raw, &mut self.data).ok()?;
                let bytes = self.data.get(start..)?;
                (!self.text || bytes.is_ascii() || simdutf8::basic::from_utf8(bytes).is_ok()).then_some(())
            }
            Spelling::Quoted if text.escaped => {
                self.scratch.clear();
                unescape(text.raw, &mut self.scratch)?;
                unquote(&self.scratch, &mut self.data)
            }
            Spelling::Quoted => unquote(text.raw, &mut self.data),
        }
    }

    fn append_if(&mut self, good: bool, raw: &[u8]) -> Option<()> {
        self.data.extend_from_slice(raw);
        good.then_some(())
    }
}

impl Column for Bytes {
    fn read(&mut self, c: &mut Cursor<'_>) -> Option<bool> {
        if is_null(c) {
            self.ends.push_null();
            return Some(false);
        }
        self.append(c)?;
        self.ends.close(self.data.len())?;
        Some(true)
    }

    fn pad(&mut self, rows: usize) {
        self.ends.pad(rows);
    }

    fn truncate(&mut self, rows: usize) {
        self.data.truncate(self.ends.truncate(rows));
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let (offsets, nulls) = self.ends.finish();
        let data = Buffer::from_vec(emptied(&mut self.data));
        Ok(if self.text {
            Arc::new(StringArray::try_new(offsets, data, nulls)?)
        } else {
            Arc::new(BinaryArray::try_new(offsets, data, nulls)?)
        })
    }
}

/// `"[1,2.5]"`: lists of float32.
pub struct Vectors {
    ends: Ends,
    items: Vec<f32>,
}

impl Vectors {
    /// An empty column.
    pub fn empty() -> Self {
        Self { ends: Ends::default(), items: Vec::new() }
    }

    /// Appends the list that a text is, or NULL.
    pub fn push(&mut self, text: Option<&[u8]>) -> Option<()> {
        match text {
            None => self.ends.push_null(),
            Some(text) => {
                self.append(text)?;
                self.ends.close(self.items.len())?;
            }
        }
        Some(())
    }

    /// Appends the list of these numbers in little-endian.
    pub fn push_numbers(&mut self, bytes: &[u8]) -> Option<()> {
        let (numbers, []) = bytes.as_chunks::<4>() else {
            return None;
        };
        let numbers = numbers.iter().map(|&number| f32::from_le_bytes(number));
        self.items.extend(numbers.map(|number| if number.is_nan() { f32::NAN } else { number }));
        self.ends.close(self.items.len())
    }

    fn append(&mut self, text: &[u8]) -> Option<()> {
        let mut c = Cursor::new(text);
        c.eat(b"[")?;
        if c.eat(b"]").is_none() {
            loop {
                self.items.push(float32(&mut c)?);
                match c.byte()? {
                    b',' => {}
                    b']' => break,
                    _ => return None,
                }
            }
        }
        c.is_empty().then_some(())
    }
}

impl Column for Vectors {
    fn read(&mut self, c: &mut Cursor<'_>) -> Option<bool> {
        let text = if is_null(c) { None } else { Some(string(c)?.raw) };
        self.push(text)?;
        Some(text.is_some())
    }

    fn pad(&mut self, rows: usize) {
        self.ends.pad(rows);
    }

    fn truncate(&mut self, rows: usize) {
        self.items.truncate(self.ends.truncate(rows));
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let (offsets, nulls) = self.ends.finish();
        let items = PrimitiveArray::<Float32Type>::new(ScalarBuffer::from(take(&mut self.items)), None);
        let field = Arc::new(Field::new_list_field(DataType::Float32, true));
        Ok(Arc::new(ListArray::try_new(field, offsets, Arc::new(items), nulls)?))
    }
}

#[inline]
fn is_null(c: &mut Cursor<'_>) -> bool {
    c.peek() == Some(b'n') && c.eat(b"null").is_some()
}

#[cfg(test)]
mod tests;
