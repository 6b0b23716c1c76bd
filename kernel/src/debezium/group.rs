//! A group: rows with the same literals, whose shapes differ in the types of open columns alone.

use crate::cursor::Cursor;
use crate::json::unescape;
use crate::rows::Image;

use super::forms::{EPOCH, instant_digits};
use super::rows::Rows;
use super::token::{Kind, Token, token};

/// What the values of a column tell of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// Nothing: it is known.
    No,
    /// All, by their kind; `mixed` takes integers among numbers.
    Kind {
        /// Whether integers and numbers make numbers.
        mixed: bool,
    },
    /// Fraction digits; `epoch` is a text that tells none.
    Digits {
        /// Whether there is such a text.
        epoch: bool,
    },
}

/// What a value tells: 0 is nothing.
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
            (Self::Digits { .. }, _) => None,
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

/// Rows with the same literals.
pub struct Group {
    columns: Vec<(Vec<u8>, Open)>,
    key: Option<Key>,
    shapes: Vec<(usize, Vec<u8>)>,
    last: Option<(Vec<u8>, usize)>,
    codes: Vec<u8>,
}

/// The tokens of the images that a record has; their room is used again.
#[derive(Default)]
pub struct Images {
    /// Of the old row.
    pub before: Tokens,
    /// Of the new row.
    pub after: Tokens,
}

/// The tokens of an image, if there is one.
#[derive(Default)]
pub struct Tokens {
    there: bool,
    tokens: Vec<Token>,
    codes: Vec<u8>,
    /// Bits by the lengths of its strings, all of them where there are escapes: most cannot be what has another length.
    lengths: u64,
}

impl Tokens {
    /// The tokens.
    pub fn get(&self) -> Option<&[Token]> {
        self.there.then_some(self.tokens.as_slice())
    }

    /// Whether there is an image.
    pub fn is_there(&self) -> bool {
        self.there
    }
}

impl Images {
    /// No images.
    pub fn clear(&mut self) {
        self.before.there = false;
        self.after.there = false;
    }

    /// Nothing when an image has a text that stands for a column that was not sent.
    pub fn are_whole(&self, value: &[u8], placeholders: &[Vec<u8>]) -> Option<()> {
        let lengths = placeholders.iter().fold(0, |all, text| all | length(text.len() + 2));
        let images = [&self.before, &self.after].into_iter().filter(|image| image.lengths & lengths != 0);
        let mut tokens = images.filter_map(Tokens::get).flatten();
        tokens.try_for_each(|token| (!is_one_of(token, value, placeholders)?).then_some(()))
    }
}

impl Group {
    /// No shapes yet. `names` are the columns' as they are spelled; no `key` is a record without key.
    pub fn new(names: &[String], open: Vec<Open>, key: Option<Key>) -> Self {
        let openings = std::iter::once('{').chain(std::iter::repeat(','));
        let names = names.iter().zip(openings).map(|(name, opening)| format!("{opening}{name}:").into_bytes());
        Self { columns: names.zip(open).collect(), key, shapes: Vec::new(), last: None, codes: Vec::new() }
    }

    /// Adds a shape; `codes` are what its columns' types tell.
    pub fn learn(&mut self, number: usize, codes: Vec<u8>) {
        self.shapes.push((number, codes));
        self.last = None;
    }

    /// Reads an image, of which the cursor has the rest of `value`.
    #[inline]
    pub fn image(&self, c: &mut Cursor<'_>, value: &[u8], image: &mut Tokens) -> Option<()> {
        image.tokens.clear();
        image.codes.clear();
        image.lengths = 0;
        for (name, open) in &self.columns {
            c.eat(name)?;
            let token = token(c, value)?;
            image.codes.push(open.code(&token, value)?);
            if let Kind::Text { escaped } = token.kind {
                image.lengths |= if escaped { u64::MAX } else { length(token.length()) };
            }
            image.tokens.push(token);
        }
        image.there = true;
        c.eat(b"}")
    }

    /// The number of the shape that a record's row belongs to, when its key is the row's.
    pub fn shape(&mut self, key: Option<&[u8]>, images: &Images, value: &[u8]) -> Option<usize> {
        let row = if images.after.there { &images.after } else { &images.before };
        let tokens = row.get()?;
        match (&self.key, key) {
            (None, None) => {}
            (Some(expected), Some(key)) => expected.is(key, tokens, value)?,
            _ => return None,
        }
        let codes = if images.after.there && images.before.there {
            let both = self.columns.iter().zip(&images.after.codes).zip(&images.before.codes);
            self.codes.clear();
            for (((_, open), &after), &before) in both {
                self.codes.push(open.both(after, before)?);
            }
            &self.codes
        } else {
            &row.codes
        };
        let agrees = |known: &[u8]| codes.iter().zip(known).all(|(&told, &known)| told == 0 || told == known);
        if let Some((number, _)) = self.shapes.first().filter(|(_, known)| agrees(known)) {
            return Some(*number);
        }
        if let Some((_, number)) = self.last.as_ref().filter(|(last, _)| last == codes) {
            return Some(*number);
        }
        let number = self.shapes.iter().find(|(_, known)| agrees(known))?.0;
        let last = self.last.get_or_insert_default();
        last.0.clone_from(codes);
        last.1 = number;
        Some(number)
    }
}

/// A length's bit, which it shares with others.
#[inline]
fn length(bytes: usize) -> u64 {
    1 << (bytes % 64)
}

/// Whether a string is one of these texts, which are UTF-8.
#[inline]
fn is_one_of(token: &Token, value: &[u8], texts: &[Vec<u8>]) -> Option<bool> {
    let Kind::Text { escaped } = token.kind else { return Some(false) };
    let is = |text: &Vec<u8>| token.inside(value) == Some(text);
    if !escaped {
        return Some(texts.iter().any(|text| text.len() + 2 == token.length() && is(text)));
    }
    let mut plain = Vec::new();
    unescape(token.inside(value)?, &mut plain)?;
    Some(texts.contains(&plain))
}

/// Reads both images into their columns.
pub fn fill(rows: &mut Rows, images: &Images, value: &[u8]) -> Option<()> {
    for (image, tokens) in [(&mut rows.before, &images.before), (&mut rows.after, &images.after)] {
        if let Some(tokens) = tokens.get() {
            fill_image(image, tokens, value)?;
        }
    }
    Some(())
}

fn fill_image(image: &mut Image, tokens: &[Token], value: &[u8]) -> Option<()> {
    for (column, token) in image.columns().iter_mut().zip(tokens) {
        let text = token.of(value)?;
        if let Kind::Text { escaped } = token.kind {
            column.read_checked(text, escaped)?;
            continue;
        }
        let mut c = Cursor::new(text);
        column.read(&mut c)?;
        c.is_empty().then_some(())?;
    }
    Some(())
}
