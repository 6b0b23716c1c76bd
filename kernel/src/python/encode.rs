//! Kernel only: the Python class of the writer of rows.

use std::sync::Arc;

use arrow_array::ArrayRef;
use pyo3::prelude::*;
use pyo3_arrow::{PyArray, PyRecordBatch};

use crate::encode::{Encoder, Written};

/// Writes the rows of the registered templates.
#[pyclass]
pub struct Templates {
    encoder: Encoder,
}

/// Numbers of the rows that were written, their keys and their values.
type Answer = (Py<PyAny>, Option<Py<PyAny>>, Py<PyAny>);

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
    fn encode(&self, py: Python<'_>, number: usize, rows: PyRecordBatch) -> PyResult<Option<Answer>> {
        let rows = rows.into_inner();
        let Some(Written { rows, keys, values }) = py.detach(|| self.encoder.encode(number, &rows)) else {
            return Ok(None);
        };
        let keys = keys.map(|keys| array(py, Arc::new(keys))).transpose()?;
        Ok(Some((array(py, Arc::new(rows))?, keys, array(py, Arc::new(values))?)))
    }
}

fn array(py: Python<'_>, array: ArrayRef) -> PyResult<Py<PyAny>> {
    Ok(PyArray::from_array_ref(array).to_pyarrow(py)?.unbind())
}
