//! The members around the images, in the order of a layout, and what an origin has of them.
//!
//! ```text
//! ≤ 2.5  before after source op ts_ms transaction
//! 2.6    before after source op ts_ms ts_us ts_ns transaction
//! ≥ 2.7  before after source transaction op ts_ms ts_us ts_ns
//!
//! source  version connector name ts_ms snapshot db sequence [ts_us ts_ns] table server_id gtid file pos row thread query
//! origin  {version connector name sequence gtid file query server_id pos row thread, snapshot unless "false",
//!          ts_ms ts_us ts_ns where they are not the row's time, "envelope":{…}, what headers add}     nothing that is null
//! ```

use crate::cursor::Cursor;
use crate::debezium::rows::Clock;
use crate::debezium::text::push_text;
use crate::json::{Text, int64, string};

const TEXTS: [&str; 7] = ["version", "connector", "name", "sequence", "gtid", "file", "query"];
const INTEGERS: [&str; 4] = ["server_id", "pos", "row", "thread"];
const TEXT_OPENINGS: [&str; 7] =
    [",\"version\":", ",\"connector\":", ",\"name\":", ",\"sequence\":", ",\"gtid\":", ",\"file\":", ",\"query\":"];
const INTEGER_OPENINGS: [&str; 4] = [",\"server_id\":", ",\"pos\":", ",\"row\":", ",\"thread\":"];
const CLOCK: [&str; 3] = ["ts_ms", "ts_us", "ts_ns"];
const CONNECTOR: usize = 1;
const NAME: usize = 2;
const FILE: usize = 5;
const POS: usize = 1;
const FIRST_US: i64 = -62_135_596_800_000_000;
const LAST_US: i64 = 253_402_300_799_999_999;

/// A member of the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    Before,
    After,
    Source,
    Transaction,
    Op,
    Clock(usize),
}

#[derive(Clone, Copy)]
enum Of {
    Text(usize),
    Integer(usize),
    Clock(usize),
    Snapshot,
    Database,
    Table,
}

/// Members in their order, each behind the literal that opens it.
pub struct Layout {
    /// Of the envelope.
    pub members: Vec<(Vec<u8>, Member)>,
    source: Vec<(Vec<u8>, Of)>,
    /// The unit of the rows' time.
    pub clock: Clock,
}

impl Layout {
    /// The layout with these names; nothing when there is one that nobody knows, or one too few.
    pub fn new(members: &[String], source: &[String]) -> Option<Self> {
        let members = opened(members, |name| {
            Some(match name {
                "before" => Member::Before,
                "after" => Member::After,
                "source" => Member::Source,
                "transaction" => Member::Transaction,
                "op" => Member::Op,
                _ => Member::Clock(CLOCK.iter().position(|n| *n == name)?),
            })
        })?;
        let fine = source.iter().any(|name| name == "ts_us");
        let source = opened(source, |name| {
            Some(match name {
                "snapshot" => Of::Snapshot,
                "db" => Of::Database,
                "table" => Of::Table,
                _ => TEXTS
                    .iter()
                    .position(|n| *n == name)
                    .map(Of::Text)
                    .or_else(|| INTEGERS.iter().position(|n| *n == name).map(Of::Integer))
                    .or_else(|| CLOCK.iter().position(|n| *n == name).map(Of::Clock))?,
            })
        })?;
        let needed = [Member::Before, Member::After, Member::Source, Member::Op];
        let complete = needed.iter().all(|n| members.iter().any(|(_, m)| m == n));
        let clock = if fine { Clock::Microseconds } else { Clock::Milliseconds };
        complete.then_some(Self { members, source, clock })
    }
}

fn opened<T>(names: &[String], kind: impl Fn(&str) -> Option<T>) -> Option<Vec<(Vec<u8>, T)>> {
    let openings = std::iter::once('{').chain(std::iter::repeat(','));
    let distinct = names.iter().enumerate().all(|(at, name)| !names.iter().take(at).any(|n| n == name));
    let members = names.iter().zip(openings).map(|(name, opening)| {
        let literal = format!("{opening}\"{name}\":");
        Some((literal.into_bytes(), kind(name)?))
    });
    distinct.then(|| members.collect()).flatten()
}

