//! Mirrors protocols/ticdc_open/decoder.py: row messages of registered shapes, from bytes into columns.
//!
//! ```text
//! key    ┌ version = 1 ┬ length ┬ JSON ┬ length ┬ JSON ┬ …
//! value  └─────────────┴ length ┴ JSON ┴ length ┴ JSON ┴ …      all lengths and the version: int64, big-endian
//!
//! event key    {"ts":…,"scm":"shop","tbl":"items","rid":…,"ptn":…,"t":1}      classic; rid and ptn may be absent
//!              {"ts":…,"scm":"shop","tbl":"items","t":1,"ptn":…}              newarch; ptn may be absent
//! row value    {"u":{…}}  {"u":{…},"p":{…}}  {"d":{…}}                        see `shape`
//! ```
//!
//! Rule 1. A record is all or nothing. Whatever is not exactly as drawn, other messages than rows included, makes the
//!         whole record *unmatched*: its rows are taken back, and the reference decides.
//! Rule 2. A row belongs to the first shape, in the order of registration, that agrees with it. As literals distinguish all other
//!         shapes, a table's messages mostly need one attempt: the route that matched last, unless a route registered
//!         before it differs from it in no slot that the row fills.

mod shapes;

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

use crate::cursor::Cursor;
use crate::rows::{Head, MAX_SHAPES, Op, Rows};
use crate::shared::Shared;
use crate::strict_json::{int64, string, uint64};
use shapes::{Compiled, Match, Route, Shape, compile};

const VERSION: i64 = 1;

/// Decodes the rows of the registered shapes.
pub struct Decoder {
    lone: Op,
    ahead: Option<i64>,
    names: HashMap<Vec<u8>, usize>,
    last: (Vec<u8>, usize),
    tables: Vec<Table>,
    shapes: Shared<Rows>,
    written: Vec<usize>,
    origin: Vec<u8>,
}

/// The routes of one table, in the order of registration.
#[derive(Default)]
struct Table {
    routes: Vec<Route>,
    last: usize,
}

impl Decoder {
    /// No shape is registered yet. `lone` is the op of a `u` without `p`, `ahead` how many microseconds the producer's clock is
    /// ahead of UTC, or nothing when that depends on the day: shapes with a TIMESTAMP are then not registered.
    pub fn new(lone: Op, ahead: Option<i64>) -> Self {
        Self {
            lone,
            ahead,
            names: HashMap::new(),
            last: (Vec::new(), 0),
            tables: Vec::new(),
            shapes: Shared::default(),
            written: Vec::new(),
            origin: Vec::new(),
        }
    }

    /// Compiles the shape that this JSON describes; its number, or None if the kernel does not support it.
    pub fn register(&mut self, description: &str) -> Option<usize> {
        let shape: Shape = serde_json::from_str(description).ok()?;
        let number = self.shapes.len();
        let Compiled { names, routes, rows, kind } = compile(&shape, number, self.ahead)?;
        let table = names.iter().find_map(|n| self.names.get(n).copied()).unwrap_or(self.tables.len());
        if table == self.tables.len() {
            self.tables.push(Table::default());
        }
        self.names.extend(names.into_iter().map(|n| (n, table)));
        let table = self.tables.get_mut(table)?;
        let alike = table.routes.iter().filter(|other| routes.iter().any(|route| route.is_like(other))).count();
        (alike / routes.len() < MAX_SHAPES).then_some(())?;
        routes.into_iter().for_each(|route| route.join(&mut table.routes));
        self.shapes.push(kind, rows);
        Some(number)
    }

    /// Decodes one record; returns `None` and leaves no trace of a record that is unmatched.
    pub fn decode(&mut self, record: i32, key: &[u8], value: &[u8]) -> Option<()> {
        self.written.clear();
        let done = self.messages(record, key, value);
        if done.is_none() {
            for number in self.written.drain(..).rev() {
                self.shapes.get_mut(number)?.pop();
            }
        }
        done
    }

    /// The rows since the last call: see `Shared::finish`.
    pub fn finish(&mut self) -> Result<Vec<(usize, RecordBatch)>, ArrowError> {
        self.shapes.finish()
    }

