//! Values of an image before their types are known: which bytes, and which kind of JSON.

use crate::cursor::Cursor;
use crate::json::string;

/// What a JSON value is, as far as its first look tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`.
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
}

/// A value and its place in the record.
#[derive(Clone, Copy, Debug)]
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
        b'-' | b'0'..=b'9' => number(c)?,
        b'n' => c.eat(b"null").map(|()| Kind::Null)?,
        b't' => c.eat(b"true").map(|()| Kind::Bool)?,
        b'f' => c.eat(b"false").map(|()| Kind::Bool)?,
        _ => return None,
    };
    Some(Token { start, end: value.len() - c.rest().len(), kind })
}

#[inline]
fn number(c: &mut Cursor<'_>) -> Option<Kind> {
    let text = c.rest();
    let sign = usize::from(text.first() == Some(&b'-'));
    let behind = |from: usize, is: fn(&u8) -> bool| from + text.iter().skip(from).take_while(|b| is(b)).count();
    let digits = behind(sign, u8::is_ascii_digit);
    let end = behind(digits, |b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    c.take(end)?;
    Some(if end == digits { Kind::Integer } else { Kind::Number })
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
            let found = token(&mut c, value.as_bytes()).unwrap();
            assert_eq!((found.kind, found.of(value.as_bytes()).unwrap().len()), (kind, length), "{value}");
        }
        for value in ["", "{}", "[1]", "nul", "\"a", "x"] {
            assert!(token(&mut Cursor::new(value.as_bytes()), value.as_bytes()).is_none(), "{value}");
        }
    }
}
