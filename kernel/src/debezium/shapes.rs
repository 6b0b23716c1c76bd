//! Mirrors protocols/debezium_mysql/shapes.py, protocols/ticdc_debezium/shapes.py: shapes as Python describes them; columns by type.

use std::marker::PhantomData;

use arrow_array::types::{ArrowPrimitiveType, Int8Type, Int16Type, Int32Type, Int64Type};
use arrow_schema::DataType;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::columns::Texts;
use super::forms::Counted;
use super::group::{Open, code};
use crate::columns::{Bytes, Column, Fixed, Spelling};
use crate::forms::{Form, Signed};
use crate::rows::{Image, Named};

/// A shape.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape<'a> {
    /// Of the table.
    pub database: String,
    /// Of the table.
    pub table: String,
    /// In the order of both images.
    pub columns: Vec<Described>,
    /// Members of this protocol only.
    #[serde(borrow)]
    pub wire: &'a RawValue,
}

/// A column.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// The text of its type.
    #[serde(rename = "type")]
    pub mysql: String,
    /// Whether it belongs to the handle key; None if not known.
    pub key: Option<bool>,
}

impl Shape<'_> {
    /// What is known of each column's place in the handle key.
    pub fn keys(&self) -> Vec<Option<bool>> {
        self.columns.iter().map(|column| column.key).collect()
    }
}

/// An Arrow type and an empty column of it.
pub type Typed = (DataType, Box<dyn Column>);

/// Columns of both images; `typed` makes the column at a place.
pub fn images(columns: &[Described], typed: impl Fn(usize, &Described) -> Option<Typed>) -> Option<(Image, Image)> {
    let image = || {
        let named = columns.iter().enumerate().map(|(at, described)| {
            let (arrow, column) = typed(at, described)?;
            Some(Named { name: described.name.clone(), mysql: described.mysql.clone(), arrow, column })
        });
        named.collect::<Option<Vec<_>>>().map(Image::new)
    };
    Some((image()?, image()?))
}

/// A column of fixed width.
pub fn fixed<F: Form + 'static>(form: F, arrow: DataType) -> Typed {
    (arrow.clone(), Box::new(Fixed::new(form, arrow)))
}

/// A column of integers with sign.
pub fn integer(bits: u32) -> Option<Typed> {
    Some(match bits {
        8 => fixed(Signed::<Int8Type>::bits(8), DataType::Int8),
        16 => fixed(Signed::<Int16Type>::bits(16), DataType::Int16),
        24 | 32 => fixed(Signed::<Int32Type>::bits(bits), DataType::Int32),
        64 => fixed(Signed::<Int64Type>::bits(64), DataType::Int64),
        _ => return None,
    })
}

/// A column of numbers that count something else than 1.
pub fn counted<T: ArrowPrimitiveType<Native: TryFrom<i64>> + 'static>(
    range: (i64, i64),
    times: i64,
    over: i64,
    arrow: DataType,
) -> Typed {
    fixed(Counted::<T> { range, times, over, arrow: PhantomData }, arrow)
}

/// A column of texts.
pub fn texts() -> Typed {
    (DataType::Utf8, Box::new(Texts::default()))
}

/// A column of bytes in base64.
pub fn base64() -> Typed {
    (DataType::Binary, Box::new(Bytes::new(Spelling::Base64, false)))
}

/// The code that the type of a timestamp declares.
pub fn digits_of(mysql: &str) -> Option<u8> {
    match mysql.strip_prefix("timestamp")? {
        "" => Some(0),
        inside => inside.strip_prefix('(')?.strip_suffix(')')?.parse().ok().filter(|&d| d <= 6),
    }
}

/// The code that a column's type declares; `text` and `flag` are the types of strings and of `true` and `false` without a schema.
pub fn declared_code(mysql: &str, open: Open, text: &str, flag: &str) -> Option<u8> {
    match open {
        Open::No => Some(0),
        Open::Digits { .. } => digits_of(mysql).map(code::digits),
        Open::Kind { .. } => match mysql {
            "null" => Some(0),
            "bigint" => Some(code::INTEGER),
            "double" => Some(code::NUMBER),
            kind if kind == text => Some(code::TEXT),
            kind if kind == flag => Some(code::BOOL),
            _ => None,
        },
    }
}

/// The number in a type's parentheses.
pub fn length_of(mysql: &str) -> Option<usize> {
    mysql.split_once('(')?.1.strip_suffix(')')?.parse().ok()
}
