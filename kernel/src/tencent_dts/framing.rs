//! Mirrors protocols/tencent_dts/framing.py: plain records: a whole group in one envelope, and headers that count.
//!
//! ```text
//! value     08 01 │ 10 01 │ 22 8f 02 …          version 1, total 1, data; index 0 is absent
//! headers   ps = "117"                          and ShardId where shards are
//! key       none
//! ```

use super::envelope::write_number;
use super::messages::field;
use crate::cursor::Cursor;
use crate::strict_json::{integer, plain};

/// A header's name and value.
pub type Header<'a> = (&'a [u8], Option<&'a [u8]>);

/// What a plain record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain<'a> {
    /// The bytes of the Entries.
    pub data: &'a [u8],
    /// Its number.
    pub ps: u64,
    /// Its shard, ASCII.
    pub shard: Option<&'a [u8]>,
}

impl<'a> Plain<'a> {
    /// What a record holds, if it is plain.
    #[inline]
    pub fn read(key: Option<&[u8]>, value: Option<&'a [u8]>, headers: &[Header<'a>]) -> Option<Self> {
        key.is_none().then_some(())?;
        let (ps, shard) = match *headers {
            [(b"ps", Some(ps))] => (ps, None),
            [(b"ps", Some(ps)), (b"ShardId", Some(shard))] => (ps, Some(shard)),
            _ => return None,
        };
        let mut c = Cursor::new(value?);
        c.eat(&[0x08, 1, 0x10, 1])?;
        let data = field(&mut c, 0x22)?;
        let mut digits = Cursor::new(ps);
        let (negative, ps) = integer(&mut digits)?;
        let sound = !negative && digits.is_empty() && shard.is_none_or(|s| s.is_ascii() && plain(s).0 == s.len());
        (sound && c.is_empty() && !data.is_empty()).then_some(Self { data, ps, shard })
    }

    /// Whether a record follows this one in its lane.
    pub fn precedes(&self, next: &Plain<'_>) -> bool {
        self.shard == next.shard && self.ps.checked_add(1) == Some(next.ps)
    }

    /// Writes what the origin of each event has of the record.
    #[inline]
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b",\"ps\":");
        write_number(self.ps, out);
        if let Some(shard) = self.shard {
            out.extend_from_slice(b",\"ShardId\":\"");
            out.extend_from_slice(shard);
            out.push(b'"');
        }
    }
}
