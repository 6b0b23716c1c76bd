//! Mirrors protocols/tencent_dts/decoder.py: rows of registered shapes and marks of transactions, from the bytes of an Entries into columns.
//!
//! ```text
//! Entries   0a 8c 02 │ 0a 63 Header │ 12 a4 01 Event │ 0a …          one Entry for each event of the binary log
//! Event     12 …     │ DMLEvent, by messageType 2                    0a … BeginEvent   1a … CommitEvent
//! DMLEvent  08 01 │ 12 0b Column │ 12 18 Column … │ 1a 25 RowChange │ 1a …
//!           UPDATE, absent for INSERT
//! RowChange 0a 05 08 04 1a 01 "7" │ 0a 00 … │ 12 05 …               old columns, new columns: a Data a column
//! ```
//!
//! Rule 1. A group (the data of one envelope, or of several, joined by the caller) is read as a whole or is unmatched, but for the
//!         entries that the caller reads itself. DDL, heartbeats, checkpoints, rollbacks, and whatever is not exactly
//!         as drawn are the reference's.
//! Rule 2. Which records make a group, and how they follow each other, is decided by the caller: the kernel lists which
//!         records are plain (see `plain`), and gets the rest as arguments.
//! Rule 3. Every image has all columns. Data are the bytes that are written for their value: nothing has to be kept of them.

mod columns;
mod envelope;
mod forms;
mod framing;
mod messages;
mod rows;
mod shapes;
mod values;

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use crate::cursor::Cursor;
use crate::rows::MAX_SHAPES;
use crate::shared::Shared;
use envelope::{Header as EntryHeader, write_member, write_text};
pub use framing::{Header, Plain};
use messages::{field, optional_number, optional_text};
use rows::{Head, Marks, Op, Rows};
use shapes::{Shape, write_names};

const MAX_ENTRIES: usize = 65_536;
const MAX_ROWS: usize = 131_072;
const BEGIN: u64 = 0;
const COMMIT: u64 = 1;
const DML: u64 = 2;

/// What the records of a group add to the origins of its events: members in JSON, with a comma in front.
#[derive(Clone, Copy, Default)]
pub struct Members<'a> {
    /// Of every event.
    pub all: &'a [u8],
    /// Of the first one, too.
    pub first: &'a [u8],
}

/// Shapes with the same names and described columns: the first ones, up to one that the kernel does not support.
struct Family {
    described: Vec<u8>,
    shapes: Vec<usize>,
    closed: bool,
}

/// Decodes the groups of the registered shapes.
pub struct Decoder {
    signed: bool,
    by_names: HashMap<Vec<u8>, usize>,
    tables: Vec<Vec<Family>>,
    /// The names that were looked for last, and their place in `tables`.
    last: (Vec<u8>, usize),
    shapes: Shared<Rows>,
    marks: Marks,
    /// Shapes to which the group has added rows.
    touched: Vec<usize>,
    room: Room,
}

/// Why a group is unmatched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Odd {
    /// One of its entries is not known.
    Entry(Stop),
    /// Something else.
    Other,
}

/// The first entry of a group that the kernel does not know: where it lies, and how many events come before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Where the entry begins in the data of the group.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// The index of its first event.
    pub index: i32,
}

/// Entries of a group that the caller reads itself: where each begins, and how many events it has.
pub type Skips<'a> = &'a [(usize, i32)];

/// What is kept while a group is read.
#[derive(Default)]
struct Room {
    names: Vec<u8>,
    origin: Vec<u8>,
    events: i32,
}

impl Decoder {
    /// No shape is registered yet. `signed`: a BIT(64) with its top bit set is a negative number.
    pub fn new(signed: bool) -> Self {
        let (by_names, last, marks, room) = (HashMap::new(), (Vec::new(), 0), Marks::default(), Room::default());
        Self { signed, by_names, tables: Vec::new(), last, shapes: Shared::default(), marks, touched: Vec::new(), room }
    }

    /// Compiles the shape that this JSON describes; its number, or None if the kernel does not support it.
    pub fn register(&mut self, description: &str) -> Option<usize> {
        let shape: Shape = serde_json::from_str(description).ok()?;
        let described = shape.described();
        let place = *self.by_names.entry(shape.names()).or_insert(self.tables.len());
        if place == self.tables.len() {
            self.tables.push(Vec::new());
        }
        let families = self.tables.get_mut(place)?;
        let at = families.iter().position(|f| f.described == described).unwrap_or(families.len());
        if at == families.len() {
            families.push(Family { described, shapes: Vec::new(), closed: false });
        }
        let family = families.get_mut(at)?;
        let rows = shape.rows(self.signed).filter(|_| !family.closed && family.shapes.len() < MAX_SHAPES);
        family.closed |= rows.is_none();
        let rows = rows?;
        family.shapes.push(self.shapes.len());
        self.shapes.push(shape.kind(), rows);
        Some(self.shapes.len() - 1)
    }

    /// Decodes the data of a group but for some entries, or leaves no trace of it.
    pub fn decode(&mut self, record: i32, data: &[u8], members: Members<'_>, skips: Skips<'_>) -> Result<(), Odd> {
        self.room.events = 0;
        let done = self.entries(record, data, members, skips);
        let alone = self.room.events == 1;
        for at in self.touched.drain(..) {
            if let Some(rows) = self.shapes.get_mut(at) {
                rows.settle(done.is_ok(), alone);
            }
        }
        self.marks.settle(done.is_ok(), alone);
        done
    }

