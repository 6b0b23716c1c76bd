//! Mirrors protocols/ticdc_avro/schemas.py: key's and value's schema, compiled: the columns, and the members after them.
//!
//! ```text
//! {"type":"record",…,"fields":[{"name":"id","type":{"type":"long",…}},{"name":"note","type":["null",{"type":"string",…}]},
//!  └ columns ──────────────────────────────────────────────────────────────────────────────────────────────────────────┘
//!  {"name":"_ticdc_before","type":["null",{"type":"record","fields":[…]}]},       the columns again
//!  {"name":"_tidb_op","type":"string"},{"name":"_tidb_commit_ts","type":"long"},{"name":"_tidb_commit_physical_time",…}]}
//! ```
//!
//! Rule 1. The reference has read the schema and lists the fields that are columns. Read again here is only in which
//!         order and in which Avro types they stand; a type by reference, or anything else that no producer writes, is not
//!         compiled.
//! Rule 2. A key's field stands in the value as the same bytes, its branch of a union excepted. Types that have two
//!         spellings of one value, or none that equals itself, are no keys here.

use serde::Deserialize;

use super::checksum::Hashed;
use super::values::Place;
use crate::avro::schema::{Field, Full};
use crate::avro::{Ids, Union};

/// A shape as Python describes it, with the topic that it was met in.
#[derive(Deserialize)]
pub struct Shape {
    pub topic: String,
    pub columns: Vec<Described>,
    wire: Wire,
}

#[derive(Debug, Deserialize)]
pub struct Described {
    pub name: String,
    #[serde(rename = "type")]
    pub mysql: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    #[serde(rename = "ticdc-avro")]
    schemas: Schemas,
}

/// The schemas of a family of shapes.
#[derive(Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Schemas {
    key: Option<Registered>,
    value: Option<Registered>,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
struct Registered {
    id: u32,
    schema: String,
}

/// What a value has behind its columns.
pub enum Own {
    /// The old row.
    Before(Union),
    /// `c`, `u` or `d`.
    Op,
    /// The commit ts.
    CommitTs,
    /// Its milliseconds.
    Physical,
    /// The row's checksum, as digits.
    Checksum,
    /// Whether the producer found it damaged.
    Corrupted,
    /// How the checksum is made.
    Version,
}

/// How the records of a family stand on the wire.
pub struct Plan {
    /// Where the columns stand in the value, or in the key when there is none.
    pub places: Vec<Place>,
    /// The same in the old row.
    pub old: Vec<Place>,
    /// What comes behind them.
    pub own: Vec<Own>,
    /// The key's fields: which column each is, and its union. Nothing when there is no value: then the key is the row.
    pub key: Vec<(usize, Union)>,
    /// How the columns are hashed, when there is a checksum.
    pub hashed: Vec<Hashed>,
}

impl Plan {
    fn new(places: Vec<Place>) -> Self {
        Self { places, old: Vec::new(), own: Vec::new(), key: Vec::new(), hashed: Vec::new() }
    }
}

impl Shape {
    /// The shape's schemas.
    pub fn schemas(self) -> Schemas {
        self.wire.schemas
    }

    /// What is compiled of the schemas; None if the kernel does not support a part of them. `utc`: TIMESTAMP is in UTC.
    pub fn plan(&self, utc: bool) -> Option<Plan> {
        let Schemas { key, value } = &self.wire.schemas;
        let (key, value) = (fields(key.as_ref())?, fields(value.as_ref())?);
        let Some(value) = value else {
            return Some(Plan::new(self.places(&key?)?));
        };
        let mut plan = Plan::new(self.places(&value)?);
        for field in value.get(self.columns.len()..)? {
            let own = self.own(field, &mut plan)?;
            plan.own.push(own);
        }
        if plan.own.iter().any(|own| matches!(own, Own::Checksum)) {
            let columns = self.columns.iter().zip(&plan.places);
            plan.hashed = columns.map(|(c, place)| Hashed::new(&c.mysql, place, utc)).collect::<Option<_>>()?;
        }
        for field in key.iter().flatten() {
            let part = place(field)?;
            let at = plan.places.iter().position(|p| p.name == part.name && p.kind == part.kind)?;
            if matches!(part.kind.as_str(), "float" | "double") {
                return None;
            }
            plan.key.push((at, part.union));
        }
        Some(plan)
    }

    /// Where the columns stand in a record of these fields: they are its first.
    fn places(&self, fields: &[Field]) -> Option<Vec<Place>> {
        let places: Vec<_> = fields.iter().take(self.columns.len()).map(place).collect::<Option<_>>()?;
        let same = places.iter().map(|p| &p.name).eq(self.columns.iter().map(|c| &c.name));
        (same && !places.is_empty()).then_some(places)
    }

    fn own(&self, field: &Field, plan: &mut Plan) -> Option<Own> {
        let (union, kind) = field.kind.branch()?;
        if let ("_ticdc_before", Some(record)) = (field.name.as_str(), kind.full()) {
            plan.old = self.places(&record.fields)?;
            let same = plan.old == plan.places && record.fields.len() == plan.old.len();
            return (record.is_record() && union != Union::Bare && same).then_some(Own::Before(union));
        }
        let own = match (field.name.as_str(), kind.name()?) {
            ("_tidb_op", "string") => Own::Op,
            ("_tidb_commit_ts", "long") => Own::CommitTs,
            ("_tidb_commit_physical_time", "long") => Own::Physical,
            ("_tidb_row_level_checksum", "string") => Own::Checksum,
            ("_tidb_corrupted", "boolean") => Own::Corrupted,
            ("_tidb_checksum_version", "int") => Own::Version,
            _ => return None,
        };
        (union == Union::Bare).then_some(own)
    }
}

impl Schemas {
    /// The ids of key and value.
    pub fn ids(&self) -> Ids {
        (self.key.as_ref().map(|r| r.id), self.value.as_ref().map(|r| r.id))
    }
}

/// The fields of a schema, where there is one; nothing when it is no record.
fn fields(registered: Option<&Registered>) -> Option<Option<Vec<Field>>> {
    let Some(registered) = registered else { return Some(None) };
    Some(Some(Full::record(&registered.schema)?.fields))
}

fn place(field: &Field) -> Option<Place> {
    let (union, kind) = field.kind.branch()?;
    Some(Place { name: field.name.clone(), kind: kind.name()?.to_owned(), union })
}
