//! Mirrors mysql/binlog/json_binary.py: MySQL's binary JSON to text, exactly as the server prints it.
//!
//! ```text
//! document   type (1), value                                                      no bytes at all: null
//! 0, 1       object    ┌ count ┬ size ┬ key entries ┬ value entries ┬ keys ┬ values ┐
//! 2, 3       array     └ count ┴ size ┴─────────────┴ value entries ┴──────┴ values ┘
//!                      0 and 2 have offsets and counts of 2 bytes, 1 and 3 of 4; offsets count from the container's start
//!            key entry    offset, length (2)
//!            value entry  type (1), offset; or the value itself: literals, int16, uint16, in 1 and 3 also int32, uint32
//! ```
//!
//! Rule 1. Members keep the order of the document.
//! Rule 2. Offsets must lie inside of their container; a document is at most 100 containers deep.
//! Rule 3. Values do not share bytes. Without this, a small document could have an endless text.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::decimals::Groups;
use super::moments::{packed_datetime, packed_time};
use crate::cursor::Cursor;

const DEEPEST: usize = 100;
const BASE64_LINE: usize = 76;
const LITERAL: u8 = 4;
// Column types of opaque values.
const TIMESTAMP: u8 = 7;
const DATE: u8 = 10;
const TIME: u8 = 11;
const DATETIME: u8 = 12;
const NEWDECIMAL: u8 = 246;

/// Appends the text of a document to `out`.
pub fn write(data: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let Some(&kind) = data.first() else {
        out.extend_from_slice(b"null");
        return Some(());
    };
    Document { data, unread: 2 * data.len(), out }.value(kind, 1, data.len(), 0)
}

/// One document, how many of its bytes may still be read (Rule 3), and its text.
struct Document<'a> {
    data: &'a [u8],
    unread: usize,
    out: &'a mut Vec<u8>,
}

impl<'a> Document<'a> {
    /// Writes a value at an offset; `end` is the end of the container that it belongs to.
    fn value(&mut self, kind: u8, at: usize, end: usize, depth: usize) -> Option<()> {
        match kind {
            0..=3 => (depth < DEEPEST).then(|| self.container(kind, at, end, depth + 1))?,
            LITERAL => {
                let literal: &[u8] = match self.uint(at, 1, end)? {
                    0 => b"null",
                    1 => b"true",
                    2 => b"false",
                    _ => return None,
                };
                self.out.extend_from_slice(literal);
                Some(())
            }
            5..=10 => {
                let (size, signed) = integer(kind)?;
                let number = self.uint(at, size, end)?;
                let unused = 64 - 8 * u32::try_from(size).ok()?;
                let text = if signed { ((number << unused) as i64 >> unused).to_string() } else { number.to_string() };
                self.out.extend_from_slice(text.as_bytes());
                Some(())
            }
            11 => {
                let number = f64::from_bits(self.uint(at, 8, end)?);
                write_double(number, self.out)
            }
            12 => {
                let (size, at) = self.length(at, end)?;
                let text = self.take(at, size, end)?;
                self.quoted(text)
            }
            15 => {
                let code = u8::try_from(self.uint(at, 1, end)?).ok()?;
                let (size, at) = self.length(at.checked_add(1)?, end)?;
                let data = self.take(at, size, end)?;
                self.opaque(code, data)
            }
            _ => None,
        }
    }

    fn container(&mut self, kind: u8, start: usize, outer: usize, depth: usize) -> Option<()> {
        let (width, keyed) = (if kind % 2 == 1 { 4 } else { 2 }, kind < 2);
        let count = self.size(start, width, outer)?;
        let end = start.checked_add(self.size(start + width, width, outer)?).filter(|&end| end <= outer)?;
        let keys_at = start + 2 * width;
        let entries_at = if keyed { keys_at.checked_add(count.checked_mul(width + 2)?)? } else { keys_at };
        entries_at.checked_add(count.checked_mul(width + 1)?).filter(|&last| last <= end)?;
        self.out.push(if keyed { b'{' } else { b'[' });
        for i in 0..count {
            if i > 0 {
                self.out.extend_from_slice(b", ");
            }
            if keyed {
                let key = keys_at + i * (width + 2);
                let (offset, length) = (self.size(key, width, end)?, self.size(key + width, 2, end)?);
                let name = self.take(start.checked_add(offset)?, length, end)?;
                self.quoted(name)?;
                self.out.extend_from_slice(b": ");
            }
            let entry = entries_at + i * (width + 1);
            let kind = u8::try_from(self.uint(entry, 1, end)?).ok()?;
            let inline = kind == LITERAL || integer(kind).is_some_and(|(size, _)| size <= width);
            let at = if inline { entry + 1 } else { start.checked_add(self.size(entry + 1, width, end)?)? };
            self.value(kind, at, end, depth)?;
        }
        self.out.push(if keyed { b'}' } else { b']' });
        Some(())
    }

