//! Kernel only: the Python classes of the decoders of Debezium-shaped JSON.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, Int32Array, ListArray, StringArray};
use arrow_schema::ArrowError;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::arrow::{PyArray, Schemas, array};
use super::{Answer, Blobs, answer, chosen, each};
use crate::debezium_mysql::{self, Header, SentHeaders};
use crate::ticdc_debezium;

/// Row messages of the TiCDC Debezium protocol, of the registered shapes.
#[pyclass]
#[derive(Default)]
pub struct TicdcDebezium {
    decoder: ticdc_debezium::Decoder,
    schemas: Schemas,
}

#[pymethods]
impl TicdcDebezium {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// The number of the shape that this JSON describes, or None if the kernel does not support it.
    fn register(&mut self, shape: &str) -> Option<usize> {
        self.decoder.register(shape)
    }

    /// Batches of rows, and the rows of the unmatched records.
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
            let unmatched = each(&rows, values, |record, row, value| decoder.decode(record, keys.get(row), value));
            Ok((decoder.finish()?, unmatched))
        });
        answer(py, decoded, &mut self.schemas)
    }
}

/// Row messages of Debezium's MySQL and MariaDB connectors in JSON, of the registered shapes.
#[pyclass]
pub struct DebeziumMysql {
    decoder: debezium_mysql::Decoder,
    schemas: Schemas,
}

#[pymethods]
impl DebeziumMysql {
    /// placeholders stand for columns that were not sent; numeric: decimals are numbers.
    #[new]
    #[pyo3(signature = (*, placeholders, numeric))]
    fn new(placeholders: Vec<String>, numeric: bool) -> Self {
        let placeholders = placeholders.into_iter().map(String::into_bytes).collect();
        Self { decoder: debezium_mysql::Decoder::new(placeholders, numeric), schemas: Schemas::default() }
    }

    /// The number of the shape that this JSON describes, or None if the kernel does not support it.
    fn register(&mut self, shape: &str) -> Option<usize> {
        self.decoder.register(shape)
    }

    /// The number of the table that each value probably belongs to, int32.
    fn tables<'py>(&mut self, py: Python<'py>, values: PyArray) -> PyResult<Bound<'py, PyAny>> {
        let (values, decoder) = (Blobs::new(&values.0)?, &mut self.decoder);
        let table = |row| i32::try_from(decoder.table(values.get(row))).unwrap_or(i32::MAX);
        let tables = (0..values.len()).map(table).collect::<Vec<_>>();
        array(py, &Int32Array::from(tables))
    }

    /// Batches of rows, and the rows of the unmatched records. headers are lists of (string, binary). Records of one topic, or
    /// of one table, have the same of the numbers, int32 from 0.
    #[pyo3(signature = (keys, values, rows=None, *, headers, numbers=None))]
    fn decode<'py>(
        &mut self,
        py: Python<'py>,
        keys: PyArray,
        values: PyArray,
        rows: Option<PyArray>,
        headers: PyArray,
        numbers: Option<PyArray>,
    ) -> PyResult<Answer<'py>> {
        let (keys, values, headers) = (Blobs::new(&keys.0)?, Blobs::new(&values.0)?, Headers::new(&headers.0)?);
        let rows = chosen(rows, keys, values)?;
        let numbers = numbers.as_ref().map(|numbers| integers(&numbers.0)).transpose()?;
        let decoder = &mut self.decoder;
        let decoded = py.detach(|| {
            let unmatched = headers.each(&rows, values, |record, row, value, headers| {
                if let Some(number) = numbers.and_then(|numbers| usize::try_from(*numbers.values().get(row)?).ok()) {
                    decoder.turn_to(number);
                }
                decoder.decode(record, keys.get(row), value, headers)
            });
            Ok((decoder.finish()?, unmatched))
        });
        answer(py, decoded, &mut self.schemas)
    }
}

