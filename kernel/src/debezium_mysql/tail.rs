//! Mirrors protocols/debezium_mysql/envelope.py: the bytes after the images, compared with those of the last record, read where they differ.
//!
//! ```text
//! wire    ,"source":{"version":"3.6", … ,"ts_ms": 1767225626357 ,"snapshot":"false", … ,"pos": 7 , … },"op":" c ","ts_ms": …
//!         └ text, compared ─────────────────────┘└ slot: read ─┘└ text ─────────────────────┘└ slot
//! origin  {"version":"3.6", … ,"pos": 7 ,"envelope":{"ts_ns": 1767225626357000000 }
//!         └ text, copied ────────────┘└ the bytes of the slot ┘
//! ```
//!
//! Rule 1. Text and slots are made of a record that was read member by member. Where the next one's text is another, they
//!         are made again, of that.
//! Rule 2. A slot takes values with which the origin has the same members: no NULL, nothing escaped, and times that follow
//!         from each other where they did.

mod members;

use std::ops::Range;

use super::envelope::Layout;
use super::row;
use crate::cursor::Cursor;
use crate::strict_json::{Text, int64, string};
pub use members::optional;

/// The members of a record behind its images.
#[derive(Default)]
pub struct Outer<'a> {
    /// Which letter.
    pub op: u8,
    /// Id of the transaction, and the event's number in it and in the table.
    pub transaction: Option<(Text<'a>, Option<i64>, Option<i64>)>,
    /// In microseconds where it is fine, else in milliseconds.
    pub time: i64,
    /// Whether the time is known to the microsecond.
    pub is_fine: bool,
    /// `file number << 40 | pos`, where there is such a place.
    pub sequence: Option<u64>,
}

/// What differs from record to record.
#[derive(Clone, Copy)]
enum Slot {
    /// The row's time, in one of its units.
    Time(usize),
    /// The connector's clock.
    Clock(usize),
    /// The place in the file.
    Pos,
    /// Another integer.
    Integer,
    /// A string without escapes.
    Text,
    /// A transaction block.
    Transaction,
    /// One letter.
    Op,
}

/// Text with gaps: text up to an end, then what is there, and so on; behind the last gap there is text again.
struct Gaps<T> {
    text: Vec<u8>,
    gaps: Vec<(usize, T)>,
}

impl<T> Default for Gaps<T> {
    fn default() -> Self {
        Self { text: Vec::new(), gaps: Vec::new() }
    }
}

impl<T: Copy> Gaps<T> {
    fn clear(&mut self) {
        self.text.clear();
        self.gaps.clear();
    }

    fn gap(&mut self, what: T) {
        self.gaps.push((self.text.len(), what));
    }

    /// Visits texts and the gaps behind them; the last text.
    #[inline]
    fn each<'a>(&'a self, mut visit: impl FnMut(&'a [u8], T) -> Option<()>) -> Option<&'a [u8]> {
        let mut from = 0;
        for &(end, what) in &self.gaps {
            visit(self.text.get(from..end)?, what)?;
            from = end;
        }
        self.text.get(from..)
    }
}

/// What the slots of a record hold.
#[derive(Default)]
struct Slots<'a> {
    outer: Outer<'a>,
    times: [Option<i64>; 3],
    clock: [Option<i64>; 3],
    pos: Option<i64>,
}

impl<'a> Slots<'a> {
    #[inline]
    fn read(&mut self, slot: Slot, c: &mut Cursor<'a>) -> Option<()> {
        match slot {
            Slot::Time(at) => *self.times.get_mut(at)? = Some(int64(c)?),
            Slot::Clock(at) => *self.clock.get_mut(at)? = Some(int64(c)?),
            Slot::Pos => self.pos = Some(int64(c)?),
            Slot::Integer => drop(int64(c)?),
            Slot::Text => drop(string(c).filter(|text| !text.escaped)?),
            Slot::Transaction => self.outer.transaction = Some(transaction(c)?),
            Slot::Op => self.outer.op = c.byte()?,
        }
        Some(())
    }

