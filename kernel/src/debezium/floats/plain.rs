//! Mirrors wire/floats.py: plain notation, mostly decided without a parser and without writing the number again.
//!
//! ```text
//! 90615.8532           9061585 32 / 10^4                    few digits: both are exact, and one rounding is right
//! 12.836240950403488   v = M / 2^s, the nearest             many: they are the shortest and the nearest of v when
//!   ├───┼───┤ a digit      |digits · 2^s − M · 10^k|        │ is less than half a 10^k, and than half a 2^s,
//!     ├─┼─┤   a bit                                         │ and of the two texts of a digit less not even half a 10^k
//! ```

use super::{Style, Width};
use crate::digits;

const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];
const FEW_POWERS: [f32; 11] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10];
const BITS: u32 = 52;
const FIRST: u64 = 1 << BITS;

/// A number in plain notation, its sign aside.
#[derive(Clone, Copy)]
pub struct Plain<'a> {
    whole: &'a [u8],
    fraction: &'a [u8],
    /// What all digits spell, modulo 2^64.
    digits: u64,
}

impl<'a> Plain<'a> {
    /// The number that a text begins with, and what is behind it; nothing for another notation.
    #[inline]
    pub fn read(text: &'a [u8], style: Style) -> Option<(Self, &'a [u8])> {
        let text = text.strip_prefix(b"-").unwrap_or(text);
        let (whole_digits, count) = digits::read(0, text);
        let (whole, behind) = text.split_at_checked(count)?;
        let (fraction, digits, behind) = match behind {
            [b'.', behind @ ..] => {
                let (digits, count) = digits::read(whole_digits, behind);
                let (fraction, behind) = behind.split_at_checked(count)?;
                match fraction {
                    b"0" if style == Style::Java => (&[][..], whole_digits, behind),
                    [.., b'1'..=b'9'] => (fraction, digits, behind),
                    _ => return None,
                }
            }
            _ if style == Style::Go => (&[][..], whole_digits, behind),
            _ => return None,
        };
        let whole_is_one = !matches!(whole, [] | [b'0', _, ..]);
        let ends = !matches!(behind, [b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-', ..]);
        (whole_is_one && ends).then_some((Self { whole, fraction, digits }, behind))
    }

    /// How many significant digits there are.
    pub fn count(&self) -> usize {
        if self.whole == b"0" {
            self.fraction.len() - self.fraction.iter().take_while(|&&b| b == b'0').count()
        } else {
            self.whole.len() + self.fraction.len()
        }
    }

    /// The number of which these are the shortest digits; nothing where that takes a closer look.
    #[inline]
    pub fn number<T: Width>(&self) -> Option<T> {
        if self.whole.len() + self.fraction.len() > 18 {
            return None;
        }
        T::exact(self.digits, self.fraction.len())
    }
}

/// See `Width::exact`.
#[inline]
pub fn single(digits: u64, decimals: usize) -> Option<f32> {
    (digits < 10u64.pow(f32::KEPT as u32)).then_some(digits as f32 / FEW_POWERS.get(decimals)?)
}

/// See `Width::exact`.
#[inline]
pub fn double(digits: u64, decimals: usize) -> Option<f64> {
    let power = POWERS.get(decimals)?;
    let near = digits as f64 / power;
    if digits < 10u64.pow(f64::KEPT as u32) {
        return Some(near);
    }
    let shift = 1075u64.checked_sub(near.to_bits() >> BITS).filter(|shift| (1..=70).contains(shift))?;
    if digits >= 100_000_000_000_000_000 {
        return None; // what follows fits 127 bits up to here
    }
    let (digit, bit) = (1i128 << shift, *power as i128);
    let mut mantissa = near.to_bits() & (FIRST - 1) | FIRST;
    let mut off = (i128::from(digits) << shift) - i128::from(mantissa) * bit;
    for _ in 0..2 {
        // Two roundings lead one or two bits astray at most.
        let step = if 2 * off > bit { 1 } else { -i64::from(2 * off < -bit) };
        mantissa = mantissa.wrapping_add_signed(step);
        off -= i128::from(step) * bit;
    }
    let last = i128::from(digits % 10);
    let apart = |off: i128| 2 * off.abs() > bit;
    let shortest = last != 0 && apart(off - last * digit) && apart(off + (10 - last) * digit);
    let nearest = 2 * off.abs() < bit.min(digit) && FIRST < mantissa && mantissa < 2 * FIRST;
    (shortest && nearest).then(|| f64::from_bits(near.to_bits() & !(FIRST - 1) | mantissa & (FIRST - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_what_a_parser_reads_and_a_writer_writes() {
        let (mut state, mut decided) = (7u64, 0);
        for round in 0..200_000u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let digits = (state >> 7) % 10u64.pow(15 + round % 3);
            let text = format!("{digits:018}");
            let (whole, fraction) = text.split_at(1 + round as usize % 16);
            let text = format!("{}.{}", whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
            let text = if text.starts_with('.') { format!("0{text}") } else { text };
            let Some((plain, b"")) = Plain::read(text.as_bytes(), Style::Java) else { continue };
            if let Some(value) = plain.number::<f64>() {
                decided += 1;
                assert_eq!(Some(value), text.parse().ok(), "{text}");
                assert_eq!(ryu::Buffer::new().format_finite(value).parse::<f64>().ok(), Some(value));
                let mut shortest = ryu::Buffer::new();
                let shortest = shortest.format_finite(value).as_bytes();
                assert!(super::super::significant(shortest).eq(super::super::significant(text.as_bytes())), "{text}");
            }
        }
        assert!(decided > 50_000, "{decided}");
    }

    #[test]
    fn what_takes_a_closer_look_is_not_told() {
        for text in ["1189728875871277.2", "0.30000000000000001", "4503599627370496.5", "0.1234567890123456789"] {
            assert_eq!(Plain::read(text.as_bytes(), Style::Java).unwrap().0.number::<f64>(), None, "{text}");
        }
        assert_eq!(Plain::read(b"0.30000000000000004", Style::Java).unwrap().0.number(), Some(0.1 + 0.2));
    }
}
