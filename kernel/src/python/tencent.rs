//! Kernel only: the Python class of the decoder of Tencent DTS subscriptions.

use arrow_array::Int32Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::arrow::{self, PyArray, Schemas};
use super::debezium::Headers;
use super::{Blobs, chosen, refused};
use crate::tencent_dts::{Decoder, Header, Members, Odd, Plain, Skips};

/// Row changes and marks of Tencent DTS subscriptions, of the registered shapes.
#[pyclass]
pub struct TencentDts {
    decoder: Decoder,
    schemas: Schemas,
    most: usize,
}

/// Plain records that follow each other: the first row, how many, the first number, and the shard.
type Run = (usize, usize, u64, Option<Vec<u8>>);
/// Where the first unknown entry of an unmatched group begins, and the index of its first event.
type Stop = Option<(usize, usize, i32)>;
/// Batches of rows, unmatched rows, marks, and the stops of the unmatched rows.
type Answer<'py> = (Vec<(usize, Bound<'py, PyAny>)>, Py<PyAny>, Bound<'py, PyAny>, Vec<Stop>);

#[pymethods]
impl TencentDts {
    /// signed: BIT(64) with its top bit set is a negative number. most: bytes of data in a plain record.
    #[new]
    #[pyo3(signature = (*, signed, most))]
    fn new(signed: bool, most: usize) -> Self {
        Self { decoder: Decoder::new(signed), schemas: Schemas::default(), most }
    }

    /// The number of the shape that this JSON describes, or None if the kernel does not support it.
    fn register(&mut self, shape: &str) -> Option<usize> {
        self.decoder.register(shape)
    }

    /// Runs of plain records of one lane, whose numbers follow each other. topics are binary, partitions int32.
    fn runs(
        &self,
        py: Python<'_>,
        keys: PyArray,
        values: PyArray,
        headers: PyArray,
        topics: PyArray,
        partitions: PyArray,
    ) -> PyResult<Vec<Run>> {
        let records = Records::new(&keys, &values, &headers)?;
        let (topics, partitions) = (Blobs::new(&topics.0)?, partitions.0.as_primitive_opt::<Int32Type>());
        let partitions = partitions.ok_or_else(|| PyTypeError::new_err("partitions must be int32"))?;
        if topics.len() != records.len() || partitions.len() != records.len() {
            return Err(PyValueError::new_err("topics and partitions must be as many as values"));
        }
        let stream = |row: usize| Some((topics.get(row)?, partitions.values().get(row)?));
        Ok(py.detach(|| records.runs(self.most, stream)))
    }

    /// Batches of rows, rows of the unmatched records, marks, and the first unknown entries of the unmatched ones. Of
    /// records that are not plain `data` has what their groups hold, `all` and `first` what the origins of their events
    /// have of them. `skips` are entries, where they begin and how many events they have, that the caller reads itself.
    #[pyo3(signature = (keys, values, rows, *, headers, data=None, all=None, first=None, skips=Vec::new()))]
    #[allow(clippy::too_many_arguments)] // columns of one batch
    fn decode<'py>(
        &mut self,
        py: Python<'py>,
        keys: PyArray,
        values: PyArray,
        rows: Option<PyArray>,
        headers: PyArray,
        data: Option<PyArray>,
        all: Option<PyArray>,
        first: Option<PyArray>,
        skips: Vec<(usize, i32)>,
    ) -> PyResult<Answer<'py>> {
        let records = Records::new(&keys, &values, &headers)?;
        let known = [&data, &all, &first].map(|a| a.as_ref().map(|a| Blobs::new(&a.0)).transpose());
        let [data, all, first] = known;
        let known = Known { data: data?, all: all?, first: first? };
        let rows = chosen(rows, records.keys, records.values)?;
        let (decoder, most) = (&mut self.decoder, self.most);
        let (tables, marks, unmatched, stops) = py
            .detach(|| {
                let (unmatched, stops) = records.decode(decoder, &rows, &known, most, &skips);
                decoder.finish().map(|(tables, marks)| (tables, marks, unmatched, stops))
            })
            .map_err(refused)?;
        let schemas = &mut self.schemas;
        let tables =
            tables.into_iter().map(|(shape, batch)| Ok((shape, schemas.batch(py, batch)?))).collect::<PyResult<_>>()?;
        let unmatched = arrow::array(py, &Int32Array::from(unmatched))?.unbind();
        Ok((tables, unmatched, schemas.batch(py, marks)?, stops))
    }
}

