//! Mirrors protocols/debezium_mysql/shapes.py: a shape in JSON, compiled.
//!
//! ```text
//! wire   {"protocol":…,"key":{"schema":{…}},"value":{"schema":{…}}}                      the blocks, byte for byte
//!        {"protocol":…,"key":{"fields":["id"]},"value":{"envelope":[…],"source":[…]}}     without schemas
//! ```

use arrow_array::types::{Date32Type, TimestampMicrosecondType, UInt16Type};
use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::envelope::{Layout, Member};
use crate::debezium::columns::{Booleans, Nothing};
use crate::debezium::derived::{Derived, labels, time};
use crate::debezium::floats::Style;
use crate::debezium::forms::{Bits, Decimal, Double, Instant, LongDecimal, Single};
use crate::debezium::group::{Group, Key, Open};
use crate::debezium::rows::{Clock, Rows};
use crate::debezium::shapes::{
    Described, Shape, Typed, base64, counted, declared_code, digits_of, fixed, images, integer, length_of, texts,
};
use crate::forms::Unsigned;
use crate::spelling::java;

/// The first and the last day that a column holds.
pub const DAYS: (i64, i64) = (-719_162, 2_932_896);
/// Microseconds of a day.
pub const DAY_US: i64 = 86_400_000_000;
/// Microseconds of the longest TIME.
pub const MOST_TIME_US: i64 = 839 * 3_600_000_000 - 1;
/// Microseconds of the longest one that is milliseconds in 32 bits, on either side of zero.
pub const MOST_SHORT_TIME_US: i64 = (i32::MAX as i64) * 1000;
/// The last year of a YEAR.
pub const YEARS: u64 = 2155;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire<'a> {
    #[serde(rename = "protocol")]
    _protocol: String,
    #[serde(borrow)]
    key: Option<Side<'a>>,
    #[serde(borrow)]
    value: Side<'a>,
}

/// A key or a value; of Avro, and rows without envelope, have members that are unknown here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Side<'a> {
    #[serde(borrow)]
    schema: Option<&'a RawValue>,
    fields: Option<Vec<String>>,
    envelope: Option<Vec<String>>,
    source: Option<Vec<String>>,
}

/// A schema, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Node {
    #[serde(rename = "type")]
    base: String,
    #[serde(default)]
    optional: bool,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    field: Option<String>,
    #[serde(default)]
    fields: Vec<Node>,
    #[serde(default)]
    parameters: Option<serde_json::Map<String, serde_json::Value>>,
}

impl Node {
    fn names(&self) -> Option<Vec<String>> {
        self.fields.iter().map(|f| f.field.clone()).collect()
    }

    fn field(&self, name: &str) -> Option<&Self> {
        self.fields.iter().find(|f| f.field.as_deref() == Some(name))
    }
}

/// All that is compiled of a shape.
pub struct Compiled {
    /// Schema block of the value, with what stands around it; empty without schema.
    pub opening: Vec<u8>,
    /// The database's name and the table's as they are spelled.
    pub table: [Vec<u8>; 2],
    /// What distinguishes the group from others.
    pub identity: Vec<u8>,
    pub layout: Layout,
    pub group: Group,
    pub codes: Vec<u8>,
    /// Its rows by the unit of their time: milliseconds, microseconds.
    pub rows: [Rows; 2],
    /// What determines the columns of its rows.
    pub kind: String,
}

