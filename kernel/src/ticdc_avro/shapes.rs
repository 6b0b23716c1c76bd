//! Mirrors protocols/ticdc_avro/shapes.py: rows with the same schemas and topic, and their shapes by fraction digits.

use super::checksum::Integrity;
use super::schemas::{Own, Plan, Schemas};
use crate::avro::{bytes, int, long};
use crate::columns::Column;
use crate::cursor::Cursor;
use crate::rows::{MAX_SHAPES, Op, Rows};
use crate::shared::Shared;

const MAX_SLOTS: usize = 64;
const LOGICAL_BITS: u32 = 18;

/// Key and value of a record behind their headers.
pub struct Datums<'a> {
    /// The key's, where there is a key.
    pub key: Option<&'a [u8]>,
    /// The value's, where there is a value.
    pub value: Option<&'a [u8]>,
}

/// What a row was found to be.
pub struct Match {
    pub op: Op,
    /// Whether it has the image before, and the one after.
    pub before: bool,
    pub after: bool,
    pub commit_ts: Option<u64>,
    mask: u64,
}

/// One shape of the family.
pub struct Reader {
    shape: usize,
    /// A bit for each temporal column: set in a row's mask when its value is not NULL.
    slots: Vec<u64>,
    digits: Vec<usize>,
    /// Shapes registered before, and the slots in which their digits differ.
    earlier: Vec<(usize, u64)>,
}

impl Reader {
    /// Of the shape with this number; `digits` are those of its temporal columns, nothing for others.
    pub fn new(shape: usize, digits: impl Iterator<Item = Option<usize>>) -> Option<Self> {
        let mut free = (0..MAX_SLOTS).map(|bit| 1 << bit);
        let digits: Vec<_> = digits.collect();
        let slots = digits.iter().map(|d| if d.is_some() { free.next() } else { Some(0) }).collect::<Option<_>>()?;
        let digits = digits.into_iter().map(Option::unwrap_or_default).collect();
        Some(Self { shape, slots, digits, earlier: Vec::new() })
    }

    fn difference(&self, other: &Self) -> u64 {
        let digits = self.digits.iter().zip(&other.digits);
        self.slots.iter().zip(digits).filter(|(_, (mine, others))| mine != others).map(|(slot, _)| slot).sum()
    }

    /// Reads one image; appends to `left` how many bytes are left behind each column.
    #[inline]
    fn image(&self, columns: &mut [Box<dyn Column>], c: &mut Cursor<'_>, left: &mut Vec<usize>) -> Option<u64> {
        let mut mask = 0;
        for (column, slot) in columns.iter_mut().zip(&self.slots) {
            if column.read(c)? {
                mask |= slot;
            }
            left.push(c.rest().len());
        }
        Some(mask)
    }
}

/// The shapes of a family, in the order of registration.
pub struct Family {
    schemas: Schemas,
    plan: Plan,
    readers: Vec<Reader>,
    last: usize,
    scratch: Scratch,
}

/// What is kept while a row is read.
#[derive(Default)]
struct Scratch {
    /// How many bytes of the value are left behind each column.
    left: Vec<usize>,
    /// JSON of the row's members about its checksum.
    origin: Vec<u8>,
}

impl Family {
    /// A family of one shape.
    pub fn new(schemas: Schemas, plan: Plan, reader: Reader) -> Self {
        Self { schemas, plan, readers: vec![reader], last: 0, scratch: Scratch::default() }
    }

    /// Adds a shape, unless there are too many. With other schemas behind the same ids the family is the reference's for
    /// good.
    pub fn join(&mut self, schemas: &Schemas, mut reader: Reader) -> Option<()> {
        if self.readers.is_empty() || *schemas != self.schemas {
            self.readers.clear();
            return None;
        }
        (self.readers.len() < MAX_SHAPES).then_some(())?;
        reader.earlier = self.readers.iter().enumerate().map(|(at, r)| (at, reader.difference(r))).collect();
        self.readers.push(reader);
        Some(())
    }

    /// The origin of the row that was read last.
    pub fn origin(&self) -> Option<&[u8]> {
        (!self.scratch.origin.is_empty()).then_some(&self.scratch.origin)
    }

    /// Reads a row into the columns of its shape; the shape's number, and what the row is.
    pub fn read(&mut self, shapes: &mut Shared<Rows>, datums: &Datums<'_>) -> Option<(usize, Match)> {
        let others = (0..self.readers.len()).filter(|&at| at != self.last);
        let mut attempts = std::iter::once(self.last).chain(others);
        let (plan, readers, scratch) = (&self.plan, &self.readers, &mut self.scratch);
        let (at, matched) =
            attempts.find_map(|at| Some((at, plan.attempt(readers.get(at)?, shapes, datums, scratch)?)))?;
        self.last = at;
        let reader = readers.get(at)?;
        let Some(&(first, _)) = reader.earlier.iter().find(|(_, slots)| slots & matched.mask == 0) else {
            return Some((reader.shape, matched));
        };
        shapes.get_mut(reader.shape)?.rewind();
        let reader = readers.get(first)?;
        Some((reader.shape, plan.attempt(reader, shapes, datums, scratch)?))
    }
}

