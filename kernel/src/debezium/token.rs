//! Kernel only: values of an image before their types are known: their bytes, and their kind of JSON.

use crate::columns::Column;
use crate::cursor::Cursor;
use crate::digits::count;
use crate::strict_json::string;

/// The kind of a JSON value, from a first look at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// `null`.
    #[default]
    Null,
    /// A string, checked, without escapes or with some.
    Text {
        /// Whether there are escapes.
        escaped: bool,
    },
    /// Digits, perhaps behind a minus; not yet checked.
    Integer,
    /// Any other number; not yet checked.
    Number,
    /// `true` or `false`.
    Bool,
    /// No string and not `null`: whatever it is, a column has read it.
    Read,
}

/// A value and its place in the record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Token {
    start: usize,
    end: usize,
    /// What it is.
    pub kind: Kind,
}

impl Token {
    /// Its bytes.
    #[inline]
    pub fn of<'a>(&self, value: &'a [u8]) -> Option<&'a [u8]> {
        value.get(self.start..self.end)
    }

    /// Its bytes and all behind them.
    #[inline]
    pub fn onwards<'a>(&self, value: &'a [u8]) -> Option<&'a [u8]> {
        value.get(self.start..)
    }

    /// Whether a cursor stands where it ends.
    #[inline]
    pub fn ends(&self, c: &Cursor<'_>, value: &[u8]) -> bool {
        self.end + c.rest().len() == value.len()
    }

    /// What is between the quotes of a string.
    #[inline]
    pub fn inside<'a>(&self, value: &'a [u8]) -> Option<&'a [u8]> {
        value.get(self.start + 1..self.end.saturating_sub(1))
    }

    /// How many bytes it has.
    #[inline]
    pub fn length(&self) -> usize {
        self.end - self.start
    }
}

/// The next value of `value`, of which the cursor has the rest; objects and arrays are not for here.
#[inline]
pub fn token(c: &mut Cursor<'_>, value: &[u8]) -> Option<Token> {
    let start = value.len() - c.rest().len();
    let kind = match c.peek()? {
        b'"' => Kind::Text { escaped: string(c)?.escaped },
        b'-' | b'0'..=b'9' => number(c).map(|(_, kind)| kind)?,
        b'n' => c.eat(b"null").map(|()| Kind::Null)?,
        b't' => c.eat(b"true").map(|()| Kind::Bool)?,
        b'f' => c.eat(b"false").map(|()| Kind::Bool)?,
        _ => return None,
    };
    Some(Token { start, end: value.len() - c.rest().len(), kind })
}

/// The same, read into a column.
#[inline]
pub fn token_into(column: &mut dyn Column, c: &mut Cursor<'_>, value: &[u8]) -> Option<Token> {
    let rest = c.rest();
    let kind = if c.peek()? == b'"' {
        let escaped = string(c)?.escaped;
        column.read_checked(rest.get(..rest.len() - c.rest().len())?, escaped)?;
        Kind::Text { escaped }
    } else if column.read(c)? {
        Kind::Read
    } else {
        Kind::Null
    };
    Some(Token { start: value.len() - rest.len(), end: value.len() - c.rest().len(), kind })
}

/// What is between the quotes of a whole string.
#[inline]
pub fn between_quotes(whole: &[u8]) -> Option<&[u8]> {
    whole.strip_prefix(b"\"")?.strip_suffix(b"\"")
}

/// The bytes of a number, and which kind it is.
#[inline]
pub fn number<'a>(c: &mut Cursor<'a>) -> Option<(&'a [u8], Kind)> {
    let text = c.rest();
    let sign = usize::from(text.first() == Some(&b'-'));
    let whole = sign + count(text.get(sign..)?);
    let digits = match text.get(whole..) {
        Some([b'.', fraction @ ..]) => whole + 1 + count(fraction),
        _ => whole,
    };
    let more = text.iter().skip(digits).take_while(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    let end = digits + more.count();
    Some((c.take(end)?, if end == whole { Kind::Integer } else { Kind::Number }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_ends_where_its_value_does() {
        for (value, kind, length) in [
            ("null,", Kind::Null, 4),
            ("true}", Kind::Bool, 4),
            ("-12,", Kind::Integer, 3),
            ("1.5e-7}", Kind::Number, 6),
            ("\"a\",", Kind::Text { escaped: false }, 3),
            ("\"\\\"\",", Kind::Text { escaped: true }, 4),
        ] {
            let mut c = Cursor::new(value.as_bytes());
            let token = token(&mut c, value.as_bytes()).unwrap();
            assert_eq!((token.kind, token.of(value.as_bytes()).unwrap().len()), (kind, length), "{value}");
        }
        for value in ["", "{}", "[1]", "nul", "\"a", "x"] {
            assert!(token(&mut Cursor::new(value.as_bytes()), value.as_bytes()).is_none(), "{value}");
        }
    }
}
