//! Kernel only: numbers and NULLs under construction.

use arrow_array::PrimitiveArray;
use arrow_array::types::ArrowPrimitiveType;

use crate::capacity::emptied;
use crate::nulls::Nulls;

/// Numbers, of which some are NULL.
pub struct Numbers<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    nulls: Nulls,
}

impl<T: ArrowPrimitiveType> Default for Numbers<T> {
    fn default() -> Self {
        Self { values: Vec::new(), nulls: Nulls::default() }
    }
}

impl<T: ArrowPrimitiveType> Numbers<T> {
    /// Appends a number, or NULL.
    #[inline]
    pub fn push(&mut self, value: Option<T::Native>) {
        if value.is_none() {
            self.nulls.push(self.values.len()..self.values.len() + 1);
        }
        self.values.push(value.unwrap_or_default());
    }

    /// Appends NULLs until there are `rows` rows.
    pub fn pad(&mut self, rows: usize) {
        if rows > self.values.len() {
            self.nulls.push(self.values.len()..rows);
            self.values.resize(rows, Default::default());
        }
    }

    /// Forgets all rows from the given one on.
    pub fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.nulls.truncate(rows);
    }

    /// The array; no number is left.
    pub fn finish(&mut self) -> PrimitiveArray<T> {
        let rows = self.values.len();
        PrimitiveArray::new(emptied(&mut self.values).into(), self.nulls.finish(rows))
    }
}
