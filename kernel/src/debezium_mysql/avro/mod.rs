//! Mirrors protocols/debezium_mysql/decoder.py: rows in Avro of registered schemas, from bytes into columns.
//!
//! ```text
//! key    00 │ 00 00 00 07 │ 0e
//!        magic, schema id │ id 7
//! value  00 │ 00 00 00 08 │ 00        │ 02 0e 02 06 61 62 63 │ 0a 33.2.0 … │ 00             │ 02 63 │ 02 80 f6 … │ …
//!        magic, schema id │ no before │ after                │ source      │ no transaction │ op c  │ ts_ms      │ ts_us ts_ns
//!                         └ the envelope's members, in the order of its schema ───────────────────────────────────────┘
//! ```
//!
//! Rule 1. Schema ids determine how a record is read, the names in its source block the table. Values determine
//!         the fraction digits of its timestamps: a row joins the first shape, in the order of registration, that agrees
//!         where the row is not NULL.
//! Rule 2. Schemas that are not registered, keys that are not the row's, a delete without its old row, and a column that was not
//!         sent, are for the reference.
//! Rule 3. A tombstone is not an event of its own.

mod envelope;
mod images;
mod schema;
mod values;

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use super::headers::{Headers, SentHeaders};
use crate::avro::{Ids, datum};
use crate::cursor::Cursor;
use crate::debezium::rows::{Clock, Head, Rows, Transaction, When};
use crate::debezium::shapes::{Shape, digits_of, images};
use crate::rows::MAX_SHAPES;
use crate::shared::Shared;
use envelope::{Envelope, text};
use images::{Images, Step};
use schema::{Plan, Wire};

use super::envelope::Member;
use super::row::op;

/// Decodes the rows of the registered shapes.
pub struct Decoder {
    numeric: bool,
    placeholders: Vec<Vec<u8>>,
    by_ids: HashMap<Ids, usize>,
    last: (Ids, usize),
    families: Vec<Family>,
    /// By the unit of their time: milliseconds, microseconds.
    shapes: [Shared<Rows>; 2],
    room: Room,
}

/// Room that records share.
#[derive(Default)]
struct Room {
    images: Images,
    headers: Headers,
    origin: Vec<u8>,
}

/// Rows of the same schemas.
struct Family {
    wire: String,
    plan: Plan,
    steps: Vec<Step>,
    tables: Vec<Table>,
    last: usize,
}

/// Rows of a table.
struct Table {
    database: String,
    name: String,
    /// Shapes, and what their timestamps have for digits.
    shapes: Vec<(usize, Vec<u8>)>,
    last: usize,
}

impl Decoder {
    /// No shape is registered yet. `placeholders` stand for columns that were not sent; `numeric`: decimals are numbers.
    pub fn new(placeholders: Vec<Vec<u8>>, numeric: bool) -> Self {
        Self {
            numeric,
            placeholders,
            by_ids: HashMap::new(),
            last: ((None, None), usize::MAX),
            families: Vec::new(),
            shapes: Default::default(),
            room: Room::default(),
        }
    }

    /// Compiles the shape that this JSON describes; its number, or None if the kernel does not support it.
    pub fn register(&mut self, description: &str) -> Option<usize> {
        let shape: Shape<'_> = serde_json::from_str(description).ok()?;
        let wire: Wire = serde_json::from_str(shape.wire.get()).ok()?;
        let plan = wire.plan(&shape)?;
        let rows = |clock| {
            let typed = |at, mysql: &str| values::column(plan.columns.get(at)?, mysql, self.numeric);
            let (before, after) = images(&shape.columns, |at, column| typed(at, &column.mysql))?;
            Some(Rows::new(before, after, clock))
        };
        let rows = [rows(Clock::Milliseconds)?, rows(Clock::Microseconds)?];
        let kind = format!("{:?}{:?}", shape.columns, plan.columns);
        let number = self.shapes[0].len();
        let fresh = self.families.len();
        let at = *self.by_ids.entry(wire.ids()).or_insert(fresh);
        if at == fresh {
            let columns = plan.columns.iter().zip(&shape.columns);
            let steps = columns.map(|(place, c)| Step::new(place, &c.mysql, &self.placeholders)).collect();
            self.families.push(Family { wire: shape.wire.get().to_owned(), plan, steps, tables: Vec::new(), last: 0 });
        }
        self.families.get_mut(at)?.join(&shape, number, at == fresh)?;
        for (shapes, rows) in self.shapes.iter_mut().zip(rows) {
            shapes.push(kind.clone(), rows);
        }
        Some(number)
    }

    /// Decodes one record; returns `None` and leaves no trace of a record that is unmatched.
    pub fn decode(
        &mut self,
        record: i32,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: SentHeaders<'_>,
    ) -> Option<()> {
        if !headers.again {
            self.room.headers.forget();
        }
        let Some(value) = value else { return Some(()) };
        let ((key_id, key), (value_id, value)) = (datum(key)?, datum(Some(value))?);
        let (family, value) = (self.family((key_id, value_id))?, value?);
        let family = self.families.get_mut(family)?;
        let (room, mut envelope) = (&mut self.room, Envelope::default());
        family.read(value, &mut room.images, &mut envelope)?;
        family.agrees(key, &room.images, value)?;
        let number = family.shape(&envelope, room.images.digits()?)?;
        let rows = self.shapes.get_mut(usize::from(envelope.is_fine()))?.get_mut(number)?;
        let head = room.head(record, &envelope, headers)?;
        let done = fill(rows, &room.images, value).and_then(|()| rows.close(&Head { origin: &room.origin, ..head }));
        if done.is_none() {
            rows.rewind();
        }
        done
    }

