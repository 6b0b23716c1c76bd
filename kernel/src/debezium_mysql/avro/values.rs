//! Mirrors protocols/debezium_mysql/values/reading.py: the column for a field, by its MySQL type and its Avro type.
//!
//! ```text
//! int      tinyint smallint int, date in days, time(3) in ms, year       long     bigint, time(6) datetime(3|6) in their unit
//! string   varchar json char(36), enum and set, timestamp as ISO text    bytes    varbinary, bit(n), decimal(p,s)
//! float    float                     double   double                     boolean  boolean
//! ```
//!
//! Geometries, vectors, what is JSON made of Avro, and isostring times have no column here.

use std::marker::PhantomData;

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Int8Type, Int16Type, TimestampMicrosecondType, UInt16Type, UInt64Type,
};
use arrow_schema::{DataType, TimeUnit};

use super::schema::{Kind, Place};
use crate::avro::columns::{Branched, Made, Raw, Values};
use crate::avro::forms::{Decimal, Double, Int, Long, LongDecimal, Single};
use crate::avro::{bytes, int, long};
use crate::check::Check;
use crate::columns::{Column, Fixed};
use crate::cursor::Cursor;
use crate::debezium::columns::Booleans;
use crate::debezium::derived::push_time;
use crate::debezium::forms::instant;
use crate::debezium::shapes::{Typed, digits_of, length_of};
use crate::debezium_mysql::shapes::{DAY_US, DAYS, MOST_SHORT_TIME_US, MOST_TIME_US, YEARS, members};
use crate::forms::Form;

/// An empty column of this MySQL type; nothing when the kernel has none for it. `numeric`: decimals are numbers.
pub fn column(place: &Place, mysql: &str, numeric: bool) -> Option<Typed> {
    let name = mysql.split_once('(').map_or(mysql, |(name, _)| name);
    Some(match (place.kind, name, place.unit()) {
        (Kind::Int, "tinyint", _) => place.counted::<Int8Type>((-128, 127), 1, 1, DataType::Int8),
        (Kind::Int, "smallint", _) => place.counted::<Int16Type>((-32_768, 32_767), 1, 1, DataType::Int16),
        (Kind::Int, "int", _) => place.fixed(Int, DataType::Int32),
        (Kind::Long, "bigint", _) => place.fixed(Long, DataType::Int64),
        (Kind::Int, "date", _) => place.counted::<Date32Type>(DAYS, 1, 1, DataType::Date32),
        (Kind::Int, "year", _) => place.counted::<UInt16Type>((0, YEARS.try_into().ok()?), 1, 1, DataType::UInt16),
        (Kind::Int, "time", _) if mysql == "time(3)" => place.time(1_000_000, MOST_SHORT_TIME_US, 3),
        (Kind::Long, "time", "MicroTime") if mysql == "time(6)" => place.time(1000, MOST_TIME_US, 6),
        (Kind::Long, "time", "NanoTime") if mysql == "time(6)" => place.time(1, MOST_TIME_US, 6),
        (Kind::Long, "datetime", "Timestamp") if mysql == "datetime(3)" => place.moment(1000, 1),
        (Kind::Long, "datetime", "MicroTimestamp") if mysql == "datetime(6)" => place.moment(1, 1),
        (Kind::Long, "datetime", "NanoTimestamp") if mysql == "datetime(6)" => place.moment(1, 1000),
        (Kind::String, "timestamp", _) => {
            let zoned = Zoned { digits: digits_of(mysql)?.into() };
            place.fixed(zoned, DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())))
        }
        (Kind::String, "varchar" | "json" | "char", _) => (DataType::Utf8, place.column(Raw::new(Check::Utf8))),
        (Kind::String, "enum" | "set", _) => place.labels(name == "set")?,
        (Kind::Bytes, "varbinary", _) => (DataType::Binary, place.column(Raw::new(Check::Bytes))),
        (Kind::Bytes, "bit", _) => place.fixed(LittleBits { bytes: length_of(mysql)?.div_ceil(8) }, DataType::UInt64),
        (Kind::Bytes, "decimal", _) if !numeric => place.decimal(mysql)?,
        (Kind::Float, "float", _) => place.fixed(Single, DataType::Float32),
        (Kind::Double, "double", _) => place.fixed(Double, DataType::Float64),
        (Kind::Boolean, "boolean", _) => (DataType::Boolean, place.column(Booleans::default())),
        _ => return None,
    })
}

