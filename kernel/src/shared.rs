//! Kernel only: the rows of the registered shapes: tables with the same columns share those under construction.
//!
//! ```text
//! shop.t1  id bigint, note text ─┐
//! shop.t2  id bigint, note text ─┼▶ rows   record … before{…} after{…} shape
//! shop.t3  id bigint            ─│─▶ rows                              └ whose each row is
//! shop.t4  id bigint, note text ─┘
//! ```
//!
//! Columns of a thousand tables that take turns fit no cache, and a batch of each table costs as much as hundreds of rows.

use std::collections::HashMap;

use arrow_array::{Int32Array, RecordBatch};
use arrow_schema::ArrowError;

use crate::capacity::emptied;

/// Rows under construction.
pub trait Build {
    /// The shape of each complete row.
    fn owners(&mut self) -> &mut Owners;

    /// The rows in columns; none are left.
    fn finish(&mut self) -> Result<RecordBatch, ArrowError>;
}

/// The shape of each complete row, and of the next one.
#[derive(Default)]
pub struct Owners {
    next: i32,
    shapes: Vec<i32>,
}

impl Owners {
    /// A row is complete.
    #[inline]
    pub fn push(&mut self) {
        self.shapes.push(self.next);
    }

    /// Keeps the first rows.
    pub fn truncate(&mut self, rows: usize) {
        self.shapes.truncate(rows);
    }

    /// The shapes; none are left.
    pub fn finish(&mut self) -> Int32Array {
        emptied(&mut self.shapes).into()
    }
}

/// The rows of shapes, which are numbered from 0.
pub struct Shared<R> {
    rows: Vec<R>,
    of: Vec<usize>,
    kinds: HashMap<String, usize>,
}

impl<R> Default for Shared<R> {
    fn default() -> Self {
        Self { rows: Vec::new(), of: Vec::new(), kinds: HashMap::new() }
    }
}

impl<R: Build> Shared<R> {
    /// How many shapes there are.
    pub fn len(&self) -> usize {
        self.of.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Adds the next shape: of all shapes of a `kind`, the rows of the first are used.
    pub fn push(&mut self, kind: String, rows: R) {
        let at = *self.kinds.entry(kind).or_insert(self.rows.len());
        if at == self.rows.len() {
            self.rows.push(rows);
        }
        self.of.push(at);
    }

    /// The rows of a shape, ready for the next one of it.
    #[inline]
    pub fn get_mut(&mut self, shape: usize) -> Option<&mut R> {
        let rows = self.rows.get_mut(*self.of.get(shape)?)?;
        rows.owners().next = i32::try_from(shape).ok()?;
        Some(rows)
    }

    /// The rows since the last call, and the shape of the first of each batch.
    pub fn finish(&mut self) -> Result<Vec<(usize, RecordBatch)>, ArrowError> {
        let mut batches = Vec::new();
        for rows in &mut self.rows {
            if let Some(first) = rows.owners().shapes.first().and_then(|&first| usize::try_from(first).ok()) {
                batches.push((first, rows.finish()?));
            }
        }
        Ok(batches)
    }
}
