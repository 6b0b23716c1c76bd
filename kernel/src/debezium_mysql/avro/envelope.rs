//! Mirrors protocols/debezium_mysql/envelope.py: the members around the images, and the origin that is made of them.
//!
//! ```text
//! 0a 33.2.0   0a mysql   08 srv1   80 f6 … ts_ms   00 0a false   08 shop   00 sequence   02 … ts_us   02 … ts_ns
//! 0c orders   02 server_id   00 gtid   20 bin.000003   8c 1f pos   00 row   00 thread   00 query
//! origin  {version connector name sequence gtid file query server_id pos row thread, snapshot unless "false",
//!          ts_ms ts_us ts_ns where they are not the row's time, "envelope":{…}, what headers add}     nothing that is null
//! ```

use super::schema::{Kind, Part, Place};
use crate::avro::{bytes, int, long};
use crate::check::Check;
use crate::cursor::Cursor;
use crate::debezium::text::{push_integer, push_quoted};
use crate::debezium_mysql::envelope::{CLOCK, CONNECTOR, FILE, INTEGERS, NAME, Of, POS, TEXTS};
use crate::debezium_mysql::row;

/// The transaction block: its id, and the event's number in it and in the table.
pub type Transaction<'a> = (&'a [u8], Option<i64>, Option<i64>);

/// The members of a record beside its images; small, because it is read again for every record.
#[derive(Default)]
pub struct Envelope<'a> {
    texts: [Option<&'a [u8]>; 7],
    integers: [Option<i64>; 4],
    times: [Option<i64>; 3],
    snapshot: Option<&'a [u8]>,
    /// The database's name.
    pub database: &'a [u8],
    /// The table's name.
    pub table: &'a [u8],
    /// The transaction.
    pub transaction: Option<Transaction<'a>>,
    /// `c`, `u`, `d`, `r` or another.
    pub op: &'a [u8],
    /// The connector's clock: a member that the schema does not have is absent, one that is null is `Some(None)`.
    pub clock: [Option<Option<i64>>; 3],
}

impl<'a> Envelope<'a> {
    /// Reads a source block; nothing has been read before.
    pub fn source(&mut self, members: &[(Of, Place)], c: &mut Cursor<'a>) -> Option<()> {
        let mut nulls = false;
        for (of, place) in members {
            let there = place.union.open(c)?;
            match *of {
                Of::Clock(_) if !there => nulls = true,
                Of::Text(_) | Of::Integer(_) if !there => {}
                _ if !there => return None,
                Of::Text(at) => *self.texts.get_mut(at)? = Some(text(c)?),
                Of::Integer(at) => *self.integers.get_mut(at)? = Some(place.kind.integer(c)?),
                Of::Clock(at) => *self.times.get_mut(at)? = Some(place.kind.integer(c)?),
                Of::Snapshot => self.snapshot = Some(text(c)?),
                Of::Database => self.database = text(c)?,
                Of::Table => self.table = text(c)?,
            }
        }
        if nulls && self.is_fine() {
            return None; // a member that should follow from the time, but is missing
        }
        self.texts[CONNECTOR].is_none_or(|name| name == b"mysql" || name == b"mariadb").then_some(())
    }

    /// Reads a transaction block.
    pub fn transaction(&mut self, parts: &[(Part, Place)], c: &mut Cursor<'a>) -> Option<()> {
        let (id, order, table_order) = self.transaction.get_or_insert_default();
        for (part, place) in parts {
            match (part, place.union.open(c)?) {
                (Part::Id, there) => *id = there.then(|| text(c))??,
                (Part::Order, true) => *order = Some(place.kind.integer(c)?),
                (Part::TableOrder, true) => *table_order = Some(place.kind.integer(c)?),
                (_, false) => {}
            }
        }
        Some(())
    }

    /// Whether the row's time is known to the microsecond.
    pub fn is_fine(&self) -> bool {
        self.times[1].is_some()
    }

    /// The row's time, in microseconds where it is fine, else in milliseconds.
    pub fn time(&self) -> Option<i64> {
        let [ms, us, _] = self.times;
        row::time_us(ms, us)?;
        us.or(ms)
    }

    /// `file number << 40 | pos`, where there is such a place.
    pub fn sequence(&self) -> Option<u64> {
        row::sequence(row::number_of(self.texts[FILE]?)?, self.integers[POS]?)
    }

    /// Whether the reference reads the file's number as `sequence` does: it looks at short names only.
    pub fn is_usual(&self) -> bool {
        self.texts[FILE].is_none_or(|file| file.len() <= 512)
    }

    /// The connector's names: its own and that of its kind.
    pub fn names(&self) -> Option<(&'a [u8], &'a [u8])> {
        Some((self.texts[NAME]?, self.texts[CONNECTOR]?))
    }

    /// Writes the origin's members into `out`, which is empty; the object stays open.
    pub fn write(&self, out: &mut Vec<u8>) -> Option<()> {
        for (name, text) in TEXTS.iter().zip(self.texts) {
            push_text(name, text, out);
        }
        for (name, number) in INTEGERS.iter().zip(self.integers) {
            push_number(name, number, out);
        }
        push_text("snapshot", self.snapshot.filter(|mark| *mark != b"false"), out);
        let [ms, us, _] = self.times;
        let us = us.or_else(|| ms?.checked_mul(1000))?;
        let derived = [Some(us.div_euclid(1000)), Some(us), us.checked_mul(1000).filter(|_| self.is_fine())];
        for ((name, time), derived) in CLOCK.iter().zip(self.times).zip(derived) {
            push_number(name, time.filter(|_| time != derived), out);
        }
        open("envelope", out);
        self.write_clock(out);
        out.first_mut().map(|first| *first = b'{')
    }

    /// The connector's clock: nanoseconds alone where the others are those, cut off.
    fn write_clock(&self, out: &mut Vec<u8>) {
        let start = out.len();
        if let [Some(Some(ms)), Some(Some(us)), Some(Some(ns))] = self.clock
            && us == ns.div_euclid(1000)
            && ms == ns.div_euclid(1_000_000)
        {
            push_number("ts_ns", Some(ns), out);
        } else {
            for (name, time) in CLOCK.iter().zip(self.clock) {
                match time {
                    None => {}
                    Some(None) => {
                        open(name, out);
                        out.extend_from_slice(b"null");
                    }
                    time => push_number(name, time.flatten(), out),
                }
            }
        }
        match out.get_mut(start) {
            Some(comma) => *comma = b'{',
            None => out.push(b'{'),
        }
        out.push(b'}');
    }
}

impl Kind {
    /// Reads an int or a long.
    #[inline]
    pub fn integer(self, c: &mut Cursor<'_>) -> Option<i64> {
        if self == Self::Int { int(c) } else { long(c) }
    }
}

/// A string.
#[inline]
pub fn text<'a>(c: &mut Cursor<'a>) -> Option<&'a [u8]> {
    bytes(c).filter(|raw| Check::Utf8.passes(raw))
}

fn open(name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

fn push_number(name: &str, value: Option<i64>, out: &mut Vec<u8>) {
    if let Some(value) = value {
        open(name, out);
        push_integer(value, out);
    }
}

fn push_text(name: &str, text: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(text) = text else { return };
    open(name, out);
    if text.iter().any(|&b| b < b' ' || b == b'"' || b == b'\\') {
        return push_quoted(text, out);
    }
    out.push(b'"');
    out.extend_from_slice(text);
    out.push(b'"');
}
