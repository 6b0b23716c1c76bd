//! Mirrors mysql/binlog/rows.py: row events to rows of their table's columns.
//!
//! ```text
//! table id   6 bytes
//! flags      2 bytes: 1 statement end
//! extra      v2 alone: size (2, with itself), then nothing, or 1 partition (2), in updates the source's (2), too
//! columns    packed count, then a bitmap of the columns in the images; in updates one before, one after
//! rows       each ┌ before ┐ delete, update
//!                 └ after  ┘ insert, update
//! image      bitmap of NULLs, one bit for each column that is in the image; then the values that are not NULL
//! ```
//!
//! Rule 1. Rows follow each other to the end of the event, exactly.
//! Rule 2. All rows of an event are read, or none.
//! Rule 3. A value that its column cannot hold is NULL there; of an image after, its text is kept.

use super::inflate::inflate;
use super::irregular::Odd;
use super::tables::{Irregular, Shape, Table};
use crate::cursor::Cursor;
use crate::rows::{Head, Image, Op};

const PARTITION: u8 = 1;

/// One type of row event.
#[derive(Clone, Copy)]
pub struct Kind {
    /// What happened to the rows.
    pub op: Op,
    /// Version of the event, 1 or 2.
    pub version: u8,
    /// Whether the rows are compressed, as MariaDB does.
    pub compressed: bool,
}

/// Where the rows of an event are.
#[derive(Clone, Copy)]
pub struct Place {
    /// Number of the record that has the event.
    pub record: i32,
    /// Index of the first row in the record.
    pub index: i32,
    /// The position of the record.
    pub number: u64,
    /// When the event was written, in seconds since 1970.
    pub time: i64,
}

/// Reads the rows of an event, from its number of columns on; returns how many there are.
pub fn read(c: &mut Cursor<'_>, kind: Kind, table: &mut Table, place: Place) -> Option<usize> {
    let width = usize::try_from(packed(c)?).ok().filter(|&count| count == table.width())?;
    let mut bitmap = |present: bool| if present { c.take(width.div_ceil(8)).map(Some) } else { Some(None) };
    let carried = [bitmap(kind.op != Op::Insert)?, bitmap(kind.op != Op::Delete)?];
    let shape = table.shape(carried)?;
    let start = shape.rows.len();
    let inflated = if kind.compressed { inflate(c.rest())? } else { Vec::new() };
    let mut c = if kind.compressed { Cursor::new(&inflated) } else { *c };
    let count = read_rows(&mut c, kind.op, shape, place);
    if count.is_none() {
        shape.truncate(start);
    }
    count
}

fn read_rows(c: &mut Cursor<'_>, op: Op, shape: &mut Shape, place: Place) -> Option<usize> {
    let Shape { rows, times, irregular, texts: [before, after], .. } = shape;
    let mut count = 0;
    while !c.is_empty() {
        if op != Op::Insert {
            read_image(c, &mut rows.before, before, None)?;
        }
        if op != Op::Delete {
            read_image(c, &mut rows.after, after, Some(irregular))?;
        }
        let index = Some(place.index.checked_add(i32::try_from(count).ok()?)?);
        rows.close(op, &Head { record: place.record, index, commit_ts: Some(place.number), origin: None })?;
        times.push(place.time);
        count += 1;
    }
    Some(count)
}

/// Reads an image; `kept` gets the values that columns cannot hold.
#[inline]
fn read_image(
    c: &mut Cursor<'_>,
    image: &mut Image,
    texts: &[Option<Odd>],
    mut kept: Option<&mut Vec<Irregular>>,
) -> Option<()> {
    let row = image.count();
    let columns = image.columns();
    let nulls = c.take(columns.len().div_ceil(8))?;
    for (byte, (some, bits)) in columns.chunks_mut(8).zip(nulls).enumerate() {
        for (i, column) in some.iter_mut().enumerate() {
            if bits >> i & 1 == 1 {
                column.pad(row + 1);
                continue;
            }
            let start = *c;
            if column.read(c).is_none() {
                *c = start;
                let at = 8 * byte + i;
                let text = texts.get(at)?.as_ref()?.read(c)?;
                column.truncate(row);
                column.pad(row + 1);
                if let Some(kept) = kept.as_deref_mut() {
                    kept.push(Irregular { row, column: at, text });
                }
            }
        }
    }
    Some(())
}

/// Steps over the extra information of an event of version 2: what is not needed is checked all the same.
pub fn skip_extra(c: &mut Cursor<'_>, op: Op) -> Option<()> {
    let size = usize::try_from(c.uint(2)?).ok()?.checked_sub(2)?;
    let mut extra = Cursor::new(c.take(size)?);
    while !extra.is_empty() {
        (extra.byte()? == PARTITION).then_some(())?;
        extra.take(if op == Op::Update { 4 } else { 2 })?;
    }
    Some(())
}

/// A length-encoded integer.
fn packed(c: &mut Cursor<'_>) -> Option<u64> {
    match c.byte()? {
        first @ ..=0xfa => Some(first.into()),
        0xfc => c.uint(2),
        0xfd => c.uint(3),
        0xfe => c.uint(8),
        _ => None,
    }
}
