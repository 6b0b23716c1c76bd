//! Kernel only: the Python module: Arrow in, Arrow out, through the C data interface.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, Int32Array, LargeBinaryArray, RecordBatch};
use arrow_schema::{ArrowError, DataType};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;

use self::arrow::{PyArray, Schemas};
use crate::rows::Op;
use crate::ticdc_avro::Decoder as AvroDecoder;
use crate::ticdc_open::Decoder;

mod arrow;
mod binlog;
mod debezium;
mod debezium_avro;
mod encode;
mod tencent;
mod text_rows;

/// Values that are copied at a time, and their bytes at most: they should fit a cache.
const COPIED: usize = 64;
const COPIED_BYTES: usize = 1 << 20;

/// The result for Python: batches of rows with the shape of the first one, and the unmatched records.
type Answer<'py> = (Vec<(usize, Bound<'py, PyAny>)>, Py<PyAny>);

/// Row messages of the TiCDC Open Protocol, of the registered shapes.
#[pyclass]
struct TicdcOpen {
    decoder: Decoder,
    schemas: Schemas,
}

#[pymethods]
impl TicdcOpen {
    /// upsert: whether a `u` without `p` is an upsert, not an insert. ahead: microseconds by which the producer's clock
    /// is ahead of UTC, or None when that depends on the day.
    #[new]
    #[pyo3(signature = (*, upsert, ahead))]
    fn new(upsert: bool, ahead: Option<i64>) -> Self {
        let decoder = Decoder::new(if upsert { Op::Upsert } else { Op::Insert }, ahead);
        Self { decoder, schemas: Schemas::default() }
    }

    /// The number of the shape that this JSON describes, or None if the kernel does not support it.
    fn register(&mut self, shape: &str) -> Option<usize> {
        self.decoder.register(shape)
    }

    /// Batches of rows, and the rows of the unmatched records. keys and values are binary arrays; rows, int32,
    /// chooses among the records, in its order.
    #[pyo3(signature = (keys, values, rows=None))]
    fn decode<'py>(
        &mut self,
        py: Python<'py>,
        keys: PyArray,
        values: PyArray,
        rows: Option<PyArray>,
    ) -> PyResult<Answer<'py>> {
        let (keys, values) = (Blobs::new(&keys.0)?, Blobs::new(&values.0)?);
        let rows = chosen(rows, keys, values)?;
        let decoder = &mut self.decoder;
        let decoded = py.detach(|| {
            let unmatched = each(&rows, values, |record, row, value| decoder.decode(record, keys.get(row)?, value?));
            Ok((decoder.finish()?, unmatched))
        });
        answer(py, decoded, &mut self.schemas)
    }
}

/// Rows of TiCDC Avro, of the registered shapes.
#[pyclass]
struct TicdcAvro {
    decoder: AvroDecoder,
    schemas: Schemas,
}

#[pymethods]
impl TicdcAvro {
    /// ahead: microseconds by which the producer's clock is ahead of UTC, or None when that depends on the day.
    #[new]
    #[pyo3(signature = (*, ahead))]
    fn new(ahead: Option<i64>) -> Self {
        Self { decoder: AvroDecoder::new(ahead), schemas: Schemas::default() }
    }

    /// The number of the shape that this JSON describes, or None if the kernel does not support it.
    fn register(&mut self, shape: &str) -> Option<usize> {
        self.decoder.register(shape)
    }

    /// Batches of rows, and the rows of the unmatched records. keys, values and topics are binary arrays; rows,
    /// int32, chooses among the records, in its order.
    #[pyo3(signature = (keys, values, rows=None, *, topics))]
    fn decode<'py>(
        &mut self,
        py: Python<'py>,
        keys: PyArray,
        values: PyArray,
        rows: Option<PyArray>,
        topics: PyArray,
    ) -> PyResult<Answer<'py>> {
        let (keys, values, topics) = (Blobs::new(&keys.0)?, Blobs::new(&values.0)?, Blobs::new(&topics.0)?);
        let rows = chosen(rows, keys, values)?;
        if keys.len() != topics.len() {
            return Err(PyValueError::new_err(format!("{} keys but {} topics", keys.len(), topics.len())));
        }
        let decoder = &mut self.decoder;
        let decoded = py.detach(|| {
            let unmatched = each(&rows, values, |record, row, value| {
                decoder.decode(record, topics.get(row)?, keys.get(row), value)
            });
            Ok((decoder.finish()?, unmatched))
        });
        answer(py, decoded, &mut self.schemas)
    }
}

/// Batches of rows with the shape of the first one, and the unmatched records.
type Decoded = Result<(Vec<(usize, RecordBatch)>, Int32Array), ArrowError>;

