//! Mirrors mysql/binlog/rows.py, mysql/binlog/values.py: tables compiled: a column for each type, and rows by the columns of their images.
//!
//! Rule 1. A table with a column that is not in `column` is not compiled: the reference reads its rows. These are types from
//!         before MySQL 5.6, columns that MariaDB compresses, and texts whose character set is not known.
//! Rule 2. Rows with other columns in their images are of another shape. Without an image all columns count as carried, so
//!         that inserts, updates and deletes with full images share one.

use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_schema::{DataType, TimeUnit};
use serde::Deserialize;

use super::columns::{Bare, Floats, Places, Reader, Values};
use super::decimals::{Decimal, Groups, LongDecimal};
use super::forms::{Bits, Double, Signed, Single, Unsigned, Year};
use super::irregular::Odd;
use super::moments::{Day, Instant, Local};
use crate::columns::{Column, Fixed, Vectors};
use crate::forms::Form;
use crate::geometries::Geometries;
use crate::rows::{Image, Named, Rows};

/// Shapes of one table that are kept; rows of others are left to the reference.
const MAX_SHAPES: usize = 256;
/// Labels of a SET.
const MOST_LABELS: usize = 64;

/// A column as Python describes it.
#[derive(Deserialize)]
pub struct Described {
    name: String,
    /// The text of the MySQL type.
    mysql: String,
    code: u8,
    metadata: u16,
    #[serde(default)]
    unsigned: Option<bool>,
    #[serde(default)]
    text: Option<Text>,
    #[serde(default)]
    members: Option<Vec<String>>,
}

/// What the bytes of a string are.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Text {
    Bytes,
    Utf8,
    /// A UUID of MariaDB.
    Uuid,
    /// The character of each byte.
    Characters(Vec<Option<char>>),
}

/// Rows with the same columns in their images.
pub struct Shape {
    /// Indexes of the columns in the image before, and after; nothing if all are, or if there is no such image.
    pub carried: [Option<Vec<usize>>; 2],
    /// The rows.
    pub rows: Rows,
    /// When each of them was changed, in seconds since 1970.
    pub times: Vec<i64>,
    /// Values of the images after that their columns cannot hold.
    pub irregular: Vec<Irregular>,
    /// How such values are read, of each column of the image before, and after.
    pub texts: [Vec<Option<Odd>>; 2],
}

impl Shape {
    /// Forgets all rows from the given one on.
    pub fn truncate(&mut self, rows: usize) {
        self.rows.truncate(rows);
        self.times.truncate(rows);
        self.irregular.retain(|irregular| irregular.row < rows);
    }
}

/// A value that its column cannot hold: the column has NULL.
pub struct Irregular {
    /// The row.
    pub row: usize,
    /// Index of the column in the image.
    pub column: usize,
    /// Its text, or its bytes.
    pub text: Vec<u8>,
}

/// A table, as its table map describes it.
pub struct Table {
    columns: Vec<Described>,
    shapes: Vec<Shape>,
}

impl Table {
    /// The table that this JSON describes, or nothing if the kernel does not support a column.
    pub fn new(description: &str) -> Option<Self> {
        let columns: Vec<Described> = serde_json::from_str(description).ok()?;
        (!columns.is_empty() && columns.iter().all(|described| column(described).is_some())).then_some(())?;
        Some(Self { columns, shapes: Vec::new() })
    }

    /// How many columns it has.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// The rows of images with these columns: Rule 2.
    #[inline]
    pub fn shape(&mut self, carried: [Option<&[u8]>; 2]) -> Option<&mut Shape> {
        let carried = carried.map(|bitmap| bitmap.and_then(|bitmap| self.indexes(bitmap)));
        let at = match self.shapes.iter().position(|shape| shape.carried == carried) {
            Some(at) => at,
            None => {
                (self.shapes.len() < MAX_SHAPES).then_some(())?;
                let [before, after] = &carried;
                let rows = Rows::new(self.image(before.as_deref())?, self.image(after.as_deref())?);
                let texts = [self.texts(before.as_deref()), self.texts(after.as_deref())];
                self.shapes.push(Shape { carried, rows, times: Vec::new(), irregular: Vec::new(), texts });
                self.shapes.len() - 1
            }
        };
        self.shapes.get_mut(at)
    }

    /// How many rows each shape has.
    pub fn counts(&self) -> Vec<usize> {
        self.shapes.iter().map(|shape| shape.rows.len()).collect()
    }

    /// Keeps so many rows of each shape, and none of others.
    pub fn truncate(&mut self, counts: &[usize]) {
        for (at, shape) in self.shapes.iter_mut().enumerate() {
            shape.truncate(counts.get(at).copied().unwrap_or_default());
        }
    }

    /// All rows.
    pub fn shapes(&mut self) -> &mut [Shape] {
        &mut self.shapes
    }

    /// The columns whose bits are set; nothing if all are.
    fn indexes(&self, bitmap: &[u8]) -> Option<Vec<usize>> {
        let is_set = |&i: &usize| bitmap.get(i / 8).is_some_and(|byte| byte >> (i % 8) & 1 == 1);
        let all = 0..self.columns.len();
        if all.clone().all(|i| is_set(&i)) { None } else { Some(all.filter(is_set).collect()) }
    }

    fn texts(&self, indexes: Option<&[usize]>) -> Vec<Option<Odd>> {
        let odd = |described: &Described| {
            let is_text = matches!(described.text, Some(Text::Utf8 | Text::Characters(_)));
            Odd::of(described.code, described.metadata, is_text)
        };
        match indexes {
            None => self.columns.iter().map(odd).collect(),
            Some(indexes) => indexes.iter().map(|&i| self.columns.get(i).and_then(odd)).collect(),
        }
    }

