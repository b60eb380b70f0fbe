//! FieldsV1, the form in which sets of paths are stored in `metadata.managedFields`.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::{FieldSet, Node, PathElement, Scalar};
use crate::text::html_json;

/// Why a FieldsV1 value was not understood.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// A set is an object of objects.
    #[error("expected an object at {0:?}")]
    NotAnObject(String),
    /// A key has no known prefix, or the rest of it is malformed.
    #[error("cannot read path element {0:?}")]
    BadElement(String),
}

impl FieldSet {
    /// Parses a FieldsV1 value. Path elements of unknown kinds are skipped.
    pub fn parse(fields: &Value) -> Result<Self, FieldsError> {
        match fields {
            Value::Null => Ok(Self::new()),
            Value::Object(map) => Ok(read(map)?.0),
            _ => Err(FieldsError::NotAnObject(String::new())),
        }
    }

    /// Encodes the set as a FieldsV1 value. Keys are sorted: `.`, then `f:`, `i:`, `k:` and `v:`.
    pub fn to_fields_v1(&self) -> Value {
        Value::Object(
            self.nodes
                .iter()
                .map(|(element, node)| (element.to_key(), write(node)))
                .collect(),
        )
    }
}

/// The set written below a node, and whether the node itself is in its parent's set.
fn read(map: &Map<String, Value>) -> Result<(FieldSet, bool), FieldsError> {
    let mut set = FieldSet::new();
    let mut owned = false;
    for (key, value) in map {
        if key == "." {
            owned = true;
            continue;
        }
        let Some(element) = PathElement::parse(key)? else {
            continue;
        };
        let Value::Object(inner) = value else {
            return Err(FieldsError::NotAnObject(key.clone()));
        };
        let (below, owned) = read(inner)?;
        set.nodes.insert(Arc::new(element), Node { owned, below });
    }
    // A node without children is owned itself.
    owned |= set.is_empty();
    Ok((set, owned))
}

fn write(node: &Node) -> Value {
    let mut map: Map<String, Value> = node
        .below
        .nodes
        .iter()
        .map(|(element, node)| (element.to_key(), write(node)))
        .collect();
    if node.owned && !map.is_empty() {
        map.insert(".".to_owned(), Value::Object(Map::new()));
    }
    Value::Object(map)
}

impl PathElement {
    /// Reads a key such as `f:spec`, `k:{"name":"c"}`, `v:"x"` or `i:0`; `None` for a kind not known here.
    fn parse(key: &str) -> Result<Option<Self>, FieldsError> {
        let bad = || FieldsError::BadElement(key.to_owned());
        let (kind, content) = key
            .split_once(':')
            .filter(|(kind, _)| kind.len() == 1)
            .ok_or_else(bad)?;
        Ok(Some(match kind {
            "f" => Self::Field(content.to_owned()),
            "v" => Self::Value(Scalar(serde_json::from_str(content).map_err(|_| bad())?)),
            "i" => Self::Index(content.parse().map_err(|_| bad())?),
            "k" => {
                let fields: Map<String, Value> =
                    serde_json::from_str(content).map_err(|_| bad())?;
                let mut fields: Vec<_> = fields
                    .into_iter()
                    .map(|(name, value)| (name, Scalar(value)))
                    .collect();
                fields.sort();
                Self::Key(fields)
            }
            _ => return Ok(None),
        }))
    }

    fn to_key(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Value(value) => format!("v:{}", html_json(&value.0)),
            Self::Index(index) => format!("i:{index}"),
            Self::Key(fields) => {
                let fields: Vec<_> = fields
                    .iter()
                    .map(|(name, value)| {
                        format!(
                            "{}:{}",
                            html_json(&Value::String(name.clone())),
                            html_json(&value.0)
                        )
                    })
                    .collect();
                format!("k:{{{}}}", fields.join(","))
            }
        }
    }
}