    /// The rows since the last call: see `Shared::finish`.
    pub fn finish(&mut self) -> Result<Vec<(usize, RecordBatch)>, ArrowError> {
        let [coarse, fine] = &mut self.shapes;
        Ok([coarse.finish()?, fine.finish()?].concat())
    }

    #[inline]
    fn family(&mut self, ids: Ids) -> Option<usize> {
        if self.last.0 != ids {
            self.last = (ids, *self.by_ids.get(&ids)?);
        }
        Some(self.last.1)
    }
}

impl Family {
    /// Adds a shape, unless there are too many. With other schemas behind the same ids the family is the reference's for good.
    fn join(&mut self, shape: &Shape<'_>, number: usize, is_new: bool) -> Option<()> {
        if self.wire != shape.wire.get() || (self.tables.is_empty() && !is_new) {
            self.tables.clear();
            return None;
        }
        let timestamps = shape.columns.iter().filter(|c| c.mysql.starts_with("timestamp"));
        let digits = timestamps.map(|c| Some(digits_of(&c.mysql)? + 1)).collect::<Option<_>>()?;
        match self.tables.iter_mut().find(|table| table.is(&shape.database, &shape.table)) {
            Some(table) if table.shapes.len() < MAX_SHAPES => table.shapes.push((number, digits)),
            Some(_) => return None,
            None => {
                let (database, name) = (shape.database.clone(), shape.table.clone());
                self.tables.push(Table { database, name, shapes: vec![(number, digits)], last: 0 });
            }
        }
        Some(())
    }

    /// Reads a value but for its columns: where they stand is then in `images`, and the rest in `envelope`, which was empty.
    fn read<'a>(&self, value: &'a [u8], images: &mut Images, envelope: &mut Envelope<'a>) -> Option<()> {
        images.clear();
        let mut c = Cursor::new(value);
        for (member, union, kind) in &self.plan.envelope {
            let there = union.open(&mut c)?;
            match *member {
                Member::Clock(at) => {
                    let time = if there { Some((*kind)?.integer(&mut c)?) } else { None };
                    *envelope.clock.get_mut(at)? = Some(time);
                }
                Member::Source | Member::Op if !there => return None,
                _ if !there => {}
                Member::Before => images.before.walk(&self.steps, &mut c, value)?,
                Member::After => images.after.walk(&self.steps, &mut c, value)?,
                Member::Source => envelope.source(&self.plan.source, &mut c)?,
                Member::Transaction => envelope.transaction(&self.plan.transaction, &mut c)?,
                Member::Op => envelope.op = text(&mut c)?,
            }
        }
        c.is_empty().then_some(())
    }

    /// Whether the key is the row's, or there is none and shall be none.
    fn agrees(&self, key: Option<&[u8]>, images: &Images, value: &[u8]) -> Option<()> {
        match (&self.plan.key, key) {
            (None, None) => Some(()),
            (Some(parts), Some(key)) => images.row().agrees(key, parts, &self.steps, value),
            _ => None,
        }
    }

    /// The number of the shape that a row belongs to.
    fn shape(&mut self, envelope: &Envelope<'_>, digits: &[u8]) -> Option<usize> {
        let is =
            |table: &Table| table.database.as_bytes() == envelope.database && table.name.as_bytes() == envelope.table;
        if !self.tables.get(self.last).is_some_and(is) {
            self.last = self.tables.iter().position(is)?;
        }
        self.tables.get_mut(self.last)?.shape(digits)
    }
}

impl Table {
    fn is(&self, database: &str, name: &str) -> bool {
        self.database == database && self.name == name
    }

    /// The first shape that has these digits wherever they are known.
    fn shape(&mut self, digits: &[u8]) -> Option<usize> {
        if self.shapes.get(self.last).is_none_or(|(_, known)| known != digits) {
            let agrees =
                |known: &[u8]| digits.iter().zip(known).all(|(&digits, &known)| digits == 0 || digits == known);
            self.last = self.shapes.iter().position(|(_, known)| agrees(known))?;
        }
        self.shapes.get(self.last).map(|(number, _)| *number)
    }
}

impl Room {
    /// What is known of a row but its origin, which is written here.
    fn head<'a>(&mut self, record: i32, envelope: &Envelope<'a>, headers: SentHeaders<'_>) -> Option<Head<'a>> {
        let images = (self.images.before.is_there(), self.images.after.is_there());
        let [letter] = *envelope.op else { return None };
        let op = op(letter, images)?;
        self.origin.clear();
        envelope.write(&mut self.origin)?;
        if !headers.headers.is_empty() {
            let (name, connector) = envelope.names()?;
            self.origin.extend_from_slice(self.headers.read(headers.headers, name, connector)?);
        }
        self.origin.push(b'}');
        let transaction = envelope.transaction.map(|(id, order, table_order)| Transaction { id, order, table_order });
        let when = When::Log(envelope.sequence(), envelope.time()?);
        envelope.is_usual().then_some(Head { record, op, images, when, transaction, origin: &[] })
    }
}

/// Reads both images into their columns.
fn fill(rows: &mut Rows, images: &Images, datum: &[u8]) -> Option<()> {
    for (image, ends) in [(&mut rows.before, &images.before), (&mut rows.after, &images.after)] {
        if ends.is_there() {
            ends.fill(image, datum)?;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests;
