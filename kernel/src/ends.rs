//! Kernel only: ends of values of any length in the data of their column.

use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};

use crate::capacity::emptied;
use crate::nulls::Nulls;

/// Where the values of a column end in its data.
pub struct Ends {
    offsets: Vec<i32>,
    nulls: Nulls,
}

impl Default for Ends {
    fn default() -> Self {
        Self { offsets: vec![0], nulls: Nulls::default() }
    }
}

impl Ends {
    /// Ends a value where the data ends; Arrow counts in 31 bits.
    #[inline]
    pub fn close(&mut self, length: usize) -> Option<()> {
        self.offsets.push(i32::try_from(length).ok()?);
        Some(())
    }

    /// Appends NULL.
    pub fn push_null(&mut self) {
        self.pad(self.offsets.len());
    }

    /// Appends NULLs until there are `rows` rows.
    pub fn pad(&mut self, rows: usize) {
        let filled = self.offsets.len() - 1;
        if rows > filled {
            self.nulls.push(filled..rows);
            self.offsets.resize(rows + 1, self.offsets.last().copied().unwrap_or_default());
        }
    }

    /// Forgets rows; returns how much of the data is left.
    pub fn truncate(&mut self, rows: usize) -> usize {
        self.offsets.truncate(rows + 1);
        self.nulls.truncate(rows);
        self.offsets.last().and_then(|&end| usize::try_from(end).ok()).unwrap_or_default()
    }

    /// Arrow's offsets and bitmap; no value is left.
    pub fn finish(&mut self) -> (OffsetBuffer<i32>, Option<NullBuffer>) {
        let nulls = self.nulls.finish(self.offsets.len() - 1);
        let offsets = emptied(&mut self.offsets);
        self.offsets.push(0);
        (OffsetBuffer::new(ScalarBuffer::from(offsets)), nulls)
    }
}