/// Compiles a shape; None if the kernel does not support a part of it. `numeric`: decimals are numbers.
pub fn compile(shape: &Shape<'_>, numeric: bool) -> Option<Compiled> {
    let wire: Wire<'_> = serde_json::from_str(shape.wire.get()).ok()?;
    if shape.columns.is_empty() {
        return None;
    }
    let value: Option<Node> = match wire.value.schema {
        Some(block) => Some(serde_json::from_str(block.get()).ok()?),
        None => None,
    };
    let (layout, nodes) = match &value {
        Some(node) => {
            let row = node.field("after")?;
            if !row.optional || !node.field("before")?.optional {
                return None;
            }
            (Layout::new(&node.names()?, &node.field("source")?.names()?)?, Some(&row.fields))
        }
        None => (Layout::new(wire.value.envelope.as_ref()?, wire.value.source.as_ref()?)?, None),
    };
    let images_first = layout.members.iter().map(|(_, member)| *member).take(2).eq([Member::Before, Member::After]);
    if !images_first || nodes.is_some_and(|nodes| nodes.len() != shape.columns.len()) {
        return None;
    }
    let names: Vec<_> = shape.columns.iter().map(|c| java(&c.name)).collect();
    let open: Vec<_> = shape.columns.iter().map(|c| open(c, nodes.is_some())).collect();
    let codes = shape
        .columns
        .iter()
        .zip(&open)
        .map(|(c, open)| declared_code(&c.mysql, *open, "varchar", "boolean"))
        .collect::<Option<_>>()?;
    let rows = |clock| {
        let (before, after) = images(&shape.columns, |at, c| match nodes {
            None => loose(&c.mysql),
            Some(nodes) => {
                nodes.get(at).filter(|n| n.field.as_ref() == Some(&c.name)).and_then(|n| column(n, c, numeric))
            }
        })?;
        Some(Rows::new(before, after, clock))
    };
    let key = match wire.key {
        Some(side) => Some(key(&side, shape, &names)?),
        None => None,
    };
    Some(Compiled {
        opening: wire.value.schema.map(|b| format!("{{\"schema\":{},\"payload\":", b.get())).unwrap_or_default().into(),
        table: [unquoted(&shape.database), unquoted(&shape.table)],
        identity: format!("{:?}{:?}{}{names:?}{:?}", shape.database, shape.table, shape.wire.get(), shape.keys())
            .into_bytes(),
        rows: [rows(Clock::Milliseconds)?, rows(Clock::Microseconds)?],
        kind: format!("{:?}{nodes:?}", shape.columns),
        layout,
        group: Group::new(&names, open, key),
        codes,
    })
}

/// A name as it is spelled between quotes.
fn unquoted(name: &str) -> Vec<u8> {
    java(name).trim_start_matches('"').strip_suffix('"').unwrap_or_default().as_bytes().to_vec()
}

fn key(side: &Side<'_>, shape: &Shape<'_>, names: &[String]) -> Option<Key> {
    let (fields, open, close) = match side.schema {
        Some(block) => {
            let node: Node = serde_json::from_str(block.get()).ok()?;
            (node.names()?, format!("{{\"schema\":{},\"payload\":{{", block.get()), "}}")
        }
        None => (side.fields.clone()?, "{".to_owned(), "}"),
    };
    let place = |name: &String| shape.columns.iter().position(|c| c.name == *name);
    let places = fields.iter().map(place).collect::<Option<Vec<_>>>()?;
    // The key must have the columns that the shape declares: a key's schema may leave its members open.
    shape.columns.iter().enumerate().all(|(at, c)| c.key == Some(places.contains(&at))).then_some(())?;
    Key::new(&open, names, &places, close)
}

fn open(column: &Described, schema: bool) -> Open {
    match schema {
        false => Open::Kind { mixed: false },
        true if column.mysql.starts_with("timestamp") => Open::Digits { epoch: false },
        true => Open::No,
    }
}

/// An empty column for values of this type, without a schema.
fn loose(mysql: &str) -> Option<Typed> {
    Some(match mysql {
        "null" => (DataType::Null, Box::new(Nothing::default())),
        "varchar" => texts(),
        "bigint" => integer(64)?,
        "double" => fixed(Double(Style::Java), DataType::Float64),
        "boolean" => (DataType::Boolean, Box::new(Booleans::default())),
        _ => return None,
    })
}