impl Place {
    fn column<V: Values + 'static>(&self, values: V) -> Box<dyn Column> {
        Box::new(Branched::new(self.union, values))
    }

    fn fixed<F: Form + 'static>(&self, form: F, arrow: DataType) -> Typed {
        (arrow.clone(), self.column(Fixed::new(form, arrow)))
    }

    fn counted<T: ArrowPrimitiveType<Native: TryFrom<i64>> + 'static>(
        &self,
        range: (i64, i64),
        times: i64,
        over: i64,
        arrow: DataType,
    ) -> Typed {
        let wide = self.kind == Kind::Long;
        self.fixed(Counted::<T> { wide, range, times, over, arrow: PhantomData }, arrow)
    }

    fn moment(&self, times: i64, over: i64) -> Typed {
        let (first, last) = (DAYS.0 * DAY_US, (DAYS.1 + 1) * DAY_US - 1);
        let scaled = |us: i64| (us / times).saturating_mul(over);
        let arrow = DataType::Timestamp(TimeUnit::Microsecond, None);
        self.counted::<TimestampMicrosecondType>((scaled(first), scaled(last)), times, over, arrow)
    }

    fn time(&self, unit_ns: i128, most: i64, digits: usize) -> Typed {
        let wide = self.kind == Kind::Long;
        let make = Made::new(Box::new(move |c, out| {
            let count = if wide { long(c)? } else { int(c)? };
            push_time(i128::from(count) * unit_ns, most, digits, out)
        }));
        (DataType::Utf8, self.column(make))
    }

    /// Strings that are one of the members, or with `many` several of them with commas between, or none.
    fn labels(&self, many: bool) -> Option<Typed> {
        let members = members(self.allowed.as_ref()?);
        let known = move |label: &[u8]| members.iter().any(|m| m.as_bytes() == label);
        let make = Made::new(Box::new(move |c, out| {
            let raw = bytes(c)?;
            out.extend_from_slice(raw);
            let good = if many { raw.split(|&b| b == b',').all(|l| l.is_empty() || known(l)) } else { known(raw) };
            good.then_some(())
        }));
        Some((DataType::Utf8, self.column(make)))
    }

    fn decimal(&self, mysql: &str) -> Option<Typed> {
        let inside = mysql.strip_prefix("decimal(")?.strip_suffix(')')?;
        let (precision, scale) = inside.split_once(',')?;
        let (precision, scale) = (precision.parse::<u8>().ok()?, scale.parse().ok()?);
        Some(if precision <= 38 {
            self.fixed(Decimal::digits(precision.into())?, DataType::Decimal128(precision, scale))
        } else {
            self.fixed(LongDecimal::digits(precision.into())?, DataType::Decimal256(precision, scale))
        })
    }
}

impl Values for Booleans {
    fn value(&mut self, c: &mut Cursor<'_>) -> Option<()> {
        match c.byte()? {
            flag @ 0..=1 => self.push(flag == 1),
            _ => return None,
        }
        Some(())
    }

    fn null(&mut self) -> Option<()> {
        self.push_null();
        Some(())
    }
}

/// A long (`wide`) or an int that counts something: in a range, then times or divided by a factor.
struct Counted<T> {
    wide: bool,
    range: (i64, i64),
    times: i64,
    over: i64,
    arrow: PhantomData<fn() -> T>,
}

impl<T: ArrowPrimitiveType<Native: TryFrom<i64>>> Form for Counted<T> {
    type Arrow = T;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<T::Native> {
        let number = if self.wide { long(c)? } else { int(c)? };
        if !(self.range.0..=self.range.1).contains(&number) || number % self.over != 0 {
            return None;
        }
        (number / self.over).checked_mul(self.times)?.try_into().ok()
    }
}

/// A string `YYYY-MM-DDTHH:MM:SS.fZ` with exactly `digits` of a fraction.
struct Zoned {
    digits: usize,
}

impl Form for Zoned {
    type Arrow = TimestampMicrosecondType;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<i64> {
        instant(bytes(c)?, self.digits)
    }
}

/// Exactly so many bytes of a number, the least first.
struct LittleBits {
    bytes: usize,
}

impl Form for LittleBits {
    type Arrow = UInt64Type;

    #[inline]
    fn read(&self, c: &mut Cursor<'_>) -> Option<u64> {
        let mut whole = [0; 8];
        let sent = bytes(c)?;
        whole.get_mut(..self.bytes)?.copy_from_slice(if sent.len() == self.bytes { sent } else { return None });
        Some(u64::from_le_bytes(whole))
    }
}
