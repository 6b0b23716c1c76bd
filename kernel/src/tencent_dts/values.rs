//! Mirrors protocols/tencent_dts/types.py, protocols/tencent_dts/values.py: the column for a Data, by its MySQL type and its encoding.
//!
//! ```text
//! 1 INT8 tinyint year bit   3 INT32 mediumint int   5 … 8 the same unsigned   9 FLOAT32   10 FLOAT64   12 DECIMAL    sv
//! 2 INT16 smallint          4 INT64 bigint          11 BYTES binary json      13 STRING, in a charset                bv
//! ```

use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_schema::{DataType, TimeUnit};

use super::columns::{Places, Raw, Sent, Values};
use super::forms::{Bits, Day, Decimal, Digits, Double, Instant, Local, LongDecimal, Single};
use crate::check::Check;
use crate::columns::{Column, Fixed};
use crate::forms::{Form, Moment, Signed, Unsigned};
use crate::geometries::Geometries;

const BYTES: u8 = 11;
const DECIMAL: u8 = 12;
const STRING: u8 = 13;
/// The number of a PostgreSQL source, whose type texts are not MySQL's.
pub const POSTGRES: u64 = 2;

/// A column and the Arrow type that it makes.
pub type Typed = (DataType, Box<dyn Column>);

/// How the values of a column are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// The dataType.
    pub sent: u8,
    /// Name of the character set, or of a collation; empty for none.
    pub charset: String,
}

impl Encoding {
    /// How values of a type are usually sent.
    pub fn usual(mysql: &str) -> Option<Self> {
        let (name, _, unsigned) = parts(mysql);
        let by_width = |signed: u8| if unsigned { signed + 4 } else { signed };
        let sent = match name {
            "tinyint" => by_width(1),
            "smallint" => by_width(2),
            "mediumint" | "int" => by_width(3),
            "bigint" => by_width(4),
            "bit" | "year" => 4,
            "float" => 9,
            "double" => 10,
            "decimal" => DECIMAL,
            "json" => BYTES,
            _ if is_binary(name) || is_geometry(name) => BYTES,
            _ if is_text(name) => STRING,
            "enum" | "set" | "date" | "time" | "datetime" | "timestamp" => STRING,
            _ => return None,
        };
        Some(Self { sent, charset: if sent == STRING { "utf8".to_owned() } else { String::new() } })
    }

    fn is_number(&self) -> bool {
        matches!(self.sent, 1..=10 | DECIMAL)
    }

    /// What stands before the length of a value.
    fn opening(&self) -> Option<Vec<u8>> {
        let mut opening = vec![0x08, self.sent];
        if !self.charset.is_empty() {
            opening.extend([0x12, u8::try_from(self.charset.len()).ok().filter(|&n| n < 0x80)?]);
            opening.extend(self.charset.bytes());
        }
        opening.push(if self.is_number() { 0x1a } else { 0x22 });
        Some(opening)
    }

    /// What a text must be for the kernel to have its UTF-8; nothing where it never does.
    fn text(&self) -> Option<Check> {
        if self.sent == BYTES {
            return Some(Check::Utf8);
        }
        let lower = self.charset.to_lowercase();
        match lower.split('_').next()? {
            "ucs2" | "utf16" | "utf16le" | "utf32" => None,
            "latin1" => Some(Check::Latin1),
            "ascii" | "gbk" | "gb2312" | "gb18030" | "big5" | "ujis" | "eucjpms" | "sjis" | "cp932" | "euckr"
            | "latin2" | "latin5" | "latin7" | "greek" | "hebrew" | "cp850" | "cp852" | "cp866" | "cp1250"
            | "cp1251" | "cp1256" | "cp1257" | "koi8r" | "koi8u" | "macce" | "macroman" | "hp8" | "tis620" => {
                Some(Check::Ascii)
            }
            _ => Some(Check::Utf8),
        }
    }
}

fn is_binary(name: &str) -> bool {
    matches!(name, "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob")
}

fn is_text(name: &str) -> bool {
    matches!(name, "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext")
}

fn is_geometry(name: &str) -> bool {
    matches!(name, "geometry" | "point" | "linestring" | "polygon")
        || matches!(name, "multipoint" | "multilinestring" | "multipolygon" | "geometrycollection")
}

/// A type's name, what stands in its parentheses, and whether it is unsigned.
fn parts(mysql: &str) -> (&str, &str, bool) {
    let (bare, unsigned) = mysql.strip_suffix(" unsigned").map_or((mysql, false), |bare| (bare, true));
    let (name, rest) = bare.split_once('(').unwrap_or((bare, ""));
    (name, rest.strip_suffix(')').unwrap_or(rest), unsigned)
}

