//! The entries of `metadata.managedFields`: reading, writing, sorting, and keeping their number small.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::fields::FieldSet;

/// An object keeps at most this many Update entries; older ones are merged.
const MAX_UPDATES: usize = 10;

/// The manager of merged old entries.
const ANCIENT: &str = "ancient-changes";

/// The operation by which a manager owns fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Apply,
    Update,
}

impl Operation {
    /// The name in `managedFields`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The identity of an entry. An applier has the same identity in every version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) manager: String,
    pub(super) operation: Operation,
    pub(super) api_version: String,
    pub(super) subresource: String,
}

impl Id {
    pub(super) fn apply(manager: &str, subresource: &str) -> Self {
        Self::new(manager, Operation::Apply, "", subresource)
    }

    pub(super) fn update(manager: &str, subresource: &str, api_version: &str) -> Self {
        Self::new(manager, Operation::Update, api_version, subresource)
    }

    fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let manager = if manager.is_empty() {
            "unknown"
        } else {
            manager
        };
        Self {
            manager: manager.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }
}

/// The fields of a manager.
#[derive(Debug, Clone)]
pub(super) struct Managed {
    pub(super) set: FieldSet,
    pub(super) api_version: String,
    pub(super) time: Option<String>,
}

/// All managers of an object.
#[derive(Debug, Clone, Default)]
pub(super) struct Managers {
    pub(super) by_id: BTreeMap<Id, Managed>,
}

impl Managers {
    pub(super) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Reads `managedFields`; one bad entry spoils them all.
    pub(super) fn decode(entries: Option<&Value>) -> Result<Self, String> {
        let Some(entries) = entries else {
            return Ok(Self::default());
        };
        let entries = entries.as_array().ok_or("managedFields must be a list")?;
        let mut by_id = BTreeMap::new();
        for (index, entry) in entries.iter().enumerate() {
            let (id, managed) = decode_entry(index, entry)?;
            by_id.insert(id, managed);
        }
        Ok(Self { by_id })
    }

    /// The list as stored: appliers first, then by time, manager, version and subresource.
    pub(super) fn encode(&self) -> Option<Value> {
        if self.by_id.is_empty() {
            return None;
        }
        let mut entries: Vec<_> = self.by_id.iter().collect();
        entries.sort_by(|(a, one), (b, other)| {
            let key = |id: &Id, managed: &Managed| (id.operation, seconds(managed.time.as_deref()));
            key(a, one)
                .cmp(&key(b, other))
                .then_with(|| a.manager.cmp(&b.manager))
                .then_with(|| one.api_version.cmp(&other.api_version))
                .then_with(|| a.subresource.cmp(&b.subresource))
        });
        Some(
            entries
                .into_iter()
                .map(|(id, managed)| encode_entry(id, managed))
                .collect(),
        )
    }

    /// Merges the oldest Update entries of each version until few enough are left.
    pub(super) fn merge_oldest_updates(&mut self) {
        let mut updates: Vec<Id> = self
            .by_id
            .keys()
            .filter(|id| id.operation == Operation::Update)
            .cloned()
            .collect();
        let mut n_updates = updates.len();
        updates.sort_by_cached_key(|id| (seconds(self.by_id[id].time.as_deref()), id.clone()));
        let mut first_of_version: BTreeMap<String, Id> = BTreeMap::new();
        for id in updates {
            if n_updates <= MAX_UPDATES {
                break;
            }
            let version = self.by_id[&id].api_version.clone();
            let Some(first) = first_of_version.get(&version) else {
                first_of_version.insert(version, id);
                continue;
            };
            let bucket = Id::update(ANCIENT, "", &version);
            if !self.by_id.contains_key(&bucket)
                && let Some(oldest) = self.by_id.remove(first)
            {
                self.by_id.insert(bucket.clone(), oldest);
            }
            if bucket == id {
                continue;
            }
            if let Some(merged) = self.by_id.remove(&id)
                && let Some(bucket) = self.by_id.get_mut(&bucket)
            {
                bucket.set.extend(&merged.set);
                bucket.time = merged.time;
                n_updates -= 1;
            }
        }
    }
}

fn decode_entry(index: usize, entry: &Value) -> Result<(Id, Managed), String> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    let operation = match text("operation") {
        "Apply" => Operation::Apply,
        "Update" => Operation::Update,
        _ => return Err("operation must be `Apply` or `Update`".to_owned()),
    };
    let api_version = text("apiVersion");
    if api_version.is_empty() {
        return Err("apiVersion must not be empty".to_owned());
    }
    match text("fieldsType") {
        "FieldsV1" => {}
        "" => {
            return Err(format!(
                "missing fieldsType in managed fields entry {index}"
            ));
        }
        other => {
            return Err(format!(
                "invalid fieldsType {other:?} in managed fields entry {index}"
            ));
        }
    }
    let fields = entry.get("fieldsV1").unwrap_or(&Value::Null);
    let set = FieldSet::parse(fields)
        .map_err(|error| format!("error decoding versioned set: {error}"))?;
    let id = Id {
        manager: text("manager").to_owned(),
        operation,
        api_version: if operation == Operation::Apply {
            String::new()
        } else {
            api_version.to_owned()
        },
        subresource: text("subresource").to_owned(),
    };
    let time = entry.get("time").and_then(Value::as_str).map(str::to_owned);
    Ok((
        id,
        Managed {
            set,
            api_version: api_version.to_owned(),
            time,
        },
    ))
}

fn encode_entry(id: &Id, managed: &Managed) -> Value {
    let mut entry = Map::from_iter([
        ("operation".to_owned(), json!(id.operation.name())),
        ("apiVersion".to_owned(), json!(managed.api_version)),
        ("fieldsType".to_owned(), json!("FieldsV1")),
        ("fieldsV1".to_owned(), managed.set.to_fields_v1()),
    ]);
    let optional = [
        ("manager", Some(&id.manager)),
        ("subresource", Some(&id.subresource)),
        ("time", managed.time.as_ref()),
    ];
    for (key, value) in optional {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            entry.insert(key.to_owned(), json!(value));
        }
    }
    Value::Object(entry)
}

fn seconds(time: Option<&str>) -> i64 {
    time.and_then(|time| time.parse::<Timestamp>().ok())
        .map_or(0, Timestamp::as_second)
}
