//! Mirrors protocols/ticdc_debezium/decoder.py: rows of registered shapes, from bytes into columns.
//!
//! ```text
//! {"payload":{"source":{"version":"2.4.0.Final","connector":"TiCDC","name": C ,"ts_ms": … ,"snapshot":"false","db":"shop",
//!   "table":"t","server_id":0,"gtid":null,"file":"","pos":0,"row":0,"thread":0,"query":null,"commit_ts": … ,
//!   ["start_ts": … ,]"cluster_id": C },"ts_ms": … ,"transaction":null,"op":"c","before":null,"after": image }[,"schema":{…}]}
//!
//! c  "before":null,"after": image       u  "before": image ,"after": image
//! d  "after":null,"before": image       u  "after": image, without the old row
//! ```
//!
//! Rule 1. The source block is the current one: a member that differs, C twice the same text excepted, makes the record unmatched.
//! Rule 2. A schema block is compared with that of the shape, byte for byte, and never read.

mod shapes;

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use crate::cursor::Cursor;
use crate::debezium::group::{Common, Group};
use crate::debezium::images::Images;
use crate::debezium::rows::{Head, LOGICAL_BITS, Rows, Transaction, When};
use crate::debezium::shapes::Shape;
use crate::shared::Shared;
use crate::strict_json::{int64, string, uint64};
use shapes::{Compiled, compile};

const OPENING: &[u8] = b"{\"payload\":{\"source\":{\"version\":\"2.4.0.Final\",\"connector\":\"TiCDC\",\"name\":";
const SNAPSHOT: &[u8] = b",\"snapshot\":\"false\"";
const NOWHERE: &[u8] =
    b",\"server_id\":0,\"gtid\":null,\"file\":\"\",\"pos\":0,\"row\":0,\"thread\":0,\"query\":null,\"commit_ts\":";

/// Decodes the rows of the registered shapes.
#[derive(Default)]
pub struct Decoder {
    names: HashMap<Vec<u8>, usize>,
    latest: usize,
    tables: Vec<Table>,
    common: Common,
    shapes: Shared<Rows>,
    images: Images,
    origin: Vec<u8>,
    start: Vec<u8>,
}

/// The parts of one table, and which table came after it.
#[derive(Default)]
struct Table {
    names: Vec<u8>,
    next: usize,
    parts: Vec<Part>,
    last: usize,
}

struct Part {
    group: Group,
    identity: Vec<u8>,
    tail: Vec<u8>,
}

/// The members of the envelope.
struct Envelope {
    table: usize,
    commit_ts: u64,
    started: bool,
    op: u8,
}

impl Decoder {
    /// Compiles the shape that this JSON describes; its number, or None if the kernel does not support it.
    pub fn register(&mut self, description: &str) -> Option<usize> {
        let shape: Shape<'_> = serde_json::from_str(description).ok()?;
        let Compiled { names, tail, identity, group, codes, rows, kind } = compile(&shape)?;
        let number = self.shapes.len();
        let fresh = self.tables.len();
        let table = *self.names.entry(names.clone()).or_insert(fresh);
        if table == fresh {
            self.tables.push(Table { names, ..Table::default() });
        }
        let parts = &mut self.tables.get_mut(table)?.parts;
        match parts.iter_mut().find(|part| part.identity == identity) {
            Some(part) => part.group.register(number, codes, &mut self.common)?,
            None => {
                let mut group = group;
                group.register(number, codes, &mut self.common)?;
                group.share(&mut self.common);
                parts.push(Part { group, identity, tail });
            }
        }
        self.shapes.push(kind, rows);
        Some(number)
    }

    /// Decodes one record; returns `None` and leaves no trace of a record that is unmatched.
    pub fn decode(&mut self, record: i32, key: Option<&[u8]>, value: Option<&[u8]>) -> Option<()> {
        let value = value?;
        let mut c = Cursor::new(value);
        let envelope = self.envelope(&mut c)?;
        let table = self.tables.get_mut(envelope.table)?;
        let part = table.parts.get_mut(table.last)?;
        let guess = part.group.guess();
        if let Some(guess) = guess {
            let rows = self.shapes.get_mut(guess)?;
            let number = part.read(key, value, c, envelope.op, &mut self.images, Some(rows));
            let head = envelope.head(record, &self.images, &self.start, &self.origin);
            if number == Some(guess) && rows.close(&head).is_some() {
                return Some(());
            }
            rows.rewind();
        }
        let number = table.read(key, value, c, envelope.op, &mut self.images)?;
        if guess.is_some_and(|guess| guess != number) {
            table.parts.get_mut(table.last)?.group.missed();
        }
        let rows = self.shapes.get_mut(number)?;
        let head = envelope.head(record, &self.images, &self.start, &self.origin);
        let done = self.images.fill(rows, value).and_then(|()| rows.close(&head));
        if done.is_none() {
            rows.rewind();
        }
        done
    }

    /// The rows since the last call: see `Shared::finish`.
    pub fn finish(&mut self) -> Result<Vec<(usize, RecordBatch)>, ArrowError> {
        self.shapes.finish()
    }

