//! Mirrors sources/mysql/changes.py, mysql/binlog/parser.py: events of a binary log in their order, to rows of the registered tables.
//!
//! ```text
//! GTID BEGIN TABLE_MAP rows rows XID │ GTID QUERY │ …
//!            │         └ columns      │      └ the reference reads it, between two calls of `run`
//!            └ a registered table, or one that is not captured
//! ```
//!
//! Rule 1. `run` stops before an event that it does not read: of another type, without a place in the log, with a wrong
//!         checksum, of a table that the kernel does not support, or with a value that Arrow's type cannot hold. The reference
//!         reads that event, and `resume` steps over it.
//! Rule 2. A table map is registered by its bytes without the table's number, which changes when the server opens the table
//!         again.
//! Rule 3. A transaction payload is read completely or not at all. Its rows are of one record.

pub mod columns;
pub mod decimals;
pub mod forms;
pub mod frames;
pub mod inflate;
pub mod irregular;
pub mod json;
pub mod moments;
pub mod packets;
pub mod rows;
pub mod tables;

use std::collections::{HashMap, HashSet};
use std::mem::take;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use self::frames::{Header, body, checked_body, size_of};
use self::rows::{Kind, Place};
use self::tables::{Irregular, Table};
use crate::cursor::Cursor;
use crate::shared::Build;

const TABLE_MAP: u8 = 19;
const QUERY: u8 = 2;
const FORMAT_DESCRIPTION: u8 = 15;
const STATEMENT_END: u64 = 1;
const ID_SIZE: usize = 6;
const BEGIN: &[u8] = b"\0BEGIN";
const CHECKSUM_SIZE: usize = 4;

/// Types of events, by their numbers.
pub struct Types {
    /// Those that are passed over.
    pub ignored: Vec<u8>,
    /// Those that begin a transaction.
    pub gtids: Vec<u8>,
    /// Row events that the kernel reads.
    pub kinds: HashMap<u8, Kind>,
    /// All row events.
    pub rows: Vec<u8>,
}

/// Why `run` has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Before an event that was not received to its end.
    More,
    /// After an event, because there are enough rows.
    Full,
    /// Before an event at or behind the end.
    End,
    /// Before a table map that is not registered.
    Map,
    /// Before an event that the reference has to read.
    Event,
}

/// What a table map is registered as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// A table that is not captured.
    Skipped,
    /// A table that the reference reads.
    Reference,
    /// A table of the kernel.
    Table(usize),
}

/// The rows of one shape.
pub struct Part {
    /// The number of the table.
    pub table: usize,
    /// The columns of its images, see `Shape`.
    pub carried: [Option<Vec<usize>>; 2],
    /// The rows.
    pub rows: RecordBatch,
    /// When each of them was changed.
    pub times: Vec<i64>,
    /// Values of images after that their columns cannot hold.
    pub irregular: Vec<Irregular>,
}

/// One log.
pub struct Log {
    types: Types,
    has_checksums: bool,
    received: Vec<u8>,
    start: usize,
    /// `file number << 40 | position` after the last event.
    pub at: u64,
    end: u64,
    registered: HashMap<Vec<u8>, Mapped>,
    tables: Vec<Table>,
    skipped: HashSet<u64>,
    /// The table maps of the statement: the number of each table, what it is, and the event.
    statement: Vec<(u64, Mapped, Vec<u8>)>,
    /// Positions of the records since they were taken, of which the first has the number `first_record`.
    records: Vec<u64>,
    first_record: usize,
    gtid: Option<(u64, Vec<u8>)>,
    /// Rows in the open transaction.
    pub open_rows: usize,
    /// Rows since `finish`.
    pub count: usize,
}

impl Log {
    /// Begins at a position, and stops before the event at or behind `end`.
    pub fn new(types: Types, at: u64, end: u64) -> Self {
        Self {
            types,
            has_checksums: false,
            received: Vec::new(),
            start: 0,
            at,
            end,
            registered: HashMap::new(),
            tables: Vec::new(),
            skipped: HashSet::new(),
            statement: Vec::new(),
            records: Vec::new(),
            first_record: 0,
            gtid: None,
            open_rows: 0,
            count: 0,
        }
    }

    /// Sets whether the events after a format description end with a checksum.
    pub fn set_checksums(&mut self, has_checksums: bool) {
        self.has_checksums = has_checksums;
    }

    /// Registers a table map, the body of its event: of a table that is not captured, or of one that this JSON describes.
    /// Returns the number of the table, if the kernel has one.
    pub fn register(&mut self, map: &[u8], captured: bool, description: Option<&str>) -> Option<usize> {
        let table = description.and_then(Table::new);
        let mapped = match (captured, table) {
            (false, _) => Mapped::Skipped,
            (true, None) => Mapped::Reference,
            (true, Some(table)) => {
                self.tables.push(table);
                Mapped::Table(self.tables.len() - 1)
            }
        };
        self.registered.insert(key(map)?.to_vec(), mapped);
        if let Mapped::Table(number) = mapped { Some(number) } else { None }
    }

