//! Kernel only: the table of a value, as far as it can be found without parsing the value.
//!
//! ```text
//! {"schema":{…},"payload": …                                      with schema: the block itself
//! … ,"source":{ … ,"db":"shop", … ,"table":"orders", … }, … }     without: the names in the source block
//!   └ where the table's latest record had it, counted from the end
//! ```
//!
//! Rule 1. A wrong route does not give a wrong result: the record then does not match its part, and unmatched.
//! Rule 2. Tables take turns, often the same: of each it is kept which came next, and that is looked at first.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use memchr::memmem::Finder;

use crate::cursor::Cursor;
use crate::strict_json::string;

const SOURCE: &[u8] = b",\"source\":{";
const DATABASE: &[u8] = b",\"db\":";
const TABLE: &[u8] = b",\"table\":";

/// Routes by schema block, and by table where there is none: numbers from 0.
pub struct Routes {
    routes: Vec<Route>,
    latest: usize,
    blocks: BTreeMap<Vec<u8>, usize>,
    names: HashMap<Vec<u8>, usize>,
    /// In a box: they are aligned to 32 bytes, and Python's objects to 16.
    find: Box<[Finder<'static>; 3]>,
}

/// A route, and where it was recognized in its latest record.
#[derive(Default)]
struct Route {
    block: Vec<u8>,
    members: [Vec<u8>; 2],
    from_end: usize,
    places: [usize; 2],
    next: usize,
}

impl Default for Routes {
    fn default() -> Self {
        let find = Box::new([SOURCE, DATABASE, TABLE].map(Finder::new));
        Self { routes: Vec::new(), latest: 0, blocks: BTreeMap::new(), names: HashMap::new(), find }
    }
}

impl Routes {
    /// The route of records that begin with this block, or that have none and name this table as it is spelled.
    pub fn register(&mut self, block: &[u8], names: &[Vec<u8>; 2]) -> usize {
        let fresh = self.routes.len();
        let [database, table] = names;
        let [database, table] =
            [(DATABASE, database), (TABLE, table)].map(|(member, name)| [member, b"\"", name, b"\""].concat());
        let route = if block.is_empty() {
            *self.names.entry([database.as_slice(), &table].concat()).or_insert(fresh)
        } else {
            *self.blocks.entry(block.to_vec()).or_insert(fresh)
        };
        if route == fresh {
            self.routes.push(Route { block: block.to_vec(), members: [database, table], ..Route::default() });
        }
        route
    }

    /// The route of a value.
    #[inline]
    pub fn of(&mut self, value: &[u8]) -> Option<usize> {
        if self.routes.len() == 1 {
            return Some(0);
        }
        let next = self.routes.get(self.latest)?.next;
        let known = [next, self.latest].into_iter().find(|&at| self.routes.get(at).is_some_and(|r| r.is_of(value)));
        let place = known.or_else(|| self.find(value))?;
        self.routes.get_mut(self.latest)?.next = place;
        self.latest = place;
        Some(place)
    }

    /// No block of JSON begins with another one, so that the greatest that is not greater than the value is the only one
    /// that may be its beginning. In no string is there a quote without a backslash before it: what looks like the beginning
    /// of a source block is that.
    fn find(&mut self, value: &[u8]) -> Option<usize> {
        let below = (Bound::Unbounded, Bound::Included(value));
        let block = self.blocks.range::<[u8], _>(below).next_back();
        if let Some((_, route)) = block.filter(|(block, _)| value.starts_with(block)) {
            return Some(*route);
        }
        let [source, database, table] = self.find.as_ref();
        let rest = value.get(source.find(value)?..)?;
        let (database, table) = (database.find(rest)?, table.find(rest)?);
        let names = [member(rest, database, DATABASE)?, member(rest, table, TABLE)?].concat();
        let place = *self.names.get(&names)?;
        let route = self.routes.get_mut(place)?;
        (route.from_end, route.places) = (rest.len(), [database, table]);
        Some(place)
    }
}

/// A member from its name to the end of its string.
fn member<'a>(rest: &'a [u8], at: usize, name: &[u8]) -> Option<&'a [u8]> {
    let text = rest.get(at..)?;
    let mut c = Cursor::new(text.get(name.len()..)?);
    string(&mut c)?;
    text.get(..text.len() - c.rest().len())
}

impl Route {
    /// Whether a value shows it in the same place as the latest one.
    #[inline]
    fn is_of(&self, value: &[u8]) -> bool {
        if !self.block.is_empty() {
            return value.starts_with(&self.block);
        }
        let rest = value.len().checked_sub(self.from_end).and_then(|start| value.get(start..)).unwrap_or_default();
        let tells = |(at, member): (&usize, &Vec<u8>)| rest.get(*at..).is_some_and(|text| text.starts_with(member));
        rest.starts_with(SOURCE) && self.places.iter().zip(&self.members).all(tells)
    }
}