    /// Reads all in front of the images, and writes the origin.
    fn envelope(&mut self, c: &mut Cursor<'_>) -> Option<Envelope> {
        c.eat(OPENING)?;
        let name = string(c)?;
        c.eat(b",\"ts_ms\":")?;
        let ms = int64(c)?;
        c.eat(SNAPSHOT)?;
        let table = self.table(c)?;
        c.eat(NOWHERE)?;
        let commit_ts = uint64(c)?;
        let started = c.eat(b",\"start_ts\":").is_some();
        if started {
            let start = text_of(c, uint64)?;
            self.start.clear();
            self.start.extend_from_slice(start);
        }
        c.eat(b",\"cluster_id\":")?;
        let cluster = string(c)?;
        c.eat(b"},\"ts_ms\":")?;
        let clock = text_of(c, int64)?;
        c.eat(b",\"transaction\":null,\"op\":\"")?;
        let op = c.byte()?;
        c.eat(b"\",")?;
        if name.escaped || cluster.raw != name.raw || u64::try_from(ms).ok()? != commit_ts >> LOGICAL_BITS {
            return None;
        }
        self.origin.clear();
        self.origin.extend_from_slice(b"{\"ts_ms\":");
        self.origin.extend_from_slice(clock);
        self.origin.extend_from_slice(b",\"cluster_id\":\"");
        self.origin.extend_from_slice(cluster.raw);
        self.origin.extend_from_slice(b"\"}");
        Some(Envelope { table, commit_ts, started, op })
    }

    /// The table that a source block names; the cursor stands behind its name. Tables take turns, often the same: the one
    /// that came next before is looked at first.
    fn table(&mut self, c: &mut Cursor<'_>) -> Option<usize> {
        let next = self.tables.get(self.latest)?.next;
        let known = [next, self.latest].into_iter().find(|&at| {
            let names = self.tables.get(at).map(|table| table.names.as_slice());
            names.is_some_and(|names| c.eat(names).is_some())
        });
        let table = known.or_else(|| self.find(c))?;
        self.tables.get_mut(self.latest)?.next = table;
        self.latest = table;
        Some(table)
    }

    fn find(&self, c: &mut Cursor<'_>) -> Option<usize> {
        let start = c.rest();
        c.eat(b",\"db\":")?;
        string(c)?;
        c.eat(b",\"table\":")?;
        string(c)?;
        let names = start.get(..start.len() - c.rest().len())?;
        self.names.get(names).copied()
    }
}

/// The bytes of a number: there is but one text of each.
#[inline]
fn text_of<'a, T>(c: &mut Cursor<'a>, read: impl FnOnce(&mut Cursor<'a>) -> Option<T>) -> Option<&'a [u8]> {
    let start = c.rest();
    read(c)?;
    start.get(..start.len() - c.rest().len())
}

impl Envelope {
    /// What is known of a row beside its images.
    #[inline]
    fn head<'a>(&self, record: i32, images: &Images, start: &'a [u8], origin: &'a [u8]) -> Head<'a> {
        Head {
            record,
            op: match self.op {
                b'c' => "insert",
                b'u' => "update",
                _ => "delete",
            },
            images: (images.before.is_there(), images.after.is_there()),
            when: When::Tso(self.commit_ts),
            transaction: self.started.then_some(Transaction { id: start, order: None, table_order: None }),
            origin,
        }
    }
}

impl Table {
    /// Reads images, schema and key by the part that they are of; its shape for the row.
    fn read(&mut self, key: Option<&[u8]>, value: &[u8], c: Cursor<'_>, op: u8, images: &mut Images) -> Option<usize> {
        let last = self.last;
        let others = (0..self.parts.len()).filter(|&at| at != last);
        for at in std::iter::once(last).chain(others) {
            let Some(part) = self.parts.get_mut(at) else { continue };
            if let Some(number) = part.read(key, value, c, op, images, None) {
                self.last = at;
                return Some(number);
            }
        }
        None
    }
}

impl Part {
    /// Reads what is behind the envelope, and its values into the guessed rows if there are some; the shape of the row.
    #[inline]
    fn read(
        &mut self,
        key: Option<&[u8]>,
        value: &[u8],
        mut c: Cursor<'_>,
        op: u8,
        images: &mut Images,
        rows: Option<&mut Rows>,
    ) -> Option<usize> {
        images.clear();
        let (before, after) = rows.map(|rows| (&mut rows.before, &mut rows.after)).unzip();
        match op {
            b'c' => {
                c.eat(b"\"before\":null,\"after\":")?;
                self.group.image(&mut c, value, &mut images.after, after)?;
            }
            b'd' => {
                c.eat(b"\"after\":null,\"before\":")?;
                self.group.image(&mut c, value, &mut images.before, before)?;
            }
            b'u' => {
                if c.eat(b"\"before\":").is_some() {
                    self.group.image(&mut c, value, &mut images.before, before)?;
                    c.eat(b",")?;
                }
                c.eat(b"\"after\":")?;
                self.group.image(&mut c, value, &mut images.after, after)?;
            }
            _ => return None,
        }
        (c.rest() == self.tail).then_some(())?;
        self.group.shape(key, images, value)
    }
}

#[cfg(test)]
mod tests;
