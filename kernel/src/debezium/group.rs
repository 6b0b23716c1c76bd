//! Mirrors columnar/families.py: a family; rows with the same literals, whose shapes differ in the types of open columns.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::Arc;

use crate::cursor::Cursor;
use crate::rows::{Image, MAX_SHAPES};

use super::forms::{EPOCH, instant_digits};
use super::images::{Images, Lengths, Tokens};
use super::token::{Kind, Token, token, token_into};

/// What the values of a column show of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Open {
    /// Nothing: it is known.
    No,
    /// All, by their kind; `mixed` takes integers among numbers.
    Kind {
        /// Whether integers and numbers make numbers.
        mixed: bool,
    },
    /// Fraction digits; `epoch` is a text that shows none.
    Digits {
        /// Whether there is such a text.
        epoch: bool,
    },
}

/// What a value shows: 0 is nothing.
pub mod code {
    /// A string.
    pub const TEXT: u8 = 1;
    /// An integer.
    pub const INTEGER: u8 = 2;
    /// Any other number.
    pub const NUMBER: u8 = 3;
    /// `true` or `false`.
    pub const BOOL: u8 = 4;

    /// So many fraction digits.
    pub fn digits(count: u8) -> u8 {
        count + 1
    }
}

impl Open {
    #[inline]
    fn code(self, token: &Token, value: &[u8]) -> Option<u8> {
        match (self, token.kind) {
            (Self::No, _) | (_, Kind::Null) => Some(0),
            (Self::Kind { .. }, Kind::Text { .. }) => Some(code::TEXT),
            (Self::Kind { .. }, Kind::Integer) => Some(code::INTEGER),
            (Self::Kind { .. }, Kind::Number) => Some(code::NUMBER),
            (Self::Kind { .. }, Kind::Bool) => Some(code::BOOL),
            (Self::Digits { epoch }, Kind::Text { .. }) => match token.of(value)? {
                EPOCH if epoch => Some(0),
                text => instant_digits(text).map(code::digits),
            },
            (Self::Digits { .. } | Self::Kind { .. }, _) => None,
        }
    }

    /// The same of a value that a column has read whose type declares `known`.
    #[inline]
    fn code_read(self, known: u8, token: &Token, value: &[u8]) -> Option<u8> {
        match (self, token.kind) {
            (Self::Kind { .. } | Self::No, Kind::Null) => Some(0),
            (Self::Kind { mixed: true }, _) if known == code::NUMBER => {
                let text = token.of(value)?;
                let digits = text.strip_prefix(b"-").unwrap_or(text);
                Some(if digits.iter().all(u8::is_ascii_digit) { code::INTEGER } else { code::NUMBER })
            }
            (Self::Kind { .. }, _) => Some(known),
            _ => self.code(token, value),
        }
    }

    fn both(self, a: u8, b: u8) -> Option<u8> {
        match (a, b) {
            (0, one) | (one, 0) => Some(one),
            _ if a == b => Some(a),
            (code::INTEGER, code::NUMBER) | (code::NUMBER, code::INTEGER) if self == Self::Kind { mixed: true } => {
                Some(code::NUMBER)
            }
            _ => None,
        }
    }
}

/// How the key of a group's rows is spelled: what stands before each value, which column's it is, and what is at the end.
#[derive(PartialEq, Eq, Hash)]
pub struct Key {
    /// Literal and column of each value.
    pub values: Vec<(Vec<u8>, usize)>,
    /// The rest.
    pub end: Vec<u8>,
}

impl Key {
    /// The key with these columns inside of `open` and `close`; `names` are all names as they are spelled.
    pub fn new(open: &str, names: &[String], columns: &[usize], close: &str) -> Option<Self> {
        let mut opening = open.to_owned();
        let mut values = Vec::new();
        for &column in columns {
            let literal = format!("{opening}{}:", names.get(column)?);
            values.push((literal.into_bytes(), column));
            opening = ",".to_owned();
        }
        let end = if columns.is_empty() { format!("{open}{close}") } else { close.to_owned() };
        Some(Self { values, end: end.into_bytes() })
    }

    fn is(&self, key: &[u8], image: &[Token], value: &[u8]) -> Option<()> {
        let mut c = Cursor::new(key);
        for (literal, column) in &self.values {
            c.eat(literal)?;
            c.eat(image.get(*column)?.of(value)?)?;
        }
        (c.rest() == self.end).then_some(())
    }
}

/// After a wrong guess so many rows are read without one: their shapes take turns.
const PAUSE: u8 = 32;

/// What stands before each value, and what the value shows.
type Literals = [(Vec<u8>, Open)];

/// What groups have in common, kept once: that of a thousand tables that take turns fits no cache.
#[derive(Default)]
pub struct Common {
    columns: HashSet<Arc<Literals>>,
    keys: HashSet<Arc<Key>>,
    codes: HashSet<Arc<[u8]>>,
}

