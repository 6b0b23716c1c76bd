//! Debezium MySQL and MariaDB connectors in JSON: rows of known shapes, from bytes into columns.
//!
//! ```text
//! {"schema":{…},"payload":{"before":null,"after": image ,"source":{…},"transaction":{…},"op":"c","ts_ms": … }}
//! {"before": image ,"after": image ,"source":{…},"transaction":null,"op":"u","ts_ms": … ,"ts_us": … ,"ts_ns": … }
//! key      {"schema":{…},"payload":{"id": 7 }}      {"id": 7 }      none
//! ```
//!
//! Rule 1. A schema block is compared with those of the shapes, byte for byte, and never read. Without one the names in the
//!         source block tell the table, wherever the block stands.
//! Rule 2. Members have the order of the shape. A key that is not the row's, a delete without its old row, and a column
//!         that was not sent, are for the reference.
//! Rule 3. A tombstone says nothing.

mod envelope;
mod headers;
mod layout;
mod shape;

pub mod avro;

use std::collections::BTreeMap;
use std::ops::Bound;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use memchr::memmem::Finder;

use crate::cursor::Cursor;
use crate::debezium::group::{Group, Images, fill, is_one_of};
use crate::debezium::rows::{Head, Rows, Transaction, When};
use crate::debezium::shape::Shape;
use crate::json::{Text, string, unescape};
use envelope::{Integer, Source, integer, optional, transaction, write_clock};
use headers::Headers;
pub use headers::{Found, Header};
use layout::{Layout, Member};
use shape::{Compiled, compile};

const SOURCE: &[u8] = b"\"source\":{";
const DATABASE: &[u8] = b",\"db\":";
const TABLE: &[u8] = b",\"table\":";