    /// A length of 7 bits a byte, and the offset after it.
    fn length(&mut self, mut at: usize, end: usize) -> Option<(usize, usize)> {
        let mut size = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.size(at, 1, end)?;
            size |= (byte & 0x7f) << shift;
            at += 1;
            if byte < 0x80 {
                return Some((size, at));
            }
        }
        None
    }

    fn size(&mut self, at: usize, size: usize, end: usize) -> Option<usize> {
        usize::try_from(self.uint(at, size, end)?).ok()
    }

    fn uint(&mut self, at: usize, size: usize, end: usize) -> Option<u64> {
        Cursor::new(self.take(at, size, end)?).uint(size)
    }

    fn take(&mut self, at: usize, size: usize, end: usize) -> Option<&'a [u8]> {
        let last = at.checked_add(size).filter(|&last| last <= end)?;
        self.unread = self.unread.checked_sub(size)?;
        self.data.get(at..last)
    }

    fn opaque(&mut self, code: u8, data: &[u8]) -> Option<()> {
        let moment = || Some(i64::from_le_bytes(data.try_into().ok()?));
        match code {
            NEWDECIMAL => {
                let (&[precision, scale], rest) = data.split_first_chunk()?;
                let mut c = Cursor::new(rest);
                let text = Groups::new(precision.into(), scale.into())?.text(&mut c)?;
                c.is_empty().then_some(())?;
                self.out.extend_from_slice(text.as_bytes());
                Some(())
            }
            DATE => self.quoted(packed_datetime(moment()?)?.as_bytes().get(..10)?),
            TIME => self.quoted(packed_time(moment()?)?.as_bytes()),
            DATETIME | TIMESTAMP => self.quoted(packed_datetime(moment()?)?.as_bytes()),
            _ => {
                let coded = STANDARD.encode(data);
                let lines: Vec<_> = coded.as_bytes().chunks(BASE64_LINE).collect();
                let head = format!("base64:type{code}:");
                self.quoted(&[head.as_bytes(), &lines.join(&b'\n')].concat())
            }
        }
    }

    /// Writes a string as the server escapes it.
    fn quoted(&mut self, text: &[u8]) -> Option<()> {
        simdutf8::basic::from_utf8(text).ok()?;
        self.out.push(b'"');
        for &byte in text {
            match byte {
                8 => self.out.extend_from_slice(b"\\b"),
                b'\t' => self.out.extend_from_slice(b"\\t"),
                b'\n' => self.out.extend_from_slice(b"\\n"),
                12 => self.out.extend_from_slice(b"\\f"),
                b'\r' => self.out.extend_from_slice(b"\\r"),
                b'"' => self.out.extend_from_slice(b"\\\""),
                b'\\' => self.out.extend_from_slice(b"\\\\"),
                0..32 => self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                _ => self.out.push(byte),
            }
        }
        self.out.push(b'"');
        Some(())
    }
}

/// Bytes of an integer, and whether it has a sign.
fn integer(kind: u8) -> Option<(usize, bool)> {
    Some(match kind {
        5 => (2, true),
        6 => (2, false),
        7 => (4, true),
        8 => (4, false),
        9 => (8, true),
        10 => (8, false),
        _ => return None,
    })
}

/// The fewest digits that read back; between 1e-15 and 1e15 without exponent; `.0` if it is whole.
fn write_double(number: f64, out: &mut Vec<u8>) -> Option<()> {
    number.is_finite().then_some(())?;
    if number.is_sign_negative() {
        out.push(b'-');
    }
    let shortest = format!("{:e}", number.abs());
    let (digits, exponent) = shortest.split_once('e')?;
    let (digits, exponent) = (digits.replace('.', ""), exponent.parse::<i32>().ok()?);
    let text = if number == 0.0 {
        "0.0".to_owned()
    } else if (-15..0).contains(&exponent) {
        format!("0.{}{digits}", "0".repeat(usize::try_from(-exponent - 1).ok()?))
    } else if (0..15).contains(&exponent) {
        let point = usize::try_from(exponent + 1).ok()?;
        let padded = format!("{digits:0<point$}");
        let (whole, fraction) = padded.split_at_checked(point)?;
        format!("{whole}.{}", if fraction.is_empty() { "0" } else { fraction })
    } else {
        let (first, rest) = digits.split_at_checked(1)?;
        format!("{first}{}{rest}e{exponent}", if rest.is_empty() { "" } else { "." })
    };
    out.extend_from_slice(text.as_bytes());
    Some(())
}
