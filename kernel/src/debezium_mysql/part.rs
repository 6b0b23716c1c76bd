//! Mirrors connect/parts.py: records of one group: the bytes before the images, the images, and the bytes after.
//!
//! ```text
//! {"schema":{…},"payload":{"before":null,"after":{"id": 7 , … },"source":{…}, … }}
//! └ opening, compared ───┘└ images ────────────────────────────┘└ tail ──────────┘
//! ```

use super::headers::{Headers, SentHeaders};
use super::row;
use super::tail::{Outer, Tails, optional};
use crate::cursor::Cursor;
use crate::debezium::group::Group;
use crate::debezium::images::{Images, Placeholders};
use crate::debezium::rows::{Rows, When};

const BEFORE: &[u8] = b"{\"before\":";
const AFTER: &[u8] = b",\"after\":";

/// A group and what is around its images.
pub struct Part {
    pub group: Group,
    /// What distinguishes it from others.
    pub identity: Vec<u8>,
    /// Whether the time of its latest record is known to the microsecond.
    is_fine: bool,
    opening: Vec<u8>,
    /// The database's name and the table's as they are spelled.
    table: [Vec<u8>; 2],
    /// Which of the room's.
    tails: usize,
}

/// Room that records share, and what stands for columns that were not sent.
#[derive(Default)]
pub struct Room {
    pub images: Images,
    pub headers: Headers,
    pub origin: Vec<u8>,
    /// The transaction's.
    pub id: Vec<u8>,
    pub placeholders: Placeholders,
    /// By layout.
    pub tails: Vec<Tails>,
}

/// A record that has a value.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    pub record: i32,
    pub key: Option<&'a [u8]>,
    pub value: &'a [u8],
    pub headers: SentHeaders<'a>,
}

/// The members of a record that are not stored in the room.
pub struct Row {
    /// Shape, and whether the time is known to the microsecond.
    pub rows: (usize, bool),
    pub op: &'static str,
    pub when: When,
    /// Of a row in a transaction: which event of that, and which of it in the table.
    pub orders: Option<(Option<i64>, Option<i64>)>,
}

impl Part {
    /// A part without records; `table` are names as they are spelled, and no `opening` is no schema block.
    pub fn new(group: Group, opening: Vec<u8>, table: [Vec<u8>; 2], identity: Vec<u8>, tails: usize) -> Self {
        Self { group, identity, is_fine: false, opening, table, tails }
    }

    /// The rows that the next record probably belongs to.
    #[inline]
    pub fn guess(&mut self) -> Option<(usize, bool)> {
        self.group.guess().map(|number| (number, self.is_fine))
    }

    /// Reads a record, and its values into the guessed rows if there are some.
    #[inline]
    pub fn read(&mut self, record: Record<'_>, room: &mut Room, rows: Option<&mut Rows>) -> Option<Row> {
        let outer = self.read_value(record.value, room, rows)?;
        self.is_fine = outer.is_fine;
        if !record.headers.headers.is_empty() {
            let [name, connector] = room.tails.get(self.tails)?.names()?;
            room.origin.extend_from_slice(room.headers.read(record.headers.headers, name, connector)?);
        }
        room.origin.push(b'}');
        room.images.are_whole(record.value, &room.placeholders)?;
        let op = row::op(outer.op, (room.images.before.is_there(), room.images.after.is_there()))?;
        let number = self.group.shape(record.key, &mut room.images, record.value)?;
        let orders = match outer.transaction {
            Some((id, order, table_order)) => {
                room.id.clear();
                id.push(&mut room.id)?;
                Some((order, table_order))
            }
            None => None,
        };
        Some(Row { rows: (number, outer.is_fine), op, when: When::Log(outer.sequence, outer.time), orders })
    }

    #[inline]
    fn read_value<'a>(&mut self, value: &'a [u8], room: &mut Room, rows: Option<&mut Rows>) -> Option<Outer<'a>> {
        room.images.clear();
        // Comparing with nothing costs more than with a block: memcmp looks at where no bytes are.
        let opened = if self.opening.is_empty() { Some(value) } else { value.strip_prefix(self.opening.as_slice()) };
        let mut c = Cursor::new(opened?);
        let (before, after) = rows.map(|rows| (&mut rows.before, &mut rows.after)).unzip();
        for (name, image, into) in [(BEFORE, &mut room.images.before, before), (AFTER, &mut room.images.after, after)] {
            c.eat(name)?;
            optional(&mut c, |c| self.group.image(c, value, image, into))?;
        }
        room.tails.get_mut(self.tails)?.read(c.rest(), &self.table, &mut room.origin)
    }
}
