//! Mirrors mysql/binlog/compression.py: compressed rows of MariaDB.
//!
//! ```text
//! rows    80 + w │ size, w bytes, big-endian │ zlib
//! ```
//!
//! Rule 1. The size of the inflated bytes is checked before and after; it must be right to the byte.

use std::io::Read;

use flate2::read::ZlibDecoder;

const LIMIT: u64 = 1 << 30;
const METHOD: u8 = 0xf0;
const WIDTH: u8 = 0x07;
const ZLIB: u8 = 0x80;

/// The inflated bytes.
pub fn inflate(data: &[u8]) -> Option<Vec<u8>> {
    let (&head, rest) = data.split_first()?;
    (head & METHOD == ZLIB).then_some(())?;
    let (size, packed) = rest.split_at_checked(usize::from(head & WIDTH))?;
    let size = size.iter().fold(0, |sum: u64, &byte| sum << 8 | u64::from(byte));
    (size <= LIMIT).then_some(())?;
    let mut inflated = Vec::new();
    ZlibDecoder::new(packed).take(size + 1).read_to_end(&mut inflated).ok()?;
    (inflated.len() as u64 == size).then_some(inflated)
}
