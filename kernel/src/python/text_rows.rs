//! Kernel only: the Python class of the reader of a SELECT's rows.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::arrow;
use super::refused;
use crate::text_rows::{Stop, TextRows as Rows};

/// Rows that a server sends for a SELECT, as columns of bytes.
#[pyclass]
pub struct TextRows {
    rows: Rows,
}

#[pymethods]
impl TextRows {
    /// columns: their number. sequence: the number of the next packet.
    #[new]
    #[pyo3(signature = (*, columns, sequence))]
    fn new(columns: usize, sequence: u8) -> Self {
        Self { rows: Rows::new(columns, sequence) }
    }

    /// Adds what was received.
    fn feed(&mut self, received: &[u8]) {
        self.rows.feed(received);
    }

    /// Reads rows until one of the reasons to stop: `more`, `full`, `other` or `unexpected`; and the payload that is not a row.
    fn run<'py>(
        &mut self,
        py: Python<'py>,
        most_rows: usize,
        most_bytes: usize,
    ) -> (&'static str, Option<Bound<'py, PyBytes>>) {
        let rows = &mut self.rows;
        match py.detach(|| rows.run(most_rows, most_bytes)) {
            Stop::More => ("more", None),
            Stop::Full => ("full", None),
            Stop::Other(payload) => ("other", Some(PyBytes::new(py, &payload))),
            Stop::Unexpected => ("unexpected", None),
        }
    }

    /// The columns of all rows; none are left.
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let columns = self.rows.finish().map_err(refused)?;
        columns.iter().map(|column| arrow::array(py, column)).collect()
    }
}
