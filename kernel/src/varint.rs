//! Mirrors wire/protobuf.py, wire/avro/read.py: seven bits a byte, the lowest first, 0x80 on all but the last; 300 is ac 02.
//!
//! A number in more bytes than it needs is refused: one value has one form.

use crate::cursor::Cursor;

/// A number of up to `bits` bits.
#[inline]
pub fn varint(c: &mut Cursor<'_>, bits: u32) -> Option<u64> {
    let first = c.byte()?;
    if first < 0x80 { Some(u64::from(first)) } else { longer(c, first, bits) }
}

fn longer(c: &mut Cursor<'_>, first: u8, bits: u32) -> Option<u64> {
    let (mut number, mut shift) = (u64::from(first & 0x7f), 7);
    while shift < bits {
        let byte = c.byte()?;
        let part = u64::from(byte & 0x7f);
        if shift + 7 > bits && part >> (bits - shift) != 0 {
            return None;
        }
        number |= part << shift;
        if byte < 0x80 {
            return (byte != 0).then_some(number);
        }
        shift += 7;
    }
    None
}