    /// Adds the table map of a statement that began before; whether it is registered.
    pub fn add_map(&mut self, event: &[u8]) -> bool {
        body(event, self.has_checksums).is_some_and(|body| self.map(event, body).is_some())
    }

    /// Adds events that follow each other.
    pub fn feed(&mut self, events: &[u8]) {
        self.received.drain(..take(&mut self.start));
        self.received.extend_from_slice(events);
    }

    /// Reads events until one of the reasons to stop.
    pub fn run(&mut self, most_rows: usize) -> (Stop, Vec<u8>) {
        let received = take(&mut self.received);
        let stop = self.run_in(&received, most_rows);
        self.received = received;
        stop
    }

    fn run_in(&mut self, received: &[u8], most_rows: usize) -> (Stop, Vec<u8>) {
        loop {
            let rest = received.get(self.start..).unwrap_or_default();
            if rest.len() < frames::HEADER_SIZE {
                return (Stop::More, Vec::new());
            }
            let Some(size) = size_of(rest) else {
                return (Stop::Event, rest.to_vec());
            };
            let Some(event) = rest.get(..size) else {
                return (Stop::More, Vec::new());
            };
            match self.event(event) {
                Ok(()) => self.start += size,
                Err(stop) => return (stop, event.to_vec()),
            }
            if self.count >= most_rows {
                return (Stop::Full, Vec::new());
            }
        }
    }

    /// Steps over an event that the reference has read.
    ///
    /// `at` is the position after it, `open_rows` how many rows there are in the open transaction.
    pub fn resume(&mut self, at: u64, open_rows: usize) {
        let event = self.received.get(self.start..).unwrap_or_default();
        let code = Header::read(event).map(|header| header.code).unwrap_or_default();
        let flags = event.get(frames::HEADER_SIZE + ID_SIZE).copied().map_or(0, u64::from);
        let is_end = self.types.rows.contains(&code) && flags & STATEMENT_END != 0;
        if is_end || code == FORMAT_DESCRIPTION {
            self.statement.clear();
        }
        self.start += size_of(event).unwrap_or_default();
        (self.at, self.open_rows) = (at, open_rows);
    }

    fn event(&mut self, event: &[u8]) -> Result<(), Stop> {
        let header = Header::read(event).ok_or(Stop::Event)?;
        let (at, end) = header.place(self.at).ok_or(Stop::Event)?;
        if at >= self.end {
            return Err(Stop::End);
        }
        self.placed(event, &header, at)?;
        self.at = end;
        Ok(())
    }

    fn placed(&mut self, event: &[u8], header: &Header, at: u64) -> Result<(), Stop> {
        let code = header.code;
        if code == TABLE_MAP {
            let unverified = body(event, self.has_checksums).ok_or(Stop::Event)?;
            return self.map(event, unverified).ok_or(Stop::Map);
        }
        if let Some(&kind) = self.types.kinds.get(&code) {
            let place = self.place(at, header, 0).ok_or(Stop::Event)?;
            return self.rows(event, self.has_checksums, kind, place).map(|_| ()).ok_or(Stop::Event);
        }
        if self.types.gtids.contains(&code) {
            let (number, kept) = self.gtid.get_or_insert_default();
            *number = at;
            kept.clear();
            kept.extend_from_slice(event);
            self.open_rows = 0;
            return Ok(());
        }
        self.has_no_meaning(event, code).then_some(()).ok_or(Stop::Event)
    }

    fn has_no_meaning(&self, event: &[u8], code: u8) -> bool {
        let tail = event.get(event.len().saturating_sub(BEGIN.len() + CHECKSUM_SIZE)..).unwrap_or_default();
        let begins = code == QUERY && tail.windows(BEGIN.len()).any(|window| window == BEGIN);
        begins || self.types.ignored.contains(&code)
    }

    /// Where the rows of the next event are, of which the first has this index in its record.
    fn place(&self, at: u64, header: &Header, index: usize) -> Option<Place> {
        let is_same = self.records.last() == Some(&at);
        let record = i32::try_from(self.first_record + self.records.len() - usize::from(is_same)).ok()?;
        Some(Place { record, index: i32::try_from(index).ok()?, number: at, time: header.time })
    }

    /// Reads the events of a transaction payload: Rule 3. They have no checksums, and the position of the payload.
    pub fn payload(&mut self, events: &[u8], at: u64) -> (Stop, Vec<u8>) {
        let (records, count, open_rows) = (self.records.len(), self.count, self.open_rows);
        let before: Vec<Vec<usize>> = self.tables.iter().map(Table::counts).collect();
        let statement = take(&mut self.statement);
        let stop = self.payload_events(events, at);
        self.statement = statement;
        if stop.0 != Stop::More {
            self.records.truncate(records);
            (self.count, self.open_rows) = (count, open_rows);
            for (number, table) in self.tables.iter_mut().enumerate() {
                table.truncate(before.get(number).map(Vec::as_slice).unwrap_or_default());
            }
        }
        stop
    }

