//! Which table a value is of, as far as a look without reading it tells.
//!
//! ```text
//! {"schema":{…},"payload":                                        with schema: the block itself
//! … ,"source":{ … ,"db":"shop", … ,"table":"orders", … }, …       without: the names in the source block, wherever it stands
//! ```
//!
//! Rule. A wrong route is no wrong answer: the record is then not as its part expects, and odd.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use memchr::memmem::Finder;

use crate::cursor::Cursor;
use crate::json::string;

const SOURCE: &[u8] = b",\"source\":{";
const DATABASE: &[u8] = b",\"db\":";
const TABLE: &[u8] = b",\"table\":";

/// Routes by schema block, and by table where there is none: numbers from 0.
pub struct Routes {
    count: usize,
    blocks: BTreeMap<Vec<u8>, usize>,
    names: HashMap<Vec<u8>, usize>,
    source: Box<Finder<'static>>,
    members: [Place; 2],
    scratch: Vec<u8>,
}

/// A member of the source block, and where the latest one had it.
struct Place {
    /// In a box: it is aligned to 32 bytes, and Python's objects to 16.
    find: Box<Finder<'static>>,
    at: usize,
}

impl Default for Routes {
    fn default() -> Self {
        Self {
            count: 0,
            blocks: BTreeMap::new(),
            names: HashMap::new(),
            source: Box::new(Finder::new(SOURCE)),
            members: [DATABASE, TABLE].map(|name| Place { find: Box::new(Finder::new(name)), at: 0 }),
            scratch: Vec::new(),
        }
    }
}

impl Routes {
    /// The route of records that begin with this block, or that have none and name this table as it is spelled.
    pub fn learn(&mut self, opening: &[u8], [database, table]: &[Vec<u8>; 2]) -> usize {
        let fresh = self.count;
        let route = if opening.is_empty() {
            *self.names.entry([database, &b"\""[..], table].concat()).or_insert(fresh)
        } else {
            *self.blocks.entry(opening.to_vec()).or_insert(fresh)
        };
        self.count = self.count.max(route + 1);
        route
    }

    /// The route of a value. No block of JSON begins with another one, so that the greatest that is not greater than the
    /// value is the only one that may be its beginning. In no string is there a quote without a backslash before it: what
    /// looks like the beginning of a source block is that.
    pub fn of(&mut self, value: &[u8]) -> Option<usize> {
        if self.count == 1 {
            return Some(0);
        }
        if !self.blocks.is_empty() {
            let below = (Bound::Unbounded, Bound::Included(value));
            let block = self.blocks.range::<[u8], _>(below).next_back();
            if let Some((_, route)) = block.filter(|(block, _)| value.starts_with(block)) {
                return Some(*route);
            }
        }
        let source = value.get(self.source.find(value)? + SOURCE.len()..)?;
        let [database, table] = &mut self.members;
        let (database, table) = (database.text(source)?, table.text(source)?);
        self.scratch.clear();
        for part in [database, b"\"", table] {
            self.scratch.extend_from_slice(part);
        }
        self.names.get(self.scratch.as_slice()).copied()
    }
}

impl Place {
    /// The member's text: mostly it stands where it stood in the record before.
    fn text<'a>(&mut self, source: &'a [u8]) -> Option<&'a [u8]> {
        let name = self.find.needle();
        if !source.get(self.at..).is_some_and(|rest| rest.starts_with(name)) {
            self.at = self.find.find(source)?;
        }
        let value = source.get(self.at + name.len()..)?;
        string(&mut Cursor::new(value)).map(|text| text.raw)
    }
}
