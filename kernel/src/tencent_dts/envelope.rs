//! Mirrors protocols/tencent_dts/envelope.py: an entry's header, and the origin of its events.
//!
//! ```text
//! 10 01 │ 18 02 │ 20 80 95 dc ca 06 │ 28 e9 07 │ 32 10 "mysql-bin.000007" │ 38 cc 06 │ 42 26 "3e11…:6" │ 4a … 52 … │ 58 07 │ 68 01
//! MYSQL │ DML   │ timestamp         │ serverId │ fileName                 │ position │ gtid           │ names     │ seqId │ isLast
//!
//! {"sourceType":1,"serverId":1001,"fileName":"mysql-bin.000007","position":844,"gtid":"3e11…:6","seqId":7
//! ```

use super::messages::{number, optional_number, optional_text};
use crate::cursor::Cursor;

/// The members of a header.
pub struct Header<'a> {
    version: u64,
    source: u64,
    /// The message type.
    pub kind: u64,
    timestamp: u64,
    server: u64,
    file: &'a [u8],
    position: u64,
    /// The transaction; empty for none.
    pub gtid: &'a [u8],
    /// The table's database and name.
    pub names: (&'a [u8], &'a [u8]),
    sequence: u64,
    event: u64,
}

impl<'a> Header<'a> {
    /// Reads a header, to its end.
    pub fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut c = Cursor::new(bytes);
        let header = Self {
            version: optional_number(&mut c, 0x08)?,
            source: optional_number(&mut c, 0x10)?,
            kind: optional_number(&mut c, 0x18)?,
            timestamp: optional_number(&mut c, 0x20)?,
            server: optional_number(&mut c, 0x28)?,
            file: optional_text(&mut c, 0x32)?,
            position: optional_number(&mut c, 0x38)?,
            gtid: optional_text(&mut c, 0x42)?,
            names: (optional_text(&mut c, 0x4a)?, optional_text(&mut c, 0x52)?),
            sequence: optional_number(&mut c, 0x58)?,
            event: optional_number(&mut c, 0x60)?,
        };
        let last = c.byte()? == 0x68 && number(&mut c)? == 1 && c.is_empty();
        let fits = [header.version, header.source].iter().all(|&n| i32::try_from(n).is_ok());
        (last && fits && u32::try_from(header.timestamp).is_ok()).then_some(header)
    }

    /// The number of the source; only those of MySQL have type texts that mean something.
    pub fn source(&self) -> u64 {
        self.source
    }

    /// Seconds since the epoch.
    pub fn seconds(&self) -> Option<i64> {
        i64::try_from(self.timestamp).ok().filter(|&seconds| seconds != 0)
    }

    /// The place in the order of changes.
    pub fn sequence(&self) -> Option<u64> {
        (self.sequence != 0).then_some(self.sequence)
    }

    /// Writes the beginning of the origin's JSON object.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"sourceType\":");
        write_number(self.source, out);
        write_member(b",\"version\":", self.version, out);
        if self.server >> 63 == 1 {
            out.extend_from_slice(b",\"serverId\":-");
            write_number(self.server.wrapping_neg(), out);
        } else {
            write_member(b",\"serverId\":", self.server, out);
        }
        write_text(b",\"fileName\":\"", self.file, out);
        write_member(b",\"position\":", self.position, out);
        write_text(b",\"gtid\":\"", self.gtid, out);
        write_member(b",\"seqId\":", self.sequence, out);
        write_member(b",\"eventIndex\":", self.event, out);
    }
}

/// Writes a member that is a number, unless it is zero.
pub fn write_member(name: &[u8], value: u64, out: &mut Vec<u8>) {
    if value != 0 {
        out.extend_from_slice(name);
        write_number(value, out);
    }
}

/// Writes a member that is a text, unless it is empty; `name` has the opening quote.
pub fn write_text(name: &[u8], text: &[u8], out: &mut Vec<u8>) {
    if !text.is_empty() {
        out.extend_from_slice(name);
        out.extend_from_slice(text);
        out.push(b'"');
    }
}

/// Writes a number's digits.
pub fn write_number(mut number: u64, out: &mut Vec<u8>) {
    let (mut digits, mut count) = ([0; 20], 0);
    for slot in digits.iter_mut().rev() {
        *slot = b'0' + (number % 10) as u8;
        (number, count) = (number / 10, count + 1);
        if number == 0 {
            break;
        }
    }
    out.extend(digits.get(digits.len() - count..).unwrap_or_default());
}
