//! Mirrors columnar/templates.py: the forms of numbers: as digits, as text, and as base64.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::templates::Spelled;
use crate::debezium::floats::{Style, write};
use crate::values::is_decimal;

/// Appends an integer.
pub fn integer(value: i64, out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(digits(value, &mut [0; 20]).as_bytes());
    Some(())
}

/// Appends an integer without sign.
pub fn unsigned(value: u64, out: &mut Vec<u8>) -> Option<()> {
    match i64::try_from(value) {
        Ok(value) => integer(value, out),
        Err(_) => write!(out, "{value}").ok(),
    }
}

/// The digits of an integer, behind its sign.
pub fn digits(value: i64, room: &mut [u8; 20]) -> &str {
    let (mut rest, mut start) = (value.unsigned_abs(), room.len());
    for place in room.iter_mut().rev() {
        *place = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
        start -= 1;
        if rest == 0 {
            break;
        }
    }
    if let Some(sign) = room.get_mut(start.wrapping_sub(1)).filter(|_| value < 0) {
        *sign = b'-';
        start -= 1;
    }
    room.get(start..).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default()
}

/// Appends a double as it is spelled.
pub fn double(value: f64, spelled: Spelled, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    write(value, style(spelled), false, out)?;
    shorten(start, spelled, out)
}

/// Appends a single as it is spelled.
pub fn single(value: f32, spelled: Spelled, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    write(value, style(spelled), false, out)?;
    shorten(start, spelled, out)
}

fn style(spelled: Spelled) -> Style {
    if spelled == Spelled::Java { Style::Java } else { Style::Go }
}

/// Go's encoding/json has no zero in front of an exponent's only digit.
fn shorten(start: usize, spelled: Spelled, out: &mut Vec<u8>) -> Option<()> {
    let length = out.len();
    if spelled == Spelled::Html && has_padded_exponent(out.get(start..)?) {
        out.remove(length - 2);
    }
    Some(())
}

fn has_padded_exponent(text: &[u8]) -> bool {
    matches!(text, [.., b'e', b'-', b'0', _])
}

/// Appends the items of a vector, without exponents.
pub fn vector(items: &[f32], out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(b"\"[");
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(*item, Style::Go, true, out)?;
    }
    out.extend_from_slice(b"]\"");
    Some(())
}

/// Appends the items of a list as they are spelled.
pub fn list(items: &[f32], spelled: Spelled, out: &mut Vec<u8>) -> Option<()> {
    out.push(b'[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        single(*item, spelled, out)?;
    }
    out.push(b']');
    Some(())
}

/// Appends a decimal that is given by its digits: `-1250` of scale 2 is `-12.50`.
pub fn decimal(unscaled: &str, scale: usize, out: &mut Vec<u8>) -> Option<()> {
    let digits = unscaled.strip_prefix('-').unwrap_or(unscaled);
    if digits.len() < unscaled.len() {
        out.push(b'-');
    }
    let (whole, fraction) = digits.as_bytes().split_at_checked(digits.len().saturating_sub(scale))?;
    out.extend_from_slice(if whole.is_empty() { b"0" } else { whole });
    if scale > 0 {
        out.push(b'.');
        out.extend(std::iter::repeat_n(b'0', scale - fraction.len()));
        out.extend_from_slice(fraction);
    }
    Some(())
}

/// The double nearest to a decimal.
pub fn nearest(text: &[u8]) -> Option<f64> {
    if !is_decimal(text) {
        return None;
    }
    fast_float2::parse(text).ok()
}

/// Appends base64 of the shortest two's complement; `bytes` are big-endian.
pub fn unscaled(bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut bytes = bytes;
    while let [first, rest @ ..] = bytes {
        let next = *rest.first().unwrap_or(&0x40);
        if !matches!((first, next), (0, 0..0x80) | (0xff, 0x80..)) || rest.is_empty() {
            break;
        }
        bytes = rest;
    }
    base64(bytes, out)
}

/// Appends base64 between quotes.
pub fn base64(bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.push(b'"');
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    STANDARD.encode_slice(bytes, out.get_mut(start..)?).ok()?;
    out.push(b'"');
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::text;
    use super::*;

    #[test]
    fn decimals_have_the_digits_of_their_scale() {
        for (unscaled, scale, expected) in [
            ("1250", 2, "12.50"),
            ("-1250", 2, "-12.50"),
            ("5", 2, "0.05"),
            ("-50", 2, "-0.50"),
            ("0", 3, "0.000"),
            ("7", 0, "7"),
            ("0", 0, "0"),
        ] {
            assert_eq!(text(|out| decimal(unscaled, scale, out)).unwrap(), expected);
        }
    }

    #[test]
    fn integers_have_their_digits() {
        for value in [0, 7, -7, 10, i64::MAX, i64::MIN, 1_234_567_890] {
            assert_eq!(text(|out| integer(value, out)).unwrap(), value.to_string());
        }
        assert_eq!(text(|out| unsigned(u64::MAX, out)).unwrap(), u64::MAX.to_string());
    }

    #[test]
    fn floats_are_spelled_as_their_writer_does() {
        for (value, html, raw, java) in [
            (1e-7, "1e-7", "1e-07", "1.0E-7"),
            (1.0, "1", "1", "1.0"),
            (1e21, "1e+21", "1e+21", "1.0E21"),
            (-0.0, "-0", "-0", "-0.0"),
            (1.5e-10, "1.5e-10", "1.5e-10", "1.5E-10"),
        ] {
            for (spelled, expected) in [(Spelled::Html, html), (Spelled::Raw, raw), (Spelled::Java, java)] {
                assert_eq!(text(|out| double(value, spelled, out)).unwrap(), expected);
            }
        }
        for unmatched in [f64::NAN, f64::INFINITY, 9_007_199_254_740_993.0 / 8.0 + 0.125] {
            assert_eq!(text(|out| double(unmatched, Spelled::Raw, out)), None);
        }
        assert_eq!(text(|out| vector(&[1.0, 2.5, 1e-9], out)).unwrap(), "\"[1,2.5,0.000000001]\"");
    }

    #[test]
    fn unscaled_values_are_short() {
        let bytes = |n: i128| text(|out| unscaled(&n.to_be_bytes(), out)).unwrap();
        for (number, expected) in [
            (0, "\"AA==\""),
            (127, "\"fw==\""),
            (128, "\"AIA=\""),
            (-1, "\"/w==\""),
            (-128, "\"gA==\""),
            (-129, "\"/38=\""),
        ] {
            assert_eq!(bytes(number), expected, "{number}");
        }
    }
}
