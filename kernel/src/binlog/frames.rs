//! Mirrors mysql/binlog/framing.py, sources/mysql/dump.py: the header of an event, its place in the log and its checksum.
//!
//! ```text
//! event    ┌ timestamp (4) ┬ type (1) ┬ server id (4) ┬ size (4) ┬ next position (4) ┬ flags (2) ┐ 19 bytes
//!          │ body                                                                                │
//!          └ checksum (4), if the format description declares it                                 ┘
//! ```
//!
//! Rule 1. Events that the server makes for the connection have no place in the log: artificial ones, heartbeats, and of the
//!         types `OF_CONNECTION` those whose next position is 0.
//! Rule 2. The next position in a header has 32 bits. In a longer file the upper bits are those of the last position, plus one
//!         where the lower ones begin again. MariaDB 11.8 writes 0 inside of a transaction: the event follows the one before.

use crate::cursor::Cursor;

/// Bytes of a header.
pub const HEADER_SIZE: usize = 19;
const CHECKSUM_SIZE: usize = 4;
const SIZE_AT: usize = 9;
const ARTIFICIAL: u64 = 0x20;
const POSITION_BITS: u32 = 40;
/// HEARTBEAT, HEARTBEAT_V2.
const HEARTBEATS: [u8; 2] = [27, 41];
/// ROTATE, FORMAT_DESCRIPTION, PREVIOUS_GTIDS, GTID_LIST and START_ENCRYPTION of MariaDB.
const OF_CONNECTION: [u8; 5] = [4, 15, 35, 163, 164];

/// Bytes of the event that begins here, by its header.
pub fn size_of(event: &[u8]) -> Option<usize> {
    let size = Cursor::new(event.get(SIZE_AT..HEADER_SIZE)?).uint(4)?;
    usize::try_from(size).ok().filter(|&size| size >= HEADER_SIZE)
}

/// The header of a whole event.
pub struct Header {
    /// Seconds since 1970.
    pub time: i64,
    /// The event's type.
    pub code: u8,
    size: u64,
    next: u64,
    flags: u64,
}

impl Header {
    /// Reads the first bytes of an event.
    pub fn read(event: &[u8]) -> Option<Self> {
        let mut c = Cursor::new(event);
        let (time, code, _server) = (c.uint(4)?, c.byte()?, c.uint(4)?);
        let (size, next, flags) = (c.uint(4)?, c.uint(4)?, c.uint(2)?);
        Some(Self { time: i64::try_from(time).ok()?, code, size, next, flags })
    }

    /// Where the event begins and ends, as `file number << 40 | position`, given the end of the one before. Nothing if it
    /// has no place in the log.
    pub fn place(&self, at: u64) -> Option<(u64, u64)> {
        if self.flags & ARTIFICIAL != 0 || HEARTBEATS.contains(&self.code) {
            return None;
        }
        if self.next == 0 {
            return (!OF_CONNECTION.contains(&self.code)).then_some((at, at + self.size));
        }
        let (file, position) = (at >> POSITION_BITS, at & ((1 << POSITION_BITS) - 1));
        let upper = (position >> 32) + u64::from(self.next < position & 0xffff_ffff);
        let end = upper << 32 | self.next;
        Some((file << POSITION_BITS | end.checked_sub(self.size)?, file << POSITION_BITS | end))
    }
}

/// The body of an event without its checksum, or nothing if that is wrong.
pub fn checked_body(event: &[u8], has_checksum: bool) -> Option<&[u8]> {
    if !has_checksum {
        return event.get(HEADER_SIZE..);
    }
    let (whole, stored) = event.split_last_chunk::<CHECKSUM_SIZE>()?;
    (crc32fast::hash(whole) == u32::from_le_bytes(*stored)).then_some(())?;
    whole.get(HEADER_SIZE..)
}

/// The body of an event without its checksum, which is not verified.
pub fn body(event: &[u8], has_checksum: bool) -> Option<&[u8]> {
    event.get(HEADER_SIZE..event.len().checked_sub(if has_checksum { CHECKSUM_SIZE } else { 0 })?)
}
