//! Kernel only: the packets that a server sends after COM_BINLOG_DUMP: those of events, to events that follow each other.
//!
//! ```text
//! payload   00, event          an event; ff: an error; fe: the log ends
//! ```

use super::frames::size_of;
use crate::packets::{Lack, payload};

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
                Err(Lack::More) => break Next::More,
                Err(Lack::Unexpected) => break Next::Unexpected,
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
