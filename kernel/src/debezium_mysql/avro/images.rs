//! Mirrors protocols/debezium_mysql/images.py: images passed over: where columns end, and the digits of their timestamps.
//!
//! ```text
//! 02 │ 0e │ 02 06 61 62 63 │ 00 │ 02 28 32 30 32 36 2d …
//!    │ 7  │ 'abc'          │ NULL │ 20 characters: no fraction digits
//! └ there is an image        └ a NULL has no digits
//! ```
//!
//! Nothing is checked here but what a step needs: the columns of the shape read the same bytes, and all of them.

use super::schema::{Kind, Place};
use crate::avro::{Union, bytes, int, long, push_bytes};
use crate::cursor::Cursor;
use crate::rows;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// How a column is stepped over.
pub struct Step {
    union: Union,
    kind: Kind,
    /// Whether values show how many fraction digits the column has.
    declares: bool,
    /// What may not stand here: texts for columns that were not sent, and numbers that JSON has a text for.
    refused: Vec<Vec<u8>>,
}

impl Step {
    /// Of a column of this MySQL type; `placeholders` stand for what was not sent, as text, or as base64 of bytes.
    pub fn new(place: &Place, mysql: &str, placeholders: &[Vec<u8>]) -> Self {
        let framed = |raw: &[u8]| {
            let mut out = place.union.value().to_vec();
            push_bytes(raw, &mut out);
            out
        };
        let number = |raw: &[u8]| [place.union.value(), raw].concat();
        let refused = match place.kind {
            Kind::String => placeholders.iter().map(|text| framed(text)).collect(),
            Kind::Bytes => placeholders.iter().filter_map(|text| Some(framed(&STANDARD.decode(text).ok()?))).collect(),
            Kind::Float => [f32::INFINITY, f32::NEG_INFINITY].map(|x| number(&x.to_le_bytes())).into(),
            Kind::Double => [f64::INFINITY, f64::NEG_INFINITY].map(|x| number(&x.to_le_bytes())).into(),
            _ => Vec::new(),
        };
        Self { union: place.union, kind: place.kind, declares: mysql.starts_with("timestamp"), refused }
    }

    /// Steps over a value; returns its digits code.
    #[inline]
    fn over(&self, c: &mut Cursor<'_>) -> Option<u8> {
        let start = c.rest();
        let length = if self.union.open(c)? { Some(self.kind.over(c)?) } else { None };
        let raw = start.get(..start.len() - c.rest().len())?;
        let digits = length.filter(|_| self.declares).map_or(Some(0), digits);
        if self.refused.iter().any(|refused| refused == raw) { None } else { digits }
    }
}

impl Kind {
    /// Steps over a value; the length of a text.
    #[inline]
    fn over(self, c: &mut Cursor<'_>) -> Option<usize> {
        match self {
            Self::Int => int(c).map(|_| 0),
            Self::Long => long(c).map(|_| 0),
            Self::Float => c.take(4).map(|_| 0),
            Self::Double => c.take(8).map(|_| 0),
            Self::Boolean => c.byte().map(|_| 0),
            Self::String | Self::Bytes => bytes(c).map(<[u8]>::len),
        }
    }
}

/// The digits code of a timestamp of this many characters: its fraction digits plus one; 0 is unknown.
fn digits(length: usize) -> Option<u8> {
    match length {
        20 => Some(1),
        22..=27 => u8::try_from(length - 20).ok(),
        _ => None,
    }
}

/// Where the columns of an image end in the datum, if there is an image.
#[derive(Default)]
pub struct Ends {
    there: bool,
    start: usize,
    ends: Vec<usize>,
    digits: Vec<u8>,
}

impl Ends {
    /// No image.
    pub fn clear(&mut self) {
        self.there = false;
    }

    /// Whether there is an image.
    pub fn is_there(&self) -> bool {
        self.there
    }

    /// Steps over an image, of which the cursor has the rest of `datum`.
    #[inline]
    pub fn walk(&mut self, steps: &[Step], c: &mut Cursor<'_>, datum: &[u8]) -> Option<()> {
        self.ends.clear();
        self.digits.clear();
        self.start = datum.len() - c.rest().len();
        self.there = true;
        for step in steps {
            let digits = step.over(c)?;
            if step.declares {
                self.digits.push(digits);
            }
            self.ends.push(datum.len() - c.rest().len());
        }
        Some(())
    }

    /// The bytes of a column, with the branch of its union.
    #[inline]
    fn column<'a>(&self, at: usize, datum: &'a [u8]) -> Option<&'a [u8]> {
        let start = at.checked_sub(1).map_or(Some(self.start), |before| self.ends.get(before).copied())?;
        datum.get(start..*self.ends.get(at)?)
    }

    /// Reads the image into its columns.
    pub fn fill(&self, image: &mut rows::Image, datum: &[u8]) -> Option<()> {
        let mut c = Cursor::new(datum.get(self.start..*self.ends.last()?)?);
        for column in image.columns() {
            column.read(&mut c)?;
        }
        c.is_empty().then_some(())
    }

    /// Whether a key of these parts has the very values of the image.
    pub fn agrees(&self, key: &[u8], parts: &[(usize, Union)], steps: &[Step], datum: &[u8]) -> Option<()> {
        let mut c = Cursor::new(key);
        for (at, union) in parts {
            let mut sent = Cursor::new(self.column(*at, datum)?);
            if steps.get(*at)?.union.open(&mut sent)? {
                c.eat(union.value())?;
                c.eat(sent.rest())?;
            } else {
                c.eat(union.null()?)?;
            }
        }
        c.is_empty().then_some(())
    }
}

/// Both images of a record; their room is used again.
#[derive(Default)]
pub struct Images {
    /// The old row.
    pub before: Ends,
    /// The new row.
    pub after: Ends,
    digits: Vec<u8>,
}

impl Images {
    /// No images.
    pub fn clear(&mut self) {
        self.before.clear();
        self.after.clear();
    }

    /// The image that the record's key belongs to.
    pub fn row(&self) -> &Ends {
        if self.after.there { &self.after } else { &self.before }
    }

    /// The digits of both images together; None if they differ.
    pub fn digits(&mut self) -> Option<&[u8]> {
        if !(self.before.there && self.after.there) {
            return Some(&self.row().digits);
        }
        self.digits.clear();
        for pair in self.before.digits.iter().zip(&self.after.digits) {
            self.digits.push(match pair {
                (0, digits) | (digits, 0) => *digits,
                (old, new) => (old == new).then_some(*new)?,
            });
        }
        Some(&self.digits)
    }
}
