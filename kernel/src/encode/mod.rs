//! Mirrors columnar/templates.py: rows to keys and values; one writer for all protocols that write text.
//!
//! ```text
//! template   {"ts": ┬ ts ┬ ,"scm":"shop","tbl":"items","t":1}          key
//!            {"u":{"id":{"t":8,"v": ┬ id ┬ },"at":{"t":12,"v": ┬ at ┬ }}}      value
//!            literal ───────────────┘ │  └ a column of an image, in its form
//!                                     └ or a head: what the reference worked out for each row
//! ```
//!
//! Rule 1. A template is all that the kernel has of a protocol. It comes from the reference, one for each shape, with a
//!         case for each kind of row: its ops, and which of the two images it has.
//! Rule 2. A row is all or nothing. One without a case, with a head that is NULL, with something that its types cannot
//!         hold, larger than the template's size, or with a value that its form has no words for is *unmatched*: it leaves no trace.

mod bind;
mod instants;
mod numbers;
mod strings;
mod templates;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, BinaryArray, Int32Array, MapArray, RecordBatch, StructArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};

use bind::{Cell, bind};
pub use strings::Printable;
use templates::{Part, Template};

/// Writes the rows of the registered templates.
pub struct Encoder {
    printable: Arc<Printable>,
    templates: Vec<Template>,
}

/// The rows that were written, by their numbers, and what was written.
pub struct Written {
    /// Numbers of the rows, in their order.
    pub rows: Int32Array,
    /// The keys, unless the template has none.
    pub keys: Option<BinaryArray>,
    /// The values.
    pub values: BinaryArray,
}

impl Encoder {
    /// No template is registered yet. `printable` are the code points that Go prints, as ranges.
    pub fn new(printable: Vec<(u32, u32)>) -> Self {
        Self { printable: Arc::new(Printable::new(printable)), templates: Vec::new() }
    }

    /// The number of the template that this JSON describes, or None if the kernel does not support it.
    pub fn register(&mut self, description: &str) -> Option<usize> {
        self.templates.push(Template::read(description)?);
        Some(self.templates.len() - 1)
    }

    /// Writes the rows of a batch by a template; nothing when its columns are not those of the template.
    pub fn encode(&self, number: usize, rows: &RecordBatch) -> Option<Written> {
        let template = self.templates.get(number)?;
        let page = Page::open(template, rows, &self.printable)?;
        let (mut done, mut keys, mut values) = (Vec::new(), Texts::default(), Texts::default());
        for row in 0..rows.num_rows() {
            if page.write(row, &mut keys, &mut values).is_some() {
                done.push(i32::try_from(row).ok()?);
            } else {
                keys.truncate(done.len());
                values.truncate(done.len());
            }
        }
        let keys = if template.keyed { Some(keys.finish()?) } else { None };
        Some(Written { rows: done.into(), keys, values: values.finish()? })
    }
}

/// One batch, every column bound to the form it is written in.
struct Page<'a> {
    template: &'a Template,
    ops: Vec<Option<&'a str>>,
    before: Image<'a>,
    after: Image<'a>,
    irregular: &'a MapArray,
    heads: Vec<Box<dyn Cell + 'a>>,
}

struct Image<'a> {
    rows: &'a StructArray,
    cells: Vec<Box<dyn Cell + 'a>>,
}

impl<'a> Image<'a> {
    fn bind(
        rows: &'a RecordBatch,
        name: &str,
        columns: &'a [templates::Column],
        printable: &Arc<Printable>,
    ) -> Option<Self> {
        let rows = rows.column_by_name(name)?.as_struct_opt()?;
        if rows.num_columns() != columns.len() {
            return None;
        }
        let cells = columns.iter().zip(rows.columns()).map(|(column, array)| bind(column, array, printable));
        Some(Self { rows, cells: cells.collect::<Option<_>>()? })
    }
}

impl<'a> Page<'a> {
    fn open(template: &'a Template, rows: &'a RecordBatch, printable: &Arc<Printable>) -> Option<Self> {
        let ops = rows.column_by_name("op")?.as_string_opt::<i32>()?.iter().collect();
        let irregular = rows.column_by_name("irregular")?.as_map_opt()?;
        let heads = template.heads.iter().map(|name| bind::head(rows.column_by_name(name)?));
        let heads = heads.collect::<Option<_>>()?;
        let before = Image::bind(rows, "before", &template.before, printable)?;
        let after = Image::bind(rows, "after", &template.after, printable)?;
        Some(Self { template, ops, before, after, irregular, heads })
    }

    fn write(&self, row: usize, keys: &mut Texts, values: &mut Texts) -> Option<()> {
        if self.irregular.is_valid(row) && self.irregular.value_length(row) != 0 {
            return None;
        }
        let op = (*self.ops.get(row)?)?;
        let images = (self.before.rows.is_valid(row), self.after.rows.is_valid(row));
        let case = self.template.cases.iter().find(|case| case.is_for(op, images))?;
        if let Some(key) = &case.key {
            self.parts(key, row, keys)?;
        }
        self.parts(&case.value, row, values)?;
        let size = keys.last_length() + values.last_length();
        (size <= self.template.most).then_some(())
    }

    fn parts(&self, parts: &[Part], row: usize, out: &mut Texts) -> Option<()> {
        let start = out.open(self.template.framed);
        for part in parts {
            match part {
                Part::Literal(text) => out.data.extend_from_slice(text.as_bytes()),
                Part::Before(at) => self.before.cells.get(*at)?.write(row, &mut out.data)?,
                Part::After(at) => self.after.cells.get(*at)?.write(row, &mut out.data)?,
                Part::Head(at) => self.heads.get(*at)?.write(row, &mut out.data)?,
            }
        }
        out.close(start, self.template.framed)
    }
}

/// Texts one behind the other.
struct Texts {
    data: Vec<u8>,
    ends: Vec<i32>,
}

impl Default for Texts {
    fn default() -> Self {
        Self { data: Vec::new(), ends: vec![0] }
    }
}

const FRAME: usize = size_of::<i64>();

impl Texts {
    /// Begins a text, behind room for its length if it is framed; where it begins.
    fn open(&mut self, framed: bool) -> usize {
        if framed {
            self.data.extend_from_slice(&[0; FRAME]);
        }
        self.data.len()
    }

    fn close(&mut self, start: usize, framed: bool) -> Option<()> {
        if framed {
            let length = i64::try_from(self.data.len() - start).ok()?;
            let frame = self.data.get_mut(start - FRAME..start)?;
            frame.copy_from_slice(&length.to_be_bytes());
        }
        self.ends.push(i32::try_from(self.data.len()).ok()?);
        Some(())
    }

    fn last_length(&self) -> usize {
        match self.ends.as_slice() {
            [.., start, end] => usize::try_from(end - start).unwrap_or(usize::MAX),
            _ => 0,
        }
    }

    fn truncate(&mut self, rows: usize) {
        self.ends.truncate(rows + 1);
        let end = self.ends.last().and_then(|&end| usize::try_from(end).ok());
        self.data.truncate(end.unwrap_or_default());
    }

    fn finish(self) -> Option<BinaryArray> {
        let ends = OffsetBuffer::new(ScalarBuffer::from(self.ends));
        BinaryArray::try_new(ends, self.data.into(), None).ok()
    }
}

#[cfg(test)]
mod tests;
