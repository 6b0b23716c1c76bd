//! Mirrors columnar/templates.py: templates, read from JSON.

use serde::Deserialize;

/// How the rows of a shape are written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// The columns of the image before each change, in their order.
    pub before: Vec<Column>,
    /// The columns of the image after each change.
    pub after: Vec<Column>,
    /// Names of the columns of heads.
    pub heads: Vec<String>,
    /// The kinds of rows.
    pub cases: Vec<Case>,
    /// Whether each key and value is preceded by its length, an int64, big-endian.
    #[serde(default)]
    pub framed: bool,
    /// How many bytes key and value may have together, with their lengths.
    #[serde(default = "unlimited")]
    pub most: usize,
    /// Whether rows have keys: all cases agree in that.
    #[serde(skip)]
    pub keyed: bool,
}

/// A column and what it is written as.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// The form of its values.
    pub form: Form,
    /// What stands for NULL.
    pub null: String,
}

/// A kind of row.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    ops: Option<Vec<String>>,
    before: bool,
    after: bool,
    /// The key, piece by piece.
    pub key: Option<Vec<Part>>,
    /// The value.
    pub value: Vec<Part>,
}

/// A piece of a key or value; columns and heads are named by their place.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// These very bytes.
    Literal(String),
    /// A column of the image before.
    Before(usize),
    /// A column of the image after.
    After(usize),
    /// A head.
    Head(usize),
}

/// What a value is written as.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// Nothing but NULL.
    Null,
    /// An integer, in digits.
    Integer,
    /// An unsigned integer of 64 bits, as a signed one of the same bits.
    Wrapped,
    /// `true` and `false`.
    Boolean,
    /// `1` and `0`.
    Flag,
    /// A number with the fewest digits that read back to the same.
    Float(Spelled),
    /// The nearest double of a decimal.
    Double(Spelled),
    /// A JSON string.
    Text(Json),
    /// A JSON string with base64 of the bytes.
    Base64,
    /// A JSON string with what `strconv.Quote` prints.
    Quoted(Json),
    /// The number of a member, from 1; 0 for none.
    Member(Vec<String>),
    /// The sum of the bits of members between commas.
    Members(Vec<String>),
    /// A JSON string with a decimal.
    Decimal,
    /// A JSON string with base64 of the unscaled value, big-endian two's complement.
    Unscaled,
    /// A JSON string with base64 of so many bytes of an integer, least first.
    Bits(usize),
    /// A JSON string with a day.
    Day,
    /// A JSON string with a date and time.
    Moment(Moment),
    /// Days or microseconds as a number.
    Count(Count),
    /// A TIME as a number.
    Time(Count),
    /// A JSON string with a list of numbers, none of them with an exponent.
    Vector,
    /// A list of numbers.
    Numbers(Spelled),
}

/// Whose numbers they are.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spelled {
    /// Go's encoding/json.
    Html,
    /// json-iterator.
    Raw,
    /// Java.
    Java,
}

/// Whose strings they are.
pub type Json = Spelled;

/// How a date and time is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// Digits of the fraction.
    pub digits: usize,
    /// Microseconds by which the clock is ahead of the value's.
    pub ahead: i64,
    /// What is between date and time.
    pub separator: char,
    /// What is behind it.
    pub suffix: String,
    /// The first value.
    pub from: i64,
}

/// How days or microseconds become a number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Count {
    /// What one of the value's units is.
    pub times: i64,
    /// And what it is divided by, down to the next number.
    pub by: i64,
    /// The first value.
    pub from: i64,
    /// The last value.
    pub to: i64,
}

fn unlimited() -> usize {
    usize::MAX
}

impl Template {
    /// The template that this JSON describes.
    pub fn read(description: &str) -> Option<Self> {
        let mut template: Self = serde_json::from_str(description).ok()?;
        template.keyed = template.cases.first()?.key.is_some();
        let counts = template.before.iter().chain(&template.after).all(|column| column.form.is_sound());
        (counts && template.cases.iter().all(|case| case.key.is_some() == template.keyed && template.has(case)))
            .then_some(template)
    }

    /// Whether a case names nothing that is not there, and no image that its rows lack.
    fn has(&self, case: &Case) -> bool {
        case.key.iter().flatten().chain(&case.value).all(|part| match part {
            Part::Literal(_) => true,
            Part::Before(at) => case.before && *at < self.before.len(),
            Part::After(at) => case.after && *at < self.after.len(),
            Part::Head(at) => *at < self.heads.len(),
        })
    }
}

impl Form {
    fn is_sound(&self) -> bool {
        match self {
            Self::Count(count) | Self::Time(count) => count.by > 0,
            Self::Moment(moment) => moment.digits <= 6,
            Self::Bits(bytes) => *bytes <= 8,
            Self::Members(members) => members.len() <= 64,
            _ => true,
        }
    }
}

impl Case {
    /// Whether a row of this op and with these images is of this kind.
    pub fn is_for(&self, op: &str, images: (bool, bool)) -> bool {
        images == (self.before, self.after) && self.ops.as_ref().is_none_or(|ops| ops.iter().any(|o| o == op))
    }
}
