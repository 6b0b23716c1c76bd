//! Mirrors mysql/binlog/values.py: columns of values of any length in row images.
//!
//! ```text
//! STRING VARCHAR BLOB JSON GEOMETRY VECTOR    length of 1 to 4 bytes, little-endian, and that many bytes
//! ENUM, SET                                   1 or 2, 1 to 8 bytes: number, bitmap
//! TIME2                                       see `moments.rs`
//! ```
//!
//! Rule 1. `read` reads a value; NULL is not in an image, the caller pads.

use arrow_array::ArrayRef;
use arrow_schema::ArrowError;

use super::json;
use super::moments::write_time;
use crate::columns::{Bytes, Column, Fixed, Spelling, Vectors};
use crate::cursor::Cursor;
use crate::forms::Form;
use crate::geometries::Geometries;

/// Values of fixed width, without anything around them.
pub struct Bare<F: Form>(pub Fixed<F>);

impl<F: Form> Column for Bare<F> {
    #[inline]
    fn read(&mut self, c: &mut Cursor<'_>) -> Option<bool> {
        self.0.push(c)?;
        Some(true)
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

/// How the bytes of a value become what its column holds.
pub enum Reader {
    /// Bytes behind a length of so many bytes.
    Raw(usize),
    /// The same, filled up with zero bytes to the second number.
    Padded(usize, usize),
    /// UTF-8 behind a length.
    Utf8(usize),
    /// A UUID behind a length, without the zero bytes at its end.
    Uuid,
    /// Text in a character set of one byte a character, behind a length: the character of each byte that has one.
    Characters(usize, Vec<Option<char>>),
    /// A document behind a length.
    Json(usize),
    /// The number of a label, of so many bytes; 0 is the empty one.
    Label(usize, Vec<String>),
    /// A bitmap of labels, of so many bytes.
    Labels(usize, Vec<String>),
    /// A time with so many digits of a fraction.
    Time(u32),
}

/// Texts or bytes.
pub struct Values {
    reader: Reader,
    values: Bytes,
    scratch: Vec<u8>,
}

impl Values {
    /// An empty column.
    pub fn new(reader: Reader) -> Self {
        let text = !matches!(reader, Reader::Raw(_) | Reader::Padded(..));
        Self { reader, values: Bytes::new(Spelling::Plain, text), scratch: Vec::new() }
    }

    #[inline]
    fn append(&mut self, c: &mut Cursor<'_>) -> Option<()> {
        let scratch = &mut self.scratch;
        scratch.clear();
        match &self.reader {
            Reader::Raw(size) => return self.values.push(Some(sized(c, *size)?)),
            Reader::Utf8(size) => {
                let text = sized(c, *size)?;
                simdutf8::basic::from_utf8(text).ok()?;
                return self.values.push(Some(text));
            }
            Reader::Padded(size, length) => {
                scratch.extend_from_slice(sized(c, *size)?);
                scratch.resize(scratch.len().max(*length), 0);
            }
            Reader::Characters(size, characters) => {
                let text = sized(c, *size)?;
                for &byte in text {
                    let character = (*characters.get(usize::from(byte))?)?;
                    scratch.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
            Reader::Uuid => write_uuid(sized(c, 1)?, scratch)?,
            Reader::Json(size) => json::write(sized(c, *size)?, scratch)?,
            Reader::Label(size, labels) => {
                if let Some(number) = usize::try_from(c.uint(*size)?).ok()?.checked_sub(1) {
                    scratch.extend_from_slice(labels.get(number)?.as_bytes());
                }
            }
            Reader::Labels(size, labels) => {
                let bits = c.uint(*size)?;
                (labels.len() >= 64 || bits >> labels.len() == 0).then_some(())?;
                let chosen = labels.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1);
                for (i, (_, label)) in chosen.enumerate() {
                    if i > 0 {
                        scratch.push(b',');
                    }
                    scratch.extend_from_slice(label.as_bytes());
                }
            }
            Reader::Time(digits) => write_time(c, *digits, scratch)?,
        }
        self.values.push(Some(&self.scratch))
    }
}

impl Column for Values {
    #[inline]
    fn read(&mut self, c: &mut Cursor<'_>) -> Option<bool> {
        self.append(c)?;
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

/// Lists of float32: little-endian, behind a length of so many bytes.
pub struct Floats(pub usize, pub Vectors);

impl Column for Floats {
    fn read(&mut self, c: &mut Cursor<'_>) -> Option<bool> {
        self.1.push_numbers(sized(c, self.0)?)?;
        Some(true)
    }

    fn pad(&mut self, rows: usize) {
        self.1.pad(rows);
    }

    fn truncate(&mut self, rows: usize) {
        self.1.truncate(rows);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.1.finish()
    }
}

/// Geometries, behind a length of so many bytes.
pub struct Places(pub usize, pub Geometries);

impl Column for Places {
    fn read(&mut self, c: &mut Cursor<'_>) -> Option<bool> {
        self.1.push(sized(c, self.0)?)?;
        Some(true)
    }

    fn pad(&mut self, rows: usize) {
        self.1.pad(rows);
    }

    fn truncate(&mut self, rows: usize) {
        self.1.truncate(rows);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.1.finish()
    }
}

/// Writes a UUID as text. MariaDB stores its five groups in reverse, so that those of version 1 sort by time; those from version
/// 6 on sort as they are, and are stored so. The variant bit of a reversed one is in byte 6.
fn write_uuid(sent: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut stored = [0; 16];
    stored.get_mut(..sent.len())?.copy_from_slice(sent);
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = stored;
    if g & 0x80 != 0 && i & 0x80 == 0 {
        stored = [m, n, o, p, k, l, i, j, g, h, a, b, c, d, e, f];
    }
    for (at, byte) in stored.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.extend([byte >> 4, byte & 15].map(|digit| if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }));
    }
    Some(())
}

/// The bytes behind a length of `size` bytes.
#[inline]
fn sized<'a>(c: &mut Cursor<'a>, size: usize) -> Option<&'a [u8]> {
    let length = if size == 1 { usize::from(c.byte()?) } else { usize::try_from(c.uint(size)?).ok()? };
    c.take(length)
}
