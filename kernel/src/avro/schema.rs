//! Mirrors wire/avro/schema.py, connect/avro_form.py: schemas, as far as records need them: fields in order, unions, Connect's types.
//!
//! ```text
//! {"type":"record","name":"Envelope","namespace":"srv1.shop.orders","fields":[
//!   {"name":"before","type":["null",{"type":"record","name":"Value","fields":[{"name":"id","type":"long"}, … ]}]},
//!   {"name":"after","type":["null","Value"]}, … ]}
//!                                  └ the record above, by its name
//! ```
//!
//! The reference has understood the schema before: nothing is checked here, what is not as drawn is nothing.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::Union;

/// A field of a record.
#[derive(Deserialize)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Type,
}

/// A type.
#[derive(Deserialize)]
#[serde(untagged)]
pub enum Type {
    /// A primitive type, or the name of one that is defined in another place of the schema.
    Name(String),
    /// A union.
    Union(Vec<Type>),
    /// A type with attributes.
    Full(Full),
}

/// A type with attributes.
#[derive(Deserialize)]
pub struct Full {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    name: String,
    namespace: Option<String>,
    /// Of a record.
    #[serde(default)]
    pub fields: Vec<Field>,
    /// What Connect calls it.
    #[serde(rename = "connect.name", default)]
    pub connect_name: String,
    /// The attributes that Connect adds.
    #[serde(rename = "connect.parameters", default)]
    pub parameters: Map<String, Value>,
}

impl Type {
    /// The union around a type, and the type.
    pub fn branch(&self) -> Option<(Union, &Self)> {
        match self {
            Self::Union(branches) => match branches.as_slice() {
                [other] => Some((Union::Alone, other)),
                [null, other] if null.name() == Some("null") => Some((Union::NullFirst, other)),
                [other, null] if null.name() == Some("null") => Some((Union::NullLast, other)),
                _ => None,
            },
            bare => Some((Union::Bare, bare)),
        }
    }

    /// The type's name without its attributes.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) => Some(name),
            Self::Full(full) => Some(&full.kind),
            Self::Union(_) => None,
        }
    }

    /// What a type has beside its name.
    pub fn full(&self) -> Option<&Full> {
        if let Self::Full(full) = self { Some(full) } else { None }
    }
}

impl Full {
    /// The record that a schema describes.
    pub fn record(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(Self::is_record)
    }

    /// Whether it is a record.
    pub fn is_record(&self) -> bool {
        self.kind == "record"
    }

    /// The union around a field's record, and the record, which one of the other fields may define.
    pub fn inside<'a>(&'a self, field: &'a Field) -> Option<(Union, &'a Self)> {
        let (union, kind) = field.kind.branch()?;
        let branch = match kind {
            Type::Full(full) => full,
            Type::Name(name) => {
                let inherited = self.full_name("");
                let namespace = inherited.rsplit_once('.').map_or("", |(namespace, _)| namespace);
                let named = qualified(name, namespace);
                let known = self.fields.iter().filter_map(|field| field.kind.branch()?.1.full());
                known.into_iter().find(|full| full.is_record() && full.full_name(namespace) == named)?
            }
            Type::Union(_) => return None,
        };
        branch.is_record().then_some((union, branch))
    }

    fn full_name(&self, around: &str) -> String {
        qualified(&self.name, self.namespace.as_deref().unwrap_or(around))
    }
}

fn qualified(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() { name.to_owned() } else { format!("{namespace}.{name}") }
}
