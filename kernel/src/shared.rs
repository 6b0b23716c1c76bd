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

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

/// Rows under construction.
pub trait Build {
    /// The rows that are completed from now on are of this shape.
    fn own(&mut self, shape: i32);

    /// Shapes of the complete rows.
    fn owners(&self) -> &[i32];

    /// The rows in columns; none are left.
    fn finish(&mut self) -> Result<RecordBatch, ArrowError>;
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
        rows.own(i32::try_from(shape).ok()?);
        Some(rows)
    }

    /// The rows since the last call, and the shape of the first of each batch.
    pub fn finish(&mut self) -> Result<Vec<(usize, RecordBatch)>, ArrowError> {
        let mut batches = Vec::new();
        for rows in &mut self.rows {
            if let Some(first) = rows.owners().first().and_then(|&first| usize::try_from(first).ok()) {
                batches.push((first, rows.finish()?));
            }
        }
        Ok(batches)
    }
}