/// The value in the set that equals this one, which is added if there is none.
fn kept<T: ?Sized + Eq + Hash>(set: &mut HashSet<Arc<T>>, value: Arc<T>) -> Arc<T> {
    let kept = set.get(&value).cloned();
    kept.unwrap_or_else(|| {
        set.insert(value.clone());
        value
    })
}

/// Rows with the same literals.
pub struct Group {
    columns: Arc<Literals>,
    key: Option<Arc<Key>>,
    shapes: Vec<(usize, Arc<[u8]>)>,
    latest: usize,
    pause: u8,
    last: Option<(Vec<u8>, usize)>,
}

impl Group {
    /// No shapes yet. `names` are the columns' as they are spelled; no `key` is a record without key.
    pub fn new(names: &[String], open: Vec<Open>, key: Option<Key>) -> Self {
        let openings = std::iter::once('{').chain(std::iter::repeat(','));
        let names = names.iter().zip(openings).map(|(name, opening)| format!("{opening}{name}:").into_bytes());
        Self {
            columns: names.zip(open).collect(),
            key: key.map(Arc::new),
            shapes: Vec::new(),
            latest: 0,
            pause: 0,
            last: None,
        }
    }

    /// Uses what it has in common with other groups.
    pub fn share(&mut self, common: &mut Common) {
        self.columns = kept(&mut common.columns, self.columns.clone());
        self.key = self.key.take().map(|key| kept(&mut common.keys, key));
    }

    /// Adds a shape, unless there are too many; `codes` are those that its columns' types declare.
    pub fn register(&mut self, number: usize, codes: Vec<u8>, common: &mut Common) -> Option<()> {
        (self.shapes.len() < MAX_SHAPES).then_some(())?;
        self.shapes.push((number, kept(&mut common.codes, codes.into())));
        self.last = None;
        Some(())
    }

    /// The shape that the next row probably belongs to: into its columns values may be read as they come, once.
    #[inline]
    pub fn guess(&mut self) -> Option<usize> {
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        self.shapes.get(self.latest).map(|(number, _)| *number)
    }

    /// The guess was wrong: the row belongs to another shape.
    pub fn missed(&mut self) {
        self.pause = PAUSE;
    }

    /// Reads an image, of which the cursor has the rest of `value`: its tokens, and its values too `into` columns, those of
    /// the guess.
    #[inline]
    pub fn image(&self, c: &mut Cursor<'_>, value: &[u8], image: &mut Tokens, into: Option<&mut Image>) -> Option<()> {
        let (tokens, codes) = image.room(self.columns.len());
        let room = self.columns.iter().zip(tokens).zip(codes);
        let mut lengths = Lengths::default();
        match into {
            None => {
                for (((name, open), slot), code) in room {
                    c.eat(name)?;
                    *slot = token(c, value)?;
                    *code = open.code(slot, value)?;
                    lengths.add(slot);
                }
            }
            Some(into) => {
                let (_, known) = self.shapes.get(self.latest)?;
                for (((((name, open), slot), code), &known), column) in room.zip(known.iter()).zip(into.columns()) {
                    c.eat(name)?;
                    *slot = token_into(column.as_mut(), c, value)?;
                    *code = open.code_read(known, slot, value)?;
                    lengths.add(slot);
                }
            }
        }
        image.close(lengths);
        c.eat(b"}")
    }

    /// The number of the shape that a record's row belongs to, when its key is the row's.
    pub fn shape(&mut self, key: Option<&[u8]>, images: &mut Images, value: &[u8]) -> Option<usize> {
        let Images { before, after, both } = images;
        let row: &Tokens = if after.is_there() { after } else { before };
        let tokens = row.get()?;
        match (&self.key, key) {
            (None, None) => {}
            (Some(expected), Some(key)) => expected.is(key, tokens, value)?,
            _ => return None,
        }
        let codes = if after.is_there() && before.is_there() {
            both.clear();
            for (((_, open), &after), &before) in self.columns.iter().zip(after.codes()).zip(before.codes()) {
                both.push(open.both(after, before)?);
            }
            both.as_slice()
        } else {
            row.codes()
        };
        let agrees =
            |known: &[u8]| codes == known || codes.iter().zip(known).all(|(&code, &known)| code == 0 || code == known);
        let first = self.shapes.first().filter(|(_, known)| agrees(known)).map(|_| 0);
        let again = first.or_else(|| self.last.as_ref().filter(|(last, _)| last == codes).map(|(_, at)| *at));
        self.latest = match again {
            Some(at) => at,
            None => {
                let at = self.shapes.iter().position(|(_, known)| agrees(known))?;
                let last = self.last.get_or_insert_default();
                last.0.clear();
                last.0.extend_from_slice(codes);
                last.1 = at;
                at
            }
        };
        self.shapes.get(self.latest).map(|(number, _)| *number)
    }
}
