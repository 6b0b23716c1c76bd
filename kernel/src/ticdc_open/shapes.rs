//! Mirrors protocols/ticdc_open/shapes.py: a shape, compiled: the literal bytes between the values of its rows, and a column for each value.
//!
//! ```text
//! {"u":{"id":{"t":8,"h":true,"f":11,"v": 7 },"qty":{"t":3,"f":65,"v": 2 }},"p":{"id":{… 7 },"qty":{… 1 }}}
//! └ new[0] ────────────────────────────┘   └ new[1] ──────────────┘   └ old[0]     └ old[1]         END ┘
//! ```
//!
//! Rule 1. Both images have all columns, in the same order. Others (`p` with the changed columns only) are not for here.
//! Rule 2. Names are spelled by both of the producers' JSON writers; where they differ there is a route for each.
//! Rule 3. What decides between shapes of equal literals is the number of fraction digits in temporal values. Such a
//!         column has a *slot*, a bit: set in a row's mask when its value is not NULL.

use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_schema::{DataType, Field, TimeUnit};
use serde::Deserialize;

use crate::columns::{Bytes, Column, Fixed, Spelling, Vectors};
use crate::cursor::Cursor;
use crate::forms::{Day, Double, Form, Moment, Signed, Single, Unsigned};
use crate::rows::{Image, Named, Op, Rows};
use crate::spelling::{go, html};

/// What ends a column, its image and the message.
const END: &[u8] = b"}}}";
const MAX_SLOTS: usize = 64;
const BINARY: u64 = 1;

/// A shape as Python describes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    pub database: String,
    pub table: String,
    columns: Vec<Described>,
    wire: Wire,
}

#[derive(Debug, Deserialize)]
struct Described {
    name: String,
    #[serde(rename = "type")]
    mysql: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    columns: Vec<WireColumn>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireColumn {
    t: u8,
    h: Option<bool>,
    f: Option<u64>,
}

/// One spelling of the messages of one shape.
pub struct Route {
    /// The number of the shape.
    pub shape: usize,
    /// Routes of shapes registered before that match the same messages, unless a row fills one of the slots.
    pub earlier: Vec<(usize, u64)>,
    new: Vec<Vec<u8>>,
    old: Vec<Vec<u8>>,
    deleted: Vec<Vec<u8>>,
    slots: Vec<u64>,
    digits: Vec<usize>,
}

/// Which of the images a message has, and the slots it fills.
pub struct Match {
    pub op: Op,
    pub mask: u64,
}

impl Route {
    /// Whether a row value begins as this route's do: a look that costs nothing to undo.
    pub fn opens(&self, value: &[u8]) -> bool {
        [&self.new, &self.deleted]
            .iter()
            .any(|image| image.first().is_some_and(|first| Cursor::new(value).eat(first).is_some()))
    }

    /// Reads a row value; `lone` is the op of a `u` without `p`.
    pub fn read(&self, rows: &mut Rows, value: &[u8], lone: Op) -> Option<Match> {
        let mut c = Cursor::new(value);
        if value.starts_with(b"{\"d\"") {
            let mask = self.image(&self.deleted, &mut rows.before, &mut c)?;
            return (c.rest() == END).then_some(Match { op: Op::Delete, mask });
        }
        let mask = self.image(&self.new, &mut rows.after, &mut c)?;
        if c.rest() == END {
            return Some(Match { op: lone, mask });
        }
        let mask = mask | self.image(&self.old, &mut rows.before, &mut c)?;
        (c.rest() == END).then_some(Match { op: Op::Update, mask })
    }

    #[inline]
    fn image(&self, literals: &[Vec<u8>], image: &mut Image, c: &mut Cursor<'_>) -> Option<u64> {
        let mut mask = 0;
        for ((literal, slot), column) in literals.iter().zip(&self.slots).zip(image.columns()) {
            c.eat(literal)?;
            if column.read(c)? {
                mask |= slot;
            }
        }
        Some(mask)
    }

