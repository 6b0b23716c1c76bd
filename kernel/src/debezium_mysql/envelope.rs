//! The members around the images, in the order of a layout, and what an origin has of them.
//!
//! ```text
//! ≤ 2.5  before after source op ts_ms transaction
//! 2.6    before after source op ts_ms ts_us ts_ns transaction
//! ≥ 2.7  before after source transaction op ts_ms ts_us ts_ns
//!
//! source  version connector name ts_ms snapshot db sequence [ts_us ts_ns] table server_id gtid file pos row thread query
//! origin  {version connector name sequence gtid file query server_id pos row thread, snapshot unless "false",
//!          ts_ms ts_us ts_ns where they are not the row's time, "envelope":{…}, what headers add}     nothing that is null
//! ```

use std::mem::replace;
use std::ops::Range;

use super::layout::{CLOCK, Layout, Of};
use crate::cursor::Cursor;
use crate::debezium::text::push_text;
use crate::json::{Text, int64, string};

const CONNECTOR: usize = 1;
const NAME: usize = 2;
const FILE: usize = 5;
const POS: usize = 1;
const FIRST_US: i64 = -62_135_596_800_000_000;
const LAST_US: i64 = 253_402_300_799_999_999;

/// Where a member of a source block stands that is not null: from its name, behind a comma, to the end of its value.
#[derive(Clone, Copy)]
struct Place {
    start: u32,
    value: u32,
    end: u32,
    escaped: bool,
}

/// A source block, read; small, for it is read anew with every record.
#[derive(Default)]
pub struct Source<'a> {
    block: &'a [u8],
    texts: [Option<Place>; 7],
    integers: [Option<Place>; 4],
    pos: Option<i64>,
    clock: [Option<Integer<'a>>; 3],
    snapshot: Option<Text<'a>>,
    /// The database's name as it is spelled.
    pub database: &'a [u8],
    /// The table's name as it is spelled.
    pub table: &'a [u8],
}

impl<'a> Source<'a> {
    /// Reads a source block; nothing has been read before.
    pub fn read(&mut self, layout: &Layout, c: &mut Cursor<'a>) -> Option<()> {
        self.block = c.rest();
        let mut nulls = false;
        for (literal, of) in &layout.source {
            let start = self.at(c)? + 1;
            c.eat(literal)?;
            let value = self.at(c)?;
            match *of {
                Of::Text(at) => {
                    let text = optional(c, string)?;
                    let end = self.at(c)?;
                    *self.texts.get_mut(at)? = text.map(|text| Place { start, value, end, escaped: text.escaped });
                }
                Of::Integer(at) => {
                    let number = optional(c, int64)?;
                    let end = self.at(c)?;
                    *self.integers.get_mut(at)? = number.map(|_| Place { start, value, end, escaped: false });
                    self.pos = if at == POS { number } else { self.pos };
                }
                Of::Clock(at) => {
                    let time = optional(c, integer)?;
                    nulls |= time.is_none();
                    *self.clock.get_mut(at)? = time;
                }
                Of::Snapshot => self.snapshot = Some(string(c).filter(|mark| !mark.escaped)?),
                Of::Database => self.database = string(c)?.raw,
                Of::Table => self.table = string(c)?.raw,
            }
        }
        c.eat(b"}")?;
        if nulls && self.is_fine() {
            return None; // a member that the time would tell, and that is not told
        }
        self.text(CONNECTOR).is_none_or(|text| text.raw == b"mysql" || text.raw == b"mariadb").then_some(())
    }

    /// How far the cursor is in the block.
    fn at(&self, c: &Cursor<'_>) -> Option<u32> {
        u32::try_from(self.block.len() - c.rest().len()).ok()
    }

