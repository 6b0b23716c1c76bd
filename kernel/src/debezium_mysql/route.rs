//! Kernel only: the table of a value, as far as it can be found without parsing the value.
//!
//! ```text
//! {"schema":{…},"payload": …                                      with schema: the block itself
//! … ,"source":{ … ,"db":"shop", … ,"table":"orders", … }, … }     without: the names in the source block
//!   └ looked for where the latest record had it, counted from the end, and a little before
//! ```
//!
//! Rule 1. A wrong route does not give a wrong result: the record then does not match its part, and is unmatched.
//! Rule 2. Tables with schema blocks take turns, often the same: of each it is kept which came next, and that is looked at
//!         first, because blocks are long.
//! Rule 3. Where several values of a topic in a row have one route, the next one probably has it, too: it is not looked for.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use memchr::memmem::Finder;

use crate::cursor::Cursor;
use crate::strict_json::string;

const SOURCE: &[u8] = b",\"source\":{";
const DATABASE: &[u8] = b",\"db\":";
const TABLE: &[u8] = b",\"table\":";

/// Bytes by which a source block may begin earlier than that of the record before: names and numbers are longer.
pub const EARLIER: usize = 64;

/// Values with one route, after which the next one is not looked for.
const STREAK: u32 = 4;

/// Routes by schema block, and by table where there is none: numbers from 0.
pub struct Routes {
    len: usize,
    blocks: Blocks,
    tables: HashMap<Vec<u8>, usize>,
    latest: Source,
    topics: Vec<Streak>,
    topic: usize,
    /// In a box: they are aligned to 32 bytes, and Python's objects to 16.
    find: Box<[Finder<'static>; 3]>,
}

/// The route of a topic's latest value, and how many values in a row before that had it.
#[derive(Clone, Copy, Default)]
struct Streak {
    route: usize,
    len: u32,
}

/// The schema blocks.
#[derive(Default)]
struct Blocks {
    places: BTreeMap<Vec<u8>, usize>,
    blocks: Vec<Block>,
    latest: usize,
}

/// A schema block, and which one came after it the last time.
struct Block {
    text: Vec<u8>,
    route: usize,
    next: usize,
}

/// Where the latest record without a schema block had its source, and the names in it.
#[derive(Default)]
struct Source {
    from_end: usize,
    names: Vec<u8>,
}

impl Default for Routes {
    fn default() -> Self {
        let find = Box::new([SOURCE, DATABASE, TABLE].map(Finder::new));
        let (blocks, tables, latest) = Default::default();
        Self { len: 0, blocks, tables, latest, topics: vec![Streak::default()], topic: 0, find }
    }
}

impl Routes {
    /// The route of records that begin with this block, or that have none and name this table as it is spelled.
    pub fn register(&mut self, block: &[u8], names: &[Vec<u8>; 2]) -> usize {
        let [database, table] = names;
        let fresh = self.len;
        let route = if block.is_empty() {
            *self.tables.entry([b"\"", database.as_slice(), b"\"\"", table, b"\""].concat()).or_insert(fresh)
        } else {
            self.blocks.register(block, fresh)
        };
        self.len += usize::from(route == fresh);
        route
    }

    /// The next values are of the topic with this number.
    #[inline]
    pub fn turn_to(&mut self, topic: usize) {
        if topic >= self.topics.len() {
            self.topics.resize(topic + 1, Streak::default());
        }
        self.topic = topic;
    }

    /// The route that the next value probably has, if that can be guessed.
    #[inline]
    pub fn guess(&self) -> Option<usize> {
        self.topics.get(self.topic).filter(|streak| streak.len >= STREAK).map(|streak| streak.route)
    }

    /// The guess was wrong.
    pub fn missed(&mut self) {
        if let Some(streak) = self.topics.get_mut(self.topic) {
            streak.len = 0;
        }
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The route of a value.
    #[inline]
    pub fn find(&mut self, value: &[u8]) -> Option<usize> {
        self.blocks.of(value).or_else(|| self.of_table(value))
    }

    /// The route of the next value.
    #[inline]
    pub fn of(&mut self, value: &[u8]) -> Option<usize> {
        let route = self.find(value)?;
        let streak = self.topics.get_mut(self.topic)?;
        let len = if route == streak.route { streak.len.saturating_add(1) } else { 0 };
        *streak = Streak { route, len };
        Some(route)
    }

    /// In no string is there a quote without a backslash before it: what looks like the beginning of a source block is that.
    fn of_table(&mut self, value: &[u8]) -> Option<usize> {
        let [source, database, table] = self.find.as_ref();
        let likely = value.len().saturating_sub(self.latest.from_end + EARLIER);
        let found = value.get(likely..).and_then(|rest| source.find(rest).map(|at| likely + at));
        let rest = value.get(found.or_else(|| source.find(value))?..)?;
        self.latest.from_end = rest.len();
        self.latest.names.clear();
        for (name, member) in [(DATABASE, database), (TABLE, table)] {
            let text = rest.get(member.find(rest)? + name.len()..)?;
            let mut c = Cursor::new(text);
            string(&mut c)?;
            self.latest.names.extend_from_slice(text.get(..text.len() - c.rest().len())?);
        }
        self.tables.get(&self.latest.names).copied()
    }
}

impl Blocks {
    fn register(&mut self, text: &[u8], fresh: usize) -> usize {
        let place = *self.places.entry(text.to_vec()).or_insert(self.blocks.len());
        if place == self.blocks.len() {
            self.blocks.push(Block { text: text.to_vec(), route: fresh, next: 0 });
        }
        self.blocks.get(place).map_or(fresh, |block| block.route)
    }

    /// The route of the block with which a value begins. No block of JSON begins with another one, so that the greatest that
    /// is not greater than the value is the only one that may be its beginning.
    #[inline]
    fn of(&mut self, value: &[u8]) -> Option<usize> {
        let next = self.blocks.get(self.latest)?.next;
        let begins = |at: usize| self.blocks.get(at).is_some_and(|block| value.starts_with(&block.text));
        let place = [next, self.latest].into_iter().find(|&at| begins(at)).or_else(|| {
            let below = (Bound::Unbounded, Bound::Included(value));
            let (text, place) = self.places.range::<[u8], _>(below).next_back()?;
            value.starts_with(text).then_some(*place)
        })?;
        self.blocks.get_mut(self.latest)?.next = place;
        self.latest = place;
        self.blocks.get(place).map(|block| block.route)
    }
}