/// Groups that are no plain record.
struct Known<'a> {
    data: Option<Blobs<'a>>,
    all: Option<Blobs<'a>>,
    first: Option<Blobs<'a>>,
}

impl<'a> Known<'a> {
    /// The data of the group that ends at a row, and what it adds to the origins of its events.
    fn get(&self, row: usize) -> Option<(&'a [u8], Members<'a>)> {
        let members = |of: Option<Blobs<'a>>| of.and_then(|blobs| blobs.get(row)).unwrap_or_default();
        Some((self.data?.get(row)?, Members { all: members(self.all), first: members(self.first) }))
    }
}

/// Columns of records.
struct Records<'a> {
    keys: Blobs<'a>,
    values: Blobs<'a>,
    headers: Headers<'a>,
}

impl<'a> Records<'a> {
    fn new(keys: &'a PyArray, values: &'a PyArray, headers: &'a PyArray) -> PyResult<Self> {
        let (keys, values) = (Blobs::new(&keys.0)?, Blobs::new(&values.0)?);
        if keys.len() != values.len() {
            return Err(PyValueError::new_err(format!("{} keys but {} values", keys.len(), values.len())));
        }
        Ok(Self { keys, values, headers: Headers::new(&headers.0)? })
    }

    fn len(&self) -> usize {
        self.values.len()
    }

    /// What a record holds, if it is plain; `found` is room for its headers.
    fn plain(&self, row: usize, most: usize, headers: &mut Vec<Header<'a>>) -> Option<Plain<'a>> {
        self.headers.read(row, headers)?;
        Plain::read(self.keys.get(row), self.values.get(row), headers).filter(|plain| plain.data.len() <= most)
    }

    /// Decodes the groups that end at some of the rows; returns the unmatched ones, and where their first unknown entry begins.
    fn decode(
        &self,
        decoder: &mut Decoder,
        rows: &Int32Array,
        known: &Known<'_>,
        most: usize,
        skips: Skips<'_>,
    ) -> (Vec<i32>, Vec<Stop>) {
        let (mut headers, mut stream) = (Vec::new(), Vec::new());
        let unmatched = rows.values().iter().filter_map(|&record| {
            let row = usize::try_from(record).unwrap_or(usize::MAX);
            let done = if let Some((data, members)) = known.get(row) {
                decoder.decode(record, data, members, skips)
            } else if let Some(plain) = self.plain(row, most, &mut headers) {
                stream.clear();
                plain.write(&mut stream);
                decoder.decode(record, plain.data, Members { all: &stream, first: &[] }, skips)
            } else {
                Err(Odd::Other)
            };
            match done {
                Ok(()) => None,
                Err(Odd::Entry(stop)) => Some((record, Some((stop.start, stop.end, stop.index)))),
                Err(Odd::Other) => Some((record, None)),
            }
        });
        unmatched.unzip()
    }

    fn runs<T: PartialEq>(&self, most: usize, stream: impl Fn(usize) -> Option<T>) -> Vec<Run> {
        let (mut runs, mut headers, mut before) = (Vec::<Run>::new(), Vec::new(), None);
        for row in 0..self.len() {
            let Some((plain, stream)) = self.plain(row, most, &mut headers).zip(stream(row)) else {
                before = None;
                continue;
            };
            let follows = before.is_some_and(|(last, same): (Plain<'_>, T)| last.precedes(&plain) && same == stream);
            match runs.last_mut() {
                Some((_, count, ..)) if follows => *count += 1,
                _ => runs.push((row, 1, plain.ps, plain.shard.map(<[u8]>::to_vec))),
            }
            before = Some((plain, stream));
        }
        runs
    }
}
