//! Mirrors protocols/tencent_dts/images.py: the rows of one shape, and the marks of transactions, under construction.
//!
//! ```text
//! rows    record index op sequence commit_time transaction origin before{…} after{…}
//! marks   record index begins commit_time id origin
//! ```
//!
//! Rule 1. What a group adds is kept when the whole group has been read, and forgotten when it is unmatched.

use std::mem::{replace, take};
use std::sync::Arc;

use arrow_array::types::{Int32Type, TimestampSecondType, UInt64Type};
use arrow_array::{ArrayRef, BooleanArray, Int64Array, PrimitiveArray, RecordBatch, StringArray, StructArray};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef};

use crate::columns::{Bytes, Column, Spelling};
use crate::cursor::Cursor;
use crate::nulls::Nulls;
use crate::numbers::Numbers;
use crate::rows::Image;
use crate::shared::{Build, Owners};

/// What is known of an event beside its images.
pub struct Head<'a> {
    /// Row of the record in its batch.
    pub record: i32,
    /// Which event of the group.
    pub index: i32,
    /// Its place in the order of changes.
    pub sequence: Option<u64>,
    /// When, in seconds since the epoch.
    pub seconds: Option<i64>,
    /// Its transaction; empty for none.
    pub transaction: &'a [u8],
    /// JSON of the protocol's other members.
    pub origin: &'a [u8],
}

/// Positions, times and other members of events.
struct Events {
    records: Vec<i32>,
    indexes: Numbers<Int32Type>,
    seconds: Numbers<TimestampSecondType>,
    ids: Bytes,
    origins: Bytes,
}

impl Default for Events {
    fn default() -> Self {
        let text = || Bytes::new(Spelling::Plain, true);
        let (indexes, seconds) = (Numbers::default(), Numbers::default());
        Self { records: Vec::new(), indexes, seconds, ids: text(), origins: text() }
    }
}

impl Events {
    #[inline]
    fn push(&mut self, head: &Head<'_>, id: Option<&[u8]>) -> Option<()> {
        self.ids.push(id)?;
        self.origins.push(Some(head.origin))?;
        self.indexes.push(Some(head.index));
        self.seconds.push(head.seconds);
        self.records.push(head.record);
        Some(())
    }

    fn truncate(&mut self, rows: usize) {
        self.records.truncate(rows);
        self.indexes.truncate(rows);
        self.seconds.truncate(rows);
        self.ids.truncate(rows);
        self.origins.truncate(rows);
    }

    /// Takes the last event's index away if it is the only one of its group.
    fn settle(&mut self, alone: bool) {
        if alone {
            self.indexes.truncate(self.records.len().saturating_sub(1));
            self.indexes.push(None);
        }
    }

    /// Records, indexes, and times.
    fn finish(&mut self) -> [(&'static str, ArrayRef); 3] {
        let room = Vec::with_capacity(self.records.len());
        let records = PrimitiveArray::<Int32Type>::new(replace(&mut self.records, room).into(), None);
        let seconds = self.seconds.finish().with_timezone("UTC");
        [("record", Arc::new(records)), ("index", Arc::new(self.indexes.finish())), ("commit_time", Arc::new(seconds))]
    }
}

/// What happened to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// It has an image after.
    Insert,
    /// It has both.
    Update,
    /// It has one before.
    Delete,
}

impl Op {
    fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }
}

/// The rows of one shape.
pub struct Rows {
    before: Image,
    after: Image,
    events: Events,
    ops: Vec<Op>,
    sequences: Numbers<UInt64Type>,
    alone: Nulls,
    kept: usize,
    schema: Option<SchemaRef>,
    owners: Owners,
}

impl Rows {
    /// No rows, with these images.
    pub fn new(before: Image, after: Image) -> Self {
        let (events, sequences) = (Events::default(), Numbers::default());
        Self {
            before,
            after,
            events,
            ops: Vec::new(),
            sequences,
            alone: Nulls::default(),
            kept: 0,
            schema: None,
            owners: Owners::default(),
        }
    }

    /// Reads the images of a RowChange, to its end; leaves no trace if it is of another shape.
    #[inline]
    pub fn read(&mut self, op: Op, change: &[u8]) -> Option<()> {
        let done = self.images(op, change);
        if done.is_none() {
            self.before.truncate(self.ops.len());
            self.after.truncate(self.ops.len());
        }
        done
    }

    #[inline]
    fn images(&mut self, op: Op, change: &[u8]) -> Option<()> {
        let mut c = Cursor::new(change);
        if op != Op::Insert {
            image(&mut self.before, 0x0a, &mut c)?;
        }
        if op != Op::Delete {
            image(&mut self.after, 0x12, &mut c)?;
        }
        c.is_empty().then_some(())
    }

