//! Mirrors protocols/debezium_mysql/envelope.py: the bytes after the images, compared with those of the last record, read where they differ.
//!
//! ```text
//! wire    ,"source":{"version":"3.6", … ,"ts_ms": 1767225626357 ,"snapshot":"false", … ,"pos": 7 , … },"op":" c ","ts_ms": …
//!         └ text, compared ─────────────────────┘└ slot: read ─┘└ text ─────────────────────┘└ slot
//! origin  {"version":"3.6", … ,"pos": 7 ,"envelope":{"ts_ns": 1767225626357000000 }
//!         └ text, copied ────────────┘└ the bytes of the slot ┘
//! ```
//!
//! Rule 1. Text and slots are made of a record that was read member by member. Records with another text get tails of their
//!         own, as those of a snapshot beside changes; of each layout a few are kept.
//! Rule 2. A slot takes values with which the origin has the same members: no NULL, nothing escaped, and times that follow
//!         from each other where they did.
//! Rule 3. Tables with the same layout share tails, in which their names are slots: texts of a thousand tables that take turns
//!         fit no cache.

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
    /// The database's name or the table's.
    Name(usize),
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
struct Slots<'a, 't> {
    table: &'t [Vec<u8>; 2],
    outer: Outer<'a>,
    times: [Option<i64>; 3],
    clock: [Option<i64>; 3],
    pos: Option<i64>,
}

impl<'a, 't> Slots<'a, 't> {
    fn new(table: &'t [Vec<u8>; 2]) -> Self {
        Self { table, outer: Outer::default(), times: [None; 3], clock: [None; 3], pos: None }
    }

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
            Slot::Name(at) => {
                c.eat(b"\"")?;
                c.eat(self.table.get(at)?)?;
                c.eat(b"\"")?;
            }
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
#[derive(Clone, Copy, PartialEq, Eq)]
struct Reported {
    times: [bool; 3],
    short: bool,
}

/// How many tails of a layout are kept.
const MAX_TAILS: usize = 4;

/// The tails of records of one layout.
pub struct Tails {
    layout: Layout,
    end: &'static [u8],
    tails: Vec<Tail>,
    latest: usize,
}

/// The tails of records with the same text.
struct Tail {
    wire: Gaps<Slot>,
    origin: Gaps<usize>,
    spans: Vec<Range<usize>>,
    reported: Reported,
    file: Option<u64>,
    names: Option<[Vec<u8>; 2]>,
}

impl Tails {
    /// No record yet. `end` is what closes a record.
    pub fn new(layout: Layout, end: &'static [u8]) -> Self {
        Self { layout, end, tails: Vec::new(), latest: 0 }
    }

    /// Reads what is left behind the images of a row of `table`: its database's name and its own as they are spelled. The
    /// first members of the origin are then in `origin`, which stays open.
    #[inline]
    pub fn read<'a>(&mut self, rest: &'a [u8], table: &[Vec<u8>; 2], origin: &mut Vec<u8>) -> Option<Outer<'a>> {
        let known = self.tails.get_mut(self.latest).and_then(|tail| tail.compare(rest, table));
        let outer = known.or_else(|| self.other(rest, table))?;
        self.tails.get(self.latest)?.write(rest, origin)?;
        Some(outer)
    }

    /// The connector's names in the latest record, where they have no escapes: its own and that of its kind.
    pub fn names(&self) -> Option<[&[u8]; 2]> {
        self.tails.get(self.latest)?.names.as_ref().map(|names| names.each_ref().map(Vec::as_slice))
    }

    /// Reads a record by another tail than the latest, which becomes the latest; if there is none, it is made of the record,
    /// in place of that which was made first.
    fn other<'a>(&mut self, rest: &'a [u8], table: &[Vec<u8>; 2]) -> Option<Outer<'a>> {
        for (at, tail) in self.tails.iter_mut().enumerate() {
            if let Some(outer) = tail.compare(rest, table) {
                self.latest = at;
                return Some(outer);
            }
        }
        let mut made = Tail::of(&self.layout, self.end, rest, table)?;
        let outer = made.compare(rest, table)?;
        if self.tails.len() == MAX_TAILS {
            self.tails.remove(0);
        }
        self.latest = self.tails.len();
        self.tails.push(made);
        Some(outer)
    }
}

impl Tail {
    /// Reads a record that has the same text.
    #[inline]
    fn compare<'a>(&mut self, rest: &'a [u8], table: &[Vec<u8>; 2]) -> Option<Outer<'a>> {
        let (mut c, mut slots, spans) = (Cursor::new(rest), Slots::new(table), &mut self.spans);
        spans.clear();
        let end = self.wire.each(|text, slot| {
            c.eat(text)?;
            let start = rest.len() - c.rest().len();
            slots.read(slot, &mut c)?;
            spans.push(start..rest.len() - c.rest().len());
            Some(())
        })?;
        let same = c.rest() == end && slots.reported()? == self.reported;
        let Slots { mut outer, times: [ms, us, _], pos, .. } = slots;
        (outer.time, outer.is_fine) = (us.or(ms)?, us.is_some());
        outer.sequence = self.file.zip(pos).and_then(|(file, pos)| row::sequence(file, pos));
        same.then_some(outer)
    }

    /// Writes the first members of the origin of the record that was compared last.
    #[inline]
    fn write(&self, rest: &[u8], origin: &mut Vec<u8>) -> Option<()> {
        origin.clear();
        let end = self.origin.each(|text, slot| {
            origin.extend_from_slice(text);
            origin.extend_from_slice(rest.get(self.spans.get(slot)?.clone())?);
            Some(())
        })?;
        origin.extend_from_slice(end);
        Some(())
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
