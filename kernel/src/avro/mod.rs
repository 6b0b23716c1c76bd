//! Mirrors wire/avro/read.py: Avro's binary encoding; values whose type is known, off the wire.
//!
//! ```text
//! int, long   zigzag, seven bits a byte, the lowest first: 1 is 02, -1 is 01, 64 is 80 01
//! bytes       length as a long, the bytes                     string   the same in UTF-8
//! float       4 bytes, little-endian                          double   8 bytes
//! union       place of the branch as a long, the value        record   its fields, one behind the other
//! ```
//!
//! A number in more bytes than it needs is refused: one value has one form.

pub mod columns;
pub mod forms;
pub mod schema;

use crate::cursor::Cursor;
use crate::varint::varint;

#[inline]
fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// A long.
#[inline]
pub fn long(c: &mut Cursor<'_>) -> Option<i64> {
    varint(c, 64).map(unzigzag)
}

/// An int, as a long.
#[inline]
pub fn int(c: &mut Cursor<'_>) -> Option<i64> {
    varint(c, 32).map(unzigzag)
}

/// Bytes, or a string that has not been checked.
#[inline]
pub fn bytes<'a>(c: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let length = usize::try_from(long(c)?).ok()?;
    c.take(length)
}

/// Appends bytes, or a string.
pub fn push_bytes(raw: &[u8], out: &mut Vec<u8>) {
    let mut left = raw.len() << 1;
    while left > 0x7f {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
    out.extend_from_slice(raw);
}

/// Schema id and datum of data in Confluent's wire format, where there is data: `00`, the id as 4 bytes, the datum.
#[inline]
pub fn datum(data: Option<&[u8]>) -> Option<(Option<u32>, Option<&[u8]>)> {
    let Some(data) = data else { return Some((None, None)) };
    let mut c = Cursor::new(data);
    c.eat(&[0])?;
    let id = c.take(4)?.first_chunk()?;
    Some((Some(u32::from_be_bytes(*id)), Some(c.rest())))
}

/// The ids in front of key and value.
pub type Ids = (Option<u32>, Option<u32>);

/// What stands in front of a value: nothing, or the place of its branch in a union of null and one other type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Union {
    /// It is no union.
    Bare,
    /// The other type alone.
    Alone,
    /// `["null", T]`
    NullFirst,
    /// `[T, "null"]`
    NullLast,
}

impl Union {
    /// The byte in front of a value, if there is one.
    pub fn value(self) -> &'static [u8] {
        match self {
            Self::Bare => &[],
            Self::Alone | Self::NullLast => &[0],
            Self::NullFirst => &[2],
        }
    }

    /// The byte that is null, if there is one.
    pub fn null(self) -> Option<&'static [u8]> {
        match self {
            Self::Bare | Self::Alone => None,
            Self::NullFirst => Some(&[0]),
            Self::NullLast => Some(&[2]),
        }
    }

    /// Steps over the branch; returns whether a value follows, or it was null.
    #[inline]
    pub fn open(self, c: &mut Cursor<'_>) -> Option<bool> {
        match self {
            Self::Bare => Some(true),
            _ => match (self, c.byte()?) {
                (Self::NullFirst, 2) | (Self::NullLast | Self::Alone, 0) => Some(true),
                (Self::NullFirst, 0) | (Self::NullLast, 2) => Some(false),
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests;
