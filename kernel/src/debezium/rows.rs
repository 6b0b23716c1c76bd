//! Mirrors columnar/events.py: the rows of one shape: place, time, and both images.
//!
//! ```text
//! record index op  commit_ts commit_time  transaction origin  before{…} after{…}      with TiDB's timestamps
//! record index op  sequence commit_time   transaction origin  before{…} after{…}      with a place in the binary log
//! ```

use std::sync::Arc;

use arrow_array::types::{
    ArrowTimestampType, Int64Type, TimestampMicrosecondType, TimestampMillisecondType, UInt64Type,
};
use arrow_array::{ArrayRef, Int32Array, PrimitiveArray, RecordBatch, StringArray, StructArray};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

use crate::capacity::emptied;
use crate::columns::{Bytes, Column, Spelling};
use crate::nulls::Nulls;
use crate::numbers::Numbers;
use crate::rows::Image;
use crate::shared::{Build, Owners};

/// TiDB's timestamps are milliseconds, then so many bits of a counter.
pub const LOGICAL_BITS: u32 = 18;

/// Which times the rows contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// TiDB's timestamps, and the time in milliseconds that they are made of.
    Tso,
    /// A place in the binary log and a time in milliseconds.
    Milliseconds,
    /// The same in microseconds.
    Microseconds,
}

/// When a row changed.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// The upstream's ordering number.
    Tso(u64),
    /// The place in the log, and the clock's time.
    Log(Option<u64>, i64),
}

/// The transaction of a row.
#[derive(Clone, Copy, Debug)]
pub struct Transaction<'a> {
    /// Its id, UTF-8.
    pub id: &'a [u8],
    /// Which event of it.
    pub order: Option<i64>,
    /// Which event of it in this table.
    pub table_order: Option<i64>,
}

/// What is known of a row beside its images.
pub struct Head<'a> {
    /// Row of the record in its batch.
    pub record: i32,
    /// What happened.
    pub op: &'static str,
    /// Which images there are.
    pub images: (bool, bool),
    /// When.
    pub when: When,
    /// In which transaction.
    pub transaction: Option<Transaction<'a>>,
    /// JSON of the protocol's other members.
    pub origin: &'a [u8],
}

/// The rows of one shape.
pub struct Rows {
    /// The image before each change.
    pub before: Image,
    /// The image after each change.
    pub after: Image,
    schema: SchemaRef,
    clock: Clock,
    records: Vec<i32>,
    ops: Vec<&'static str>,
    numbers: Numbers<UInt64Type>,
    times: Vec<i64>,
    ids: Bytes,
    orders: Numbers<Int64Type>,
    table_orders: Numbers<Int64Type>,
    alone: Nulls,
    origins: Bytes,
    owners: Owners,
}

impl Rows {
    /// No rows, with these images.
    pub fn new(before: Image, after: Image, clock: Clock) -> Self {
        let schema = Arc::new(schema(&before, &after, clock));
        Self {
            before,
            after,
            schema,
            clock,
            records: Vec::new(),
            ops: Vec::new(),
            numbers: Numbers::default(),
            times: Vec::new(),
            ids: Bytes::new(Spelling::Plain, true),
            orders: Numbers::default(),
            table_orders: Numbers::default(),
            alone: Nulls::default(),
            origins: Bytes::new(Spelling::Plain, true),
            owners: Owners::default(),
        }
    }

    /// Completes a row whose images have been read.
    pub fn close(&mut self, head: &Head<'_>) -> Option<()> {
        let row = self.records.len();
        self.origins.push(Some(head.origin))?;
        match &head.transaction {
            Some(transaction) => {
                self.pad_transactions(row);
                self.ids.push(Some(transaction.id))?;
                self.orders.push(transaction.order);
                self.table_orders.push(transaction.table_order);
            }
            None => self.alone.push(row..row + 1),
        }
        let (number, time) = match head.when {
            When::Tso(ts) => (Some(ts), (ts >> LOGICAL_BITS).cast_signed()),
            When::Log(sequence, time) => (sequence, time),
        };
        self.numbers.push(number);
        self.times.push(time);
        self.before.close(head.images.0);
        self.after.close(head.images.1);
        self.ops.push(head.op);
        self.records.push(head.record);
        self.owners.push();
        Some(())
    }

    /// Forgets what was read of a row that was not completed.
    pub fn rewind(&mut self) {
        let rows = self.records.len();
        self.before.truncate(rows);
        self.after.truncate(rows);
        self.ops.truncate(rows);
        self.numbers.truncate(rows);
        self.times.truncate(rows);
        self.ids.truncate(rows);
        self.orders.truncate(rows);
        self.table_orders.truncate(rows);
        self.alone.truncate(rows);
        self.origins.truncate(rows);
    }

    /// Rows without transaction are padded in bulk, when one has one or at the end.
    fn pad_transactions(&mut self, rows: usize) {
        self.ids.pad(rows);
        self.orders.pad(rows);
        self.table_orders.pad(rows);
    }

    fn transactions(&mut self, rows: usize) -> Result<ArrayRef, ArrowError> {
        self.pad_transactions(rows);
        let children = vec![self.ids.finish()?, Arc::new(self.orders.finish()), Arc::new(self.table_orders.finish())];
        Ok(Arc::new(StructArray::try_new(transaction_fields(), children, self.alone.finish(rows))?))
    }
}

impl Build for Rows {
    fn owners(&mut self) -> &mut Owners {
        &mut self.owners
    }

    fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = self.records.len();
        let times = emptied(&mut self.times);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(emptied(&mut self.records))),
            Arc::new(Int32Array::new_null(rows)),
            Arc::new(StringArray::from_iter_values(self.ops.drain(..))),
            Arc::new(self.numbers.finish()),
            match self.clock {
                Clock::Tso | Clock::Milliseconds => utc::<TimestampMillisecondType>(times),
                Clock::Microseconds => utc::<TimestampMicrosecondType>(times),
            },
            self.transactions(rows)?,
            self.origins.finish()?,
            self.before.finish()?,
            self.after.finish()?,
            Arc::new(self.owners.finish()),
        ];
        RecordBatch::try_new(self.schema.clone(), columns)
    }
}

fn schema(before: &Image, after: &Image, clock: Clock) -> Schema {
    let (number, unit) = match clock {
        Clock::Tso => ("commit_ts", TimeUnit::Millisecond),
        Clock::Milliseconds => ("sequence", TimeUnit::Millisecond),
        Clock::Microseconds => ("sequence", TimeUnit::Microsecond),
    };
    Schema::new(vec![
        Field::new("record", DataType::Int32, true),
        Field::new("index", DataType::Int32, true),
        Field::new("op", DataType::Utf8, true),
        Field::new(number, DataType::UInt64, true),
        Field::new("commit_time", DataType::Timestamp(unit, Some("UTC".into())), true),
        Field::new("transaction", DataType::Struct(transaction_fields()), true),
        Field::new("origin", DataType::Utf8, true),
        Field::new("before", DataType::Struct(before.fields.clone()), true),
        Field::new("after", DataType::Struct(after.fields.clone()), true),
        Field::new("shape", DataType::Int32, true),
    ])
}

fn transaction_fields() -> Fields {
    let order = |name| Field::new(name, DataType::Int64, true);
    Fields::from(vec![Field::new("id", DataType::Utf8, true), order("order"), order("table_order")])
}

fn utc<T: ArrowTimestampType>(times: Vec<i64>) -> ArrayRef {
    let array = PrimitiveArray::<T>::new(times.into(), None);
    Arc::new(array.with_timezone("UTC"))
}
