//! Mirrors columnar/events.py: the rows of one shape under construction: place, and both images.
//!
//! ```text
//! record index op commit_ts origin     before{…}     after{…}
//! └ one entry a row ─────────────┘     └ columns; a row may lack the image ┘
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch, StringArray, StructArray, UInt64Array};
use arrow_buffer::ScalarBuffer;
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef};

use crate::capacity::emptied;
use crate::columns::{Bytes, Column, Spelling};
use crate::nulls::Nulls;
use crate::shared::{Build, Owners};

/// Shapes of one family that are kept, the first that were registered: the reference has the same number.
pub const MAX_SHAPES: usize = 256;

/// What happened to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// It was not there before.
    Insert,
    /// It was there before.
    Update,
    /// It is gone.
    Delete,
    /// It now has this image; whether it was there before is not known.
    Upsert,
}

impl Op {
    fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Upsert => "upsert",
        }
    }
}

/// An empty column, its name, its Arrow type and its MySQL type.
pub struct Named {
    /// The column's name.
    pub name: String,
    /// The MySQL type's text; it travels in the field's metadata.
    pub mysql: String,
    /// The Arrow type that `column` makes.
    pub arrow: DataType,
    /// The column.
    pub column: Box<dyn Column>,
}

/// One image of the rows.
pub struct Image {
    pub(crate) fields: Fields,
    columns: Vec<Box<dyn Column>>,
    absent: Nulls,
    rows: usize,
    filled: usize,
}

impl Image {
    /// An image of no rows.
    pub fn new(named: Vec<Named>) -> Self {
        let (fields, columns): (Vec<_>, Vec<_>) = named
            .into_iter()
            .map(|n| {
                let metadata = HashMap::from([("mysql".to_owned(), n.mysql)]);
                (Field::new(n.name, n.arrow, true).with_metadata(metadata), n.column)
            })
            .unzip();
        Self { fields: fields.into(), columns, absent: Nulls::default(), rows: 0, filled: 0 }
    }

    /// The columns, ready for the next row's values.
    #[inline]
    pub fn columns(&mut self) -> &mut [Box<dyn Column>] {
        self.fill();
        &mut self.columns
    }

    /// How many rows are complete.
    pub(crate) fn count(&self) -> usize {
        self.rows
    }

    fn fill(&mut self) {
        if self.filled < self.rows {
            self.columns.iter_mut().for_each(|c| c.pad(self.rows));
            self.filled = self.rows;
        }
    }

    #[inline]
    pub(crate) fn close(&mut self, present: bool) {
        self.rows += 1;
        if present {
            self.filled = self.rows;
        } else {
            self.absent.push(self.rows - 1..self.rows);
        }
    }

    /// Forgets the values of the row that is being read.
    pub fn rewind(&mut self) {
        self.truncate(self.rows);
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        self.columns.iter_mut().for_each(|c| c.truncate(rows));
        self.absent.truncate(rows);
        self.rows = self.rows.min(rows);
        self.filled = self.filled.min(rows);
    }

    pub(crate) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        self.fill();
        let arrays = self.columns.iter_mut().map(|c| c.finish()).collect::<Result<_, _>>()?;
        let absent = self.absent.finish(self.rows);
        (self.rows, self.filled) = (0, 0);
        Ok(Arc::new(StructArray::try_new(self.fields.clone(), arrays, absent)?))
    }
}

/// What is known of a row beside its images.
pub struct Head<'a> {
    /// Row of the record in its batch.
    pub record: i32,
    /// Which event of the record; nothing when it holds one only.
    pub index: Option<i32>,
    /// The upstream's ordering number, where there is one.
    pub commit_ts: Option<u64>,
    /// JSON of the protocol's other members.
    pub origin: Option<&'a [u8]>,
}

/// The rows of one shape.
pub struct Rows {
    /// The image before each change.
    pub before: Image,
    /// The image after each change.
    pub after: Image,
    schema: SchemaRef,
    records: Vec<i32>,
    indexes: Vec<Option<i32>>,
    ops: Vec<Op>,
    commit_ts: Vec<u64>,
    undated: Nulls,
    origins: Bytes,
    owners: Owners,
}

impl Rows {
    /// No rows, with these images.
    pub fn new(before: Image, after: Image) -> Self {
        let schema = Arc::new(Schema::new(vec![
            Field::new("record", DataType::Int32, true),
            Field::new("index", DataType::Int32, true),
            Field::new("op", DataType::Utf8, true),
            Field::new("commit_ts", DataType::UInt64, true),
            Field::new("origin", DataType::Utf8, true),
            Field::new("before", DataType::Struct(before.fields.clone()), true),
            Field::new("after", DataType::Struct(after.fields.clone()), true),
            Field::new("shape", DataType::Int32, true),
        ]));
        Self {
            before,
            after,
            schema,
            records: Vec::new(),
            indexes: Vec::new(),
            ops: Vec::new(),
            commit_ts: Vec::new(),
            undated: Nulls::default(),
            origins: Bytes::new(Spelling::Plain, true),
            owners: Owners::default(),
        }
    }

    /// How many rows are complete.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Completes a row whose images have been read: those that its op always has.
    pub fn close(&mut self, op: Op, head: &Head<'_>) -> Option<()> {
        self.close_with(op, matches!(op, Op::Update | Op::Delete), op != Op::Delete, head)
    }

    /// Completes a row of which the images `before` and `after` have been read.
    pub fn close_with(&mut self, op: Op, before: bool, after: bool, head: &Head<'_>) -> Option<()> {
        self.origins.push(head.origin)?;
        self.before.close(before);
        self.after.close(after);
        self.records.push(head.record);
        self.indexes.push(head.index);
        self.ops.push(op);
        if head.commit_ts.is_none() {
            self.undated.push(self.commit_ts.len()..self.commit_ts.len() + 1);
        }
        self.commit_ts.push(head.commit_ts.unwrap_or_default());
        self.owners.push();
        Some(())
    }

    /// Forgets values of a row that was not completed.
    pub fn rewind(&mut self) {
        self.truncate(self.len());
    }

    /// Forgets the last row.
    pub fn pop(&mut self) {
        self.truncate(self.len().saturating_sub(1));
    }

    /// Forgets all rows from the given one on.
    pub fn truncate(&mut self, rows: usize) {
        self.before.truncate(rows);
        self.after.truncate(rows);
        self.records.truncate(rows);
        self.indexes.truncate(rows);
        self.ops.truncate(rows);
        self.commit_ts.truncate(rows);
        self.undated.truncate(rows);
        self.origins.truncate(rows);
        self.owners.truncate(rows);
    }
}

impl Build for Rows {
    fn owners(&mut self) -> &mut Owners {
        &mut self.owners
    }

    fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let room = self.len();
        let commit_ts = emptied(&mut self.commit_ts);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(emptied(&mut self.records))),
            Arc::new(self.indexes.drain(..).collect::<Int32Array>()),
            Arc::new(StringArray::from_iter_values(self.ops.drain(..).map(Op::name))),
            Arc::new(UInt64Array::new(ScalarBuffer::from(commit_ts), self.undated.finish(room))),
            self.origins.finish()?,
            self.before.finish()?,
            self.after.finish()?,
            Arc::new(self.owners.finish()),
        ];
        RecordBatch::try_new(self.schema.clone(), columns)
    }
}
