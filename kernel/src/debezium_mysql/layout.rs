//! Which members there are around the images, and in which order.
//!
//! ```text
//! {"before":…,"after":…,"source":{"version":…,"connector":…, … },"op":…, … }
//! └ literal ┘└ what is read there, by its kind
//! ```

/// Members of the source block that are texts, in the order of an origin.
pub const TEXTS: [&str; 7] = ["version", "connector", "name", "sequence", "gtid", "file", "query"];
/// Those that are integers.
pub const INTEGERS: [&str; 4] = ["server_id", "pos", "row", "thread"];
/// A time in three units.
pub const CLOCK: [&str; 3] = ["ts_ms", "ts_us", "ts_ns"];

/// A member of the envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Member {
    Before,
    After,
    Source,
    Transaction,
    Op,
    Clock(usize),
}

/// A member of the source block; texts, integers and times by their place among those.
#[derive(Clone, Copy)]
pub enum Of {
    Text(usize),
    Integer(usize),
    Clock(usize),
    Snapshot,
    Database,
    Table,
}

/// Members in their order, each behind the literal that opens it.
pub struct Layout {
    /// Of the envelope.
    pub members: Vec<(Vec<u8>, Member)>,
    /// Of the source block.
    pub source: Vec<(Vec<u8>, Of)>,
}

impl Layout {
    /// The layout with these names; nothing when there is one that nobody knows, or one too few.
    pub fn new(members: &[String], source: &[String]) -> Option<Self> {
        let members = opened(members, |name| {
            Some(match name {
                "before" => Member::Before,
                "after" => Member::After,
                "source" => Member::Source,
                "transaction" => Member::Transaction,
                "op" => Member::Op,
                _ => Member::Clock(CLOCK.iter().position(|n| *n == name)?),
            })
        })?;
        let source = opened(source, |name| {
            Some(match name {
                "snapshot" => Of::Snapshot,
                "db" => Of::Database,
                "table" => Of::Table,
                _ => TEXTS
                    .iter()
                    .position(|n| *n == name)
                    .map(Of::Text)
                    .or_else(|| INTEGERS.iter().position(|n| *n == name).map(Of::Integer))
                    .or_else(|| CLOCK.iter().position(|n| *n == name).map(Of::Clock))?,
            })
        })?;
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
