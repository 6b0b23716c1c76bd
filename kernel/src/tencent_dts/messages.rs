//! Mirrors wire/protobuf.py, protocols/tencent_dts/messages.py: fields of a message as writers put them: ascending, no zero values, none unknown.
//!
//! ```text
//! tag │ value      a varint: 20 80 95 dc ca 06      bytes behind their length: 4a 04 "shop"
//! ```

use crate::cursor::Cursor;
use crate::strict_json::plain;
use crate::varint::varint;

/// A number without sign.
#[inline]
pub fn number(c: &mut Cursor<'_>) -> Option<u64> {
    varint(c, 64)
}

/// Bytes behind their length.
#[inline]
pub fn sized<'a>(c: &mut Cursor<'a>) -> Option<&'a [u8]> {
    let length = usize::try_from(number(c)?).ok()?;
    c.take(length)
}

/// The bytes of the field with this tag, which must be next.
#[inline]
pub fn field<'a>(c: &mut Cursor<'a>, tag: u8) -> Option<&'a [u8]> {
    (c.byte()? == tag).then_some(())?;
    sized(c)
}

/// The number of the field with this tag: 0 if the field is not next.
#[inline]
pub fn optional_number(c: &mut Cursor<'_>, tag: u8) -> Option<u64> {
    if c.peek() != Some(tag) {
        return Some(0);
    }
    c.byte()?;
    number(c).filter(|&n| n != 0)
}

/// The text of the field with this tag: empty if the field is not next. In JSON it stands as it is, without escapes.
#[inline]
pub fn optional_text<'a>(c: &mut Cursor<'a>, tag: u8) -> Option<&'a [u8]> {
    if c.peek() != Some(tag) {
        return Some(b"");
    }
    let text = field(c, tag)?;
    let (length, ascii) = plain(text);
    let sound = length == text.len() && (ascii || simdutf8::basic::from_utf8(text).is_ok());
    (sound && !text.is_empty()).then_some(text)
}
