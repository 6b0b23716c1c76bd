//! Mirrors protocols/ticdc_avro/checksum.py: CRC-32 (IEEE) over the columns of the new row, one after the other, as they stand on the wire.
//!
//! ```text
//! NULL                                      nothing
//! integers, YEAR, BIT, ENUM place, SET bits 8 bytes, little-endian
//! FLOAT, DOUBLE                             8 bytes of a double, infinities as 0
//! other strings and bytes                   length as uint32, little-endian, then the bytes
//! ```
//!
//! What is not hashed as it stands (a decimal in bytes, a TIMESTAMP that is not in UTC, a vector) is not for here, and neither is
//! a row that its checksum does not confirm: the reference decides what that means.

use super::values::{Place, named};
use crate::avro::{bytes, int, long};
use crate::cursor::Cursor;

/// How one column is hashed.
pub enum Hashed {
    Int,
    Long,
    Digits,
    Single,
    Double,
    Bits,
    Sized,
    Enum(Vec<String>),
    Set(Vec<String>),
}

/// A row's own members about its checksum.
#[derive(Default)]
pub struct Integrity<'a> {
    pub checksum: Option<&'a [u8]>,
    pub corrupted: Option<bool>,
    pub version: Option<i64>,
}

impl Integrity<'_> {
    /// Writes the JSON that the row's origin is; nothing when the schema has no checksum.
    pub fn origin(&self, out: &mut Vec<u8>) -> Option<()> {
        let checksum = self.checksum.map(std::str::from_utf8).transpose().ok()?;
        let members = [
            checksum.map(|text| format!("\"_tidb_row_level_checksum\":\"{text}\"")),
            self.corrupted.map(|corrupted| format!("\"_tidb_corrupted\":{corrupted}")),
            self.version.map(|version| format!("\"_tidb_checksum_version\":{version}")),
        ];
        for member in members.into_iter().flatten() {
            out.push(if out.is_empty() { b'{' } else { b',' });
            out.extend_from_slice(member.as_bytes());
        }
        if !out.is_empty() {
            out.push(b'}');
        }
        Some(())
    }
}

impl Hashed {
    /// How a column of this type is hashed; `utc`: TIMESTAMP is in UTC.
    pub fn new(mysql: &str, place: &Place, utc: bool) -> Option<Self> {
        let (name, inside) = named(mysql);
        Some(match (place.kind.as_str(), name) {
            ("int", _) => Self::Int,
            ("long", _) => Self::Long,
            ("float", _) => Self::Single,
            ("double", _) => Self::Double,
            ("bytes", "bit") => Self::Bits,
            ("string", "bigint unsigned") => Self::Digits,
            ("string", "enum") => Self::Enum(members(inside)?),
            ("string", "set") => Self::Set(members(inside)?),
            ("string", "timestamp") if utc => Self::Sized,
            ("string", "text" | "json" | "time" | "date" | "datetime" | "decimal") | ("bytes", "blob") => Self::Sized,
            _ => return None,
        })
    }

    /// Goes on with a value that has been read before: its form is sound.
    pub fn update(&self, crc: u32, c: &mut Cursor<'_>) -> Option<u32> {
        let number = match self {
            Self::Int => int(c)?.cast_unsigned(),
            Self::Long => long(c)?.cast_unsigned(),
            Self::Single => double(f32::from_le_bytes(*c.take(4)?.first_chunk()?).into()),
            Self::Double => double(f64::from_le_bytes(*c.take(8)?.first_chunk()?)),
            Self::Digits => std::str::from_utf8(bytes(c)?).ok()?.parse().ok()?,
            Self::Bits => bytes(c)?.iter().fold(0, |sum, b| sum << 8 | u64::from(*b)),
            Self::Enum(members) => place(members, bytes(c)?)? as u64 + 1,
            Self::Set(members) => bits(members, bytes(c)?)?,
            Self::Sized => {
                let data = bytes(c)?;
                let length = u32::try_from(data.len()).ok()?.to_le_bytes();
                return Some(crc32(crc32(crc, &length), data));
            }
        };
        Some(crc32(crc, &number.to_le_bytes()))
    }
}

