//! Kernel only: the packets that a server sends after COM_BINLOG_DUMP: those of events, to events that follow each other.
//!
//! ```text
//! packet   length (3, little-endian), sequence number (1) │ 00, event          an event; ff: an error; fe: the log ends
//! ```
//!
//! Rule 1. A payload of 2^24 - 1 bytes goes on in the next packet.
//! Rule 2. Sequence numbers follow each other, modulo 256.

use std::borrow::Cow;

use super::frames::size_of;

const LONGEST: usize = 0xff_ffff;
const EVENT: u8 = 0;

/// What follows the events.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Packets that were not received.
    More,
    /// The payload of a packet that is not an event: an error, the end of the log, or an event of a wrong size.
    Other(Vec<u8>),
    /// A packet of another number: the connection is broken.
    Unexpected,
}

/// Splits what is received.
pub struct Packets {
    received: Vec<u8>,
    sequence: u8,
}

impl Packets {
    /// Before the packet with this number.
    pub fn new(sequence: u8) -> Self {
        Self { received: Vec::new(), sequence }
    }

    /// The events in what was received, without those that were returned before.
    pub fn split(&mut self, data: &[u8]) -> (Vec<u8>, Next) {
        self.received.extend_from_slice(data);
        let (mut events, mut at, mut sequence) = (Vec::with_capacity(self.received.len()), 0, self.sequence);
        let next = loop {
            match payload(self.received.get(at..).unwrap_or_default(), &mut sequence) {
                Err(next) => break next,
                Ok((payload, size)) => {
                    at += size;
                    match payload.split_first() {
                        Some((&EVENT, event)) if size_of(event) == Some(event.len()) => events.extend_from_slice(event),
                        _ => break Next::Other(payload.into_owned()),
                    }
                }
            }
        };
        self.sequence = sequence;
        self.received.drain(..at.min(self.received.len()));
        (events, next)
    }
}

/// The first payload, and the bytes of its packets; `sequence` becomes the number of the next packet.
fn payload<'a>(received: &'a [u8], sequence: &mut u8) -> Result<(Cow<'a, [u8]>, usize), Next> {
    let (mut whole, mut at, mut number) = (Cow::Borrowed(&b""[..]), 0, *sequence);
    loop {
        let rest = received.get(at..).unwrap_or_default();
        let Some((&[low, middle, high, sent], body)) = rest.split_first_chunk() else {
            return Err(Next::More);
        };
        if sent != number {
            return Err(Next::Unexpected);
        }
        let length = usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16;
        let Some(part) = body.get(..length) else {
            return Err(Next::More);
        };
        if whole.is_empty() {
            whole = Cow::Borrowed(part);
        } else {
            whole.to_mut().extend_from_slice(part);
        }
        at += 4 + length;
        number = number.wrapping_add(1);
        if length < LONGEST {
            *sequence = number;
            return Ok((whole, at));
        }
    }
}
