//! Mirrors connect/avro_form.py: key's and value's schema, compiled: the order of members, and the columns among them.
//!
//! ```text
//! Envelope   before ["null",Value]  after ["null","Value"]  source Source  transaction ["null",block]  op  ts_ms  ts_us  ts_ns
//!            └ members, in the schema's order, each in a union or bare ──────────────────────────────────────────────────────┘
//! Value      the columns        Source   see `layout`        block   id total_order data_collection_order, in any order
//! Key        columns again, in any order
//! ```
//!
//! Rule 1. The reference has read the schema and lists its columns. An unknown member, and a
//!         type in which no connector writes one, is not compiled.
//! Rule 2. A key's field stands in the row as the same bytes, its branch of a union excepted: its type is the column's.

use serde::Deserialize;

use crate::avro::schema::{Field, Full};
use crate::avro::{Ids, Union};
use crate::debezium::shapes::Shape;
use crate::debezium_mysql::envelope::{Member, Of};

/// Schemas as a shape's wire text has them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wire {
    #[serde(rename = "protocol")]
    _protocol: String,
    key: Option<Registered>,
    value: Registered,
}

/// Of rows without envelope it has a member that is unknown here.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Registered {
    avro: u32,
    schema: String,
}

/// Avro's types, as far as a value can be stepped over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Int,
    Long,
    Float,
    Double,
    Boolean,
    String,
    Bytes,
}

/// How a field's values stand in a datum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub name: String,
    pub union: Union,
    pub kind: Kind,
    /// What Connect calls the type.
    pub semantic: String,
    /// Members of an ENUM or a SET.
    pub allowed: Option<String>,
}

/// A member of the transaction block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Id,
    Order,
    TableOrder,
}

/// How the records of a pair of schemas stand on the wire.
#[derive(Default)]
pub struct Plan {
    /// The envelope's members; of an image, the source block and the transaction block the union alone.
    pub envelope: Vec<(Member, Union, Option<Kind>)>,
    pub source: Vec<(Of, Place)>,
    pub transaction: Vec<(Part, Place)>,
    pub columns: Vec<Place>,
    /// The key's fields: which column each is, and its union; nothing where there is no key.
    pub key: Option<Vec<(usize, Union)>>,
}

impl Wire {
    /// The ids of key and value.
    pub fn ids(&self) -> Ids {
        (self.key.as_ref().map(|r| r.avro), Some(self.value.avro))
    }

    /// What is compiled of the schemas; None if the kernel does not support a part of them.
    pub fn plan(&self, shape: &Shape<'_>) -> Option<Plan> {
        let envelope = Full::record(&self.value.schema)?;
        let mut plan = Plan::default();
        for field in &envelope.fields {
            plan.member(&envelope, field)?;
        }
        let has = |member| plan.envelope.iter().any(|(known, ..)| *known == member);
        let complete = [Member::Before, Member::After, Member::Source, Member::Op].into_iter().all(has);
        let same = plan.columns.iter().map(|p| &p.name).eq(shape.columns.iter().map(|c| &c.name));
        if !complete || !same || plan.columns.is_empty() {
            return None;
        }
        if let Some(key) = &self.key {
            let record = Full::record(&key.schema)?;
            plan.key = Some(record.fields.iter().map(|field| plan.part(field)).collect::<Option<_>>()?);
        }
        Some(plan)
    }
}

impl Plan {
    fn member(&mut self, envelope: &Full, field: &Field) -> Option<()> {
        let member = Member::named(&field.name)?;
        let (union, kind) = match member {
            Member::Op | Member::Clock(_) => {
                let place = Place::of(field)?;
                let texts = place.kind == Kind::String;
                (texts == (member == Member::Op) && (texts || place.is_integer())).then_some(())?;
                (place.union, Some(place.kind))
            }
            _ => {
                let (union, record) = envelope.inside(field)?;
                self.inside(member, record)?;
                (union, None)
            }
        };
        self.envelope.push((member, union, kind));
        Some(())
    }

    fn inside(&mut self, member: Member, record: &Full) -> Option<()> {
        let places = record.fields.iter().map(Place::of);
        match member {
            Member::Source => self.source = places.map(|place| source(place?)).collect::<Option<_>>()?,
            Member::Transaction => {
                self.transaction = places.map(|place| transaction(place?)).collect::<Option<_>>()?;
                (self.transaction.len() == 3).then_some(())?;
            }
            _ if self.columns.is_empty() => self.columns = places.collect::<Option<_>>()?,
            _ => places.eq(self.columns.iter().cloned().map(Some)).then_some(())?,
        }
        Some(())
    }

    fn part(&self, field: &Field) -> Option<(usize, Union)> {
        let part = Place::of(field)?;
        let at = self.columns.iter().position(|place| place.name == part.name && place.kind == part.kind)?;
        Some((at, part.union))
    }
}

fn source(place: Place) -> Option<(Of, Place)> {
    let of = Of::named(&place.name)?;
    let good = match of {
        Of::Integer(_) | Of::Clock(_) => place.is_integer(),
        _ => place.kind == Kind::String,
    };
    good.then_some((of, place))
}

fn transaction(place: Place) -> Option<(Part, Place)> {
    let (part, good) = match place.name.as_str() {
        "id" => (Part::Id, place.kind == Kind::String),
        "total_order" => (Part::Order, place.is_integer()),
        "data_collection_order" => (Part::TableOrder, place.is_integer()),
        _ => return None,
    };
    good.then_some((part, place))
}

impl Place {
    fn of(field: &Field) -> Option<Self> {
        let (union, kind) = field.kind.branch()?;
        let full = kind.full();
        let allowed = full.and_then(|full| full.parameters.get("allowed"));
        Some(Self {
            name: field.name.clone(),
            union,
            kind: Kind::named(kind.name()?)?,
            semantic: full.map(|full| full.connect_name.clone()).unwrap_or_default(),
            allowed: allowed.and_then(|text| text.as_str()).map(str::to_owned),
        })
    }

    fn is_integer(&self) -> bool {
        matches!(self.kind, Kind::Int | Kind::Long)
    }

    /// The last part of what Connect calls the type.
    pub fn unit(&self) -> &str {
        self.semantic.rsplit_once('.').map_or("", |(_, unit)| unit)
    }
}

impl Kind {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "int" => Self::Int,
            "long" => Self::Long,
            "float" => Self::Float,
            "double" => Self::Double,
            "boolean" => Self::Boolean,
            "string" => Self::String,
            "bytes" => Self::Bytes,
            _ => return None,
        })
    }
}