    fn image(&self, indexes: Option<&[usize]>) -> Option<Image> {
        let named = |described: &Described| {
            let (arrow, column) = column(described)?;
            Some(Named { name: described.name.clone(), mysql: described.mysql.clone(), arrow, column })
        };
        let columns: Vec<_> = match indexes {
            None => self.columns.iter().map(named).collect::<Option<_>>()?,
            Some(indexes) => indexes.iter().map(|&i| named(self.columns.get(i)?)).collect::<Option<_>>()?,
        };
        (!columns.is_empty()).then(|| Image::new(columns))
    }
}

type Typed = (DataType, Box<dyn Column>);

/// An empty column and its Arrow type; nothing if the kernel has none.
fn column(d: &Described) -> Option<Typed> {
    let (metadata, digits) = (usize::from(d.metadata), u32::from(d.metadata));
    let timestamp = |zone| DataType::Timestamp(TimeUnit::Microsecond, zone);
    let fraction = || (digits <= 6).then_some(digits);
    let blob = |size: usize| (1..=4).contains(&size).then_some(size);
    let short = if metadata < 256 { 1 } else { 2 };
    Some(match d.code {
        1 | 2 | 3 | 8 | 9 => integer(d.code, d.unsigned?)?,
        4 if metadata == 4 => fixed(Single, DataType::Float32),
        5 if metadata == 8 => fixed(Double, DataType::Float64),
        10 | 14 => fixed(Day, DataType::Date32),
        13 => fixed(Year, DataType::UInt16),
        16 if (1..=64).contains(&metadata) => fixed(Bits(digits), DataType::UInt64),
        17 => fixed(Instant(fraction()?), timestamp(Some("UTC".into()))),
        18 => fixed(Local(fraction()?), timestamp(None)),
        19 => values(Reader::Time(fraction()?)),
        15 | 253 => text(d.text.clone()?, short),
        254 if matches!(d.text, Some(Text::Bytes)) => values(Reader::Padded(short, metadata)),
        254 if matches!(d.text, Some(Text::Uuid)) => (metadata == 16).then(|| values(Reader::Uuid))?,
        254 => text(d.text.clone()?, short),
        249 => text(d.text.clone()?, 1),
        250 => text(d.text.clone()?, 3),
        251 => text(d.text.clone()?, 4),
        252 => text(d.text.clone()?, blob(metadata)?),
        242 => {
            let item = arrow_schema::Field::new_list_field(DataType::Float32, true);
            (DataType::List(item.into()), Box::new(Floats(blob(metadata)?, Vectors::empty())))
        }
        245 => values(Reader::Json(blob(metadata)?)),
        246 => decimal(u32::from(d.metadata >> 8), u32::from(d.metadata & 0xff))?,
        247 if (1..=2).contains(&metadata) => values(Reader::Label(metadata, d.members.clone()?)),
        248 if (1..=8).contains(&metadata) => {
            let labels = d.members.clone().filter(|labels| labels.len() <= MOST_LABELS)?;
            values(Reader::Labels(metadata, labels))
        }
        255 => (Geometries::arrow(), Box::new(Places(blob(metadata)?, Geometries::empty()))),
        _ => return None,
    })
}

fn integer(code: u8, unsigned: bool) -> Option<Typed> {
    Some(match (code, unsigned) {
        (1, false) => fixed(Signed::<Int8Type, 1>::default(), DataType::Int8),
        (2, false) => fixed(Signed::<Int16Type, 2>::default(), DataType::Int16),
        (9, false) => fixed(Signed::<Int32Type, 3>::default(), DataType::Int32),
        (3, false) => fixed(Signed::<Int32Type, 4>::default(), DataType::Int32),
        (8, false) => fixed(Signed::<Int64Type, 8>::default(), DataType::Int64),
        (1, true) => fixed(Unsigned::<UInt8Type, 1>::default(), DataType::UInt8),
        (2, true) => fixed(Unsigned::<UInt16Type, 2>::default(), DataType::UInt16),
        (9, true) => fixed(Unsigned::<UInt32Type, 3>::default(), DataType::UInt32),
        (3, true) => fixed(Unsigned::<UInt32Type, 4>::default(), DataType::UInt32),
        (8, true) => fixed(Unsigned::<UInt64Type, 8>::default(), DataType::UInt64),
        _ => return None,
    })
}

fn decimal(precision: u32, scale: u32) -> Option<Typed> {
    let (groups, places) = (Groups::new(precision, scale)?, i8::try_from(scale).ok()?);
    let digits = u8::try_from(precision).ok()?;
    Some(if precision <= 38 {
        fixed(Decimal(groups), DataType::Decimal128(digits, places))
    } else {
        fixed(LongDecimal(groups), DataType::Decimal256(digits, places))
    })
}

fn text(text: Text, size: usize) -> Typed {
    values(match text {
        Text::Bytes | Text::Uuid => Reader::Raw(size),
        Text::Utf8 => Reader::Utf8(size),
        Text::Characters(characters) => Reader::Characters(size, characters),
    })
}

fn values(reader: Reader) -> Typed {
    let arrow = if matches!(reader, Reader::Raw(_) | Reader::Padded(..)) { DataType::Binary } else { DataType::Utf8 };
    (arrow, Box::new(Values::new(reader)))
}

fn fixed<F: Form + 'static>(form: F, arrow: DataType) -> Typed {
    (arrow.clone(), Box::new(Bare(Fixed::new(form, arrow))))
}