impl Plan {
    /// Reads a row as one shape; leaves no trace if it does not match.
    fn attempt(
        &self,
        reader: &Reader,
        shapes: &mut Shared<Rows>,
        datums: &Datums<'_>,
        scratch: &mut Scratch,
    ) -> Option<Match> {
        let rows = shapes.get_mut(reader.shape)?;
        scratch.left.clear();
        scratch.origin.clear();
        let matched = match (datums.value, datums.key) {
            (Some(value), key) => self.row(reader, rows, key, value, scratch),
            (None, Some(key)) => self.deleted(reader, rows, key, &mut scratch.left),
            (None, None) => None,
        };
        if matched.is_none() {
            rows.rewind();
        }
        matched
    }

    /// A row of which only the key was sent.
    fn deleted(&self, reader: &Reader, rows: &mut Rows, key: &[u8], left: &mut Vec<usize>) -> Option<Match> {
        let mut c = Cursor::new(key);
        let mask = reader.image(rows.before.columns(), &mut c, left)?;
        c.is_empty().then_some(Match { op: Op::Delete, before: true, after: false, commit_ts: None, mask })
    }

    fn row(
        &self,
        reader: &Reader,
        rows: &mut Rows,
        key: Option<&[u8]>,
        value: &[u8],
        Scratch { left, origin }: &mut Scratch,
    ) -> Option<Match> {
        let mut c = Cursor::new(value);
        let mask = reader.image(rows.after.columns(), &mut c, left)?;
        let new = value.get(..value.len() - c.rest().len())?;
        if let Some(key) = key {
            self.agrees(key, value, left)?;
        }
        let mut matched = Match { op: Op::Upsert, before: false, after: true, commit_ts: None, mask };
        let (mut physical, mut old, mut integrity) = (None, None, Integrity::default());
        for own in &self.own {
            match own {
                Own::Before(union) => {
                    if union.open(&mut c)? {
                        let start = c.rest();
                        matched.mask |= reader.image(rows.before.columns(), &mut c, left)?;
                        old = start.get(..start.len() - c.rest().len());
                    }
                }
                Own::Op => matched.op = op(bytes(&mut c)?)?,
                Own::CommitTs => matched.commit_ts = Some(u64::try_from(long(&mut c)?).ok()?),
                Own::Physical => physical = Some(long(&mut c)?),
                Own::Checksum => integrity.checksum = Some(bytes(&mut c)?),
                Own::Corrupted => integrity.corrupted = c.eat(&[0]).map(|()| false).map(Some)?,
                Own::Version => integrity.version = Some(int(&mut c)?),
            }
        }
        self.holds(&integrity, matched.op, value, left)?;
        integrity.origin(origin)?;
        matched.before = old.is_some();
        if let (Some(ts), Some(ms)) = (matched.commit_ts, physical) {
            (u64::try_from(ms) == Ok(ts >> LOGICAL_BITS)).then_some(())?;
        }
        if matched.op == Op::Delete {
            (old? == new).then_some(())?;
            rows.after.rewind();
            matched.after = false;
        }
        c.is_empty().then_some(matched)
    }

    /// Whether the checksum is that of the new row, or proves nothing: it is empty, or classic's `0` on an insert.
    fn holds(&self, integrity: &Integrity<'_>, op: Op, value: &[u8], left: &[usize]) -> Option<()> {
        match integrity.checksum {
            None | Some(b"") => return Some(()),
            Some(b"0") if op == Op::Insert => return Some(()),
            _ => {}
        }
        let mut crc = 0;
        for (at, (place, hashed)) in self.places.iter().zip(&self.hashed).enumerate() {
            let mut sent = column(value, left, at)?;
            if place.union.open(&mut sent)? {
                crc = hashed.update(crc, &mut sent)?;
            }
        }
        (integrity.checksum? == crc.to_string().as_bytes()).then_some(())
    }

    /// Whether a key has the very values that stand in the value at the ends that are `left`.
    #[inline]
    fn agrees(&self, key: &[u8], value: &[u8], left: &[usize]) -> Option<()> {
        let mut c = Cursor::new(key);
        for (at, union) in &self.key {
            let mut sent = column(value, left, *at)?;
            if self.places.get(*at)?.union.open(&mut sent)? {
                c.eat(union.value())?;
                c.eat(sent.rest())?;
            } else {
                c.eat(union.null()?)?;
            }
        }
        c.is_empty().then_some(())
    }
}

/// One column of a value, by the ends that are `left`.
#[inline]
fn column<'a>(value: &'a [u8], left: &[usize], at: usize) -> Option<Cursor<'a>> {
    let start = at.checked_sub(1).map_or(Some(value.len()), |before| left.get(before).copied())?;
    value.get(value.len() - start..value.len() - left.get(at)?).map(Cursor::new)
}

fn op(name: &[u8]) -> Option<Op> {
    match name {
        b"c" => Some(Op::Insert),
        b"u" => Some(Op::Update),
        b"d" => Some(Op::Delete),
        _ => None,
    }
}
