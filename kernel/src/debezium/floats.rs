//! Mirrors wire/floats.py: floating point in the digits of its writer: Go's or Java's shortest.
//!
//! ```text
//!        plain notation                          else            integral values
//! Go     1e-6 ≤ |x| < 1e21                       1.5e-07 1e+21   5
//! Java   1e-3 ≤ |x| < 1e7                        1.5E-7  1.0E21  5.0
//! ```
//!
//! Rule 1. A text in plain notation with at most as many digits as every number of the width keeps (15, or 6 of a single)
//!         is the shortest of its number. For others `plain` decides, or they are written again and compared.
//! Rule 2. Shortest digits of a power of two, of a number half way between two texts, and of one too small to be normal
//!         (4.9E-324 of Java, 5e-324 of Go) differ between writers: a text of more digits is refused there.

mod plain;

use std::fmt::{LowerExp, Write};

use crate::cursor::Cursor;
use crate::debezium::token::number;
use crate::strict_json::{float, float32};
use plain::Plain;

/// Who wrote the number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Go, as TiCDC's JSON writers have it.
    Go,
    /// Java's `Double.toString` and `Float.toString`.
    Java,
}

/// A number of one width.
pub trait Width: Copy + std::ops::Neg<Output = Self> + ryu::Float + LowerExp + Into<f64> {
    /// How many digits every number of the width keeps.
    const KEPT: usize;
    /// The number of which these are the shortest digits, so many of them decimals, where that is plain to see.
    fn exact(digits: u64, decimals: usize) -> Option<Self>;
    /// The number that a text begins with.
    fn read(c: &mut Cursor<'_>) -> Option<Self>;
    /// Whether it is a power of two, or nothing.
    fn is_power(self) -> bool;
    /// Whether it is too small to be normal, and not nothing.
    fn is_small(self) -> bool;
    /// Whether its size is of what a writer puts into plain notation.
    fn is_plain(self, style: Style) -> bool;
}

macro_rules! width {
    ($float:ty, kept: $kept:literal, exact: $exact:path, above_mantissa: $bits:literal, read: $read:path) => {
        impl Width for $float {
            const KEPT: usize = $kept;

            #[inline]
            fn exact(digits: u64, decimals: usize) -> Option<Self> {
                $exact(digits, decimals)
            }

            #[inline]
            fn read(c: &mut Cursor<'_>) -> Option<Self> {
                $read(c)
            }

            fn is_power(self) -> bool {
                self.to_bits() << $bits == 0
            }

            fn is_small(self) -> bool {
                self.is_subnormal()
            }

            #[inline]
            fn is_plain(self, style: Style) -> bool {
                let (low, high) = if style == Style::Go { (1e-6, 1e21) } else { (1e-3, 1e7) };
                self == 0.0 || (low <= self.abs() && self.abs() < high)
            }
        }
    };
}

width!(f64, kept: 15, exact: plain::double, above_mantissa: 12, read: float);
width!(f32, kept: 6, exact: plain::single, above_mantissa: 9, read: float32);

/// The number that is spelled like this.
#[inline]
pub fn spelled<T: Width>(text: &[u8], style: Style) -> Option<T> {
    let mut c = Cursor::new(text);
    let value = read(&mut c, style)?;
    c.is_empty().then_some(value)
}

/// The number that comes next.
#[inline]
pub fn read<T: Width>(c: &mut Cursor<'_>, style: Style) -> Option<T> {
    let text = c.rest();
    let Some((value, behind)) =
        Plain::read(text, style).and_then(|(plain, behind)| Some((plain.number::<T>()?, behind)))
    else {
        return compared(number(c)?.0, style);
    };
    c.take(text.len() - behind.len())?;
    value.is_plain(style).then(|| if text.starts_with(b"-") { -value } else { value })
}

/// The number that is spelled like this, by a parser, and by what a writer makes of it.
fn compared<T: Width>(text: &[u8], style: Style) -> Option<T> {
    let mut c = Cursor::new(text);
    let value = T::read(&mut c)?;
    let plain = value.is_plain(style);
    if !c.is_empty() {
        return None;
    }
    let digits = Plain::read(text, style).filter(|_| plain).map(|(parts, _)| parts.count());
    if digits.is_some_and(|count| count <= T::KEPT) {
        return Some(value);
    }
    if value.is_power() || value.is_small() || may_be_tie(value.into(), text, digits.is_some(), T::KEPT) {
        return None;
    }
    let same = if digits.is_some() {
        let mut shortest = ryu::Buffer::new();
        let shortest = shortest.format_finite(value).as_bytes();
        shortest == text || significant(shortest).eq(significant(text))
    } else {
        let (mut shortest, mut written) = (Shortest::default(), Vec::with_capacity(text.len()));
        write!(shortest, "{value:e}").ok()?;
        spell(shortest.text()?, plain, style, &mut written)?;
        written == text
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

/// Appends a number in its writer's spelling, or without exponent; nothing for one that is no number, or by rule 2.
pub fn write<T: Width>(value: T, style: Style, plain: bool, out: &mut Vec<u8>) -> Option<()> {
    let (start, wide): (usize, f64) = (out.len(), value.into());
    if !wide.is_finite() || value.is_small() {
        return None;
    }
    let mut shortest = Shortest::default();
    write!(shortest, "{value:e}").ok()?;
    spell(shortest.text()?, plain || value.is_plain(style), style, out)?;
    let long = shortest.digits() > T::KEPT;
    let unsure = long && (value.is_power() || may_be_tie(wide, out.get(start..)?, false, T::KEPT));
    (!unsure).then_some(())
}

/// Shortest digits in scientific notation, as Rust writes them: `-1.25e-7`.
#[derive(Default)]
struct Shortest {
    bytes: [u8; 32],
    length: usize,
}

impl Write for Shortest {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = self.bytes.get_mut(self.length..self.length + text.len()).ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length += text.len();
        Ok(())
    }
}

impl Shortest {
    fn text(&self) -> Option<&str> {
        std::str::from_utf8(self.bytes.get(..self.length)?).ok()
    }

    fn digits(&self) -> usize {
        self.bytes.iter().take_while(|&&b| b != b'e').filter(|b| b.is_ascii_digit()).count()
    }
}

/// Appends the style's text of a number in shortest scientific notation.
fn spell(scientific: &str, plain: bool, style: Style, out: &mut Vec<u8>) -> Option<()> {
    let (mantissa, exponent) = scientific.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    let mantissa = match mantissa.strip_prefix('-') {
        Some(mantissa) => {
            out.push(b'-');
            mantissa
        }
        None => mantissa,
    };
    let (first, more) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if plain {
        return push_plain(first.as_bytes(), more.as_bytes(), exponent, style, out);
    }
    out.extend_from_slice(first.as_bytes());
    if style == Style::Java {
        out.push(b'.');
        out.extend_from_slice(if more.is_empty() { b"0" } else { more.as_bytes() });
        return std::io::Write::write_fmt(out, format_args!("E{exponent}")).ok();
    }
    if !more.is_empty() {
        out.push(b'.');
        out.extend_from_slice(more.as_bytes());
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    std::io::Write::write_fmt(out, format_args!("e{sign}{:02}", exponent.abs())).ok()
}

fn push_plain(first: &[u8], more: &[u8], exponent: i32, style: Style, out: &mut Vec<u8>) -> Option<()> {
    let Ok(behind) = usize::try_from(exponent) else {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', usize::try_from(-exponent - 1).ok()?));
        out.extend_from_slice(first);
        out.extend_from_slice(more);
        return Some(());
    };
    let (whole, fraction) = more.split_at_checked(behind).unwrap_or((more, &[]));
    out.extend_from_slice(first);
    out.extend_from_slice(whole);
    out.extend(std::iter::repeat_n(b'0', behind - whole.len()));
    if !fraction.is_empty() {
        out.push(b'.');
        out.extend_from_slice(fraction);
    } else if style == Style::Java {
        out.extend_from_slice(b".0");
    }
    Some(())
}

#[cfg(test)]
mod tests;
