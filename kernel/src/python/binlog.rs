//! Kernel only: the Python classes of the reader of binary logs.

use std::collections::HashMap;

use arrow_array::TimestampSecondArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::arrow::{self, Schemas};
use super::refused;
use crate::binlog::packets::{Next, Packets};
use crate::binlog::rows::Kind;
use crate::binlog::{Log, Stop, Types};
use crate::rows::Op;

/// Splits the packets of a connection into events.
#[pyclass]
pub struct BinlogPackets {
    packets: Packets,
}

/// Events that follow each other, whether they may go on, and the payload of a packet that is not an event.
type Split<'py> = (Bound<'py, PyBytes>, bool, Option<Bound<'py, PyBytes>>);

#[pymethods]
impl BinlogPackets {
    /// sequence: the number of the next packet.
    #[new]
    fn new(sequence: u8) -> Self {
        Self { packets: Packets::new(sequence) }
    }

    /// The events in what was received; whether the connection is sound; the payload of a packet that is not an event.
    fn split<'py>(&mut self, py: Python<'py>, received: &[u8]) -> Split<'py> {
        let (events, next) = self.packets.split(received);
        let (is_sound, other) = match next {
            Next::More => (true, None),
            Next::Other(payload) => (true, Some(PyBytes::new(py, &payload))),
            Next::Unexpected => (false, None),
        };
        (PyBytes::new(py, &events), is_sound, other)
    }
}

/// Rows of a binary log, of the registered tables.
#[pyclass]
pub struct BinlogRows {
    log: Log,
    schemas: Schemas,
}

/// A value that its column cannot hold: its row, the index of the column in the image after, and its bytes.
type Kept<'py> = (usize, usize, Bound<'py, PyBytes>);
/// The number of a table, the indexes of the columns of its images, its rows, when they were changed, and irregular values.
type Part<'py> = (usize, Option<Vec<usize>>, Option<Vec<usize>>, Bound<'py, PyAny>, Bound<'py, PyAny>, Vec<Kept<'py>>);

#[pymethods]
impl BinlogRows {
    /// at, end: positions. ignored, gtids, rows: types of events. kinds: type, op, version and compression of the
    /// row events to read.
    #[new]
    #[pyo3(signature = (*, at, end, ignored, gtids, rows, kinds))]
    fn new(
        at: u64,
        end: u64,
        ignored: Vec<u8>,
        gtids: Vec<u8>,
        rows: Vec<u8>,
        kinds: Vec<(u8, String, u8, bool)>,
    ) -> PyResult<Self> {
        let kinds: Option<HashMap<_, _>> = kinds
            .into_iter()
            .map(|(code, op, version, compressed)| Some((code, Kind { op: op_of(&op)?, version, compressed })))
            .collect();
        let kinds = kinds.ok_or_else(|| PyValueError::new_err("an op is unknown"))?;
        let types = Types { ignored, gtids, kinds, rows };
        Ok(Self { log: Log::new(types, at, end), schemas: Schemas::default() })
    }

    /// Sets whether events end with a checksum.
    fn set_checksums(&mut self, has_checksums: bool) {
        self.log.set_checksums(has_checksums);
    }

    /// Registers the body of a table map; the number of the table that the JSON describes, if the kernel supports it.
    #[pyo3(signature = (body, *, captured, description=None))]
    fn register(&mut self, body: &[u8], captured: bool, description: Option<&str>) -> Option<usize> {
        self.log.register(body, captured, description)
    }

    /// Adds a table map of the open statement; whether it is registered.
    fn add_map(&mut self, event: &[u8]) -> bool {
        self.log.add_map(event)
    }

    /// Adds events that follow each other.
    fn feed(&mut self, events: &[u8]) {
        self.log.feed(events);
    }

    /// Reads events until one of the reasons to stop: `more`, `full`, `end`, `map` or `event`; and the event before which it was.
    fn run<'py>(&mut self, py: Python<'py>, most_rows: usize) -> Stopped<'py> {
        let log = &mut self.log;
        stopped(py, py.detach(|| log.run(most_rows)))
    }

    /// Reads the events of a transaction payload, completely or not at all: `more`, or as `run`.
    fn payload<'py>(&mut self, py: Python<'py>, events: &[u8], at: u64) -> Stopped<'py> {
        stopped(py, self.log.payload(events, at))
    }

    /// Steps over an event that the reference has read.
    fn resume(&mut self, at: u64, open_rows: usize) {
        self.log.resume(at, open_rows);
    }

    /// The table maps of the open statement.
    fn maps<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        self.log.maps().map(|event| PyBytes::new(py, event)).collect()
    }

    /// The last GTID event since it was taken, and its position.
    fn take_gtid<'py>(&mut self, py: Python<'py>) -> Option<(u64, Bound<'py, PyBytes>)> {
        self.log.take_gtid().map(|(at, event)| (at, PyBytes::new(py, &event)))
    }

    /// Positions of the records since they were taken.
    fn take_records(&mut self) -> Vec<u64> {
        self.log.take_records()
    }

    /// Sets the number of the next record.
    fn number_records(&mut self, first: usize) {
        self.log.number_records(first);
    }

    /// The position after the last event.
    #[getter]
    fn at(&self) -> u64 {
        self.log.at
    }

    /// Rows in the open transaction.
    #[getter]
    fn open_rows(&self) -> usize {
        self.log.open_rows
    }

    /// Rows since `finish`.
    #[getter]
    fn count(&self) -> usize {
        self.log.count
    }

    /// All rows; none are left.
    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Vec<Part<'py>>> {
        let parts = self.log.finish().map_err(refused)?;
        let schemas = &mut self.schemas;
        let passed = parts.into_iter().map(|part| {
            let [before, after] = part.carried;
            let times = TimestampSecondArray::from(part.times).with_timezone("UTC");
            let irregular = part.irregular.into_iter().map(|value| {
                let text = PyBytes::new(py, &value.text);
                (value.row, value.column, text)
            });
            let irregular = irregular.collect();
            let rows = schemas.batch(py, part.rows)?;
            Ok((part.table, before, after, rows, arrow::array(py, &times)?, irregular))
        });
        passed.collect()
    }
}

/// The reason to stop, and the event before which it was.
type Stopped<'py> = (&'static str, Bound<'py, PyBytes>);

fn stopped<'py>(py: Python<'py>, (stop, event): (Stop, Vec<u8>)) -> Stopped<'py> {
    let reason = match stop {
        Stop::More => "more",
        Stop::Full => "full",
        Stop::End => "end",
        Stop::Map => "map",
        Stop::Event => "event",
    };
    (reason, PyBytes::new(py, &event))
}

fn op_of(name: &str) -> Option<Op> {
    Some(match name {
        "insert" => Op::Insert,
        "update" => Op::Update,
        "delete" => Op::Delete,
        _ => return None,
    })
}
