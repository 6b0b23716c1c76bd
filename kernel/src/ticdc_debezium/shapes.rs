//! Mirrors protocols/ticdc_debezium/shapes.py: a shape, compiled.
//!
//! ```text
//! key    {"payload":{"id": 7 }}                  ,"schema":{…}} behind the payload, unless schemas are switched off
//! image  {"id": 7 ,"name": "ada" }
//! ```

use arrow_array::types::{Date32Type, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type};
use arrow_schema::{DataType, TimeUnit};
use serde_json::{Map, Value};

use crate::debezium::columns::Nothing;
use crate::debezium::derived::{Derived, plain_decimal, time};
use crate::debezium::floats::Style;
use crate::debezium::forms::{Bits, Double, Instant, OneBit, Single, Wrapped};
use crate::debezium::group::{Group, Key, Open};
use crate::debezium::rows::{Clock, Rows};
use crate::debezium::shapes::{
    Described, Shape, Typed, base64, counted, declared_code, digits_of, fixed, images, integer, length_of, texts,
};
use crate::forms::Unsigned;
use crate::spelling::go;

// Years from 100 on: producers write earlier ones as years of our time, and those would have to be kept word for word.
const DAYS: (i64, i64) = (-683_003, 2_932_896);
const DAY_US: i64 = 86_400_000_000;
const MOST_TIME_US: i64 = 839 * 3_600_000_000 - 1;

/// All that is compiled of a shape.
pub struct Compiled {
    /// The bytes of a source block that name the table.
    pub names: Vec<u8>,
    /// What stands behind the images.
    pub tail: Vec<u8>,
    /// What distinguishes the group from others of its table.
    pub identity: Vec<u8>,
    pub group: Group,
    pub codes: Vec<u8>,
    pub rows: Rows,
    /// What determines the columns of its rows.
    pub kind: String,
}

/// Compiles a shape; None if the kernel does not support a part of it.
pub fn compile(shape: &Shape<'_>) -> Option<Compiled> {
    let wire: Map<String, Value> = serde_json::from_str(shape.wire.get()).ok()?;
    if shape.columns.is_empty() || shape.database.is_empty() || shape.table.is_empty() {
        return None;
    }
    let schema = text_of(wire.get("value")?)?;
    let names: Vec<_> = shape.columns.iter().map(|c| go(&c.name)).collect();
    let open: Vec<_> = shape.columns.iter().map(|c| open(c, schema)).collect();
    let codes = shape
        .columns
        .iter()
        .zip(&open)
        .map(|(c, open)| declared_code(&c.mysql, *open, "text", "bit(1)"))
        .collect::<Option<_>>()?;
    let (before, after) = images(&shape.columns, |_, c| column(&c.mysql, schema.is_some()))?;
    let key = match wire.get("key") {
        Some(schema) => Some(key(shape, &wire, &names, text_of(schema)?)?),
        None => None,
    };
    Some(Compiled {
        names: format!(",\"db\":{},\"table\":{}", go(&shape.database), go(&shape.table)).into_bytes(),
        tail: format!("}}{}}}", schema_of(schema)).into_bytes(),
        identity: format!("{}{names:?}{:?}", shape.wire.get(), shape.keys()).into_bytes(),
        group: Group::new(&names, open, key),
        codes,
        rows: Rows::new(before, after, Clock::Tso),
        kind: format!("{:?}{}", shape.columns, schema.is_some()),
    })
}

/// The text of a schema block, or nothing for none.
fn text_of(schema: &Value) -> Option<Option<&str>> {
    match schema {
        Value::Null => Some(None),
        Value::String(text) => Some(Some(text)),
        _ => None,
    }
}

fn schema_of(text: Option<&str>) -> String {
    text.map(|text| format!(",\"schema\":{text}")).unwrap_or_default()
}

fn key(shape: &Shape<'_>, wire: &Map<String, Value>, names: &[String], schema: Option<&str>) -> Option<Key> {
    let all = shape.columns.iter().enumerate();
    let usual = all.filter_map(|(at, c)| c.key.map(|key| key.then_some(at))).collect::<Vec<_>>();
    if usual.len() != shape.columns.len() {
        return None; // not known
    }
    let columns = match wire.get("keys") {
        None => usual.into_iter().flatten().collect(),
        Some(order) => order.as_array()?.iter().map(|name| place(shape, name)).collect::<Option<Vec<_>>>()?,
    };
    Key::new("{\"payload\":{", names, &columns, &format!("}}{}}}", schema_of(schema)))
}

fn place(shape: &Shape<'_>, name: &Value) -> Option<usize> {
    shape.columns.iter().position(|c| Some(c.name.as_str()) == name.as_str())
}

fn open(column: &Described, schema: Option<&str>) -> Open {
    match schema {
        None => Open::Kind { mixed: true },
        Some(_) if column.mysql.starts_with("timestamp") => Open::Digits { epoch: true },
        Some(_) => Open::No,
    }
}

/// An empty column for values of this type.
fn column(mysql: &str, schema: bool) -> Option<Typed> {
    let name = mysql.split(['(', ' ']).next()?;
    let unsigned = mysql.ends_with(" unsigned");
    let clock = |times| {
        let range = (DAYS.0 * DAY_US / times, ((DAYS.1 + 1) * DAY_US - 1) / times);
        counted::<TimestampMicrosecondType>(range, times, 1, DataType::Timestamp(TimeUnit::Microsecond, None))
    };
    Some(match name {
        "null" if !schema => (DataType::Null, Box::new(Nothing::default())),
        "tinyint" if unsigned => fixed(Unsigned::<UInt8Type>::bits(8), DataType::UInt8),
        "smallint" if unsigned => fixed(Unsigned::<UInt16Type>::bits(16), DataType::UInt16),
        "mediumint" if unsigned => fixed(Unsigned::<UInt32Type>::bits(24), DataType::UInt32),
        "int" if unsigned => fixed(Unsigned::<UInt32Type>::bits(32), DataType::UInt32),
        "bigint" if unsigned => fixed(Wrapped, DataType::UInt64),
        "tinyint" => integer(8)?,
        "smallint" => integer(16)?,
        "mediumint" => integer(24)?,
        "int" => integer(32)?,
        "bigint" => integer(64)?,
        "year" => fixed(Unsigned::<UInt16Type>::up_to(2155), DataType::UInt16),
        "float" => fixed(Single(Style::Go), DataType::Float32),
        "double" => fixed(Double(Style::Go), DataType::Float64),
        "decimal" if !mysql.contains('(') => (DataType::Utf8, Box::new(Derived::new(plain_decimal()))),
        "bit" => match length_of(mysql)? {
            1 => fixed(OneBit, DataType::UInt64),
            bits @ 2..=64 => fixed(Bits { bytes: bits.div_ceil(8), bits }, DataType::UInt64),
            _ => return None,
        },
        "date" => counted::<Date32Type>(DAYS, 1, 1, DataType::Date32),
        "datetime" => clock(match length_of(mysql)? {
            3 => 1000,
            6 => 1,
            _ => return None,
        }),
        "time" if mysql == "time(6)" => (DataType::Utf8, Box::new(Derived::new(time(1000, MOST_TIME_US, 6)))),
        "timestamp" => {
            let arrow = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
            fixed(Instant { digits: digits_of(mysql)?.into(), epoch: true }, arrow)
        }
        "enum" | "set" if mysql.contains('(') => texts(),
        "json" | "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => texts(),
        "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => base64(),
        _ => return None,
    })
}
