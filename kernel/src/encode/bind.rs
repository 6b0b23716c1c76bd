//! Kernel only: columns of a batch, each bound to the form in which its values are written.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, BinaryArray, PrimitiveArray};
use arrow_schema::DataType;

use super::strings::{Printable, string};
use super::templates::{Column, Form, Json, Spelled};
use super::{instants, numbers};

/// A column that writes its values.
pub trait Cell {
    /// Appends the value of a row; nothing when there are no words for it.
    fn write(&self, row: usize, out: &mut Vec<u8>) -> Option<()>;
}

impl<F: Fn(usize, &mut Vec<u8>) -> Option<()>> Cell for F {
    fn write(&self, row: usize, out: &mut Vec<u8>) -> Option<()> {
        self(row, out)
    }
}

type Bound<'a> = Box<dyn Cell + 'a>;

/// The column in its form; nothing when its Arrow type is not the form's.
pub fn bind<'a>(column: &'a Column, array: &'a ArrayRef, printable: &Arc<Printable>) -> Option<Bound<'a>> {
    let value = form(&column.form, array, printable)?;
    let null = column.null.as_bytes();
    if array.logical_null_count() == 0 {
        return Some(value);
    }
    let absent = array.logical_nulls()?;
    Some(Box::new(move |row, out: &mut Vec<u8>| {
        if absent.is_null(row) {
            out.extend_from_slice(null);
            return Some(());
        }
        value.write(row, out)
    }))
}

/// A head: a number, or text that is written as it is. NULL has no words.
pub fn head(array: &ArrayRef) -> Option<Bound<'_>> {
    let value = match array.data_type() {
        DataType::Utf8 => {
            let texts = Blobs::of(array)?;
            Box::new(move |row, out: &mut Vec<u8>| {
                out.extend_from_slice(texts.get(row)?);
                Some(())
            })
        }
        _ => integer(array)?,
    };
    Some(Box::new(move |row, out: &mut Vec<u8>| if array.is_null(row) { None } else { value.write(row, out) }))
}

fn form<'a>(form: &'a Form, array: &'a ArrayRef, printable: &Arc<Printable>) -> Option<Bound<'a>> {
    Some(match form {
        Form::Null => Box::new(|_, _: &mut Vec<u8>| None),
        Form::Integer => integer(array)?,
        Form::Wrapped => each::<UInt64Type>(array, |value, out| numbers::integer(value.cast_signed(), out))?,
        Form::Flag | Form::Boolean => truth(form, array)?,
        Form::Float(spelled) => float(*spelled, array)?,
        Form::Double(spelled) => double(*spelled, array)?,
        Form::Text(json) => blobs(array, |text, out| string(text, *json, out))?,
        Form::Base64 => blobs(array, numbers::base64)?,
        Form::Quoted(json) => quoted(*json, array, printable.clone())?,
        Form::Member(members) => member(members, array)?,
        Form::Members(members) => sum(members, array)?,
        Form::Decimal => decimal(array)?,
        Form::Unscaled => unscaled(array)?,
        Form::Bits(bytes) => each::<UInt64Type>(array, move |value, out| {
            let value = value.to_le_bytes();
            let (least, rest) = value.split_at_checked(*bytes)?;
            if rest.iter().any(|&b| b != 0) { None } else { numbers::base64(least, out) }
        })?,
        Form::Day => each::<Date32Type>(array, |days, out| {
            out.push(b'"');
            instants::date(days.into(), out)?;
            out.push(b'"');
            Some(())
        })?,
        Form::Moment(moment) => {
            each::<TimestampMicrosecondType>(array, move |us, out| instants::moment(us, moment, out))?
        }
        Form::Count(count) => match array.data_type() {
            DataType::Date32 => each::<Date32Type>(array, move |days, out| instants::count(days.into(), count, out))?,
            _ => each::<TimestampMicrosecondType>(array, move |us, out| instants::count(us, count, out))?,
        },
        Form::Time(form) => blobs(array, move |text, out| instants::count(instants::microseconds(text)?, form, out))?,
        Form::Vector => vector(array, numbers::vector)?,
        Form::Numbers(spelled) => vector(array, |items, out| numbers::list(items, *spelled, out))?,
    })
}