    /// Which times the origin reports; None if the row's is invalid.
    #[inline]
    fn reported(&self) -> Option<Reported> {
        let [ms, us, ns] = self.times;
        let whole = row::time_us(ms, us)?;
        let differs = |time: Option<i64>, of: Option<i64>| time.is_some() && time != of;
        let times = match us {
            Some(us) => [differs(ms, Some(us.div_euclid(1000))), false, differs(ns, whole.checked_mul(1000))],
            None => [false, false, ns.is_some()],
        };
        let short = matches!(self.clock, [Some(ms), Some(us), Some(ns)]
            if us == ns.div_euclid(1000) && ms == ns.div_euclid(1_000_000));
        Some(Reported { times, short })
    }
}

/// Which times an origin reports: which of the row's it has, and whether of the clock's nanoseconds alone, of which the
/// others follow.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Reported {
    times: [bool; 3],
    short: bool,
}

/// The tails of one group's records.
pub struct Tail {
    layout: Layout,
    table: [Vec<u8>; 2],
    end: &'static [u8],
    wire: Gaps<Slot>,
    origin: Gaps<usize>,
    spans: Vec<Range<usize>>,
    reported: Reported,
    file: Option<u64>,
    names: Option<[Vec<u8>; 2]>,
}

impl Tail {
    /// No record yet. `table` are its database's name and its own as they are spelled, `end` is what closes a record.
    pub fn new(layout: Layout, table: [Vec<u8>; 2], end: &'static [u8]) -> Self {
        let (wire, origin, spans, reported) = Default::default();
        Self { layout, table, end, wire, origin, spans, reported, file: None, names: None }
    }

    /// Reads what is left behind the images; the first members of the origin are then in `origin`, which stays open.
    #[inline]
    pub fn read<'a>(&mut self, rest: &'a [u8], origin: &mut Vec<u8>) -> Option<Outer<'a>> {
        let outer = self.compare(rest).or_else(|| self.register(rest).and_then(|()| self.compare(rest)))?;
        origin.clear();
        let end = self.origin.each(|text, slot| {
            origin.extend_from_slice(text);
            origin.extend_from_slice(rest.get(self.spans.get(slot)?.clone())?);
            Some(())
        })?;
        origin.extend_from_slice(end);
        Some(outer)
    }

    /// The connector's names, where they have no escapes: its own and that of its kind.
    pub fn names(&self) -> Option<[&[u8]; 2]> {
        self.names.as_ref().map(|names| names.each_ref().map(Vec::as_slice))
    }

    /// Reads a record that has the same text.
    #[inline]
    fn compare<'a>(&mut self, rest: &'a [u8]) -> Option<Outer<'a>> {
        let (mut c, mut slots, spans) = (Cursor::new(rest), Slots::default(), &mut self.spans);
        spans.clear();
        let end = self.wire.each(|text, slot| {
            c.eat(text)?;
            let start = rest.len() - c.rest().len();
            slots.read(slot, &mut c)?;
            spans.push(start..rest.len() - c.rest().len());
            Some(())
        })?;
        let same = c.rest() == end && !spans.is_empty() && slots.reported()? == self.reported;
        let Slots { mut outer, times: [ms, us, _], pos, .. } = slots;
        (outer.time, outer.is_fine) = (us.or(ms)?, us.is_some());
        outer.sequence = self.file.zip(pos).and_then(|(file, pos)| row::sequence(file, pos));
        same.then_some(outer)
    }
}

/// Reads a transaction block.
fn transaction<'a>(c: &mut Cursor<'a>) -> Option<(Text<'a>, Option<i64>, Option<i64>)> {
    c.eat(b"{\"id\":")?;
    let id = string(c)?;
    c.eat(b",\"total_order\":")?;
    let order = optional(c, int64)?;
    c.eat(b",\"data_collection_order\":")?;
    let table_order = optional(c, int64)?;
    c.eat(b"}")?;
    Some((id, order, table_order))
}
