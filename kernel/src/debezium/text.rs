//! Mirrors model/table.py: texts and integers of an origin, as `canonical` writes them.

use crate::strict_json::{Text, unescape};

/// Appends the canonical JSON string of a string's bytes.
#[inline]
pub fn push_text(text: &Text<'_>, scratch: &mut Vec<u8>, out: &mut Vec<u8>) -> Option<()> {
    if text.escaped {
        scratch.clear();
        unescape(text.raw, scratch)?;
        push_quoted(scratch, out);
    } else {
        out.push(b'"');
        out.extend_from_slice(text.raw);
        out.push(b'"');
    }
    Some(())
}

/// Appends the canonical JSON string that means these bytes, which are UTF-8.
pub fn push_quoted(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &b in bytes {
        match b {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            0..0x20 => out.extend_from_slice(format!("\\u{b:04x}").as_bytes()),
            _ => out.push(b),
        }
    }
    out.push(b'"');
}

/// Appends an integer.
pub fn push_integer(value: i64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut left = value.unsigned_abs();
    for slot in digits.iter_mut().rev() {
        *slot = b'0' + u8::try_from(left % 10).unwrap_or_default();
        at -= 1;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(digits.get(at..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_become_canonical() {
        let (mut scratch, mut out) = (Vec::new(), Vec::new());
        let raw = "a\\u001F\\/\\uD83D\\uDC1F\\b".as_bytes();
        push_text(&Text { raw, escaped: true }, &mut scratch, &mut out).unwrap();
        assert_eq!(out, "\"a\\u001f/🐟\\b\"".as_bytes());
    }

    #[test]
    fn integers_are_written_to_the_last_digit() {
        for value in [0, 7, -7, 1_000, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            push_integer(value, &mut out);
            assert_eq!(out, value.to_string().as_bytes());
        }
    }
}
