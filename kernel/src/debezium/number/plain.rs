//! Numbers in plain notation, mostly told without a parser and without writing them anew.
//!
//! ```text
//! 90615.8532           9061585 32 / 10^4                    few digits: both are exact, and one rounding is right
//! 12.836240950403488   v = M / 2^s, the nearest             many: they are the shortest and the nearest of v when
//!   ├───┼───┤ a digit      |digits · 2^s − M · 10^k|        │ is less than half a 10^k, and than half a 2^s,
//!     ├─┼─┤   a bit                                         │ and of the two texts of a digit less not even half a 10^k
//! ```

use super::{Style, Width};
use crate::json::digits;

const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];
const FEW_POWERS: [f32; 11] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10];
const BITS: u32 = 52;
const FIRST: u64 = 1 << BITS;

/// The digits before and behind the point of a number in the plain notation, its sign aside; nothing for another notation.
#[inline]
pub fn parts(text: &[u8], style: Style) -> Option<(&[u8], &[u8])> {
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let whole = text.iter().take_while(|b| b.is_ascii_digit()).count();
    let (whole, fraction) = text.split_at_checked(whole)?;
    let fraction = match fraction {
        [] if style == Style::Go => fraction,
        [b'.', fraction @ ..] if !fraction.is_empty() && fraction.iter().all(u8::is_ascii_digit) => fraction,
        _ => return None,
    };
    let integral = style == Style::Java && fraction == b"0";
    if fraction.last() == Some(&b'0') && !integral {
        return None;
    }
    Some((whole, if integral { &[] } else { fraction }))
}

/// How many significant digits there are.
#[inline]
pub fn count(whole: &[u8], fraction: &[u8]) -> usize {
    if whole == b"0" {
        fraction.len() - fraction.iter().take_while(|&&b| b == b'0').count()
    } else {
        whole.len() + fraction.len()
    }
}

/// The number of which these are the shortest digits; nothing where that takes a closer look.
#[inline]
pub fn number<T: Width>(whole: &[u8], fraction: &[u8]) -> Option<T> {
    if matches!(whole, [] | [b'0', _, ..]) || whole.len() + fraction.len() > 18 {
        return None;
    }
    T::exact(digits(digits(0, whole), fraction), count(whole, fraction), fraction.len())
}

/// See `Width::exact`.
#[inline]
pub fn single(digits: u64, count: usize, decimals: usize) -> Option<f32> {
    (count <= f32::KEPT).then_some(digits as f32 / FEW_POWERS.get(decimals)?)
}

/// See `Width::exact`.
#[inline]
pub fn double(digits: u64, count: usize, decimals: usize) -> Option<f64> {
    let power = POWERS.get(decimals)?;
    let near = digits as f64 / power;
    if count <= f64::KEPT {
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
        let (mut state, mut told) = (7u64, 0);
        for round in 0..200_000u32 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let digits = (state >> 7) % 10u64.pow(15 + round % 3);
            let text = format!("{digits:018}");
            let (whole, fraction) = text.split_at(1 + round as usize % 16);
            let text = format!("{}.{}", whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
            let text = if text.starts_with('.') { format!("0{text}") } else { text };
            let Some((whole, fraction)) = parts(text.as_bytes(), Style::Java) else { continue };
            if let Some(value) = number::<f64>(whole, fraction) {
                told += 1;
                assert_eq!(Some(value), text.parse().ok(), "{text}");
                assert_eq!(ryu::Buffer::new().format_finite(value).parse::<f64>().ok(), Some(value));
                let mut shortest = ryu::Buffer::new();
                let shortest = shortest.format_finite(value).as_bytes();
                assert!(super::super::significant(shortest).eq(super::super::significant(text.as_bytes())), "{text}");
            }
        }
        assert!(told > 50_000, "{told}");
    }

    #[test]
    fn what_takes_a_closer_look_is_not_told() {
        for text in ["1189728875871277.2", "0.30000000000000001", "4503599627370496.5", "0.1234567890123456789"] {
            let (whole, fraction) = parts(text.as_bytes(), Style::Java).unwrap();
            assert_eq!(number::<f64>(whole, fraction), None, "{text}");
        }
        assert_eq!(number::<f64>(b"0", b"30000000000000004"), Some(0.1 + 0.2));
    }
}