/// An empty column of this MySQL type; nothing when the kernel has none for it. `signed`: BIT(64) may be negative.
pub fn column(mysql: &str, encoding: &Encoding, signed: bool) -> Option<Typed> {
    let (name, inside, unsigned) = parts(mysql);
    let opening = encoding.opening()?;
    if encoding.is_number() {
        encoding.charset.is_empty().then_some(())?;
        return number(name, inside, unsigned, opening, signed);
    }
    if encoding.sent != BYTES && encoding.sent != STRING {
        return None;
    }
    if is_binary(name) {
        return Some((DataType::Binary, boxed(opening, Raw::new(Check::Bytes, false))));
    }
    if is_geometry(name) {
        return Some((Geometries::arrow(), boxed(opening, Places(Geometries::empty()))));
    }
    let text = encoding.text().filter(|_| encoding.sent == STRING || encoding.charset.is_empty())?;
    let raw = |check, labels| Some((DataType::Utf8, boxed(opening.clone(), Raw::new(check, labels))));
    match name {
        "json" => raw(text, false),
        _ if is_text(name) => raw(text, false),
        "enum" | "set" if mysql.ends_with(')') => raw(text, true),
        "time" => raw(Check::Time, false),
        "date" => Some(fixed(opening, Day, DataType::Date32)),
        "datetime" | "timestamp" => {
            let moment = Moment { digits: if inside.is_empty() { 0 } else { inside.parse().ok()? }, ahead: 0 };
            let arrow = |zone| DataType::Timestamp(TimeUnit::Microsecond, zone);
            Some(match name {
                "datetime" => fixed(opening, Local(moment), arrow(None)),
                _ => fixed(opening, Instant(moment), arrow(Some("UTC".into()))),
            })
        }
        _ => None,
    }
}

fn number(name: &str, inside: &str, unsigned: bool, opening: Vec<u8>, signed: bool) -> Option<Typed> {
    Some(match (name, unsigned) {
        ("tinyint", false) => fixed(opening, Signed::<Int8Type>::bits(8), DataType::Int8),
        ("smallint", false) => fixed(opening, Signed::<Int16Type>::bits(16), DataType::Int16),
        ("mediumint", false) => fixed(opening, Signed::<Int32Type>::bits(24), DataType::Int32),
        ("int", false) => fixed(opening, Signed::<Int32Type>::bits(32), DataType::Int32),
        ("bigint", false) => fixed(opening, Signed::<Int64Type>::bits(64), DataType::Int64),
        ("tinyint", true) => fixed(opening, Unsigned::<UInt8Type>::bits(8), DataType::UInt8),
        ("smallint", true) => fixed(opening, Unsigned::<UInt16Type>::bits(16), DataType::UInt16),
        ("mediumint", true) => fixed(opening, Unsigned::<UInt32Type>::bits(24), DataType::UInt32),
        ("int", true) => fixed(opening, Unsigned::<UInt32Type>::bits(32), DataType::UInt32),
        ("bigint", true) => fixed(opening, Unsigned::<UInt64Type>::bits(64), DataType::UInt64),
        ("year", _) => fixed(opening, Unsigned::<UInt16Type>::up_to(2155), DataType::UInt16),
        ("bit", _) => {
            let bits = if inside.is_empty() { 64 } else { inside.parse().ok()? };
            fixed(opening, Bits { bits, signed }, DataType::UInt64)
        }
        ("float", _) => fixed(opening, Single, DataType::Float32),
        ("double", _) => fixed(opening, Double, DataType::Float64),
        ("decimal", _) if inside.is_empty() => (DataType::Utf8, boxed(opening, Raw::new(Check::Decimal, false))),
        ("decimal", _) => {
            let (precision, scale) = inside.split_once(',')?;
            let (most, places) = (precision.parse::<u8>().ok()?, scale.parse::<i8>().ok()?);
            let digits = Digits { precision: most.into(), scale: places.try_into().ok()? };
            match most {
                _ if digits.scale > digits.precision => return None,
                1..=38 => fixed(opening, Decimal(digits), DataType::Decimal128(most, places)),
                39..=65 => fixed(opening, LongDecimal(digits), DataType::Decimal256(most, places)),
                _ => return None,
            }
        }
        _ => return None,
    })
}

fn fixed<F: Form + 'static>(opening: Vec<u8>, form: F, arrow: DataType) -> Typed {
    (arrow.clone(), boxed(opening, Fixed::new(form, arrow)))
}

fn boxed<V: Values + 'static>(opening: Vec<u8>, values: V) -> Box<dyn Column> {
    Box::new(Sent::new(opening, values))
}
