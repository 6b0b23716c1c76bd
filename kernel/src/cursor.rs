//! Mirrors wire/cursor.py: a position in bytes that only moves forward.
//!
//! Every step returns `None` for unexpected bytes. The caller then hands the record to the reference decoder.

/// The bytes that are left.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// A cursor before the first of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes that are left.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte, left where it is.
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// The next byte.
    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    /// Steps over exactly these bytes.
    #[inline]
    pub fn eat(&mut self, literal: &[u8]) -> Option<()> {
        let (head, rest) = self.rest.split_at_checked(literal.len())?;
        self.rest = same(head, literal).then_some(rest)?;
        Some(())
    }

    /// The next `count` bytes.
    #[inline]
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(head)
    }

    /// The next `N` bytes.
    #[inline]
    pub fn chunk<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    /// An unsigned little-endian integer of `size` bytes, at most eight.
    #[inline]
    pub fn uint(&mut self, size: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        bytes.get_mut(..size)?.copy_from_slice(self.take(size)?);
        Some(u64::from_le_bytes(bytes))
    }

    /// A big-endian 64-bit integer.
    pub fn int64(&mut self) -> Option<i64> {
        let (head, rest) = self.rest.split_first_chunk::<8>()?;
        self.rest = rest;
        Some(i64::from_be_bytes(*head))
    }

    /// The bytes behind a big-endian 64-bit length.
    pub fn framed(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.int64()?).ok()?;
        self.take(length)
    }
}

/// Whether two texts of one length are the same; for the literals of a shape, calling `memcmp` takes longer than its work.
///
/// ```text
/// },"qty":{"t":3,"f":65,"v":     sixteen at a time,
/// └──────────────┘               then the last sixteen, some of them for the second time
///           └──────────────┘
/// ```
#[inline]
fn same(a: &[u8], b: &[u8]) -> bool {
    match (a.last_chunk::<16>(), b.last_chunk::<16>()) {
        (Some(x), Some(y)) => x == y && a.as_chunks::<16>().0.iter().eq(b.as_chunks::<16>().0),
        _ => same_short::<8>(a, b).or_else(|| same_short::<4>(a, b)).unwrap_or_else(|| a.iter().eq(b)),
    }
}

/// The same of texts of `N` to `2 * N` bytes: the first of them, then the last.
#[inline]
fn same_short<const N: usize>(a: &[u8], b: &[u8]) -> Option<bool> {
    let first = a.first_chunk::<N>()? == b.first_chunk::<N>()?;
    Some(first && a.last_chunk::<N>()? == b.last_chunk::<N>()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_ends_where_its_length_says() {
        let mut c = Cursor::new(b"\0\0\0\0\0\0\0\x02abc");
        assert_eq!(c.framed(), Some(&b"ab"[..]));
        assert_eq!(c.rest(), b"c");
    }

    #[test]
    fn a_length_that_runs_past_the_end_or_below_zero_is_refused() {
        assert_eq!(Cursor::new(b"\0\0\0\0\0\0\0\x03ab").framed(), None);
        assert_eq!(Cursor::new(b"\xff\xff\xff\xff\xff\xff\xff\xffab").framed(), None);
        assert_eq!(Cursor::new(b"\0\0\0\0\0\0\0").framed(), None);
    }

    #[test]
    fn a_literal_of_any_length_is_compared_to_its_last_byte() {
        let bytes: Vec<u8> = (0..70).collect();
        for length in 0..bytes.len() {
            let literal = &bytes[..length];
            let mut c = Cursor::new(&bytes);
            assert_eq!((c.eat(literal), c.byte()), (Some(()), Some(length as u8)));
            assert_eq!(Cursor::new(&literal[..length.saturating_sub(1)]).eat(literal).is_none(), length > 0);
            for at in 0..length {
                let mut other = bytes.clone();
                other[at] ^= 1;
                assert_eq!(Cursor::new(&other).eat(literal), None, "{length} {at}");
            }
        }
    }

    #[test]
    fn eating_another_literal_moves_nothing() {
        let mut c = Cursor::new(b"abc");
        assert_eq!(c.eat(b"ad"), None);
        assert_eq!(c.rest(), b"abc");
        assert_eq!(c.eat(b"ab"), Some(()));
        assert_eq!(c.byte(), Some(b'c'));
        assert_eq!(c.byte(), None);
    }
}
