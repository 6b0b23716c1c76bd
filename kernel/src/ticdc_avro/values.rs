//! Mirrors protocols/ticdc_avro/values.py: the column for a field, by its MySQL type and its Avro type.

use arrow_array::types::{UInt16Type, UInt32Type};
use arrow_schema::{DataType, Field, TimeUnit};

use crate::avro::Union;
use crate::avro::columns::{Branched, Raw, Values};
use crate::avro::forms::{Bits, Day, Decimal, Digits, Double, Int, Long, LongDecimal, Natural, Single, Text, Wrapped};
use crate::check::Check;
use crate::columns::{Column, Fixed, Vectors};
use crate::forms::{Form, Moment};

/// A column and the Arrow type that it makes.
pub type Typed = (DataType, Box<dyn Column>);

/// How a column's values stand in a datum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Name of the field.
    pub name: String,
    /// Avro's type under the union.
    pub kind: String,
    /// The union.
    pub union: Union,
}

/// An empty column of this MySQL type; nothing when the kernel has none for it.
///
/// `ahead` is how many microseconds the producer's clock is ahead of UTC, or nothing when that depends on the day.
pub fn column(mysql: &str, place: &Place, ahead: Option<i64>) -> Option<Typed> {
    let (union, fixed) = (place.union, Under(place.union));
    let raw = |arrow, check| (arrow, boxed(union, Raw::new(check)));
    let (name, inside) = named(mysql);
    Some(match (place.kind.as_str(), name) {
        ("int", "int") => fixed.of(Int, DataType::Int32),
        ("int" | "long", "int unsigned") => {
            fixed.of(Natural::<UInt32Type>::up_to(u32::MAX.into(), place.kind == "long"), DataType::UInt32)
        }
        ("int", "year") => fixed.of(Natural::<UInt16Type>::up_to(2155, false), DataType::UInt16),
        ("long", "bigint") => fixed.of(Long, DataType::Int64),
        ("long", "bigint unsigned") => fixed.of(Wrapped, DataType::UInt64),
        ("string", "bigint unsigned") => fixed.of(Digits, DataType::UInt64),
        ("float", "float") => fixed.of(Single, DataType::Float32),
        ("double", "double") => fixed.of(Double, DataType::Float64),
        ("bytes", "decimal") => decimal(&fixed, inside)?,
        ("bytes", "bit") => fixed.of(Bits(inside.parse().ok()?), DataType::UInt64),
        ("bytes", "blob") => raw(DataType::Binary, Check::Bytes),
        ("string", "decimal") if inside.is_empty() => raw(DataType::Utf8, Check::Decimal),
        ("string", "text" | "json" | "enum" | "set") => raw(DataType::Utf8, Check::Utf8),
        ("string", "time") => raw(DataType::Utf8, Check::Time),
        ("string", "date") => fixed.of(Day, DataType::Date32),
        ("string", "datetime" | "timestamp") => {
            let (ahead, zone) = if name == "datetime" { (0, None) } else { (ahead?, Some("UTC".into())) };
            let form = Text(Moment { digits: fraction_digits(mysql)?, ahead });
            fixed.of(form, DataType::Timestamp(TimeUnit::Microsecond, zone))
        }
        ("string", "vector") => {
            let item = Field::new_list_field(DataType::Float32, true);
            (DataType::List(item.into()), boxed(union, Vectors::empty()))
        }
        _ => return None,
    })
}

/// Fraction digits of a datetime or timestamp; nothing for another type.
pub fn fraction_digits(mysql: &str) -> Option<usize> {
    match named(mysql) {
        ("datetime" | "timestamp", "") => Some(0),
        ("datetime" | "timestamp", digits) => digits.parse().ok(),
        _ => None,
    }
}

fn decimal(fixed: &Under, inside: &str) -> Option<Typed> {
    let (precision, scale) = inside.split_once(',')?;
    let (precision, scale) = (precision.parse::<u8>().ok()?, scale.parse().ok()?);
    Some(match precision {
        1..=38 => fixed.of(Decimal::digits(precision.into())?, DataType::Decimal128(precision, scale)),
        39..=76 => fixed.of(LongDecimal::digits(precision.into())?, DataType::Decimal256(precision, scale)),
        _ => return None,
    })
}

/// A type's name with its attributes, and what stands in the parentheses between them.
pub fn named(mysql: &str) -> (&str, &str) {
    let Some((name, rest)) = mysql.split_once('(') else { return (mysql, "") };
    (name, rest.strip_suffix(')').unwrap_or(rest))
}

struct Under(Union);

impl Under {
    fn of<F: Form + 'static>(&self, form: F, arrow: DataType) -> Typed {
        (arrow.clone(), boxed(self.0, Fixed::new(form, arrow)))
    }
}

fn boxed<V: Values + 'static>(union: Union, values: V) -> Box<dyn Column> {
    Box::new(Branched::new(union, values))
}
