//! Records of one group: what stands in front of their images, the images, and what stands behind.
//!
//! ```text
//! {"schema":{…},"payload":{"before":null,"after":{"id": 7 , … },"source":{…}, … }}
//! └ opening, compared ───┘└ images ────────────────────────────┘└ tail ──────────┘
//! ```

use super::headers::{Found, Headers};
use super::layout::Layout;
use super::tail::{Said, Tail, optional};
use crate::cursor::Cursor;
use crate::debezium::group::{Group, Images};

const BEFORE: &[u8] = b"{\"before\":";
const AFTER: &[u8] = b",\"after\":";

/// A group and what is around its images.
pub struct Part {
    pub group: Group,
    /// What tells it from others.
    pub identity: Vec<u8>,
    opening: Vec<u8>,
    tail: Tail,
}

/// Room that records share.
#[derive(Default)]
pub struct Room {
    pub images: Images,
    pub headers: Headers,
    pub origin: Vec<u8>,
    pub id: Vec<u8>,
}

impl Part {
    /// A part without records; `table` are names as they are spelled, and no `opening` is no schema block.
    pub fn new(group: Group, layout: Layout, opening: Vec<u8>, table: [Vec<u8>; 2], identity: Vec<u8>) -> Self {
        let end: &[u8] = if opening.is_empty() { b"}" } else { b"}}" };
        Self { group, identity, opening, tail: Tail::new(layout, table, end) }
    }

    /// Reads a value; its images' tokens and its origin are then in the room.
    #[inline]
    pub fn read<'a>(&mut self, value: &'a [u8], headers: Found<'_>, room: &mut Room) -> Option<Said<'a>> {
        room.images.clear();
        // Comparing with nothing costs more than with a block: memcmp looks at where no bytes are.
        let opened = if self.opening.is_empty() { Some(value) } else { value.strip_prefix(self.opening.as_slice()) };
        let mut c = Cursor::new(opened?);
        for (name, image) in [(BEFORE, &mut room.images.before), (AFTER, &mut room.images.after)] {
            c.eat(name)?;
            optional(&mut c, |c| self.group.image(c, value, image))?;
        }
        let said = self.tail.read(c.rest(), &mut room.origin)?;
        if !headers.headers.is_empty() {
            let [name, connector] = self.tail.names()?;
            room.origin.extend_from_slice(room.headers.read(headers.headers, name, connector)?);
        }
        room.origin.push(b'}');
        Some(said)
    }
}