    fn bytes(&self, start: u32, end: u32) -> Option<&'a [u8]> {
        self.block.get(start as usize..end as usize)
    }

    fn text(&self, at: usize) -> Option<Text<'a>> {
        let Place { value, end, escaped, .. } = (*self.texts.get(at)?)?;
        Some(Text { raw: self.bytes(value + 1, end - 1)?, escaped })
    }

    fn times(&self) -> [Option<i64>; 3] {
        self.clock.map(|time| time.map(|time| time.value))
    }

    /// Whether the row's time is known to the microsecond.
    pub fn is_fine(&self) -> bool {
        self.clock.get(1).copied().flatten().is_some()
    }

    /// The row's time, in microseconds where it is fine, else in milliseconds.
    pub fn time(&self) -> Option<i64> {
        let [ms, us, _] = self.times();
        let (time, times) = us.map_or((ms?, 1000), |us| (us, 1));
        (FIRST_US..=LAST_US).contains(&time.checked_mul(times)?).then_some(time)
    }

    /// `file number << 40 | pos`, where there is such a place.
    pub fn sequence(&self) -> Option<u64> {
        let file = self.text(FILE)?;
        let digits = file.raw.iter().rev().take_while(|b| b.is_ascii_digit()).count().min(12);
        let digits = file.raw.get(file.raw.len() - digits..).filter(|d| !d.is_empty())?;
        let number = digits.iter().fold(0u64, |sum, b| sum * 10 + u64::from(b - b'0'));
        let pos = u64::try_from(self.pos?).ok()?;
        (number < 1 << 24 && pos < 1 << 40).then_some(number << 40 | pos)
    }

    /// The connector's names, without escapes: its own and that of its kind.
    pub fn names(&self) -> Option<(&'a [u8], &'a [u8])> {
        let plain = |at| self.text(at).filter(|text| !text.escaped).map(|text| text.raw);
        Some((plain(NAME)?, plain(CONNECTOR)?))
    }

    /// Whether the reference knows the file's number as `sequence` does: it looks at short names only.
    pub fn is_usual(&self) -> bool {
        self.text(FILE).is_none_or(|file| !file.escaped && file.raw.len() <= 512)
    }

    fn push(&self, run: Range<u32>, out: &mut Vec<u8>) -> Option<()> {
        if !run.is_empty() {
            out.push(b',');
            out.extend_from_slice(self.bytes(run.start, run.end)?);
        }
        Some(())
    }

    /// Writes the origin's members into `out`, which is empty; the object stays open.
    pub fn write(&self, scratch: &mut Vec<u8>, out: &mut Vec<u8>) -> Option<()> {
        let mut run = 0..0; // members that stand together on the wire as they shall in the origin
        for place in self.texts.iter().chain(&self.integers).flatten() {
            if !run.is_empty() && run.end + 1 == place.start && !place.escaped {
                run.end = place.end;
                continue;
            }
            self.push(replace(&mut run, place.start..place.end), out)?;
            if place.escaped {
                self.push(replace(&mut run, 0..0).start..place.value, out)?;
                let raw = self.bytes(place.value + 1, place.end - 1)?;
                push_text(&Text { raw, escaped: true }, scratch, out)?;
            }
        }
        self.push(run, out)?;
        if let Some(mark) = self.snapshot.filter(|mark| mark.raw != b"false") {
            out.extend_from_slice(b",\"snapshot\":");
            push_text(&mark, scratch, out)?;
        }
        let [ms, us, _] = self.times();
        let us = us.or_else(|| ms?.checked_mul(1000))?;
        let derived = [Some(us.div_euclid(1000)), Some(us), us.checked_mul(1000).filter(|_| self.is_fine())];
        for ((name, value), derived) in CLOCK.iter().zip(self.clock).zip(derived) {
            if let Some(value) = value.filter(|value| Some(value.value) != derived) {
                open(name, b',', out);
                out.extend_from_slice(value.raw);
            }
        }
        out.extend_from_slice(b",\"envelope\":");
        out.first_mut().map(|first| *first = b'{')
    }
}

fn open(name: &str, before: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[before, b'"']);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// An integer and its text: there is but one.
#[derive(Clone, Copy)]
pub struct Integer<'a> {
    value: i64,
    raw: &'a [u8],
}

/// Reads an integer of 64 bits.
#[inline]
pub fn integer<'a>(c: &mut Cursor<'a>) -> Option<Integer<'a>> {
    let start = c.rest();
    let value = int64(c)?;
    Some(Integer { value, raw: start.get(..start.len() - c.rest().len())? })
}

/// A value or `null`.
#[inline]
pub fn optional<'a, T>(c: &mut Cursor<'a>, read: impl FnOnce(&mut Cursor<'a>) -> Option<T>) -> Option<Option<T>> {
    if c.peek() == Some(b'n') { c.eat(b"null").map(|()| None) } else { read(c).map(Some) }
}

/// Reads a transaction block: its id, and the event's number in it and in the table.
pub fn transaction<'a>(c: &mut Cursor<'a>) -> Option<(Text<'a>, Option<i64>, Option<i64>)> {
    c.eat(b"{\"id\":")?;
    let id = string(c)?;
    c.eat(b",\"total_order\":")?;
    let order = optional(c, int64)?;
    c.eat(b",\"data_collection_order\":")?;
    let table_order = optional(c, int64)?;
    c.eat(b"}")?;
    Some((id, order, table_order))
}

/// Writes the connector's clock as an origin has it: nanoseconds alone where the others are those, cut off. A member that
/// the layout does not have is absent, one that is null is `Some(None)`.
pub fn write_clock(clock: &[Option<Option<Integer<'_>>>; 3], out: &mut Vec<u8>) {
    if let [Some(Some(ms)), Some(Some(us)), Some(Some(ns))] = clock
        && us.value == ns.value.div_euclid(1000)
        && ms.value == ns.value.div_euclid(1_000_000)
    {
        out.extend_from_slice(b"{\"ts_ns\":");
        out.extend_from_slice(ns.raw);
        out.push(b'}');
        return;
    }
    let mut comma = b'{';
    for (name, value) in CLOCK.iter().zip(clock) {
        match value {
            None => {}
            Some(value) => {
                open(name, comma, out);
                comma = b',';
                out.extend_from_slice(value.map_or(b"null", |value| value.raw));
            }
        }
    }
    if comma == b'{' {
        out.push(b'{');
    }
    out.push(b'}');
}
