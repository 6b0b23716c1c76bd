//! Mirrors wire/strict_json.py: the JSON of producers; no white space, every token checked to its last byte, nothing allocated.
//!
//! ```text
//! integer   -?(0|[1-9][0-9]*)             no fraction, no exponent, no -0
//! number    integer(.[0-9]+)?([eE][+-]?[0-9]+)?
//! string    "…"                           UTF-8, no byte below 0x20, escapes left for `unescape`
//! ```

use memchr::memchr;

use crate::cursor::Cursor;
use crate::digits;

/// What stands between the quotes of a string, valid UTF-8.
#[derive(Clone, Copy)]
pub struct Text<'a> {
    /// The bytes as they stand on the wire.
    pub raw: &'a [u8],
    /// Whether there are escapes among them.
    pub escaped: bool,
}

impl Text<'_> {
    /// Appends what it means.
    pub fn push(&self, out: &mut Vec<u8>) -> Option<()> {
        if self.escaped {
            return unescape(self.raw, out);
        }
        out.extend_from_slice(self.raw);
        Some(())
    }
}

/// Sign and magnitude of an integer.
#[inline(always)]
pub fn integer(c: &mut Cursor<'_>) -> Option<(bool, u64)> {
    let negative = c.peek() == Some(b'-');
    let text = if negative { c.rest().get(1..)? } else { c.rest() };
    let (value, count) = digits::read(0, text);
    let (digits, rest) = text.split_at_checked(count)?;
    let value = match digits {
        [] | [b'0', _, ..] => return None,
        [b'0'] if negative => return None,
        _ if count > 19 => long(digits)?,
        _ => value,
    };
    *c = Cursor::new(rest);
    Some((negative, value))
}

/// The number that digits spell which may be more than 64 bits hold.
#[cold]
fn long(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |sum, b| sum.checked_mul(10)?.checked_add(u64::from(b - b'0')))
}

/// An integer that fits 64 bits with sign.
#[inline]
pub fn int64(c: &mut Cursor<'_>) -> Option<i64> {
    match integer(c)? {
        (false, value) => i64::try_from(value).ok(),
        (true, value) => 0i64.checked_sub_unsigned(value),
    }
}

/// An integer that fits 64 bits without sign.
#[inline]
pub fn uint64(c: &mut Cursor<'_>) -> Option<u64> {
    match integer(c)? {
        (false, value) => Some(value),
        _ => None,
    }
}

/// The float that is nearest to a number, out of the range of its width excepted.
#[inline]
pub fn float<T: fast_float2::FastFloat + Into<f64>>(c: &mut Cursor<'_>) -> Option<T> {
    let text = c.rest();
    let (value, length): (T, usize) = fast_float2::parse_partial(text).ok()?;
    let done = is_number(c.take(length)?) && !matches!(c.peek(), Some(b'e' | b'E'));
    (done && value.into().is_finite()).then_some(value)
}

/// The nearest float32. A number just above the largest one rounds down to it, but not by way of a double: such texts
/// are refused.
#[inline]
pub fn float32(c: &mut Cursor<'_>) -> Option<f32> {
    let mut again = *c;
    let value: f32 = float(c)?;
    if value.abs() == f32::MAX && !(float::<f64>(&mut again)? as f32).is_finite() {
        return None;
    }
    Some(value)
}

/// Whether a text that was read as a float is a number of JSON: no name, no zeros in front, a digit on either side of a dot.
#[inline]
fn is_number(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let whole = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let (whole, tail) = text.split_at_checked(whole).unwrap_or_default();
    let dot = matches!(tail, [b'.', after, ..] if !after.is_ascii_digit()) || tail == b".";
    !matches!(whole, [] | [b'0', _, ..]) && !dot
}

/// A string; the cursor stands behind its closing quote.
#[inline]
pub fn string<'a>(c: &mut Cursor<'a>) -> Option<Text<'a>> {
    c.eat(b"\"")?;
    let (mut length, mut ascii) = plain(c.rest());
    let mut escaped = false;
    loop {
        match c.rest().get(length)? {
            b'"' => break,
            b'\\' => {
                escaped = true;
                let (more, same) = plain(c.rest().get(length + 2..)?);
                ascii &= same && c.rest().get(length + 1)?.is_ascii();
                length += 2 + more;
            }
            _ => return None,
        }
    }
    let raw = c.take(length)?;
    c.byte()?;
    if !ascii {
        simdutf8::basic::from_utf8(raw).ok()?;
    }
    Some(Text { raw, escaped })
}

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);

/// How many bytes come before the first that is `"`, `\` or below 0x20, and whether all looked at were ASCII.
///
/// Eight at a time: in `(x - n) & !x & 0x80` of a byte the high bit says x < n, exactly so in the lowest byte that has it.
#[inline]
pub(crate) fn plain(bytes: &[u8]) -> (usize, bool) {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut seen = 0;
    for (at, word) in words.iter().enumerate() {
        let x = u64::from_le_bytes(*word);
        let quote = x ^ (ONES * u64::from(b'"'));
        let slash = x ^ (ONES * u64::from(b'\\'));
        let stop = (x.wrapping_sub(ONES * 0x20) & !x)
            | (quote.wrapping_sub(ONES) & !quote)
            | (slash.wrapping_sub(ONES) & !slash);
        seen |= x;
        if stop & HIGHS != 0 {
            return (at * 8 + (stop & HIGHS).trailing_zeros() as usize / 8, seen & HIGHS == 0);
        }
    }
    let more = tail.iter().take_while(|&&b| b >= 0x20 && b != b'"' && b != b'\\').count();
    (words.len() * 8 + more, seen & HIGHS == 0 && tail.is_ascii())
}

/// Appends what a string's bytes mean; lone surrogates are refused.
pub fn unescape(raw: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut c = Cursor::new(raw);
    while let Some(at) = memchr(b'\\', c.rest()) {
        out.extend_from_slice(c.take(at)?);
        c.byte()?;
        match c.byte()? {
            b @ (b'"' | b'\\' | b'/') => out.push(b),
            b'b' => out.push(0x08),
            b'f' => out.push(0x0c),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => push_char(code_point(&mut c)?, out)?,
            _ => return None,
        }
    }
    out.extend_from_slice(c.rest());
    Some(())
}

/// The code point behind `\u`, of one escape or of a surrogate pair.
fn code_point(c: &mut Cursor<'_>) -> Option<u32> {
    let first = hex(c.take(4)?)?;
    if !(0xd800..0xdc00).contains(&first) {
        return Some(first);
    }
    c.eat(b"\\u")?;
    let second = hex(c.take(4)?)?;
    (0xdc00..0xe000).contains(&second).then(|| 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))
}

/// The number that hex digits of either case spell.
pub fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0u32, |sum, &b| Some((sum << 4) | char::from(b).to_digit(16)?))
}

/// Appends a code point in UTF-8, unless it is none.
pub fn push_char(code: u32, out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(char::from_u32(code)?.encode_utf8(&mut [0; 4]).as_bytes());
    Some(())
}

#[cfg(test)]
mod tests;