    /// The rows since the last call, as `Shared::finish` has them, and the marks.
    pub fn finish(&mut self) -> Result<(Vec<(usize, RecordBatch)>, RecordBatch), ArrowError> {
        Ok((self.shapes.finish()?, self.marks.finish()?))
    }

    fn entries(&mut self, record: i32, data: &[u8], members: Members<'_>, skips: Skips<'_>) -> Result<(), Odd> {
        let mut c = Cursor::new(data);
        for count in 1..=MAX_ENTRIES {
            let entry = field(&mut c, 0x0a).ok_or(Odd::Other)?;
            let end = data.len() - c.rest().len();
            let (start, index) = (end - entry.len(), self.room.events);
            if let Some((_, events)) = skips.iter().find(|(at, _)| *at == start) {
                self.room.events = index.checked_add(*events).ok_or(Odd::Other)?;
            } else if self.entry(record, entry, members).is_none() {
                let sound = are_entries(c, MAX_ENTRIES - count);
                return Err(if sound { Odd::Entry(Stop { start, end, index }) } else { Odd::Other });
            }
            if c.is_empty() {
                return Ok(());
            }
        }
        Err(Odd::Other)
    }

    fn entry(&mut self, record: i32, entry: &[u8], members: Members<'_>) -> Option<()> {
        let mut c = Cursor::new(entry);
        let header = EntryHeader::read(field(&mut c, 0x0a)?)?;
        let event = only(c.rest(), 0x12)?;
        self.room.origin.clear();
        header.write(&mut self.room.origin);
        if header.kind == DML {
            self.rows(record, &header, only(event, 0x12)?, members)
        } else {
            self.mark(record, &header, event, members)
        }
    }

    fn mark(&mut self, record: i32, header: &EntryHeader<'_>, event: &[u8], members: Members<'_>) -> Option<()> {
        let (tag, begins) = match header.kind {
            BEGIN => (0x0a, true),
            COMMIT => (0x1a, false),
            _ => return None,
        };
        let mut c = Cursor::new(only(event, tag)?);
        let id = optional_text(&mut c, 0x0a)?;
        let thread = if begins { optional_number(&mut c, 0x10)? } else { 0 };
        (c.is_empty() && thread >> 63 == 0).then_some(())?;
        let origin = &mut self.room.origin;
        write_text(b",\"schemaName\":\"", header.names.0, origin);
        write_text(b",\"tableName\":\"", header.names.1, origin);
        write_text(b",\"transactionId\":\"", id, origin);
        write_member(b",\"threadId\":", thread, origin);
        let transaction = if header.gtid.is_empty() { id } else { header.gtid };
        let head = self.room.head(record, header, transaction, members);
        self.marks.push(begins, &head)?;
        self.room.events = self.room.events.checked_add(1)?;
        Some(())
    }

    fn rows(&mut self, record: i32, header: &EntryHeader<'_>, body: &[u8], members: Members<'_>) -> Option<()> {
        (header.source() != values::POSTGRES).then_some(())?;
        let mut c = Cursor::new(body);
        let op = match optional_number(&mut c, 0x08)? {
            0 => Op::Insert,
            1 => Op::Update,
            2 => Op::Delete,
            _ => return None,
        };
        let room = &mut self.room;
        room.names.clear();
        write_names(header.names, &mut room.names);
        let rest = c.rest();
        if self.last.0 != room.names {
            self.last = (room.names.clone(), *self.by_names.get(&room.names)?);
        }
        let families = self.tables.get(self.last.1)?;
        let is_next = |f: &&Family| rest.starts_with(&f.described) && rest.get(f.described.len()) == Some(&0x1a);
        let family = families.iter().find(is_next)?;
        c.take(family.described.len())?;
        let prefix = room.origin.len();
        for number in 0..MAX_ROWS {
            let change = field(&mut c, 0x1a)?;
            let mut shapes = family.shapes.iter().copied();
            let shape = shapes.find(|&at| self.shapes.get_mut(at).and_then(|rows| rows.read(op, change)).is_some())?;
            room.origin.truncate(prefix);
            if number > 0 || !c.is_empty() {
                room.origin.extend_from_slice(b",\"row\":");
                envelope::write_number(number as u64, &mut room.origin);
            }
            let head = room.head(record, header, header.gtid, members);
            if self.shapes.get_mut(shape)?.close(op, &head)? {
                self.touched.push(shape);
            }
            room.events = room.events.checked_add(1)?;
            if c.is_empty() {
                return Some(());
            }
        }
        None
    }
}

/// Whether the rest of a group is entries, `most` of them at most. The reference reads none of a group that has something else.
fn are_entries(mut rest: Cursor<'_>, most: usize) -> bool {
    for _ in 0..most {
        if rest.is_empty() {
            return true;
        }
        if field(&mut rest, 0x0a).is_none() {
            return false;
        }
    }
    rest.is_empty()
}

/// The bytes of a field that is alone in its message.
fn only(message: &[u8], tag: u8) -> Option<&[u8]> {
    let mut c = Cursor::new(message);
    field(&mut c, tag).filter(|_| c.is_empty())
}

impl Room {
    /// What is known of the next event; completes its origin.
    #[inline]
    fn head<'a>(
        &'a mut self,
        record: i32,
        header: &EntryHeader<'_>,
        transaction: &'a [u8],
        members: Members<'_>,
    ) -> Head<'a> {
        self.origin.extend_from_slice(members.all);
        if self.events == 0 {
            self.origin.extend_from_slice(members.first);
        }
        self.origin.push(b'}');
        let (sequence, seconds) = (header.sequence(), header.seconds());
        Head { record, index: self.events, sequence, seconds, transaction, origin: &self.origin }
    }
}

#[cfg(test)]
mod tests;
