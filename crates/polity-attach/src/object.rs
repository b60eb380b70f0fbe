//! What the engine reads of an object: which one it is, when it was made, its labels, its generation.
//!
//! Objects come as JSON of unknown origin. Nothing here fails: what is missing or of the wrong type is read as absent.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// One object, whatever its version. The namespace is absent for cluster-scoped objects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ObjectRef {
    pub group: String,
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
}

impl ObjectRef {
    pub fn new(group: &str, kind: &str, namespace: Option<&str>, name: &str) -> Self {
        Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        }
    }

    /// The Namespace of this name.
    pub fn of_namespace(name: &str) -> Self {
        Self::new("", "Namespace", None, name)
    }

    /// The object a JSON document is; `None` without kind or name.
    pub fn of(object: &Value) -> Option<Self> {
        let kind = text(object, &["kind"])?;
        let name = text(object, &["metadata", "name"])?;
        if kind.is_empty() || name.is_empty() {
            return None;
        }
        let namespace = text(object, &["metadata", "namespace"]).filter(|name| !name.is_empty());
        Some(Self::new(group_of(object), kind, namespace, name))
    }

    /// `Kind.group`, or `Kind` for the core group.
    pub fn kind_and_group(&self) -> String {
        if self.group.is_empty() {
            self.kind.clone()
        } else {
            format!("{}.{}", self.kind, self.group)
        }
    }

    /// `namespace/name`, or `name` for cluster-scoped objects.
    pub fn path(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }

    /// The text by which policies of the same age are ordered: `namespace/name`, and `/name` for cluster-scoped objects.
    pub fn joined(&self) -> String {
        format!("{}/{}", self.namespace.as_deref().unwrap_or(""), self.name)
    }

    pub(crate) fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind_and_group(), self.path())
    }
}

/// The API group of an object; core objects have the empty one.
pub(crate) fn group_of(object: &Value) -> &str {
    match text(object, &["apiVersion"]).unwrap_or("").split_once('/') {
        Some((group, _)) => group,
        None => "",
    }
}

/// The string at a path of field names.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(value, path)?.as_str()
}

/// The value at a path of field names.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

/// The elements of the list at a path; none when it is no list.
pub(crate) fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The labels, as far as they are strings.
pub(crate) fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = at(object, &["metadata", "labels"]).and_then(Value::as_object);
    labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

/// The creation time in seconds, which is all the resolution that Kubernetes keeps.
pub(crate) fn created(object: &Value) -> Option<i64> {
    let text = text(object, &["metadata", "creationTimestamp"])?;
    let time: jiff::Timestamp = text.parse().ok()?;
    Some(time.as_second())
}

pub(crate) fn generation(object: &Value) -> Option<i64> {
    at(object, &["metadata", "generation"])?.as_i64()
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    at(object, &["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null())
}
