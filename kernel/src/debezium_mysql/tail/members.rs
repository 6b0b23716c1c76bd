//! Mirrors protocols/debezium_mysql/envelope.py: a tail, read member by member.
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

use std::ops::Range;

use super::{Gaps, Slot, Slots, Tail};
use crate::cursor::Cursor;
use crate::debezium::text::push_text;
use crate::debezium_mysql::envelope::{
    CLOCK, CONNECTOR, FILE, GTID, INTEGERS, Layout, Member, NAME, Of, POS, QUERY, SERVER, TEXTS,
};
use crate::debezium_mysql::row::number_of;
use crate::strict_json::{Text, string};

/// A value or `null`.
#[inline]
pub fn optional<'a, T>(c: &mut Cursor<'a>, read: impl FnOnce(&mut Cursor<'a>) -> Option<T>) -> Option<Option<T>> {
    if c.peek() == Some(b'n') { c.eat(b"null").map(|()| None) } else { read(c).map(Some) }
}

/// A value that is not null: where it stands, and which gap of the wire it is.
#[derive(Clone, Default)]
struct Value {
    span: Range<usize>,
    escaped: bool,
    gap: Option<usize>,
}

/// What an origin may have. A member of the clock that the layout does not have is absent, one that is null is `Some(None)`.
#[derive(Default)]
struct Members {
    texts: [Option<Value>; 7],
    integers: [Option<Value>; 4],
    times: [Option<Value>; 3],
    clock: [Option<Option<Value>>; 3],
    snapshot: Option<Value>,
}

/// On the way through a tail.
struct Walk<'a, 't> {
    rest: &'a [u8],
    c: Cursor<'a>,
    from: usize,
    wire: Gaps<Slot>,
    slots: Slots<'a, 't>,
    members: Members,
}

impl Tail {
    /// The tail of records with the text of this one; None if it does not have the layout, or needs a closer look.
    pub(super) fn of(layout: &Layout, end: &[u8], rest: &[u8], table: &[Vec<u8>; 2]) -> Option<Self> {
        let (wire, slots, members) = (Gaps::default(), Slots::new(table), Members::default());
        let mut walk = Walk { rest, c: Cursor::new(rest), from: 0, wire, slots, members };
        for (literal, member) in layout.members.iter().skip(2) {
            walk.c.eat(literal)?;
            match *member {
                Member::Source => walk.source(&layout.source)?,
                Member::Transaction => {
                    walk.member(Slot::Transaction, true)?;
                }
                Member::Op => {
                    walk.c.eat(b"\"")?;
                    walk.member(Slot::Op, true)??;
                    walk.c.eat(b"\"")?;
                }
                Member::Clock(at) => *walk.members.clock.get_mut(at)? = Some(walk.member(Slot::Clock(at), true)?),
                Member::Before | Member::After => return None,
            }
        }
        (walk.c.rest() == end).then_some(())?;
        walk.wire.text.extend_from_slice(rest.get(walk.from..)?);
        let plain = |at| walk.text(at).filter(|text| !text.escaped).map(|text| text.raw.to_vec());
        let names = plain(NAME).zip(plain(CONNECTOR)).map(|(name, connector)| [name, connector]);
        let file = walk.text(FILE).and_then(|file| number_of(file.raw));
        let reported = walk.slots.reported()?;
        let mut origin = Gaps::default();
        walk.members.write(reported.times, reported.short, rest, &mut origin)?;
        Some(Self { wire: walk.wire, origin, spans: Vec::new(), reported, file, names })
    }
}

