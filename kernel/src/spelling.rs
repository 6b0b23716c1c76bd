//! Mirrors wire/go_json.py, connect/java_json.py: names as JSON strings, as the writers of the protocols print them.
//!
//! ```text
//!        " \\ \n \r \t     \b \f        other controls   above U+FFFF    < > & U+2028 U+2029
//! go     escaped        \u0008 \u000c  \u001f           as it is        as they are
//! html   escaped        \b \f         \u001f           as it is        \u003c …
//! java   escaped        \b \f         \u001F           two escapes     as they are
//! ```

use std::fmt::Write;

/// As Go's json-iterator.
pub fn go(text: &str) -> String {
    spelled(text, push)
}

/// As Go's encoding/json.
pub fn html(text: &str) -> String {
    spelled(text, |c, out| match c {
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => push_hex(out, &format!("{:04x}", u32::from(c))),
        c => push(c, out),
    })
}

/// As Java's writers.
pub fn java(text: &str) -> String {
    spelled(text, |c, out| match c {
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        c if c > '\u{ffff}' => {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| push_hex(out, &format!("{unit:04X}")));
        }
        c if c < ' ' => push_hex(out, &format!("{:04X}", u32::from(c))),
        c => out.push(c),
    })
}

fn push(c: char, out: &mut String) {
    if c < ' ' { push_hex(out, &format!("{:04x}", u32::from(c))) } else { out.push(c) }
}

fn push_hex(out: &mut String, digits: &str) {
    let _ = write!(out, "\\u{digits}");
}

fn spelled(text: &str, other: fn(char, &mut String)) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => other(c, &mut out),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_spelled_as_their_writer_does() {
        assert_eq!(java("a\"\u{1f}\u{8}é🐟"), "\"a\\\"\\u001F\\bé\\uD83D\\uDC1F\"");
        assert_eq!(go("a\\\u{1f}\u{8}é🐟"), "\"a\\\\\\u001f\\u0008é🐟\"");
        assert_eq!(html("a\u{8}<&\u{2028}\u{1f}é🐟"), "\"a\\b\\u003c\\u0026\\u2028\\u001fé🐟\"");
    }
}