fn double(value: f64) -> u64 {
    if value.is_finite() { value.to_bits() } else { 0 }
}

fn place(members: &[String], name: &[u8]) -> Option<usize> {
    members.iter().rposition(|member| member.as_bytes() == name)
}

fn bits(members: &[String], names: &[u8]) -> Option<u64> {
    if names.is_empty() {
        return Some(0);
    }
    names.split(|&b| b == b',').try_fold(0u64, |sum, name| {
        let bit = 1u64.checked_shl(place(members, name)?.try_into().ok()?).unwrap_or_default();
        Some(sum.wrapping_add(bit))
    })
}

/// The members in `'a','it''s'`.
fn members(inside: &str) -> Option<Vec<String>> {
    let (mut members, mut rest) = (Vec::new(), inside);
    loop {
        let mut member = String::new();
        rest = rest.strip_prefix('\'')?;
        loop {
            let (part, behind) = rest.split_once('\'')?;
            member.push_str(part);
            rest = behind;
            let Some(more) = rest.strip_prefix('\'') else { break };
            member.push('\'');
            rest = more;
        }
        members.push(member);
        if rest.is_empty() {
            return Some(members);
        }
        rest = rest.strip_prefix(',')?;
    }
}

/// `TABLES[n][b]` is what the byte b does to the checksum when n bytes follow it.
static TABLES: [[u32; 256]; 8] = tables();

#[allow(clippy::indexing_slicing)] // evaluated when compiled: an index out of bounds would not compile
const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut at = 0;
    while at < 8 * 256 {
        let (table, byte) = (at / 256, at % 256);
        let (mut crc, mut bits) = if table == 0 { (byte as u32, 8) } else { (tables[table - 1][byte], 0) };
        while bits > 0 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
            bits -= 1;
        }
        tables[table][byte] = if table == 0 { crc } else { crc >> 8 ^ tables[0][(crc & 0xff) as usize] };
        at += 1;
    }
    tables
}

/// The checksum of what `crc` is the checksum of, and `data` behind it.
fn crc32(crc: u32, data: &[u8]) -> u32 {
    let step = |table: usize, byte: u64| TABLES.get(table).and_then(|t| t.get((byte & 0xff) as usize)).copied();
    let (words, tail) = data.as_chunks::<8>();
    let crc = words.iter().fold(!crc, |crc, word| {
        let x = u64::from_le_bytes(*word) ^ u64::from(crc);
        (0..8).fold(0, |sum, at| sum ^ step(7 - at, x >> (8 * at)).unwrap_or_default())
    });
    !tail.iter().fold(crc, |crc, b| crc >> 8 ^ step(0, u64::from(crc) ^ u64::from(*b)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_ieee_however_it_is_cut() {
        let text = b"123456789 and more than two words";
        assert_eq!((crc32(0, b""), crc32(0, &text[..9])), (0, 0xcbf4_3926));
        for at in 0..text.len() {
            assert_eq!(crc32(crc32(0, &text[..at]), &text[at..]), crc32(0, text));
        }
    }

    #[test]
    fn members_tell_their_places() {
        let known = members("'a','it''s','','b,c'").unwrap();
        assert_eq!(known, ["a", "it's", "", "b,c"]);
        assert_eq!((place(&known, b"it's"), place(&known, b"x")), (Some(1), None));
        assert_eq!((bits(&known, b""), bits(&known, b"a,it's"), bits(&known, b"a,x")), (Some(0), Some(3), None));
        for bad in ["", "a", "'a", "'a',", "'a'b"] {
            assert_eq!(members(bad), None, "{bad}");
        }
    }
}
