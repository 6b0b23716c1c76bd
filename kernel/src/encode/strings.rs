//! Mirrors wire/go_json.py, connect/java_json.py: text inside of JSON, as its writers print it.
//!
//! ```text
//!                    Go's encoding/json      json-iterator      Java (Jackson)
//! < > & U+2028 29    \u003c …                as they are        as they are
//! " \ LF CR TAB      \" \\ \n \r \t          the same           the same
//! BS FF              \b \f                   \u0008 \u000c      \b \f
//! other < 0x20       \u001f                  \u001f             \u001F
//! above U+FFFF       as it is                as it is           \uD83D\uDC1F
//! ```

use std::io::Write;

use super::templates::Json;

/// Appends a JSON string, with its quotes. The text is UTF-8.
pub fn string(text: &[u8], json: Json, out: &mut Vec<u8>) -> Option<()> {
    out.push(b'"');
    let special = match json {
        Json::Html => &HTML,
        Json::Raw => &RAW,
        Json::Java => &JAVA,
    };
    let plain = text.iter().position(|&b| special.get(usize::from(b)) == Some(&true)).unwrap_or(text.len());
    let (plain, rest) = text.split_at_checked(plain)?;
    out.extend_from_slice(plain);
    if !rest.is_empty() {
        std::str::from_utf8(rest).ok()?.chars().try_for_each(|c| character(c, json, out))?;
    }
    out.push(b'"');
    Some(())
}

static HTML: [bool; 256] = special(Json::Html);
static RAW: [bool; 256] = special(Json::Raw);
static JAVA: [bool; 256] = special(Json::Java);

/// Which bytes may begin a character that is escaped.
const fn special(json: Json) -> [bool; 256] {
    let mut escaped = [false; 256];
    let (mut at, mut rest): (u8, &mut [bool]) = (0, &mut escaped);
    while let [first, behind @ ..] = rest {
        *first = match at {
            0..0x20 | b'"' | b'\\' => true,
            b'<' | b'>' | b'&' | 0xe2 => matches!(json, Json::Html),
            0xf0.. => matches!(json, Json::Java),
            _ => false,
        };
        at = at.wrapping_add(1);
        rest = behind;
    }
    escaped
}

fn character(c: char, json: Json, out: &mut Vec<u8>) -> Option<()> {
    let mut room = [0; 4];
    let short: &[u8] = match c {
        '"' => b"\\\"",
        '\\' => b"\\\\",
        '\n' => b"\\n",
        '\r' => b"\\r",
        '\t' => b"\\t",
        '\u{8}' if json != Json::Raw => b"\\b",
        '\u{c}' if json != Json::Raw => b"\\f",
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' if json == Json::Html => {
            return write!(out, "\\u{:04x}", u32::from(c)).ok();
        }
        '\0'..' ' if json == Json::Java => return write!(out, "\\u{:04X}", u32::from(c)).ok(),
        '\0'..' ' => return write!(out, "\\u{:04x}", u32::from(c)).ok(),
        '\u{10000}'.. if json == Json::Java => {
            return c.encode_utf16(&mut [0; 2]).iter().try_for_each(|unit| write!(out, "\\u{unit:04X}").ok());
        }
        _ => c.encode_utf8(&mut room).as_bytes(),
    };
    out.extend_from_slice(short);
    Some(())
}

/// The code points that Go prints.
pub struct Printable {
    ranges: Vec<(u32, u32)>,
}

impl Printable {
    /// Those in these ranges, which are in ascending order; both ends belong to a range.
    pub fn new(ranges: Vec<(u32, u32)>) -> Self {
        Self { ranges }
    }

    fn has(&self, c: char) -> bool {
        let code = u32::from(c);
        let next = self.ranges.partition_point(|&(first, _)| first <= code);
        next.checked_sub(1).and_then(|at| self.ranges.get(at)).is_some_and(|&(_, last)| code <= last)
    }

    /// Appends what Go's `strconv.Quote` prints, without its quotes.
    pub fn quote(&self, data: &[u8], out: &mut Vec<u8>) -> Option<()> {
        for chunk in data.utf8_chunks() {
            chunk.valid().chars().try_for_each(|c| self.quoted(c, out))?;
            chunk.invalid().iter().try_for_each(|b| write!(out, "\\x{b:02x}").ok())?;
        }
        Some(())
    }

    fn quoted(&self, c: char, out: &mut Vec<u8>) -> Option<()> {
        let mut room = [0; 4];
        let named: &[u8] = match c {
            '\x07' => b"\\a",
            '\x08' => b"\\b",
            '\x0c' => b"\\f",
            '\n' => b"\\n",
            '\r' => b"\\r",
            '\t' => b"\\t",
            '\x0b' => b"\\v",
            '\\' => b"\\\\",
            '"' => b"\\\"",
            c if self.has(c) => c.encode_utf8(&mut room).as_bytes(),
            '\0'..' ' | '\x7f' => return write!(out, "\\x{:02x}", u32::from(c)).ok(),
            '\u{10000}'.. => return write!(out, "\\U{:08x}", u32::from(c)).ok(),
            c => return write!(out, "\\u{:04x}", u32::from(c)).ok(),
        };
        out.extend_from_slice(named);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str, json: Json) -> String {
        let mut out = Vec::new();
        string(text.as_bytes(), json, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn strings_are_escaped_as_their_writer_does() {
        let text = "a<\"\\\n\u{8}\u{1f}é\u{2028}🐟";
        assert_eq!(written(text, Json::Html), r#""a\u003c\"\\\n\b\u001fé\u2028🐟""#);
        assert_eq!(written(text, Json::Raw), "\"a<\\\"\\\\\\n\\u0008\\u001fé\u{2028}🐟\"");
        assert_eq!(written(text, Json::Java), "\"a<\\\"\\\\\\n\\b\\u001Fé\u{2028}\\uD83D\\uDC1F\"");
    }

    #[test]
    fn bytes_are_quoted_as_go_does() {
        let printable = Printable::new(vec![(0x20, 0x7e), (0xe9, 0xe9)]);
        let mut out = Vec::new();
        printable.quote(b"\x07\"\\a\x7f\x00\xff\xc3\xa9\xc2\xa0\xf0\x9f\x90\x9f\xed\xa0\x80", &mut out).unwrap();
        let expected = r#"\a\"\\a\x7f\x00\xffé\u00a0\U0001f41f\xed\xa0\x80"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
