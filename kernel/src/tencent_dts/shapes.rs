//! Mirrors protocols/tencent_dts/shapes.py: shapes compiled: the bytes that describe their columns, and the encoding of each.
//!
//! ```text
//! 12 0b │ 0a 02 "id" │ 12 03 "int" │ 18 01     12 18 │ 0a 08 "customer" │ 12 0c "varchar(100)"
//! Column│ name       │ originalType│ isKey     the next one
//! ```
//!
//! Rule 1. Columns with properties, or with unknown fields, are not compiled.
//! Rule 2. Shapes with the same names and the same described columns are a family. A row belongs to the first of them, in
//!         the order of registration, that has its encoding: a NULL fits every encoding.

use std::collections::HashMap;

use serde::Deserialize;

use super::rows::Rows;
use super::values::{Encoding, column};
use crate::rows::{Image, Named};

/// A shape as Python describes it.
#[derive(Deserialize)]
pub struct Shape {
    database: String,
    table: String,
    columns: Vec<Described>,
    wire: Wire,
}

#[derive(Debug, Deserialize)]
struct Described {
    name: String,
    #[serde(rename = "type")]
    mysql: String,
    key: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    #[serde(rename = "tencent-dts")]
    members: HashMap<String, Members>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Members {
    original_type: Option<String>,
    data_type: Option<i64>,
    charset: Option<String>,
}

impl Members {
    fn encoding(&self, mysql: &str) -> Option<Encoding> {
        let usual = match self.data_type {
            Some(sent) => Encoding { sent: sent.try_into().ok()?, charset: String::new() },
            None => Encoding::usual(mysql)?,
        };
        Some(Encoding { charset: self.charset.clone().unwrap_or(usual.charset), ..usual })
    }
}

impl Shape {
    /// Database and table, as a key.
    pub fn names(&self) -> Vec<u8> {
        let mut names = Vec::new();
        write_names((self.database.as_bytes(), self.table.as_bytes()), &mut names);
        names
    }

    /// The bytes of its columns' descriptions.
    pub fn described(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for described in &self.columns {
            let original = self.wire.members.get(&described.name).and_then(|m| m.original_type.as_ref());
            let mut column = Vec::new();
            write_field(0x0a, described.name.as_bytes(), &mut column);
            write_field(0x12, original.unwrap_or(&described.mysql).as_bytes(), &mut column);
            if described.key {
                column.extend([0x18, 1]);
            }
            write_sized(0x12, &column, &mut out); // also of an empty column
        }
        out
    }

    /// Its rows, of which there are none yet; None if the kernel does not support a column. `signed`: BIT(64) may be negative.
    pub fn rows(&self, signed: bool) -> Option<Rows> {
        Some(Rows::new(self.image(signed)?, self.image(signed)?))
    }

    /// What determines the columns of its rows.
    pub fn kind(&self) -> String {
        let members = self.columns.iter().map(|described| self.wire.members.get(&described.name));
        format!("{:?}{:?}", self.columns, members.collect::<Vec<_>>())
    }

    fn image(&self, signed: bool) -> Option<Image> {
        let usual = Members::default();
        let columns = self.columns.iter().map(|described| {
            let members = self.wire.members.get(&described.name).unwrap_or(&usual);
            let (arrow, column) = column(&described.mysql, &members.encoding(&described.mysql)?, signed)?;
            Some(Named { name: described.name.clone(), mysql: described.mysql.clone(), arrow, column })
        });
        let columns: Vec<_> = columns.collect::<Option<_>>()?;
        (!columns.is_empty()).then(|| Image::new(columns))
    }
}

/// Writes database and table as a key: 0xff is in no text.
pub fn write_names((database, table): (&[u8], &[u8]), out: &mut Vec<u8>) {
    out.extend_from_slice(database);
    out.push(0xff);
    out.extend_from_slice(table);
}

/// Writes bytes behind a tag and their length, unless there are none.
fn write_field(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    if !bytes.is_empty() {
        write_sized(tag, bytes, out);
    }
}

/// Writes bytes behind a tag and their length.
fn write_sized(tag: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
}