impl<'a> Walk<'a, '_> {
    /// Reads a source block.
    fn source(&mut self, layout: &[(Vec<u8>, Of)]) -> Option<()> {
        let mut nulls = false;
        for (literal, of) in layout {
            self.c.eat(literal)?;
            match *of {
                Of::Text(at) => {
                    *self.members.texts.get_mut(at)? = self.member(Slot::Text, matches!(at, GTID | QUERY))?;
                }
                Of::Integer(at) => {
                    let slot = if at == POS { Slot::Pos } else { Slot::Integer };
                    *self.members.integers.get_mut(at)? = self.member(slot, at != SERVER)?;
                }
                Of::Clock(at) => {
                    let time = self.member(Slot::Time(at), true)?;
                    nulls |= time.is_none();
                    *self.members.times.get_mut(at)? = time;
                }
                Of::Snapshot => {
                    self.members.snapshot = Some(self.member(Slot::Text, false)?.filter(|mark| !mark.escaped)?)
                }
                Of::Database => _ = self.member(Slot::Name(0), true)??,
                Of::Table => _ = self.member(Slot::Name(1), true)??,
            }
        }
        self.c.eat(b"}")?;
        if nulls && self.members.times.get(1)?.is_some() {
            return None; // a member that should follow from the time, but is missing
        }
        let known = self.text(CONNECTOR).is_none_or(|text| text.raw == b"mysql" || text.raw == b"mariadb");
        // The reference looks at short names of files only, and at what they mean.
        (known && self.text(FILE).is_none_or(|file| !file.escaped && file.raw.len() <= 512)).then_some(())
    }

    /// A value that may be null; it becomes a slot where it `differs` from record to record and has no escapes.
    fn member(&mut self, slot: Slot, differs: bool) -> Option<Option<Value>> {
        let start = self.rest.len() - self.c.rest().len();
        let escaped = optional(&mut self.c, |c| {
            let mut again = *c;
            let escaped = matches!(slot, Slot::Text) && string(&mut again)?.escaped;
            if escaped {
                *c = again
            } else {
                self.slots.read(slot, c)?
            }
            Some(escaped)
        })?;
        let Some(escaped) = escaped else { return Some(None) };
        let span = start..self.rest.len() - self.c.rest().len();
        let gap = (differs && !escaped).then_some(self.wire.gaps.len());
        if gap.is_some() {
            self.wire.text.extend_from_slice(self.rest.get(self.from..start)?);
            self.wire.gap(slot);
            self.from = span.end;
        }
        Some(Some(Value { span, escaped, gap }))
    }

    fn text(&self, at: usize) -> Option<Text<'a>> {
        self.members.texts.get(at)?.as_ref()?.text(self.rest)
    }
}

impl Value {
    fn text<'a>(&self, rest: &'a [u8]) -> Option<Text<'a>> {
        Some(Text { raw: rest.get(self.span.start + 1..self.span.end - 1)?, escaped: self.escaped })
    }

    fn write(&self, rest: &[u8], out: &mut Gaps<usize>) -> Option<()> {
        match self.gap {
            Some(slot) => out.gap(slot),
            None if self.escaped => push_text(&self.text(rest)?, &mut Vec::new(), &mut out.text)?,
            None => out.text.extend_from_slice(rest.get(self.span.clone())?),
        }
        Some(())
    }
}

impl Members {
    /// Writes the origin's members; the object stays open. Of the row's times it has those in `reported`, of a `short`
    /// clock the nanoseconds alone.
    fn write(&self, reported: [bool; 3], short: bool, rest: &[u8], out: &mut Gaps<usize>) -> Option<()> {
        let texts = TEXTS.iter().zip(&self.texts);
        for (name, value) in texts.chain(INTEGERS.iter().zip(&self.integers)) {
            if let Some(value) = value {
                open(name, out);
                value.write(rest, out)?;
            }
        }
        if let Some(mark) = self.snapshot.as_ref().filter(|mark| rest.get(mark.span.clone()) != Some(b"\"false\"")) {
            open("snapshot", out);
            mark.write(rest, out)?;
        }
        for ((name, value), _) in CLOCK.iter().zip(&self.times).zip(reported).filter(|(_, reported)| *reported) {
            open(name, out);
            value.as_ref()?.write(rest, out)?;
        }
        open("envelope", out);
        out.text.push(b'{');
        for (name, value) in CLOCK.iter().zip(&self.clock).skip(if short { 2 } else { 0 }) {
            if let Some(value) = value {
                open(name, out);
                match value {
                    Some(value) => value.write(rest, out)?,
                    None => out.text.extend_from_slice(b"null"),
                }
            }
        }
        out.text.push(b'}');
        Some(())
    }
}

/// Opens a member of an object that may have others; no value ends with what opens one.
fn open(name: &str, out: &mut Gaps<usize>) {
    match out.text.last() {
        None => out.text.push(b'{'),
        Some(b'{') => {}
        Some(_) => out.text.push(b','),
    }
    out.text.push(b'"');
    out.text.extend_from_slice(name.as_bytes());
    out.text.extend_from_slice(b"\":");
}