/// A primitive column whose values are written one by one.
fn each<'a, T: ArrowPrimitiveType>(
    array: &'a ArrayRef,
    write: impl Fn(T::Native, &mut Vec<u8>) -> Option<()> + 'a,
) -> Option<Bound<'a>> {
    let array: &PrimitiveArray<T> = array.as_primitive_opt()?;
    let values = array.values();
    Some(Box::new(move |row: usize, out: &mut Vec<u8>| write(*values.get(row)?, out)))
}

fn integer(array: &ArrayRef) -> Option<Bound<'_>> {
    match array.data_type() {
        DataType::Int8 => each::<Int8Type>(array, |value, out| numbers::integer(value.into(), out)),
        DataType::Int16 => each::<Int16Type>(array, |value, out| numbers::integer(value.into(), out)),
        DataType::Int32 => each::<Int32Type>(array, |value, out| numbers::integer(value.into(), out)),
        DataType::Int64 => each::<Int64Type>(array, numbers::integer),
        DataType::UInt8 => each::<UInt8Type>(array, |value, out| numbers::integer(value.into(), out)),
        DataType::UInt16 => each::<UInt16Type>(array, |value, out| numbers::integer(value.into(), out)),
        DataType::UInt32 => each::<UInt32Type>(array, |value, out| numbers::integer(value.into(), out)),
        DataType::UInt64 => each::<UInt64Type>(array, numbers::unsigned),
        _ => None,
    }
}

fn truth<'a>(form: &'a Form, array: &'a ArrayRef) -> Option<Bound<'a>> {
    let (yes, no): (&[u8], &[u8]) = if matches!(form, Form::Flag) { (b"1", b"0") } else { (b"true", b"false") };
    if array.data_type() == &DataType::UInt64 {
        return each::<UInt64Type>(array, move |value, out| {
            out.extend_from_slice(if value != 0 { yes } else { no });
            Some(())
        });
    }
    let values = array.as_boolean_opt()?.values();
    Some(Box::new(move |row, out: &mut Vec<u8>| {
        out.extend_from_slice(if values.value(row) { yes } else { no });
        Some(())
    }))
}

fn float(spelled: Spelled, array: &ArrayRef) -> Option<Bound<'_>> {
    match array.data_type() {
        DataType::Float32 => each::<Float32Type>(array, move |value, out| numbers::single(value, spelled, out)),
        _ => each::<Float64Type>(array, move |value, out| numbers::double(value, spelled, out)),
    }
}

/// A decimal: its digits, and how many of them are behind the point.
fn digits(array: &ArrayRef) -> Option<Bound<'_>> {
    match array.data_type() {
        DataType::Decimal128(_, scale) => {
            let scale = usize::try_from(*scale).ok()?;
            each::<Decimal128Type>(array, move |value, out| match i64::try_from(value) {
                Ok(value) => numbers::decimal(numbers::digits(value, &mut [0; 20]), scale, out),
                Err(_) => numbers::decimal(&value.to_string(), scale, out),
            })
        }
        DataType::Decimal256(_, scale) => {
            let scale = usize::try_from(*scale).ok()?;
            each::<Decimal256Type>(array, move |value, out| numbers::decimal(&value.to_string(), scale, out))
        }
        _ => None,
    }
}

fn decimal(array: &ArrayRef) -> Option<Bound<'_>> {
    if array.data_type() == &DataType::Utf8 {
        return blobs(array, |text, out| string(text, Json::Html, out));
    }
    let value = digits(array)?;
    Some(Box::new(move |row, out: &mut Vec<u8>| {
        out.push(b'"');
        value.write(row, out)?;
        out.push(b'"');
        Some(())
    }))
}

fn double(spelled: Spelled, array: &ArrayRef) -> Option<Bound<'_>> {
    if array.data_type() == &DataType::Utf8 {
        return blobs(array, move |text, out| numbers::double(numbers::nearest(text)?, spelled, out));
    }
    let value = digits(array)?;
    Some(Box::new(move |row, out: &mut Vec<u8>| {
        let start = out.len();
        value.write(row, out)?;
        let number = numbers::nearest(out.get(start..)?)?;
        out.truncate(start);
        numbers::double(number, spelled, out)
    }))
}

