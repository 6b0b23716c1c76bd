//! Kernel only: decimal digits, eight at a time: numbers are short and of any length, which a byte loop cannot predict.
//!
//! ```text
//! 5 8 5 3 2 , " q     as they stand: which is the first that is no digit
//! 0 0 0 5 8 5 3 2     moved to the end, zeros before them: pairs, fours and all are put together
//! ```

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGHS: u64 = u64::from_ne_bytes([0x80; 8]);
const POWERS: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];

/// How many digits the bytes begin with.
#[inline]
pub fn count(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let stop = others(values(*word));
        if stop != 0 {
            return at * 8 + stop.trailing_zeros() as usize / 8;
        }
    }
    words.len() * 8 + tail.iter().take_while(|b| b.is_ascii_digit()).count()
}

/// The number, modulo 2^64, that the digits at the beginning spell behind those of `before`, and how many they are.
#[inline]
pub fn read(before: u64, bytes: &[u8]) -> (u64, usize) {
    let (words, tail) = bytes.as_chunks::<8>();
    let mut value = before;
    for (at, word) in words.iter().enumerate() {
        let x = values(*word);
        let stop = others(x);
        if stop == 0 {
            value = value.wrapping_mul(100_000_000).wrapping_add(joined(x));
            continue;
        }
        let count = stop.trailing_zeros() as usize / 8;
        let power = POWERS.get(count).copied().unwrap_or_default();
        let last = joined(x << 8 << (56 - 8 * count));
        return (value.wrapping_mul(power).wrapping_add(last), at * 8 + count);
    }
    let mut count = words.len() * 8;
    for digit in tail.iter().map(|b| b.wrapping_sub(b'0')).take_while(|&digit| digit <= 9) {
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        count += 1;
    }
    (value, count)
}

/// What each byte is worth, if it is a digit; the first in the lowest byte.
#[inline]
fn values(word: [u8; 8]) -> u64 {
    u64::from_le_bytes(word) ^ (ONES * u64::from(b'0'))
}

/// The high bits of the bytes that are no digits, exactly so in the lowest of them.
#[inline]
fn others(x: u64) -> u64 {
    (x.wrapping_add(ONES * 0x76) | x) & HIGHS
}

/// The number that eight digits spell.
#[inline]
fn joined(x: u64) -> u64 {
    let x = x.wrapping_mul(10).wrapping_add(x >> 8);
    let first = (x & 0xff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let second = ((x >> 16) & 0xff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    first.wrapping_add(second) >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_end_before_the_first_byte_that_is_none() {
        let digits = b"90817263549081726354";
        for length in 0..=digits.len() {
            let expected =
                digits[..length].iter().fold(7u64, |sum, b| sum.wrapping_mul(10).wrapping_add((b - b'0').into()));
            for behind in [
                &b""[..],
                b",",
                b"/9999999",
                b":99999999999",
                b"\xb0\xb1\xb2\xb3\xb4\xb5\xb6\xb7\xb8",
                b"\0\xff99999999",
            ] {
                let text = [&digits[..length], behind].concat();
                assert_eq!((count(&text), read(7, &text)), (length, (expected, length)), "{text:?}");
            }
        }
        for byte in (0..=255u8).filter(|b| !b.is_ascii_digit()) {
            let text = [b'1', byte, b'2', b'3', b'4', b'5', b'6', b'7', b'8'];
            assert_eq!((count(&text), read(0, &text)), (1, (1, 1)), "{byte}");
        }
    }
}