fn answer<'py>(py: Python<'py>, decoded: Decoded, schemas: &mut Schemas) -> PyResult<Answer<'py>> {
    let (tables, unmatched) = decoded.map_err(refused)?;
    let tables =
        tables.into_iter().map(|(shape, batch)| Ok((shape, schemas.batch(py, batch)?))).collect::<PyResult<_>>()?;
    let unmatched = arrow::array(py, &unmatched)?.unbind();
    Ok((tables, unmatched))
}

fn refused(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(format!("kernel: {error}"))
}

/// The rows that were asked for, or all, of keys and values that belong together.
fn chosen(rows: Option<PyArray>, keys: Blobs<'_>, values: Blobs<'_>) -> PyResult<Int32Array> {
    if keys.len() != values.len() {
        return Err(PyValueError::new_err(format!("{} keys but {} values", keys.len(), values.len())));
    }
    match rows {
        Some(rows) => {
            let rows = rows.0;
            rows.as_primitive_opt().cloned().ok_or_else(|| PyTypeError::new_err("rows must be int32"))
        }
        None => Ok((0..i32::try_from(keys.len()).unwrap_or(i32::MAX)).collect::<Vec<_>>().into()),
    }
}

/// The rows for which `decode`, which is given the value of each, finds nothing.
///
/// Small values that do not follow each other are copied first, some at a time: to read them one by one is to wait for memory.
fn each(
    rows: &Int32Array,
    values: Blobs<'_>,
    mut decode: impl FnMut(i32, usize, Option<&[u8]>) -> Option<()>,
) -> Int32Array {
    let (mut unmatched, mut copied) = (Vec::new(), Copied::default());
    for some in rows.values().chunks(COPIED) {
        let follow = some.windows(2).all(|two| matches!(two, [a, b] if a.checked_add(1) == Some(*b)));
        let is_copied = !follow && copied.fill(some, values);
        for (at, &record) in some.iter().enumerate() {
            let row = row_of(record);
            let value = if is_copied { copied.get(at) } else { values.get(row) };
            if decode(record, row, value).is_none() {
                unmatched.push(record);
            }
        }
    }
    unmatched.into()
}

fn row_of(record: i32) -> usize {
    usize::try_from(record).unwrap_or(usize::MAX)
}

/// Values in the order in which they are decoded.
#[derive(Default)]
struct Copied {
    bytes: Vec<u8>,
    places: Vec<Option<Range<usize>>>,
}

impl Copied {
    /// Copies these values, unless they are large.
    fn fill(&mut self, rows: &[i32], values: Blobs<'_>) -> bool {
        let bytes: usize = rows.iter().filter_map(|&record| values.get(row_of(record))).map(<[u8]>::len).sum();
        if bytes > COPIED_BYTES {
            return false;
        }
        self.bytes.clear();
        self.places.clear();
        for &record in rows {
            let start = self.bytes.len();
            self.places.push(values.get(row_of(record)).map(|value| {
                self.bytes.extend_from_slice(value);
                start..self.bytes.len()
            }));
        }
        true
    }

    fn get(&self, at: usize) -> Option<&[u8]> {
        self.bytes.get(self.places.get(at)?.clone()?)
    }
}

/// Byte strings with offsets of either width.
#[derive(Clone, Copy)]
enum Blobs<'a> {
    Small(&'a BinaryArray),
    Large(&'a LargeBinaryArray),
}

impl<'a> Blobs<'a> {
    fn new(array: &'a ArrayRef) -> PyResult<Self> {
        match array.data_type() {
            DataType::Binary => Ok(Self::Small(array.as_binary())),
            DataType::LargeBinary => Ok(Self::Large(array.as_binary())),
            other => Err(PyTypeError::new_err(format!("keys and values must be binary, not {other}"))),
        }
    }

    fn len(self) -> usize {
        match self {
            Self::Small(array) => array.len(),
            Self::Large(array) => array.len(),
        }
    }

    fn get(self, row: usize) -> Option<&'a [u8]> {
        match self {
            Self::Small(array) => (row < array.len() && array.is_valid(row)).then(|| array.value(row)),
            Self::Large(array) => (row < array.len() && array.is_valid(row)).then(|| array.value(row)),
        }
    }
}

#[pymodule]
mod changefeed_kernel {
    #[pymodule_export]
    use super::TicdcAvro;
    #[pymodule_export]
    use super::TicdcOpen;
    #[pymodule_export]
    use super::binlog::{BinlogPackets, BinlogRows};
    #[pymodule_export]
    use super::debezium::{DebeziumMysql, TicdcDebezium};
    #[pymodule_export]
    use super::debezium_avro::DebeziumMysqlAvro;
    #[pymodule_export]
    use super::encode::Templates;
    #[pymodule_export]
    use super::tencent::TencentDts;
    #[pymodule_export]
    use super::text_rows::TextRows;

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        use pyo3::types::PyModuleMethods;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
