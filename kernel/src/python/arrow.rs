//! Kernel only: arrays and batches of pyarrow, through Arrow's C data interface: nothing is copied.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray, make_array};
use arrow_data::ArrayData;
use arrow_pyarrow::{FromPyArrow, ToPyArrow};
use arrow_schema::SchemaRef;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::refused;

/// An array that Python passes.
pub(super) struct PyArray(pub ArrayRef);

impl FromPyObject<'_, '_> for PyArray {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        let mut data = ArrayData::from_pyarrow_bound(&object)?;
        // arrow-rs panics on values that are less aligned than their type, which Arrow only recommends.
        data.align_buffers();
        Ok(Self(make_array(data)))
    }
}

/// `pyarrow.Array` of an array.
pub(super) fn array<'py>(py: Python<'py>, array: &dyn Array) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let schema = FFI_ArrowSchema::try_from(array.data_type()).map_err(refused)?;
    import(CLASS.import(py, "pyarrow", "Array")?, array.to_data(), &raw const schema as usize)
}

/// The schemas of the batches that Python has got, by address: a schema is passed once, which takes longer than the rows.
#[derive(Default)]
pub(super) struct Schemas(HashMap<usize, (SchemaRef, Py<PyAny>)>);

impl Schemas {
    /// `pyarrow.RecordBatch` of a batch.
    pub(super) fn batch<'py>(&mut self, py: Python<'py>, batch: RecordBatch) -> PyResult<Bound<'py, PyAny>> {
        static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
        let schema = batch.schema();
        let (_, known) = match self.0.entry(Arc::as_ptr(&schema) as usize) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let passed = schema.to_pyarrow(py)?.unbind();
                entry.insert((schema, passed))
            }
        };
        import(CLASS.import(py, "pyarrow", "RecordBatch")?, StructArray::from(batch).into_data(), &*known)
    }
}

/// pyarrow takes the structs over: it leaves behind empty ones, which release nothing.
fn import<'py>(
    class: &Bound<'py, PyType>,
    array: ArrayData,
    schema: impl IntoPyObject<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = FFI_ArrowArray::new(&array);
    class.call_method1(intern!(class.py(), "_import_from_c"), (&raw const array as usize, schema))
}
