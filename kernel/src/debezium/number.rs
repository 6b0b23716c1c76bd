//! Binary floating point, spelled as its writer spells it: Go's or Java's shortest digits, and nothing else.
//!
//! ```text
//!        plain notation                          else            integral values
//! Go     1e-6 ≤ |x| < 1e21                       1.5e-07 1e+21   5
//! Java   1e-3 ≤ |x| < 1e7                        1.5E-7  1.0E21  5.0
//! ```
//!
//! Rule 1. A text in plain notation with at most as many digits as every number of the width keeps (15, or 6 of a single)
//!         is the shortest of its number. Others are written anew and compared.
//! Rule 2. Shortest digits of a power of two, and of a number half way between two texts, differ between writers: a text of
//!         more digits is refused there.

use std::fmt::{LowerExp, Write};

use crate::cursor::Cursor;
use crate::json::{float, float32};

/// Who wrote the number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Go, as TiCDC's JSON writers have it.
    Go,
    /// Java's `Double.toString` and `Float.toString`.
    Java,
}

/// A number of one width.
pub trait Width: Copy + ryu::Float + LowerExp + Into<f64> {
    /// How many digits every number of the width keeps.
    const KEPT: usize;
    /// The number that a text begins with.
    fn read(c: &mut Cursor<'_>) -> Option<Self>;
    /// Whether it is a power of two, or nothing.
    fn is_power(self) -> bool;
}

impl Width for f64 {
    const KEPT: usize = 15;

    #[inline]
    fn read(c: &mut Cursor<'_>) -> Option<Self> {
        float(c)
    }

    fn is_power(self) -> bool {
        self.to_bits() << 12 == 0
    }
}

impl Width for f32 {
    const KEPT: usize = 6;

    #[inline]
    fn read(c: &mut Cursor<'_>) -> Option<Self> {
        float32(c)
    }

    fn is_power(self) -> bool {
        self.to_bits() << 9 == 0
    }
}

/// The number that is spelled like this.
#[inline]
pub fn spelled<T: Width>(text: &[u8], style: Style) -> Option<T> {
    let mut c = Cursor::new(text);
    let value = T::read(&mut c)?;
    let (size, (low, high)) = (value.into().abs(), if style == Style::Go { (1e-6, 1e21) } else { (1e-3, 1e7) });
    let plain = size == 0.0 || (low <= size && size < high);
    if !c.is_empty() {
        return None;
    }
    let digits = if plain { digits(text, style) } else { None };
    if digits.is_some_and(|count| count <= T::KEPT) {
        return Some(value);
    }
    if value.is_power() || may_be_tie(value.into(), text, digits.is_some(), T::KEPT) {
        return None;
    }
    let same = if digits.is_some() {
        let mut shortest = ryu::Buffer::new();
        let shortest = shortest.format_finite(value).as_bytes();
        shortest == text || significant(shortest).eq(significant(text))
    } else {
        written(&format!("{value:e}"), plain, style)?.as_bytes() == text
    };
    same.then_some(value)
}

/// The digits of a number, zeros around them aside.
fn significant(text: &[u8]) -> impl Iterator<Item = &u8> {
    let mantissa = text.iter().position(|b| matches!(b, b'e' | b'E')).unwrap_or(text.len());
    let is_zero = |b: &u8| !(b'1'..=b'9').contains(b);
    let mantissa = text.get(..mantissa).unwrap_or_default();
    let last = mantissa.iter().rposition(|b| !is_zero(b)).map_or(0, |at| at + 1);
    mantissa.iter().take(last).skip_while(move |b| is_zero(b)).filter(|b| **b != b'.')
}

/// Whether a number may lie half way between a text's last digit and the next: it has then just one digit more behind the
/// point than the text, as many as bits, and more than `kept` in all, as a text in `plain` notation that comes here has.
/// Integers with zeros at the end and large exponents are not looked at closely.
fn may_be_tie(value: f64, text: &[u8], plain: bool, kept: usize) -> bool {
    if !plain {
        let mantissa = text.iter().take_while(|b| !matches!(b, b'e' | b'E')).filter(|b| b.is_ascii_digit());
        if mantissa.skip_while(|&&b| b == b'0').count() <= kept {
            return false;
        }
        if text.iter().any(|b| matches!(b, b'e' | b'E')) {
            return value.abs() >= 1.0;
        }
    }
    let exponent = i64::from((value.to_bits() >> 52) as u16 & 0x7ff) - 1075;
    let bits = -(exponent + i64::from((value.to_bits() | 1 << 52).trailing_zeros()));
    let places = text.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    let places = if text.contains(&b'.') { places as i64 } else { 0 };
    bits == places + 1 || (places == 0 && text.ends_with(b"0"))
}

/// How many significant digits a number in the plain notation has; nothing for another notation.
#[inline]
fn digits(text: &[u8], style: Style) -> Option<usize> {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let whole = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let (whole, fraction) = text.split_at_checked(whole)?;
    let fraction = match fraction {
        [] if style == Style::Go => fraction,
        [b'.', fraction @ ..] if fraction.iter().all(u8::is_ascii_digit) => fraction,
        _ => return None,
    };
    let integral = style == Style::Java && fraction == b"0";
    if fraction.last() == Some(&b'0') && !integral {
        return None;
    }
    let fraction = if integral { &[] } else { fraction };
    Some(if whole == b"0" {
        fraction.len() - fraction.iter().take_while(|&&b| b == b'0').count()
    } else {
        whole.len() + fraction.len()
    })
}

/// The style's text of a number in shortest scientific notation.
fn written(scientific: &str, plain: bool, style: Style) -> Option<String> {
    let (sign, text) = scientific.strip_prefix('-').map_or(("", scientific), |text| ("-", text));
    let (mantissa, exponent) = text.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    let digits = mantissa.replace('.', "");
    let mut out = String::from(sign);
    let (first, more) = digits.split_at_checked(1)?;
    if plain {
        push_plain(&mut out, &digits, exponent, style)?;
    } else if style == Style::Java {
        let more = if more.is_empty() { "0" } else { more };
        write!(out, "{first}.{more}E{exponent}").ok()?;
    } else {
        let dot = if more.is_empty() { "" } else { "." };
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "{first}{dot}{more}e{sign}{:02}", exponent.abs()).ok()?;
    }
    Some(out)
}

