//! Kernel only: checks of bytes whose value is kept as it was sent.

use crate::values::{is_decimal, is_time};

/// What bytes must be to be the column's value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Anything.
    Bytes,
    /// UTF-8.
    Utf8,
    /// ASCII, which is itself in nearly all character sets.
    Ascii,
    /// MySQL's latin1, which is cp1252.
    Latin1,
    /// A DECIMAL of any length.
    Decimal,
    /// A TIME.
    Time,
}

impl Check {
    /// Whether these bytes are such a value.
    #[inline]
    pub fn passes(self, raw: &[u8]) -> bool {
        match self {
            Self::Bytes | Self::Latin1 => true,
            Self::Utf8 => raw.is_ascii() || simdutf8::basic::from_utf8(raw).is_ok(),
            Self::Ascii => raw.is_ascii(),
            Self::Decimal => is_decimal(raw),
            Self::Time => is_time(raw),
        }
    }
}