/// A source block, read.
#[derive(Default)]
pub struct Source<'a> {
    texts: [Option<Text<'a>>; 7],
    integers: [Option<Integer<'a>>; 4],
    clock: [Option<Integer<'a>>; 3],
    snapshot: Option<Text<'a>>,
    /// The database's name as it is spelled.
    pub database: &'a [u8],
    /// The table's name as it is spelled.
    pub table: &'a [u8],
}

impl<'a> Source<'a> {
    /// Reads a source block.
    pub fn read(layout: &Layout, c: &mut Cursor<'a>) -> Option<Self> {
        let mut found = Self::default();
        for (literal, of) in &layout.source {
            c.eat(literal)?;
            match *of {
                Of::Text(at) => *found.texts.get_mut(at)? = optional(c, string)?,
                Of::Integer(at) => *found.integers.get_mut(at)? = optional(c, integer)?,
                Of::Clock(at) => *found.clock.get_mut(at)? = Some(integer(c)?),
                Of::Snapshot => found.snapshot = Some(string(c).filter(|mark| !mark.escaped)?),
                Of::Database => found.database = string(c)?.raw,
                Of::Table => found.table = string(c)?.raw,
            }
        }
        c.eat(b"}")?;
        let connector = found.texts.get(CONNECTOR).copied().flatten();
        connector.is_none_or(|text| text.raw == b"mysql" || text.raw == b"mariadb").then_some(found)
    }

    fn times(&self) -> [Option<i64>; 3] {
        self.clock.map(|time| time.map(|time| time.value))
    }

    /// The row's time, in the layout's unit.
    pub fn time(&self) -> Option<i64> {
        let [ms, us, _] = self.times();
        let (time, times) = us.map_or((ms?, 1000), |us| (us, 1));
        (FIRST_US..=LAST_US).contains(&time.checked_mul(times)?).then_some(time)
    }

    /// `file number << 40 | pos`, where there is such a place.
    pub fn sequence(&self) -> Option<u64> {
        let file = self.texts.get(FILE).copied().flatten()?;
        let digits = file.raw.iter().rev().take_while(|b| b.is_ascii_digit()).count().min(12);
        let digits = file.raw.get(file.raw.len() - digits..).filter(|d| !d.is_empty())?;
        let number = digits.iter().fold(0u64, |sum, b| sum * 10 + u64::from(b - b'0'));
        let pos = u64::try_from(self.integers.get(POS).copied().flatten()?.value).ok()?;
        (number < 1 << 24 && pos < 1 << 40).then_some(number << 40 | pos)
    }

    /// The connector's names, without escapes: its own and that of its kind.
    pub fn names(&self) -> Option<(&'a [u8], &'a [u8])> {
        let text = |at: usize| match self.texts.get(at).copied().flatten() {
            Some(text) => (!text.escaped).then_some(text.raw),
            None => None,
        };
        Some((text(NAME)?, text(CONNECTOR)?))
    }

    /// Whether the reference knows the file's number as `sequence` does: it looks at short names only.
    pub fn is_usual(&self) -> bool {
        self.texts.get(FILE).copied().flatten().is_none_or(|file| !file.escaped && file.raw.len() <= 512)
    }

    /// Writes the origin's members into `out`, which is empty; the object stays open.
    pub fn write(&self, scratch: &mut Vec<u8>, out: &mut Vec<u8>) -> Option<()> {
        for (opening, text) in TEXT_OPENINGS.iter().zip(&self.texts) {
            if let Some(text) = text {
                out.extend_from_slice(opening.as_bytes());
                push_text(text, scratch, out)?;
            }
        }
        for (opening, value) in INTEGER_OPENINGS.iter().zip(self.integers) {
            if let Some(value) = value {
                out.extend_from_slice(opening.as_bytes());
                out.extend_from_slice(value.raw);
            }
        }
        if let Some(mark) = self.snapshot.filter(|mark| mark.raw != b"false") {
            out.extend_from_slice(b",\"snapshot\":");
            push_text(&mark, scratch, out)?;
        }
        let [ms, us, _] = self.times();
        let us = us.or_else(|| ms?.checked_mul(1000))?;
        let fine = self.clock.get(1).copied().flatten().is_some();
        let derived = [Some(us.div_euclid(1000)), Some(us), us.checked_mul(1000).filter(|_| fine)];
        for ((name, value), derived) in CLOCK.iter().zip(self.clock).zip(derived) {
            if let Some(value) = value.filter(|value| Some(value.value) != derived) {
                open(name, b',', out);
                out.extend_from_slice(value.raw);
            }
        }
        out.extend_from_slice(b",\"envelope\":");
        out.first_mut().map(|first| *first = b'{')
    }
}

fn open(name: &str, before: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[before, b'"']);
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}

/// An integer and its text: there is but one.
#[derive(Clone, Copy)]
pub struct Integer<'a> {
    value: i64,
    raw: &'a [u8],
}

/// Reads an integer of 64 bits.
#[inline]
pub fn integer<'a>(c: &mut Cursor<'a>) -> Option<Integer<'a>> {
    let start = c.rest();
    let value = int64(c)?;
    Some(Integer { value, raw: start.get(..start.len() - c.rest().len())? })
}

/// A value or `null`.
#[inline]
pub fn optional<'a, T>(c: &mut Cursor<'a>, read: impl FnOnce(&mut Cursor<'a>) -> Option<T>) -> Option<Option<T>> {
    if c.peek() == Some(b'n') { c.eat(b"null").map(|()| None) } else { read(c).map(Some) }
}

/// Writes the connector's clock as an origin has it: nanoseconds alone where the others are those, cut off. A member that
/// the layout does not have is absent, one that is null is `Some(None)`.
pub fn write_clock(clock: &[Option<Option<Integer<'_>>>; 3], out: &mut Vec<u8>) {
    if let [Some(Some(ms)), Some(Some(us)), Some(Some(ns))] = clock
        && us.value == ns.value.div_euclid(1000)
        && ms.value == ns.value.div_euclid(1_000_000)
    {
        out.extend_from_slice(b"{\"ts_ns\":");
        out.extend_from_slice(ns.raw);
        out.push(b'}');
        return;
    }
    let mut comma = b'{';
    for (name, value) in CLOCK.iter().zip(clock) {
        match value {
            None => {}
            Some(value) => {
                open(name, comma, out);
                comma = b',';
                out.extend_from_slice(value.map_or(b"null", |value| value.raw));
            }
        }
    }
    if comma == b'{' {
        out.push(b'{');
    }
    out.push(b'}');
}