    fn payload_events(&mut self, events: &[u8], at: u64) -> (Stop, Vec<u8>) {
        let (mut rest, mut index) = (events, 0);
        while !rest.is_empty() {
            let Some((event, after)) = size_of(rest).and_then(|size| rest.split_at_checked(size)) else {
                return (Stop::Event, rest.to_vec());
            };
            match self.payload_event(event, at, index) {
                Ok(count) => index += count,
                Err(stop) => return (stop, event.to_vec()),
            }
            rest = after;
        }
        (Stop::More, Vec::new())
    }

    fn payload_event(&mut self, event: &[u8], at: u64, index: usize) -> Result<usize, Stop> {
        let header = Header::read(event).ok_or(Stop::Event)?;
        if header.code == TABLE_MAP {
            let body = body(event, false).ok_or(Stop::Event)?;
            return self.add(event, body, false).map(|()| 0).ok_or(Stop::Map);
        }
        if let Some(&kind) = self.types.kinds.get(&header.code) {
            let place = self.place(at, &header, index).ok_or(Stop::Event)?;
            return self.rows(event, false, kind, place).ok_or(Stop::Event);
        }
        self.has_no_meaning(event, header.code).then_some(0).ok_or(Stop::Event)
    }

    /// Adds the table of a map to the statement; nothing if it is not registered.
    fn map(&mut self, event: &[u8], body: &[u8]) -> Option<()> {
        self.add(event, body, self.has_checksums)
    }

    fn add(&mut self, event: &[u8], body: &[u8], has_checksum: bool) -> Option<()> {
        let mapped = *self.registered.get(key(body)?)?;
        let id = Cursor::new(body).uint(ID_SIZE)?;
        if mapped == Mapped::Skipped {
            self.skipped.insert(id);
            return Some(());
        }
        checked_body(event, has_checksum)?;
        self.skipped.remove(&id);
        self.statement.retain(|(other, ..)| *other != id);
        self.statement.push((id, mapped, event.to_vec()));
        Some(())
    }

    /// Reads a row event; returns how many rows it has.
    fn rows(&mut self, event: &[u8], has_checksum: bool, kind: Kind, place: Place) -> Option<usize> {
        let id = Cursor::new(event.get(frames::HEADER_SIZE..)?).uint(ID_SIZE)?;
        if self.skipped.contains(&id) {
            return Some(0);
        }
        let mut c = Cursor::new(checked_body(event, has_checksum)?);
        let (id, flags) = (c.uint(ID_SIZE)?, c.uint(2)?);
        let (_, mapped, _) = self.statement.iter().find(|(other, ..)| *other == id)?;
        let Mapped::Table(number) = *mapped else {
            return None;
        };
        if kind.version == 2 {
            rows::skip_extra(&mut c, kind.op)?;
        }
        let count = rows::read(&mut c, kind, self.tables.get_mut(number)?, place)?;
        if count > 0 && self.records.last() != Some(&place.number) {
            self.records.push(place.number);
        }
        self.count += count;
        self.open_rows += count;
        if flags & STATEMENT_END != 0 {
            self.statement.clear();
        }
        Some(count)
    }

    /// The table maps of the open statement.
    pub fn maps(&self) -> impl Iterator<Item = &[u8]> {
        self.statement.iter().map(|(.., event)| event.as_slice())
    }

    /// The last GTID event since it was taken, and its position.
    pub fn take_gtid(&mut self) -> Option<(u64, Vec<u8>)> {
        self.gtid.take()
    }

    /// Positions of the records since they were taken. They were numbered from `number_records` on.
    pub fn take_records(&mut self) -> Vec<u64> {
        take(&mut self.records)
    }

    /// Sets the number of the next record.
    pub fn number_records(&mut self, first: usize) {
        self.first_record = first;
    }

    /// All rows; none are left.
    pub fn finish(&mut self) -> Result<Vec<Part>, ArrowError> {
        self.count = 0;
        let mut parts = Vec::new();
        for (number, table) in self.tables.iter_mut().enumerate() {
            for shape in table.shapes().iter_mut().filter(|shape| !shape.rows.is_empty()) {
                parts.push(Part {
                    table: number,
                    carried: shape.carried.clone(),
                    rows: shape.rows.finish()?,
                    times: take(&mut shape.times),
                    irregular: take(&mut shape.irregular),
                });
            }
        }
        Ok(parts)
    }
}

/// A table map without the table's number.
fn key(body: &[u8]) -> Option<&[u8]> {
    body.get(ID_SIZE..)
}

#[cfg(test)]
mod tests;