    fn messages(&mut self, record: i32, key: &[u8], value: &[u8]) -> Option<()> {
        let (mut keys, mut values) = (Cursor::new(key), Cursor::new(value));
        if keys.int64()? != VERSION {
            return None;
        }
        let (mut key, mut value) = (keys.framed()?, values.framed()?);
        if keys.is_empty() {
            self.message(record, None, key, value)?;
            return values.is_empty().then_some(());
        }
        for index in 0.. {
            self.message(record, Some(index), key, value)?;
            if keys.is_empty() {
                break;
            }
            (key, value) = (keys.framed()?, values.framed()?);
        }
        values.is_empty().then_some(())
    }

    fn message(&mut self, record: i32, index: Option<i32>, key: &[u8], value: &[u8]) -> Option<()> {
        let mut c = Cursor::new(key);
        c.eat(b"{\"ts\":")?;
        let commit_ts = Some(uint64(&mut c)?);
        let table = self.table(&mut c)?;
        read_origin(&mut c, &mut self.origin)?;
        let origin = (!self.origin.is_empty()).then_some(self.origin.as_slice());
        let head = Head { record, index, commit_ts, origin };
        let table = self.tables.get_mut(table)?;
        let (number, op) = table.read(&mut self.shapes, value, self.lone)?;
        self.shapes.get_mut(number)?.close(op, &head)?;
        self.written.push(number);
        Some(())
    }

    /// The table that a key names; the cursor stands behind its name.
    fn table(&mut self, c: &mut Cursor<'_>) -> Option<usize> {
        let start = c.rest();
        if c.eat(&self.last.0).is_some() && !self.last.0.is_empty() {
            return Some(self.last.1);
        }
        c.eat(b",\"scm\":")?;
        string(c)?;
        c.eat(b",\"tbl\":")?;
        string(c)?;
        let names = start.get(..start.len() - c.rest().len())?;
        let table = *self.names.get(names)?;
        self.last = (names.to_vec(), table);
        Some(table)
    }
}

/// Reads the rest of an event key; `out` becomes the JSON of what no column holds, or empty.
fn read_origin(c: &mut Cursor<'_>, out: &mut Vec<u8>) -> Option<()> {
    out.clear();
    member(c, b"\"rid\":", out)?;
    member(c, b"\"ptn\":", out)?;
    let classic = !out.is_empty();
    c.eat(b",\"t\":1")?;
    if !classic {
        member(c, b"\"ptn\":", out)?;
    }
    c.eat(b"}")?;
    if !out.is_empty() {
        out.push(b'}');
    }
    c.is_empty().then_some(())
}

/// Copies `,"name":integer` if it comes next.
#[inline]
fn member(c: &mut Cursor<'_>, name: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut ahead = *c;
    if ahead.eat(b",").is_none() || ahead.eat(name).is_none() {
        return Some(());
    }
    let digits = ahead.rest();
    int64(&mut ahead)?;
    out.push(if out.is_empty() { b'{' } else { b',' });
    out.extend_from_slice(name);
    out.extend_from_slice(digits.get(..digits.len() - ahead.rest().len())?);
    *c = ahead;
    Some(())
}

impl Table {
    /// Reads a row value into the columns of its shape; the shape's number, and what happened to the row.
    fn read(&mut self, shapes: &mut Shared<Rows>, value: &[u8], lone: Op) -> Option<(usize, Op)> {
        let others = (0..self.routes.len()).filter(|&at| at != self.last);
        let mut attempts = std::iter::once(self.last).chain(others);
        let (at, matched) = attempts.find_map(|at| Some((at, self.attempt(at, shapes, value, lone)?)))?;
        self.last = at;
        let route = self.routes.get(at)?;
        let Some(&(first, _)) = route.earlier.iter().find(|(_, slots)| slots & matched.mask == 0) else {
            return Some((route.shape, matched.op));
        };
        shapes.get_mut(route.shape)?.rewind();
        self.attempt(first, shapes, value, lone)?;
        Some((self.routes.get(first)?.shape, matched.op))
    }

    /// Reads a row value by one route; leaves no trace if it does not match.
    fn attempt(&self, at: usize, shapes: &mut Shared<Rows>, value: &[u8], lone: Op) -> Option<Match> {
        let route = self.routes.get(at).filter(|route| route.opens(value))?;
        let rows = shapes.get_mut(route.shape)?;
        let matched = route.read(rows, value, lone);
        if matched.is_none() {
            rows.rewind();
        }
        matched
    }
}

#[cfg(test)]
mod tests;