    /// Whether both match the same messages, but for digits.
    pub fn is_like(&self, other: &Self) -> bool {
        self.new == other.new
    }

    /// Adds the route to its table's, knowing whom it must give way to.
    pub fn join(mut self, routes: &mut Vec<Self>) {
        let alike = routes.iter().enumerate().filter(|(_, other)| self.is_like(other));
        self.earlier = alike.map(|(at, other)| (at, self.difference(other))).collect();
        routes.push(self);
    }

    /// The slots in which the digits differ.
    fn difference(&self, other: &Self) -> u64 {
        let digits = self.digits.iter().zip(&other.digits);
        self.slots.iter().zip(digits).filter(|(_, (mine, others))| mine != others).map(|(slot, _)| slot).sum()
    }
}

/// All that is compiled of a shape.
pub struct Compiled {
    /// The key's bytes from `,"scm"` to the end of the table's name, in every spelling.
    pub names: Vec<Vec<u8>>,
    pub routes: Vec<Route>,
    pub rows: Rows,
    /// What determines the columns of its rows.
    pub kind: String,
}

/// Compiles the shape with this number; None if the kernel does not support a part of it.
///
/// `ahead` is how many microseconds the producer's clock is ahead of UTC, or nothing when that depends on the day.
pub fn compile(shape: &Shape, number: usize, ahead: Option<i64>) -> Option<Compiled> {
    if shape.columns.len() != shape.wire.columns.len() || shape.columns.is_empty() {
        return None;
    }
    let mut routes = vec![shape.route(number, html)?, shape.route(number, go)?];
    routes.dedup_by(|a, b| a.new == b.new);
    let names = [html, go].map(|write: Writer| {
        format!(",\"scm\":{},\"tbl\":{}", write(&shape.database), write(&shape.table)).into_bytes()
    });
    let rows = Rows::new(Image::new(shape.columns(ahead)?), Image::new(shape.columns(ahead)?));
    let kind = format!("{:?}{:?}", shape.columns, shape.wire.columns);
    Some(Compiled { names: names.to_vec(), routes, rows, kind })
}

impl Shape {
    fn route(&self, shape: usize, write: Writer) -> Option<Route> {
        let digits: Vec<_> = self.columns.iter().map(|c| fraction_digits(&c.mysql)).collect();
        let mut free = (0..MAX_SLOTS).map(|bit| 1 << bit);
        let slots = digits.iter().map(|d| if d.is_some() { free.next() } else { Some(0) }).collect::<Option<_>>()?;
        Some(Route {
            shape,
            earlier: Vec::new(),
            new: self.literals("{\"u\":{", write),
            old: self.literals("}},\"p\":{", write),
            deleted: self.literals("{\"d\":{", write),
            slots,
            digits: digits.into_iter().map(Option::unwrap_or_default).collect(),
        })
    }

    /// What stands before each value of an image that begins with `open`.
    fn literals(&self, open: &str, write: Writer) -> Vec<Vec<u8>> {
        let openings = std::iter::once(open).chain(std::iter::repeat("},"));
        let columns = self.columns.iter().zip(&self.wire.columns).zip(openings);
        let text = columns.map(|((column, wire), opening)| {
            let h = wire.h.map(|h| format!("\"h\":{h},")).unwrap_or_default();
            let f = wire.f.map(|f| format!("\"f\":{f},")).unwrap_or_default();
            format!("{opening}{}:{{\"t\":{},{h}{f}\"v\":", write(&column.name), wire.t)
        });
        text.map(String::into_bytes).collect()
    }

