//! Kernel only: geometries under construction, as structs of SRID and WKB.
//!
//! ```text
//! 01 00 00 00 │ WKB      the SRID in little-endian in front, as servers store it
//! ```

use std::mem::take;
use std::sync::Arc;

use arrow_array::{ArrayRef, StructArray, UInt32Array};
use arrow_schema::{ArrowError, DataType, Field, Fields};

use crate::columns::{Bytes, Column, Spelling};
use crate::nulls::Nulls;

/// A column of geometries; see the head of this file.
pub struct Geometries {
    srids: Vec<u32>,
    wkbs: Bytes,
    nulls: Nulls,
}

impl Geometries {
    /// An empty column.
    pub fn empty() -> Self {
        Self { srids: Vec::new(), wkbs: Bytes::new(Spelling::Plain, false), nulls: Nulls::default() }
    }

    fn fields() -> Fields {
        vec![Field::new("srid", DataType::UInt32, true), Field::new("wkb", DataType::Binary, true)].into()
    }

    /// The Arrow type of the column.
    pub fn arrow() -> DataType {
        DataType::Struct(Self::fields())
    }

    /// Appends the geometry that is these bytes.
    pub fn push(&mut self, raw: &[u8]) -> Option<()> {
        let (srid, wkb) = raw.split_first_chunk()?;
        self.srids.push(u32::from_le_bytes(*srid));
        self.wkbs.push(Some(wkb))
    }

    /// Appends NULL.
    pub fn push_null(&mut self) {
        self.pad(self.srids.len() + 1);
    }

    /// Appends NULLs until there are `rows` rows.
    pub fn pad(&mut self, rows: usize) {
        if rows > self.srids.len() {
            self.nulls.push(self.srids.len()..rows);
            self.srids.resize(rows, 0);
            self.wkbs.pad(rows);
        }
    }

    /// Drops all rows from `rows` on.
    pub fn truncate(&mut self, rows: usize) {
        self.srids.truncate(rows);
        self.wkbs.truncate(rows);
        self.nulls.truncate(rows);
    }

    /// The rows, which are taken out.
    ///
    /// # Errors
    ///
    /// Arrow refuses the parts.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let nulls = self.nulls.finish(self.srids.len());
        let srids = UInt32Array::new(take(&mut self.srids).into(), nulls.clone());
        let children: Vec<ArrayRef> = vec![Arc::new(srids), self.wkbs.finish()?];
        Ok(Arc::new(StructArray::try_new(Self::fields(), children, nulls)?))
    }
}
