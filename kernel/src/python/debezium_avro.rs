//! Kernel only: the Python class of the decoder of Debezium's Avro.

use pyo3::prelude::*;

use super::arrow::{PyArray, Schemas};
use super::debezium::Headers;
use super::{Answer, Blobs, answer, chosen};
use crate::debezium_mysql::avro::Decoder;

/// Row messages of Debezium's MySQL and MariaDB connectors in Avro, of the registered shapes.
#[pyclass]
pub struct DebeziumMysqlAvro {
    decoder: Decoder,
    schemas: Schemas,
}

#[pymethods]
impl DebeziumMysqlAvro {
    /// placeholders stand for columns that were not sent; numeric: decimals are numbers.
    #[new]
    #[pyo3(signature = (*, placeholders, numeric))]
    fn new(placeholders: Vec<String>, numeric: bool) -> Self {
        let decoder = Decoder::new(placeholders.into_iter().map(String::into_bytes).collect(), numeric);
        Self { decoder, schemas: Schemas::default() }
    }

    /// The number of the shape that this JSON describes, or None if the kernel does not support it.
    fn register(&mut self, shape: &str) -> Option<usize> {
        self.decoder.register(shape)
    }

    /// Batches of rows, and the rows of the unmatched records. headers are lists of (string, binary).
    #[pyo3(signature = (keys, values, rows=None, *, headers))]
    fn decode<'py>(
        &mut self,
        py: Python<'py>,
        keys: PyArray,
        values: PyArray,
        rows: Option<PyArray>,
        headers: PyArray,
    ) -> PyResult<Answer<'py>> {
        let (keys, values, headers) = (Blobs::new(&keys.0)?, Blobs::new(&values.0)?, Headers::new(&headers.0)?);
        let rows = chosen(rows, keys, values)?;
        let decoder = &mut self.decoder;
        let decoded = py.detach(|| {
            let unmatched = headers
                .each(&rows, values, |record, row, value, sent| decoder.decode(record, keys.get(row), value, sent));
            Ok((decoder.finish()?, unmatched))
        });
        answer(py, decoded, &mut self.schemas)
    }
}