    fn columns(&self, ahead: Option<i64>) -> Option<Vec<Named>> {
        let columns = self.columns.iter().zip(&self.wire.columns);
        let named = columns.map(|(described, wire)| {
            let (arrow, column) = column(&described.mysql, wire, ahead)?;
            Some(Named { name: described.name.clone(), mysql: described.mysql.clone(), arrow, column })
        });
        named.collect()
    }
}

/// Fraction digits of a datetime or timestamp; nothing for another type.
fn fraction_digits(mysql: &str) -> Option<usize> {
    let digits = mysql.strip_prefix("datetime").or_else(|| mysql.strip_prefix("timestamp"))?;
    match digits.strip_prefix('(') {
        None => Some(0),
        Some(inside) => inside.strip_suffix(')')?.parse().ok(),
    }
}

type Typed = (DataType, Box<dyn Column>);

/// An empty column for values of this type, spelled as `t` and `f` declare.
fn column(mysql: &str, wire: &WireColumn, ahead: Option<i64>) -> Option<Typed> {
    if let Some(digits) = fraction_digits(mysql) {
        let (ahead, zone) = if mysql.starts_with("datetime") { (0, None) } else { (ahead?, Some("UTC".into())) };
        let arrow = DataType::Timestamp(TimeUnit::Microsecond, zone);
        return Some((arrow.clone(), Box::new(Fixed::new(Moment { digits, ahead }, arrow))));
    }
    Some(match (wire.t, mysql) {
        (1, "tinyint") => fixed(Signed::<Int8Type>::bits(8), DataType::Int8),
        (1, "tinyint unsigned") => fixed(Unsigned::<UInt8Type>::bits(8), DataType::UInt8),
        (2, "smallint") => fixed(Signed::<Int16Type>::bits(16), DataType::Int16),
        (2, "smallint unsigned") => fixed(Unsigned::<UInt16Type>::bits(16), DataType::UInt16),
        (3, "int") => fixed(Signed::<Int32Type>::bits(32), DataType::Int32),
        (3, "int unsigned") => fixed(Unsigned::<UInt32Type>::bits(32), DataType::UInt32),
        (9, "mediumint") => fixed(Signed::<Int32Type>::bits(24), DataType::Int32),
        (9, "mediumint unsigned") => fixed(Unsigned::<UInt32Type>::bits(24), DataType::UInt32),
        (8, "bigint") => fixed(Signed::<Int64Type>::bits(64), DataType::Int64),
        (8, "bigint unsigned") | (16, "bit") | (248, "set") => {
            fixed(Unsigned::<UInt64Type>::bits(64), DataType::UInt64)
        }
        (247, "enum") => fixed(Unsigned::<UInt16Type>::bits(16), DataType::UInt16),
        (13, "year") => fixed(Unsigned::<UInt16Type>::up_to(2155), DataType::UInt16),
        (4, "float") => fixed(Single, DataType::Float32),
        (5, "double") => fixed(Double, DataType::Float64),
        (10 | 14, "date") => fixed(Day, DataType::Date32),
        (11, "time") => bytes(Spelling::Time, true),
        (246, "decimal") => bytes(Spelling::Decimal, true),
        (245, "json") => bytes(Spelling::Plain, true),
        (15 | 253 | 254, "char" | "varchar") if !is_binary(wire) => bytes(Spelling::Plain, true),
        (15 | 253 | 254, "binary" | "varbinary") if is_binary(wire) => bytes(Spelling::Quoted, false),
        (249..=252, "tinytext" | "text" | "mediumtext" | "longtext") if !is_binary(wire) => {
            bytes(Spelling::Base64, true)
        }
        (249..=252, "tinyblob" | "blob" | "mediumblob" | "longblob") if is_binary(wire) => {
            bytes(Spelling::Base64, false)
        }
        (225, "vector") => {
            let item = Field::new_list_field(DataType::Float32, true);
            (DataType::List(item.into()), Box::new(Vectors::empty()))
        }
        _ => return None,
    })
}

fn fixed<F: Form + 'static>(form: F, arrow: DataType) -> Typed {
    (arrow.clone(), Box::new(Fixed::new(form, arrow)))
}

fn bytes(spelling: Spelling, text: bool) -> Typed {
    (if text { DataType::Utf8 } else { DataType::Binary }, Box::new(Bytes::new(spelling, text)))
}

fn is_binary(wire: &WireColumn) -> bool {
    wire.f.unwrap_or_default() & BINARY != 0
}

type Writer = fn(&str) -> String;