    /// Completes a row whose images have been read; returns whether it is the first of its group. Leaves no trace of one for
    /// which there is no room.
    #[inline]
    pub fn close(&mut self, op: Op, head: &Head<'_>) -> Option<bool> {
        let row = self.ops.len();
        let id = (!head.transaction.is_empty()).then_some(head.transaction);
        if self.events.push(head, id).is_none() {
            self.truncate(row);
            return None;
        }
        if id.is_none() {
            self.alone.push(row..row + 1);
        }
        self.sequences.push(head.sequence);
        self.before.close(op != Op::Insert);
        self.after.close(op != Op::Delete);
        self.ops.push(op);
        self.owners.push();
        Some(row == self.kept)
    }

    /// Keeps what the group has added, or forgets it; a row may be the only event of its group.
    pub fn settle(&mut self, keep: bool, alone: bool) {
        if keep {
            self.kept = self.ops.len();
            self.events.settle(alone);
        } else {
            self.truncate(self.kept);
        }
    }

    fn truncate(&mut self, rows: usize) {
        self.before.truncate(rows);
        self.after.truncate(rows);
        self.events.truncate(rows);
        self.ops.truncate(rows);
        self.sequences.truncate(rows);
        self.alone.truncate(rows);
        self.owners.truncate(rows);
    }

    fn transactions(&mut self, rows: usize) -> Result<ArrayRef, ArrowError> {
        let order = |name| Field::new(name, DataType::Int64, true);
        let fields = Fields::from(vec![Field::new("id", DataType::Utf8, true), order("order"), order("table_order")]);
        let nothing: ArrayRef = Arc::new(Int64Array::new_null(rows));
        let children = vec![self.events.ids.finish()?, nothing.clone(), nothing];
        Ok(Arc::new(StructArray::try_new(fields, children, self.alone.finish(rows))?))
    }
}

impl Build for Rows {
    fn owners(&mut self) -> &mut Owners {
        &mut self.owners
    }

    fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = replace(&mut self.kept, 0);
        let [records, indexes, seconds] = self.events.finish();
        let columns = vec![
            records,
            indexes,
            ("op", Arc::new(StringArray::from_iter_values(self.ops.drain(..).map(Op::name)))),
            ("sequence", Arc::new(self.sequences.finish())),
            seconds,
            ("transaction", self.transactions(rows)?),
            ("origin", self.events.origins.finish()?),
            ("before", self.before.finish()?),
            ("after", self.after.finish()?),
            ("shape", Arc::new(self.owners.finish())),
        ];
        batch(&mut self.schema, columns)
    }
}

#[inline]
fn image(image: &mut Image, tag: u8, c: &mut Cursor<'_>) -> Option<()> {
    for column in image.columns() {
        (c.byte()? == tag).then_some(())?;
        column.read(c)?;
    }
    Some(())
}

/// Begins and ends of transactions.
#[derive(Default)]
pub struct Marks {
    events: Events,
    begins: Vec<bool>,
    kept: usize,
    schema: Option<SchemaRef>,
}

impl Marks {
    /// Adds one. The transaction may have no name.
    pub fn push(&mut self, begins: bool, head: &Head<'_>) -> Option<()> {
        self.events.push(head, Some(head.transaction))?;
        self.begins.push(begins);
        Some(())
    }

    /// Keeps what the group has added, or forgets it; a mark may be the only event of its group.
    pub fn settle(&mut self, keep: bool, alone: bool) {
        if keep {
            self.events.settle(alone && self.begins.len() > self.kept);
            self.kept = self.begins.len();
        } else {
            self.events.truncate(self.kept);
            self.begins.truncate(self.kept);
        }
    }

    /// The marks in columns; none are left.
    pub fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        self.kept = 0;
        let [records, indexes, seconds] = self.events.finish();
        let begins = BooleanArray::from(take(&mut self.begins));
        let (ids, origins) = (self.events.ids.finish()?, self.events.origins.finish()?);
        let columns = vec![records, indexes, ("begins", Arc::new(begins)), seconds, ("id", ids), ("origin", origins)];
        batch(&mut self.schema, columns)
    }
}

/// `schema` is kept: that of the first columns is that of all.
fn batch(schema: &mut Option<SchemaRef>, columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch, ArrowError> {
    let schema = schema.get_or_insert_with(|| {
        let fields = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    });
    RecordBatch::try_new(schema.clone(), columns.into_iter().map(|(_, array)| array).collect())
}