fn unscaled(array: &ArrayRef) -> Option<Bound<'_>> {
    match array.data_type() {
        DataType::Decimal128(..) => {
            each::<Decimal128Type>(array, |value, out| numbers::unscaled(&value.to_be_bytes(), out))
        }
        DataType::Decimal256(..) => {
            each::<Decimal256Type>(array, |value, out| numbers::unscaled(&value.to_be_bytes(), out))
        }
        DataType::UInt64 => {
            each::<UInt64Type>(array, |value, out| numbers::unscaled(&i128::from(value).to_be_bytes(), out))
        }
        _ => None,
    }
}

/// Texts, as bytes that are known to be UTF-8, or bytes.
#[derive(Clone, Copy)]
struct Blobs<'a> {
    ends: &'a [i32],
    data: &'a [u8],
}

impl<'a> Blobs<'a> {
    fn of(array: &'a ArrayRef) -> Option<Self> {
        if let Some(array) = array.as_binary_opt::<i32>() {
            let array: &BinaryArray = array;
            return Some(Self { ends: array.value_offsets(), data: array.value_data() });
        }
        let array = array.as_string_opt::<i32>()?;
        let (ends, data) = (array.value_offsets(), array.value_data());
        let (first, last) = (usize::try_from(*ends.first()?).ok()?, usize::try_from(*ends.last()?).ok()?);
        simdutf8::basic::from_utf8(data.get(first..last)?).ok()?;
        Some(Self { ends, data })
    }

    fn get(self, row: usize) -> Option<&'a [u8]> {
        let (start, end) = (*self.ends.get(row)?, *self.ends.get(row + 1)?);
        self.data.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }
}

fn blobs<'a>(array: &'a ArrayRef, write: impl Fn(&[u8], &mut Vec<u8>) -> Option<()> + 'a) -> Option<Bound<'a>> {
    let blobs = Blobs::of(array)?;
    Some(Box::new(move |row, out: &mut Vec<u8>| write(blobs.get(row)?, out)))
}

fn quoted(json: Json, array: &ArrayRef, printable: Arc<Printable>) -> Option<Bound<'_>> {
    blobs(array, move |data, out| {
        let mut text = Vec::with_capacity(data.len());
        printable.quote(data, &mut text)?;
        string(&text, json, out)
    })
}

fn places(members: &[String]) -> HashMap<&[u8], usize> {
    members.iter().enumerate().map(|(place, member)| (member.as_bytes(), place)).collect()
}

fn member<'a>(members: &'a [String], array: &'a ArrayRef) -> Option<Bound<'a>> {
    let places = places(members);
    blobs(array, move |label, out| match places.get(label) {
        Some(place) => numbers::unsigned(u64::try_from(place + 1).ok()?, out),
        None if label.is_empty() => numbers::integer(0, out),
        None => None,
    })
}

fn sum<'a>(members: &'a [String], array: &'a ArrayRef) -> Option<Bound<'a>> {
    let places = places(members);
    blobs(array, move |labels, out| {
        if labels.is_empty() {
            return numbers::integer(0, out);
        }
        let bits = labels.split(|&b| b == b',').map(|label| places.get(label).map(|place| 1u128 << place));
        let sum = bits.sum::<Option<u128>>()?;
        out.extend_from_slice(sum.to_string().as_bytes());
        Some(())
    })
}

fn vector<'a>(array: &'a ArrayRef, write: impl Fn(&[f32], &mut Vec<u8>) -> Option<()> + 'a) -> Option<Bound<'a>> {
    let lists = array.as_list_opt::<i32>()?;
    let (ends, items) = (lists.value_offsets(), lists.values().as_primitive_opt::<Float32Type>()?);
    if items.null_count() > 0 || !matches!(array.data_type(), DataType::List(_)) {
        return None;
    }
    let values = items.values();
    Some(Box::new(move |row: usize, out: &mut Vec<u8>| {
        let (start, end) = (*ends.get(row)?, *ends.get(row + 1)?);
        write(values.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)?, out)
    }))
}
