//! Kernel only: the packets of MySQL's protocol, to what they carry.
//!
//! ```text
//! packet   length (3, little-endian), sequence number (1) │ payload
//! ```
//!
//! Rule 1. A payload of 2^24 - 1 bytes goes on in the next packet.
//! Rule 2. Sequence numbers follow each other, modulo 256.

use std::borrow::Cow;

const LONGEST: usize = 0xff_ffff;

/// Why there is no payload.
#[derive(Debug, PartialEq, Eq)]
pub enum Lack {
    /// Its packets were not received yet.
    More,
    /// A packet has another number: the connection is broken.
    Unexpected,
}

/// The first payload, and the bytes of its packets; `sequence` becomes the number of the next packet.
pub fn payload<'a>(received: &'a [u8], sequence: &mut u8) -> Result<(Cow<'a, [u8]>, usize), Lack> {
    let (first, size) = packet(received, *sequence)?;
    if first.len() < LONGEST {
        *sequence = sequence.wrapping_add(1);
        return Ok((Cow::Borrowed(first), size));
    }
    let (mut parts, mut at, mut number) = (vec![first], size, *sequence); // nothing is copied before all of it is there
    while parts.last().is_some_and(|part| part.len() == LONGEST) {
        number = number.wrapping_add(1);
        let (part, size) = packet(received.get(at..).unwrap_or_default(), number)?;
        parts.push(part);
        at += size;
    }
    *sequence = number.wrapping_add(1);
    Ok((Cow::Owned(parts.concat()), at))
}

/// What the first packet carries, and its size.
fn packet(received: &[u8], number: u8) -> Result<(&[u8], usize), Lack> {
    let Some((&[low, middle, high, sent], body)) = received.split_first_chunk() else {
        return Err(Lack::More);
    };
    if sent != number {
        return Err(Lack::Unexpected);
    }
    let length = usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16;
    body.get(..length).map(|payload| (payload, 4 + length)).ok_or(Lack::More)
}
