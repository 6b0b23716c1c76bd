//! Mirrors protocols/debezium_mysql/images.py, protocols/ticdc_debezium/images.py: the images of a record: values, and inferred types.

use super::rows::Rows;
use super::token::{Kind, Token};
use crate::cursor::Cursor;
use crate::rows::Image;
use crate::strict_json::unescape;

/// The images of a record; their room is used again.
#[derive(Default)]
pub struct Images {
    /// The old row.
    pub before: Tokens,
    /// The new row.
    pub after: Tokens,
    /// What the values of both show together.
    pub both: Vec<u8>,
}

/// The tokens of an image, if there is one.
#[derive(Default)]
pub struct Tokens {
    there: bool,
    tokens: Vec<Token>,
    codes: Vec<u8>,
    lengths: Lengths,
}

/// Lengths of strings, a bit each, which they share: most strings cannot be what has another length.
#[derive(Clone, Copy, Default)]
pub struct Lengths(u64);

/// Texts, UTF-8, that stand for columns that were not sent.
#[derive(Default)]
pub struct Placeholders {
    texts: Vec<Vec<u8>>,
    lengths: Lengths,
}

impl Lengths {
    /// Adds that of a token, if it is a string; one with escapes means something that is shorter.
    #[inline]
    pub fn add(&mut self, token: &Token) {
        match (token.kind, token.length()) {
            (Kind::Text { escaped: false }, length) => self.0 |= 1 << (length % 64),
            (Kind::Text { escaped: true }, length @ ..64) => self.0 |= (1 << length) - 1,
            (Kind::Text { escaped: true }, _) => self.0 = u64::MAX,
            _ => {}
        }
    }
}

impl Placeholders {
    /// These texts.
    pub fn new(texts: Vec<Vec<u8>>) -> Self {
        let lengths = texts.iter().fold(0, |all, text| all | 1 << ((text.len() + 2) % 64));
        Self { texts, lengths: Lengths(lengths) }
    }

    /// Whether a token is one of them.
    fn have(&self, token: &Token, value: &[u8]) -> Option<bool> {
        let Kind::Text { escaped } = token.kind else { return Some(false) };
        let inside = token.inside(value)?;
        if !escaped {
            return Some(self.texts.iter().any(|text| inside == text));
        }
        let mut plain = Vec::new();
        unescape(inside, &mut plain)?;
        Some(self.texts.contains(&plain))
    }
}

impl Tokens {
    /// The tokens.
    pub fn get(&self) -> Option<&[Token]> {
        self.there.then_some(self.tokens.as_slice())
    }

    /// What each token shows.
    pub fn codes(&self) -> &[u8] {
        &self.codes
    }

    /// Room for the tokens of so many columns, and for what they show.
    #[inline]
    pub fn room(&mut self, columns: usize) -> (&mut [Token], &mut [u8]) {
        self.tokens.resize(columns, Token::default());
        self.codes.resize(columns, 0);
        (&mut self.tokens, &mut self.codes)
    }

    /// The image is there, and has strings of these lengths.
    #[inline]
    pub fn close(&mut self, lengths: Lengths) {
        self.there = true;
        self.lengths = lengths;
    }

    /// Whether there is an image.
    pub fn is_there(&self) -> bool {
        self.there
    }

    #[inline]
    fn is_whole(&self, value: &[u8], placeholders: &Placeholders) -> Option<()> {
        if !self.there || self.lengths.0 & placeholders.lengths.0 == 0 {
            return Some(());
        }
        self.tokens.iter().try_for_each(|token| (!placeholders.have(token, value)?).then_some(()))
    }

    fn fill(&self, image: &mut Image, value: &[u8]) -> Option<()> {
        if !self.there {
            return Some(());
        }
        for (column, token) in image.columns().iter_mut().zip(&self.tokens) {
            if let Kind::Text { escaped } = token.kind {
                column.read_checked(token.of(value)?, escaped)?;
                continue;
            }
            let mut c = Cursor::new(token.onwards(value)?);
            column.read(&mut c)?;
            token.ends(&c, value).then_some(())?;
        }
        Some(())
    }
}

impl Images {
    /// No images.
    pub fn clear(&mut self) {
        self.before.there = false;
        self.after.there = false;
    }

    /// Nothing when an image has a text that stands for a column that was not sent.
    #[inline]
    pub fn are_whole(&self, value: &[u8], placeholders: &Placeholders) -> Option<()> {
        self.before.is_whole(value, placeholders)?;
        self.after.is_whole(value, placeholders)
    }

    /// Reads both images into their columns.
    pub fn fill(&self, rows: &mut Rows, value: &[u8]) -> Option<()> {
        self.before.fill(&mut rows.before, value)?;
        self.after.fill(&mut rows.after, value)
    }
}
