//! Kernel only: arrays and batches of pyarrow, through Arrow's C data interface: nothing is copied.

use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::{Array, ArrayRef, RecordBatch, StructArray, make_array};
use arrow_data::ArrayData;
use arrow_pyarrow::FromPyArrow;
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
    import(CLASS.import(py, "pyarrow", "Array")?, &array.to_data(), &schema)
}

/// `pyarrow.RecordBatch` of a batch.
pub(super) fn batch(py: Python<'_>, batch: RecordBatch) -> PyResult<Bound<'_, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let schema = FFI_ArrowSchema::try_from(batch.schema_ref().as_ref()).map_err(refused)?;
    import(CLASS.import(py, "pyarrow", "RecordBatch")?, &StructArray::from(batch).into_data(), &schema)
}

/// pyarrow takes both structs over: it leaves behind empty ones, which release nothing.
fn import<'py>(class: &Bound<'py, PyType>, array: &ArrayData, schema: &FFI_ArrowSchema) -> PyResult<Bound<'py, PyAny>> {
    let array = FFI_ArrowArray::new(array);
    class.call_method1(intern!(class.py(), "_import_from_c"), (&raw const array as usize, &raw const *schema as usize))
}