/// Decodes the rows of the shapes it has learned.
pub struct Decoder {
    numeric: bool,
    placeholders: Vec<Vec<u8>>,
    parts: Vec<Part>,
    blocks: BTreeMap<Vec<u8>, usize>,
    names: BTreeMap<Vec<u8>, usize>,
    alike: Vec<Alike>,
    /// In a box: they are aligned to 32 bytes, and Python's objects to 16.
    find: Box<[Finder<'static>; 3]>,
    shapes: Vec<[Rows; 2]>,
    room: Room,
}

/// Room that records share.
#[derive(Default)]
struct Room {
    images: Images,
    headers: Headers,
    scratch: Vec<u8>,
    origin: Vec<u8>,
    id: Vec<u8>,
}

/// Parts of one schema block, or of one table: a value tells no more of them at first sight.
#[derive(Default)]
struct Alike {
    parts: Vec<usize>,
    last: usize,
}

/// A group and what is around its images.
struct Part {
    group: Group,
    layout: Layout,
    opening: Vec<u8>,
    database: Vec<u8>,
    table: Vec<u8>,
    identity: Vec<u8>,
}

/// What the envelope says.
#[derive(Default)]
struct Said<'a> {
    source: Source<'a>,
    transaction: Option<(Text<'a>, Option<i64>, Option<i64>)>,
    op: u8,
    clock: [Option<Option<Integer<'a>>>; 3],
}

impl Decoder {
    /// Knows no shape yet. `placeholders` stand for columns that were not sent; `numeric`: decimals are numbers.
    pub fn new(placeholders: Vec<Vec<u8>>, numeric: bool) -> Self {
        Self {
            numeric,
            placeholders,
            parts: Vec::new(),
            blocks: BTreeMap::new(),
            names: BTreeMap::new(),
            alike: Vec::new(),
            find: Box::new([SOURCE, DATABASE, TABLE].map(Finder::new)),
            shapes: Vec::new(),
            room: Room::default(),
        }
    }

    /// Compiles the shape that this JSON describes; its number, or nothing when it is beyond the kernel.
    pub fn learn(&mut self, description: &str) -> Option<usize> {
        let shape: Shape<'_> = serde_json::from_str(description).ok()?;
        let Compiled { opening, database, table, identity, layout, mut group, codes, rows } =
            compile(&shape, self.numeric)?;
        let number = self.shapes.len();
        match self.parts.iter_mut().find(|part| part.identity == identity) {
            Some(part) => part.group.learn(number, codes),
            None => {
                group.learn(number, codes);
                let fresh = self.alike.len();
                let alike = if opening.is_empty() {
                    *self.names.entry([database.as_slice(), b"\"", &table].concat()).or_insert(fresh)
                } else {
                    *self.blocks.entry(opening.clone()).or_insert(fresh)
                };
                if alike == fresh {
                    self.alike.push(Alike::default());
                }
                self.alike.get_mut(alike)?.parts.push(self.parts.len());
                self.parts.push(Part { group, layout, opening, database, table, identity });
            }
        }
        self.shapes.push(rows);
        Some(number)
    }

    /// Decodes one record, or leaves no trace of it and says `None`.
    pub fn decode(&mut self, record: i32, key: Option<&[u8]>, value: Option<&[u8]>, headers: Found<'_>) -> Option<()> {
        if !headers.again {
            self.room.headers.forget();
        }
        let Some(value) = value else { return Some(()) };
        let found = self.alike(value)?;
        let (last, count) = self.alike.get(found).map(|alike| (alike.last, alike.parts.len()))?;
        for place in std::iter::once(last).chain((0..count).filter(|&place| place != last)) {
            let part = *self.alike.get(found)?.parts.get(place)?;
            if self.attempt(part, record, key, value, headers).is_some() {
                self.alike.get_mut(found)?.last = place;
                return Some(());
            }
        }
        None
    }

    /// The rows since the last call, by shape.
    pub fn finish(&mut self) -> Result<Vec<(usize, RecordBatch)>, ArrowError> {
        let shapes = self.shapes.iter_mut().enumerate();
        let rows = shapes.flat_map(|(number, units)| units.iter_mut().map(move |rows| (number, rows)));
        rows.filter(|(_, rows)| !rows.is_empty()).map(|(number, rows)| Ok((number, rows.finish()?))).collect()
    }

    /// The parts that a value may be of. No block of JSON begins with another one, so that the greatest that is not
    /// greater than the value is the only one that may be its beginning. In no string is there a quote without a backslash
    /// before it: what looks like the beginning of a source block is that.
    fn alike<'a>(&mut self, value: &'a [u8]) -> Option<usize> {
        if self.alike.len() == 1 {
            return Some(0);
        }
        let below = (Bound::Unbounded, Bound::Included(value));
        if let Some((_, alike)) = self.blocks.range::<[u8], _>(below).next_back().filter(|(b, _)| value.starts_with(b))
        {
            return Some(*alike);
        }
        let [source, database, table] = self.find.as_ref();
        let behind = |text: &'a [u8], find: &Finder<'_>| text.get(find.find(text)? + find.needle().len()..);
        let source = behind(value, source)?;
        let member = |find| string(&mut Cursor::new(behind(source, find)?)).map(|text| text.raw);
        let (database, table) = (member(database)?, member(table)?);
        self.room.scratch.clear();
        for part in [database, b"\"", table] {
            self.room.scratch.extend_from_slice(part);
        }
        self.names.get(self.room.scratch.as_slice()).copied()
    }

    /// Decodes a record as one of this part; leaves no trace if it is none.
    fn attempt(&mut self, at: usize, record: i32, key: Option<&[u8]>, value: &[u8], headers: Found<'_>) -> Option<()> {
        let part = self.parts.get_mut(at)?;
        let room = &mut self.room;
        let mut said = Said::default();
        part.read(value, &mut room.images, &mut said)?;
        all_sent(&room.images, value, &self.placeholders)?;
        let number = part.group.shape(key, &room.images, value)?;
        let [coarse, fine] = self.shapes.get_mut(number)?;
        let rows = if said.source.is_fine() { fine } else { coarse };
        let head = room.head(record, &said, headers)?;
        let done = fill(rows, &self.room.images, value).and_then(|()| rows.close(&head.with(&self.room, &said)));
        if done.is_none() {
            rows.rewind();
        }
        done
    }
}

/// What is known of a row, but for what lies in the room.
struct Known {
    record: i32,
    op: &'static str,
    when: When,
}

impl Known {
    fn with<'a>(&self, room: &'a Room, said: &Said<'_>) -> Head<'a> {
        let transaction = said.transaction.as_ref().map(|(_, order, table_order)| Transaction {
            id: &room.id,
            order: *order,
            table_order: *table_order,
        });
        Head {
            record: self.record,
            op: self.op,
            images: (room.images.before.is_there(), room.images.after.is_there()),
            when: self.when,
            transaction,
            origin: &room.origin,
        }
    }
}

impl Room {
    /// What is known of a row; writes its origin and its transaction's id.
    fn head(&mut self, record: i32, said: &Said<'_>, headers: Found<'_>) -> Option<Known> {
        let op = match (said.op, self.images.before.is_there(), self.images.after.is_there()) {
            (b'c', false, true) => "insert",
            (b'r', false, true) => "read",
            (b'u', _, true) => "update",
            (b'd', true, false) => "delete",
            _ => return None,
        };
        self.origin.clear();
        said.source.write(&mut self.scratch, &mut self.origin)?;
        write_clock(&said.clock, &mut self.origin);
        if !headers.headers.is_empty() {
            let (name, connector) = said.source.names()?;
            self.origin.extend_from_slice(self.headers.read(headers.headers, name, connector)?);
        }
        self.origin.push(b'}');
        if let Some((id, ..)) = &said.transaction {
            self.id.clear();
            if id.escaped { unescape(id.raw, &mut self.id)? } else { self.id.extend_from_slice(id.raw) }
        }
        let time = said.source.time()?;
        said.source.is_usual().then_some(Known { record, op, when: When::Log(said.source.sequence(), time) })
    }
}

impl Part {
    /// Reads a value; its images' tokens are then in `images`, and the rest in `said`, which was empty.
    fn read<'a>(&self, value: &'a [u8], images: &mut Images, said: &mut Said<'a>) -> Option<()> {
        images.clear();
        // Comparing with nothing costs more than with a block: memcmp looks at where no bytes are.
        let opened = if self.opening.is_empty() { Some(value) } else { value.strip_prefix(self.opening.as_slice()) };
        let mut c = Cursor::new(opened?);
        for (literal, member) in &self.layout.members {
            c.eat(literal)?;
            match *member {
                Member::Before => optional(&mut c, |c| self.group.image(c, value, &mut images.before)).map(drop)?,
                Member::After => optional(&mut c, |c| self.group.image(c, value, &mut images.after)).map(drop)?,
                Member::Source => said.source.read(&self.layout, &mut c)?,
                Member::Transaction => said.transaction = optional(&mut c, transaction)?,
                Member::Op => {
                    c.eat(b"\"")?;
                    said.op = c.byte()?;
                    c.eat(b"\"")?;
                }
                Member::Clock(at) => *said.clock.get_mut(at)? = Some(optional(&mut c, integer)?),
            }
        }
        let end: &[u8] = if self.opening.is_empty() { b"}" } else { b"}}" };
        let named = said.source.database == self.database && said.source.table == self.table;
        (c.rest() == end && named).then_some(())
    }
}

/// Nothing when an image has a text that stands for a column that was not sent.
fn all_sent(images: &Images, value: &[u8], placeholders: &[Vec<u8>]) -> Option<()> {
    let mut tokens = [images.before.get(), images.after.get()].into_iter().flatten().flatten();
    tokens.try_for_each(|token| (!is_one_of(token, value, placeholders)?).then_some(()))
}

#[cfg(test)]
mod tests;
