//! Mirrors ticdc/go_quote.py: Go's `strconv.Quote` without its quotes, undone: binary values in the Open Protocol.
//!
//! ```text
//! \a \b \f \n \r \t \v \\ \"     one byte each
//! \xNN                            the byte itself
//! \uNNNN \UNNNNNNNN               a code point, in UTF-8
//! anything else                   itself
//! ```
//!
//! What `Quote` never writes (octal, `\'`, a bare quote or control character) is refused: the reference handles it.

use crate::cursor::Cursor;
use crate::strict_json::{hex, push_char};

/// Appends the bytes that the text stands for.
pub fn unquote(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut c = Cursor::new(text);
    while let Some(b) = c.byte() {
        match b {
            b'\\' => escape(&mut c, out)?,
            b'"' | 0..0x20 | 0x7f => return None,
            _ => out.push(b),
        }
    }
    Some(())
}

fn escape(c: &mut Cursor<'_>, out: &mut Vec<u8>) -> Option<()> {
    let byte = match c.byte()? {
        b'a' => 0x07,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b @ (b'\\' | b'"') => b,
        b'x' => u8::try_from(hex(c.take(2)?)?).ok()?,
        b'u' => return push_char(hex(c.take(4)?)?, out),
        b'U' => return push_char(hex(c.take(8)?)?, out),
        _ => return None,
    };
    out.push(byte);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        unquote(text.as_bytes(), &mut out).map(|()| out)
    }

    #[test]
    fn every_escape_of_go_is_undone() {
        assert_eq!(bytes(r#"\a\b\f\n\r\t\v\\\""#).unwrap(), b"\x07\x08\x0c\n\r\t\x0b\\\"");
        assert_eq!(bytes(r"\x89PNG\x00é\u00a0\U0002ebf0").unwrap(), b"\x89PNG\0\xc3\xa9\xc2\xa0\xf0\xae\xaf\xb0");
    }

    #[test]
    fn what_go_never_writes_is_refused() {
        for text in [
            r"\",
            r"\x",
            r"\x1",
            r"\xg0",
            r"\u00",
            r"\ud800",
            r"\U00110000",
            r"\UFFFFFFFF",
            r"\012",
            r"\'",
            r"\q",
            "\"",
            "\n",
            "\x7f",
        ] {
            assert_eq!(bytes(text), None, "{text}");
        }
    }
}
