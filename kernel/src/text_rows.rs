//! Mirrors sources/mysql/selecting.py: the rows that a server sends for a SELECT, to columns of bytes.
//!
//! ```text
//! payload   value, value, …    a row; ff: an error; fe, shorter than 9 bytes: the end
//! value     fb: NULL │ length (1; or fc and 2, fd and 3, fe and 8, little-endian), bytes
//! ```

use arrow_array::ArrayRef;
use arrow_schema::ArrowError;

use crate::columns::{Bytes, Column, Spelling};
use crate::cursor::Cursor;
use crate::packets::{Lack, payload};

const NULL: u8 = 0xfb;
const END: u8 = 0xfe;
const ERROR: u8 = 0xff;
/// A longer payload that begins like the end is a row whose first value is very long.
const LONGEST_END: usize = 8;

/// Why no more rows were read.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// All that was received is read.
    More,
    /// As many rows, or bytes, as were asked for.
    Full,
    /// The payload of a packet that is not a row: an error, the end, or values that are not those of the columns.
    Other(Vec<u8>),
    /// A packet of another number: the connection is broken.
    Unexpected,
}

/// Rows of one SELECT.
pub struct TextRows {
    received: Vec<u8>,
    sequence: u8,
    columns: Vec<Bytes>,
    count: usize,
    size: usize,
}

impl TextRows {
    /// Before the packet with this number; `columns` is their number.
    pub fn new(columns: usize, sequence: u8) -> Self {
        let columns = (0..columns).map(|_| Bytes::new(Spelling::Plain, false)).collect();
        Self { received: Vec::new(), sequence, columns, count: 0, size: 0 }
    }

    /// Adds what was received.
    pub fn feed(&mut self, data: &[u8]) {
        self.received.extend_from_slice(data);
    }

    /// Reads rows until there are so many of them since `finish`, or their packets have so many bytes.
    pub fn run(&mut self, most_rows: usize, most_bytes: usize) -> Stop {
        let (mut at, mut sequence) = (0, self.sequence);
        let stop = loop {
            if self.count >= most_rows || self.size >= most_bytes {
                break Stop::Full;
            }
            match payload(self.received.get(at..).unwrap_or_default(), &mut sequence) {
                Err(Lack::More) => break Stop::More,
                Err(Lack::Unexpected) => break Stop::Unexpected,
                Ok((payload, size)) => {
                    at += size;
                    if push(&mut self.columns, &payload).is_none() {
                        self.columns.iter_mut().for_each(|column| column.truncate(self.count));
                        break Stop::Other(payload.into_owned());
                    }
                    self.count += 1;
                    self.size += size;
                }
            }
        };
        self.sequence = sequence;
        self.received.drain(..at.min(self.received.len()));
        stop
    }

    /// The columns of all rows; none are left.
    pub fn finish(&mut self) -> Result<Vec<ArrayRef>, ArrowError> {
        (self.count, self.size) = (0, 0);
        self.columns.iter_mut().map(Bytes::finish).collect()
    }
}

/// Appends the row in a payload.
fn push(columns: &mut [Bytes], payload: &[u8]) -> Option<()> {
    if *payload.first()? == END && payload.len() <= LONGEST_END {
        return None;
    }
    let mut c = Cursor::new(payload);
    for column in columns {
        column.push(value(&mut c)?)?;
    }
    c.is_empty().then_some(())
}

/// The next value; None inside is NULL.
fn value<'a>(c: &mut Cursor<'a>) -> Option<Option<&'a [u8]>> {
    let length = match c.byte()? {
        NULL => return Some(None),
        0xfc => c.uint(2)?,
        0xfd => c.uint(3)?,
        0xfe => c.uint(8)?,
        ERROR => return None,
        short => u64::from(short),
    };
    Some(Some(c.take(usize::try_from(length).ok()?)?))
}

#[cfg(test)]
mod tests;
