//! Mirrors protocols/debezium_mysql/envelope.py: the members around the images, and their order.
//!
//! ```text
//! {"before":…,"after":…,"source":{"version":…,"connector":…, … },"op":…, … }
//! └ literal ┘└ what is read there, by its kind
//! ```

/// Members of the source block that are texts, in the order of an origin.
pub const TEXTS: [&str; 7] = ["version", "connector", "name", "sequence", "gtid", "file", "query"];
pub const CONNECTOR: usize = 1;
pub const NAME: usize = 2;
pub const GTID: usize = 4;
pub const FILE: usize = 5;
pub const QUERY: usize = 6;
/// Those that are integers.
pub const INTEGERS: [&str; 4] = ["server_id", "pos", "row", "thread"];
pub const SERVER: usize = 0;
pub const POS: usize = 1;
/// A time in three units.
pub const CLOCK: [&str; 3] = ["ts_ms", "ts_us", "ts_ns"];

/// A member of the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Member {
    Before,
    After,
    Source,
    Transaction,
    Op,
    Clock(usize),
}

/// A member of the source block; texts, integers and times by their place among those.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Of {
    Text(usize),
    Integer(usize),
    Clock(usize),
    Snapshot,
    Database,
    Table,
}

impl Member {
    /// The member of this name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "before" => Self::Before,
            "after" => Self::After,
            "source" => Self::Source,
            "transaction" => Self::Transaction,
            "op" => Self::Op,
            _ => Self::Clock(CLOCK.iter().position(|n| *n == name)?),
        })
    }
}

impl Of {
    /// The member of this name.
    pub fn named(name: &str) -> Option<Self> {
        let place = |names: &[&str]| names.iter().position(|n| *n == name);
        Some(match name {
            "snapshot" => Self::Snapshot,
            "db" => Self::Database,
            "table" => Self::Table,
            _ => place(&TEXTS)
                .map(Self::Text)
                .or_else(|| place(&INTEGERS).map(Self::Integer))
                .or_else(|| place(&CLOCK).map(Self::Clock))?,
        })
    }
}

/// Members in their order, each behind the literal that opens it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Layout {
    /// Of the envelope.
    pub members: Vec<(Vec<u8>, Member)>,
    /// Of the source block.
    pub source: Vec<(Vec<u8>, Of)>,
}

impl Layout {
    /// The layout with these names; nothing if one is unknown, or one too few.
    pub fn new(members: &[String], source: &[String]) -> Option<Self> {
        let members = opened(members, Member::named)?;
        let source = opened(source, Of::named)?;
        let needed = [Member::Before, Member::After, Member::Source, Member::Op];
        let complete = needed.iter().all(|n| members.iter().any(|(_, m)| m == n));
        complete.then_some(Self { members, source })
    }
}

fn opened<T>(names: &[String], kind: impl Fn(&str) -> Option<T>) -> Option<Vec<(Vec<u8>, T)>> {
    let openings = std::iter::once('{').chain(std::iter::repeat(','));
    let distinct = names.iter().enumerate().all(|(at, name)| !names.iter().take(at).any(|n| n == name));
    let members = names.iter().zip(openings).map(|(name, opening)| {
        let literal = format!("{opening}\"{name}\":");
        Some((literal.into_bytes(), kind(name)?))
    });
    distinct.then(|| members.collect()).flatten()
}
