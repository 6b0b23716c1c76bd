//! Mirrors protocols/debezium_mysql/decoder.py: rows in JSON of registered shapes, from bytes into columns.
//!
//! ```text
//! {"schema":{…},"payload":{"before":null,"after": image ,"source":{…},"transaction":{…},"op":"c","ts_ms": … }}
//! {"before": image ,"after": image ,"source":{…},"transaction":null,"op":"u","ts_ms": … ,"ts_us": … ,"ts_ns": … }
//! key      {"schema":{…},"payload":{"id": 7 }}      {"id": 7 }      none
//! ```
//!
//! Rule 1. A schema block is compared with those of the shapes, byte for byte, and never read. Without one the names in the
//!         source block determine the table, wherever the block stands.
//! Rule 2. Members have the order of the shape. A key that is not the row's, a delete without its old row, and a column
//!         that was not sent, are for the reference.
//! Rule 3. A tombstone is not an event of its own.

mod envelope;
mod headers;
mod part;
mod route;
mod row;
mod shapes;
mod tail;

pub mod avro;

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use crate::debezium::group::Common;
use crate::debezium::images::Placeholders;
use crate::debezium::rows::{Head, Rows, Transaction};
use crate::debezium::shapes::Shape;
use crate::shared::Shared;
use envelope::Layout;
pub use headers::{Header, SentHeaders};
use part::{Part, Record, Room, Row};
use route::Routes;
use shapes::{Compiled, compile};
use tail::Tails;

/// Decodes the rows of the registered shapes.
#[derive(Default)]
pub struct Decoder {
    numeric: bool,
    parts: Vec<Part>,
    routes: Routes,
    alike: Vec<Alike>,
    common: Common,
    /// By layout, and by whether there is a schema block: which of the room's.
    tails: HashMap<(Layout, bool), usize>,
    /// By the unit of their time: milliseconds, microseconds.
    shapes: [Shared<Rows>; 2],
    room: Room,
}

/// Parts of one schema block, or of one table: the first look at a value does not distinguish them further.
#[derive(Default)]
struct Alike {
    parts: Vec<usize>,
    last: usize,
}

impl Decoder {
    /// No shape is registered yet. `placeholders` stand for columns that were not sent; `numeric`: decimals are numbers.
    pub fn new(placeholders: Vec<Vec<u8>>, numeric: bool) -> Self {
        let room = Room { placeholders: Placeholders::new(placeholders), ..Room::default() };
        Self { numeric, room, ..Self::default() }
    }

    /// Compiles the shape that this JSON describes; its number, or None if the kernel does not support it.
    pub fn register(&mut self, description: &str) -> Option<usize> {
        let shape: Shape<'_> = serde_json::from_str(description).ok()?;
        let Compiled { opening, table, identity, layout, mut group, codes, rows, kind } =
            compile(&shape, self.numeric)?;
        let number = self.shapes[0].len();
        match self.parts.iter_mut().find(|part| part.identity == identity) {
            Some(part) => part.group.register(number, codes, &mut self.common)?,
            None => {
                group.register(number, codes, &mut self.common)?;
                group.share(&mut self.common);
                let alike = self.routes.register(&opening, &table);
                if alike == self.alike.len() {
                    self.alike.push(Alike::default());
                }
                self.alike.get_mut(alike)?.parts.push(self.parts.len());
                let tails = self.tails_of(layout, !opening.is_empty());
                self.parts.push(Part::new(group, opening, table, identity, tails));
            }
        }
        for (shapes, rows) in self.shapes.iter_mut().zip(rows) {
            shapes.push(kind.clone(), rows);
        }
        Some(number)
    }

    /// The tails of a layout: which of the room's.
    fn tails_of(&mut self, layout: Layout, has_block: bool) -> usize {
        let fresh = self.room.tails.len();
        *self.tails.entry((layout.clone(), has_block)).or_insert_with(|| {
            self.room.tails.push(Tails::new(layout, if has_block { b"}}" } else { b"}" }));
            fresh
        })
    }

    /// The number of the table that a value probably belongs to, from 0; those of unknown tables have the next number.
    pub fn table(&mut self, value: Option<&[u8]>) -> usize {
        value.and_then(|value| self.routes.find(value)).unwrap_or(self.routes.len())
    }

    /// The next records are of the topic, or the table, with this number; the first are of topic 0.
    #[inline]
    pub fn turn_to(&mut self, topic: usize) {
        self.routes.turn_to(topic);
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
        let (record, guess) = (Record { record, key, value, headers }, self.routes.guess());
        if let Some(route) = guess {
            if self.attempts(route, record).is_some() {
                return Some(());
            }
            self.routes.missed();
        }
        let route = self.routes.of(value).filter(|&route| guess != Some(route))?;
        self.attempts(route, record)
    }

    /// Decodes a record as one of the parts of a route.
    fn attempts(&mut self, group: usize, record: Record<'_>) -> Option<()> {
        let (last, count) = self.alike.get(group).map(|alike| (alike.last, alike.parts.len()))?;
        for place in std::iter::once(last).chain((0..count).filter(|&place| place != last)) {
            let part = *self.alike.get(group)?.parts.get(place)?;
            if self.attempt(part, record).is_some() {
                self.alike.get_mut(group)?.last = place;
                return Some(());
            }
        }
        None
    }

    /// The rows since the last call: see `Shared::finish`.
    pub fn finish(&mut self) -> Result<Vec<(usize, RecordBatch)>, ArrowError> {
        let [coarse, fine] = &mut self.shapes;
        Ok([coarse.finish()?, fine.finish()?].concat())
    }

    /// Decodes a record as one of this part; leaves no trace if it is none.
    fn attempt(&mut self, at: usize, record: Record<'_>) -> Option<()> {
        let (part, room) = (self.parts.get_mut(at)?, &mut self.room);
        let guess = part.guess();
        if let Some(guess) = guess {
            let rows = rows(&mut self.shapes, guess)?;
            let row = part.read(record, room, Some(rows)).filter(|row| row.rows == guess);
            if row.is_some_and(|row| rows.close(&head(record, &row, room)).is_some()) {
                return Some(());
            }
            rows.rewind();
        }
        let row = part.read(record, room, None)?;
        if guess.is_some_and(|guess| guess != row.rows) {
            part.group.missed();
        }
        let rows = rows(&mut self.shapes, row.rows)?;
        let done = room.images.fill(rows, record.value).and_then(|()| rows.close(&head(record, &row, room)));
        if done.is_none() {
            rows.rewind();
        }
        done
    }
}

/// The rows of a shape whose times are of one unit.
fn rows(shapes: &mut [Shared<Rows>; 2], (number, is_fine): (usize, bool)) -> Option<&mut Rows> {
    shapes.get_mut(usize::from(is_fine))?.get_mut(number)
}

/// What is known of a row beside its images.
fn head<'a>(record: Record<'_>, row: &Row, room: &'a Room) -> Head<'a> {
    Head {
        record: record.record,
        op: row.op,
        images: (room.images.before.is_there(), room.images.after.is_there()),
        when: row.when,
        transaction: row.orders.map(|(order, table_order)| Transaction { id: &room.id, order, table_order }),
        origin: &room.origin,
    }
}

#[cfg(test)]
mod tests;
