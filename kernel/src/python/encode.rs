//! Kernel only: the Python class of the writer of rows.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::arrow::{self, PyArray};
use crate::encode::{Encoder, Written};

/// Writes the rows of the registered templates.
#[pyclass]
pub struct Templates {
    encoder: Encoder,
}

/// Numbers of the rows that were written, their keys and their values.
type Answer<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Bound<'py, PyAny>);

#[pymethods]
impl Templates {
    /// printable: the code points that Go prints, as ranges of which both ends belong to them.
    #[new]
    #[pyo3(signature = (*, printable))]
    fn new(printable: Vec<(u32, u32)>) -> Self {
        Self { encoder: Encoder::new(printable) }
    }

    /// The number of the template that this JSON describes, or None if the kernel does not support it.
    fn register(&mut self, template: &str) -> Option<usize> {
        self.encoder.register(template)
    }

    /// The rows that could be written, their keys (None without any) and their values; None when the columns are not
    /// those of the template.
    fn encode<'py>(&self, py: Python<'py>, number: usize, rows: PyArray) -> PyResult<Option<Answer<'py>>> {
        let rows = rows.0.as_struct_opt().ok_or_else(|| PyTypeError::new_err("rows must be a batch"))?;
        let rows = RecordBatch::from(rows);
        let Some(Written { rows, keys, values }) = py.detach(|| self.encoder.encode(number, &rows)) else {
            return Ok(None);
        };
        let keys = keys.map(|keys| arrow::array(py, &keys)).transpose()?;
        Ok(Some((arrow::array(py, &rows)?, keys, arrow::array(py, &values)?)))
    }
}