/// An empty column for values of a field.
fn column(node: &Node, described: &Described, numeric: bool) -> Option<Typed> {
    let mysql = described.mysql.as_str();
    let name = node.name.as_deref().unwrap_or_default();
    let name =
        name.strip_prefix("io.debezium.").or_else(|| name.strip_prefix("org.apache.kafka.connect.")).unwrap_or(name);
    let typed = |text: &str| (mysql == text).then_some(());
    Some(match (node.base.as_str(), name) {
        ("int32", "time.Date" | "data.Date") => {
            typed("date")?;
            counted::<Date32Type>(DAYS, 1, 1, DataType::Date32)
        }
        ("int32", "time.Time" | "data.Time") if mysql == "time(3)" => clock_time(1_000_000, MOST_SHORT_TIME_US, 3),
        ("int64", "time.MicroTime") if mysql == "time(6)" => clock_time(1000, MOST_TIME_US, 6),
        ("int64", "time.NanoTime") if mysql == "time(6)" => clock_time(1, MOST_TIME_US, 6),
        ("int64", "time.Timestamp" | "data.Timestamp") if mysql == "datetime(3)" => moments(1000, 1),
        ("int64", "time.MicroTimestamp") if mysql == "datetime(6)" => moments(1, 1),
        ("int64", "time.NanoTimestamp") if mysql == "datetime(6)" => moments(1, 1000),
        ("int32", "time.Year") => {
            typed("year")?;
            fixed(Unsigned::<UInt16Type>::up_to(YEARS), DataType::UInt16)
        }
        ("string", "time.ZonedTimestamp") => {
            let arrow = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
            fixed(Instant { digits: digits_of(mysql)?.into(), epoch: false }, arrow)
        }
        ("bytes", "data.Bits") if mysql.starts_with("bit(") => {
            let bytes = length_of(mysql)?.div_ceil(8);
            fixed(Bits { bytes, bits: 64 }, DataType::UInt64)
        }
        ("bytes", "data.Decimal") if !numeric => decimal(mysql)?,
        ("string", "data.Enum" | "data.EnumSet") if mysql != "varchar" => {
            let allowed = node.parameters.as_ref()?.get("allowed")?.as_str()?;
            let derive = labels(members(allowed), name == "data.EnumSet");
            (DataType::Utf8, Box::new(Derived::new(derive)))
        }
        ("string", "data.Json") => typed("json").map(|()| texts())?,
        ("string", "data.Uuid") => typed("char(36)").map(|()| texts())?,
        ("int8", _) => typed("tinyint").and_then(|()| integer(8))?,
        ("int16", _) => typed("smallint").and_then(|()| integer(16))?,
        ("int32", _) => typed("int").and_then(|()| integer(32))?,
        ("int64", _) => typed("bigint").and_then(|()| integer(64))?,
        ("float", _) => typed("float").map(|()| fixed(Single(Style::Java), DataType::Float32))?,
        ("double", _) => typed("double").map(|()| fixed(Double(Style::Java), DataType::Float64))?,
        ("boolean", _) => typed("boolean").map(|()| (DataType::Boolean, Box::new(Booleans::default()) as _))?,
        ("string", _) => typed("varchar").map(|()| texts())?,
        ("bytes", _) => typed("varbinary").map(|()| base64())?,
        _ => return None,
    })
}

fn clock_time(unit_ns: i64, most: i64, digits: usize) -> Typed {
    (DataType::Utf8, Box::new(Derived::new(time(unit_ns, most, digits))))
}

fn moments(times: i64, over: i64) -> Typed {
    let (first, last) = (DAYS.0 * DAY_US, (DAYS.1 + 1) * DAY_US - 1);
    let scaled = |us: i64| (us / times).saturating_mul(over);
    let arrow = DataType::Timestamp(TimeUnit::Microsecond, None);
    counted::<TimestampMicrosecondType>((scaled(first), scaled(last)), times, over, arrow)
}

fn decimal(mysql: &str) -> Option<Typed> {
    let inside = mysql.strip_prefix("decimal(")?.strip_suffix(')')?;
    let (precision, scale) = inside.split_once(',')?;
    let (precision, scale): (u8, i8) = (precision.parse().ok()?, scale.parse().ok()?);
    Some(if precision <= 38 {
        let limit = 10i128.checked_pow(precision.into())?;
        fixed(Decimal(limit), DataType::Decimal128(precision, scale))
    } else {
        let limit = i256::from_i128(10).checked_pow(precision.into())?;
        fixed(LongDecimal(limit), DataType::Decimal256(precision, scale))
    })
}

/// The members that `allowed` lists: commas between, `\,` and `\\` inside.
pub fn members(allowed: &str) -> Vec<String> {
    let mut labels = vec![String::new()];
    let mut chars = allowed.chars().peekable();
    while let Some(char) = chars.next() {
        let escaped = if char == '\\' { chars.next_if(|c| matches!(c, ',' | '\\')) } else { None };
        match (escaped, char, labels.last_mut()) {
            (None, ',', _) => labels.push(String::new()),
            (other, char, Some(last)) => last.push(other.unwrap_or(char)),
            (_, _, None) => {}
        }
    }
    labels
}