fn push_plain(out: &mut String, digits: &str, exponent: i32, style: Style) -> Option<()> {
    let Ok(whole) = usize::try_from(exponent + 1) else {
        let zeros = usize::try_from(-exponent - 1).ok()?;
        return write!(out, "0.{}{digits}", "0".repeat(zeros)).ok();
    };
    if let Some((whole, fraction)) = digits.split_at_checked(whole).filter(|(w, f)| !w.is_empty() && !f.is_empty()) {
        return write!(out, "{whole}.{fraction}").ok();
    }
    if whole == 0 {
        return write!(out, "0.{digits}").ok();
    }
    let tail = if style == Style::Java { ".0" } else { "" };
    write!(out, "{digits}{}{tail}", "0".repeat(whole - digits.len())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spelled_as_their_writer_does() {
        for good in ["0", "-0", "5", "5.42", "-6953.85", "0.000001", "1e-07", "1.5e-07", "0.6443255982300651", "100"] {
            assert!(spelled::<f64>(good.as_bytes(), Style::Go).is_some(), "{good}");
        }
        for bad in ["5.0", "5.420", "1e-7", "1e21", "0.0000001", "00", "1.", "9007199254740993", "1e2", "", "5 "] {
            assert!(spelled::<f64>(bad.as_bytes(), Style::Go).is_none(), "{bad}");
        }
        for good in ["0.0", "-0.0", "5.0", "0.001", "1.0E7", "9999999.5", "1.5E-4", "0.6443255982300651", "1.0E100"] {
            assert!(spelled::<f64>(good.as_bytes(), Style::Java).is_some(), "{good}");
        }
        for bad in ["0", "5", "5.00", "1.0E6", "10000000.0", "1.5e-4", "1E7", "1.50E7"] {
            assert!(spelled::<f64>(bad.as_bytes(), Style::Java).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_number_half_way_between_two_texts_is_refused() {
        for text in ["1189728875871277.2", "1189728875871277.3", "2080752961718287.2", "2.7668109292779717e+21"] {
            assert!(spelled::<f64>(text.as_bytes(), Style::Go).is_none(), "{text}");
        }
        assert!(spelled::<f64>(b"0.6443255982300651", Style::Go).is_some());
    }

    #[test]
    fn singles_keep_fewer_digits() {
        for (text, good) in [("0.1", true), ("1024", true), ("16777216", false)] {
            assert_eq!(spelled::<f32>(text.as_bytes(), Style::Go).is_some(), good, "{text}");
        }
        assert!(spelled::<f32>(b"0.10000000149011612", Style::Go).is_none());
        assert!(
            spelled::<f32>(b"1024.0", Style::Java).is_some() && spelled::<f32>(b"1.23456E8", Style::Java).is_some()
        );
    }

    #[test]
    fn long_texts_are_written_anew() {
        for value in
            [1.0 / 3.0, 123_456_789.123_456_79, 5e-324, 1.797_693_134_862_315_7e308, 12_345_678_901_234_567_890.0]
        {
            for style in [Style::Go, Style::Java] {
                let (low, high) = if style == Style::Go { (1e-6, 1e21) } else { (1e-3, 1e7) };
                let text = written(&format!("{value:e}"), low <= value && value < high, style).unwrap();
                assert_eq!(text.parse::<f64>().unwrap(), value, "{text}");
            }
        }
    }
}
