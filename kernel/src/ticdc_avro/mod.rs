//! Mirrors protocols/ticdc_avro/decoder.py: rows of registered schemas, from bytes into columns.
//!
//! ```text
//! key    00 │ 00 00 00 08 │ 02
//!        magic, schema id │ id 1
//! value  00 │ 00 00 00 07 │ 02   │ 02 02 78 │ 02 08 49 96 02 d2 │ 00        │ 02 63 │ 88 80 80 f0 8e … │ 80 f7 c0 f3 d4 5c
//!        magic, schema id │ id 1 │ 'x'      │ 12345678.90       │ no old row│ op c  │ commit ts        │ its milliseconds
//!        └ columns, then as far as the schema has them: _ticdc_before, _tidb_op, _tidb_commit_ts, … ─────────────────────┘
//!          … │ 14 "2576309862" │ 00            │ 04
//!            │ checksum        │ not corrupted │ version
//!
//! delete   the key alone, with no value, or with 03 and the commit ts as 8 bytes, big-endian
//! ```
//!
//! Rule 1. A record is one row or unmatched. Marks (01, 02), schemas that are not registered, checksums that do not match, and
//!         whatever is not exactly as drawn are the reference's.
//! Rule 2. Schema ids and topic determine the family; its shapes differ in the fraction digits of their temporal columns alone. A
//!         row belongs to the first of them, in the order of registration, that agrees with it.
//! Rule 3. A key has the same bytes as the row. A row deleted is the same bytes as the old row.

mod checksum;
mod schemas;
mod shapes;
mod values;

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use crate::avro::{Ids, datum};
use crate::rows::{Head, Image, Named, Rows};
use crate::shared::Shared;
use schemas::Shape;
use shapes::{Datums, Family, Reader};

const DELETE: u8 = 3;

/// Decodes the rows of the registered shapes.
pub struct Decoder {
    ahead: Option<i64>,
    by_ids: HashMap<Ids, Vec<(Vec<u8>, usize)>>,
    last: (Ids, Vec<u8>, usize),
    families: Vec<Family>,
    shapes: Shared<Rows>,
}

impl Decoder {
    /// No shape is registered yet. `ahead` is how many microseconds the producer's clock is ahead of UTC, or nothing when that
    /// depends on the day: shapes with a TIMESTAMP are then not registered.
    pub fn new(ahead: Option<i64>) -> Self {
        let nowhere = ((None, None), Vec::new(), 0);
        Self { ahead, by_ids: HashMap::new(), last: nowhere, families: Vec::new(), shapes: Shared::default() }
    }

    /// Compiles the shape that this JSON describes; its number, or None if the kernel does not support it.
    pub fn register(&mut self, description: &str) -> Option<usize> {
        let shape: Shape = serde_json::from_str(description).ok()?;
        let plan = shape.plan(self.ahead == Some(0))?;
        let image = || {
            let columns = shape.columns.iter().zip(&plan.places).map(|(described, place)| {
                let (arrow, column) = values::column(&described.mysql, place, self.ahead)?;
                Some(Named { name: described.name.clone(), mysql: described.mysql.clone(), arrow, column })
            });
            Some(Image::new(columns.collect::<Option<_>>()?))
        };
        let rows = Rows::new(image()?, image()?);
        let kind = format!("{:?}{:?}", shape.columns, plan.places);
        let reader = Reader::new(self.shapes.len(), shape.columns.iter().map(|c| values::fraction_digits(&c.mysql)))?;
        let topic = shape.topic.clone().into_bytes();
        let schemas = shape.schemas();
        let topics = self.by_ids.entry(schemas.ids()).or_default();
        if let Some((_, at)) = topics.iter().find(|(known, _)| *known == topic) {
            self.families.get_mut(*at)?.join(&schemas, reader)?;
        } else {
            topics.push((topic, self.families.len()));
            self.families.push(Family::new(schemas, plan, reader));
        }
        self.shapes.push(kind, rows);
        Some(self.shapes.len() - 1)
    }

    /// Decodes one record; returns `None` and leaves no trace of a record that is unmatched.
    pub fn decode(&mut self, record: i32, topic: &[u8], key: Option<&[u8]>, value: Option<&[u8]>) -> Option<()> {
        let (value, ts) = match value {
            Some([DELETE, ts @ ..]) => (None, Some(u64::from_be_bytes(ts.try_into().ok()?))),
            value => (value, None),
        };
        let ((key_id, key), (value_id, value)) = (datum(key)?, datum(value)?);
        let family = self.family((key_id, value_id), topic)?;
        let family = self.families.get_mut(family)?;
        let (shape, matched) = family.read(&mut self.shapes, &Datums { key, value })?;
        let head = Head { record, index: None, commit_ts: matched.commit_ts.or(ts), origin: family.origin() };
        self.shapes.get_mut(shape)?.close_with(matched.op, matched.before, matched.after, &head)
    }

    /// The rows since the last call: see `Shared::finish`.
    pub fn finish(&mut self) -> Result<Vec<(usize, RecordBatch)>, ArrowError> {
        self.shapes.finish()
    }

    #[inline]
    fn family(&mut self, ids: Ids, topic: &[u8]) -> Option<usize> {
        if self.last.0 != ids || self.last.1 != topic {
            let (known, at) = self.by_ids.get(&ids)?.iter().find(|(known, _)| known == topic)?;
            self.last = (ids, known.clone(), *at);
        }
        Some(self.last.2)
    }
}

#[cfg(test)]
mod tests;