fn integers(numbers: &ArrayRef) -> PyResult<&Int32Array> {
    numbers.as_primitive_opt().ok_or_else(|| PyTypeError::new_err("numbers must be int32"))
}

/// Headers of records: lists of names and values.
pub(super) struct Headers<'a> {
    lists: &'a ListArray,
    names: &'a StringArray,
    values: &'a BinaryArray,
}

impl<'a> Headers<'a> {
    pub(super) fn new(array: &'a ArrayRef) -> PyResult<Self> {
        Self::of(array)
            .map_err(|error| PyTypeError::new_err(format!("headers must be lists of (string, binary): {error}")))
    }

    fn of(array: &'a ArrayRef) -> Result<Self, ArrowError> {
        let other = || ArrowError::CastError(format!("not {}", array.data_type()));
        let lists = array.as_list_opt::<i32>().ok_or_else(other)?;
        let [names, values] = lists.values().as_struct_opt().ok_or_else(other)?.columns() else {
            return Err(other());
        };
        Ok(Self {
            lists,
            names: names.as_string_opt().ok_or_else(other)?,
            values: values.as_binary_opt().ok_or_else(other)?,
        })
    }

    /// The places of a record's headers.
    fn places(&self, row: usize) -> Option<(usize, usize)> {
        let offset = |at: usize| self.lists.offsets().get(at).and_then(|&o| usize::try_from(o).ok());
        (row < self.lists.len() && self.lists.is_valid(row)).then_some(())?;
        Some((offset(row)?, offset(row + 1)?))
    }

    /// The rows for which `decode` finds nothing; it is given the headers of each.
    pub(super) fn each(
        &self,
        rows: &Int32Array,
        values: Blobs<'_>,
        mut decode: impl FnMut(i32, usize, Option<&[u8]>, SentHeaders<'_>) -> Option<()>,
    ) -> Int32Array {
        let (mut headers, mut last) = (Vec::new(), None);
        each(rows, values, |record, row, value| {
            let again = last.is_some_and(|last| self.are_same(last, row));
            if !again {
                last = None;
                self.read(row, &mut headers)?;
            }
            last = Some(row);
            decode(record, row, value, SentHeaders { headers: &headers, again })
        })
    }

    /// Whether two records have the same headers, as far as a quick look shows: none of them NULL.
    fn are_same(&self, a: usize, b: usize) -> bool {
        let known = self.names.null_count() == 0 && self.values.null_count() == 0;
        known && self.same_bytes(a, b).unwrap_or_default()
    }

    fn same_bytes(&self, a: usize, b: usize) -> Option<bool> {
        let ((a, a_end), (b, b_end)) = (self.places(a)?, self.places(b)?);
        if a == a_end && b == b_end {
            return Some(true);
        }
        for (offsets, data) in [
            (self.names.value_offsets(), self.names.value_data()),
            (self.values.value_offsets(), self.values.value_data()),
        ] {
            let (a, b) = (offsets.get(a..=a_end)?, offsets.get(b..=b_end)?);
            let whole = |o: &[i32]| data.get(usize::try_from(*o.first()?).ok()?..usize::try_from(*o.last()?).ok()?);
            let (first_a, first_b) = (a.first()?, b.first()?);
            let lengths = a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a - first_a == b - first_b);
            // Comparing nothing with nothing is skipped: memcmp takes long to look at where no bytes are.
            if !lengths || (first_a != a.last()? && whole(a)? != whole(b)?) {
                return Some(false);
            }
        }
        Some(true)
    }

    /// A record's headers; nothing for one whose header has no name.
    pub(super) fn read(&self, row: usize, headers: &mut Vec<Header<'a>>) -> Option<()> {
        headers.clear();
        let (start, end) = self.places(row).unwrap_or_default();
        for at in start..end {
            let value = self.values.is_valid(at).then(|| self.values.value(at));
            headers.push((self.names.is_valid(at).then(|| self.names.value(at).as_bytes())?, value));
        }
        Some(())
    }
}
