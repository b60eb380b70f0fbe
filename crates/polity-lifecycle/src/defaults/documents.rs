//! What stands in the ConfigMap: documents of our own kinds, and what cannot be used, each with its place.

use std::collections::BTreeMap;

use polity_api::policies::GROUP;
use polity_reconcile::name_hash;
use serde_json::{Map, Value, json};

use super::LABEL;
use crate::kinds::{OwnedKey, OwnedKind};

/// What aliases may make of a text, at most; a ConfigMap holds a megabyte.
const MADE_BY_ALIASES: usize = 50_000;
/// What only the API server sets.
const NOT_OURS_TO_SAY: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Everything that was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Documents {
    /// By object, so that servers come before the policies that run on them.
    pub objects: BTreeMap<OwnedKey, Document>,
    /// What cannot be used.
    pub problems: Vec<Problem>,
    /// Whether some document could not be read so far that it is known which object it is about.
    pub has_unreadable: bool,
}

/// What one object should be.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Where it stands: `policies.yaml, document 2`.
    pub place: String,
    /// The object to apply.
    pub body: Value,
    /// A hash of it, which tells whether the document has changed.
    pub hash: String,
}

/// Something that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it stands.
    pub place: String,
    /// Why it cannot be used.
    pub reason: String,
}

/// Why a value is no document of ours.
enum Unusable {
    /// Nobody knows which object it is about.
    Unreadable(String),
    /// It is about something else.
    Foreign(String),
}

impl Documents {
    /// Reads the data of a ConfigMap, whose objects carry our label with this value.
    pub fn read(label: &str, data: &BTreeMap<String, String>) -> Self {
        let mut documents = Self::default();
        for (key, text) in data {
            let parts = split(text).into_iter().filter(|part| !is_empty(part));
            for (index, part) in parts.enumerate() {
                let place = format!("{key}, document {}", index + 1);
                match parse(part) {
                    Ok(Value::Null) => {}
                    Ok(value) => documents.add(label, place, value),
                    Err(reason) => documents.unusable(place, Unusable::Unreadable(reason)),
                }
            }
        }
        documents
    }

    /// A document, or each of those in a list.
    fn add(&mut self, label: &str, place: String, value: Value) {
        let mut value = value;
        let list_kind = text(&value, "kind").strip_suffix("List").map(str::to_owned);
        if let (Some(item_kind), Some(Value::Array(items))) =
            (list_kind, value.get_mut("items").map(Value::take))
        {
            for (index, mut item) in items.into_iter().enumerate() {
                // What a typed list leaves out is the list's.
                if let (false, Value::Object(fields)) = (item_kind.is_empty(), &mut item) {
                    fields.entry("kind").or_insert_with(|| json!(item_kind));
                    fields
                        .entry("apiVersion")
                        .or_insert_with(|| value["apiVersion"].clone());
                }
                self.one(label, format!("{place}, item {}", index + 1), item);
            }
            return;
        }
        self.one(label, place, value);
    }

    fn one(&mut self, label: &str, place: String, value: Value) {
        match read_one(label, value) {
            Ok((key, _)) if self.objects.contains_key(&key) => {
                let first = &self.objects[&key].place;
                let reason = format!("{key} stands in {first} already, and that one counts");
                self.problems.push(Problem { place, reason });
            }
            Ok((key, body)) => {
                let hash = name_hash(&body.to_string(), 16);
                self.objects.insert(key, Document { place, body, hash });
            }
            Err(why) => self.unusable(place, why),
        }
    }

    fn unusable(&mut self, place: String, why: Unusable) {
        let reason = match why {
            Unusable::Unreadable(reason) => {
                self.has_unreadable = true;
                reason
            }
            Unusable::Foreign(reason) => reason,
        };
        self.problems.push(Problem { place, reason });
    }
}

/// One value as what we apply: what it says, and our label.
fn read_one(label: &str, value: Value) -> Result<(OwnedKey, Value), Unusable> {
    let unreadable = |reason: &str| Unusable::Unreadable(reason.to_owned());
    let Value::Object(mut body) = value else {
        return Err(unreadable(
            "it is no object with apiVersion, kind and metadata",
        ));
    };
    let of = |field: &str| body.get(field).and_then(Value::as_str).unwrap_or_default();
    let (api_version, kind) = (of("apiVersion").to_owned(), of("kind").to_owned());
    if api_version.is_empty() || kind.is_empty() {
        return Err(unreadable("it has no apiVersion or no kind"));
    }
    let owned = OwnedKind::parse(&kind).filter(|_| api_version == format!("{GROUP}/v1"));
    let Some(owned) = owned else {
        if kind.ends_with("List") {
            return Err(unreadable("it is a list within a list, or has no items"));
        }
        return Err(Unusable::Foreign(format!(
            "{kind} of {api_version} is no policy and no PolicyServer of {GROUP}/v1"
        )));
    };
    let Some(Value::Object(metadata)) = body.get_mut("metadata") else {
        return Err(unreadable("it has no metadata"));
    };
    let key = key(owned, metadata).map_err(Unusable::Unreadable)?;
    metadata.retain(|field, _| !NOT_OURS_TO_SAY.contains(&field.as_str()));
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if labels.is_null() {
        *labels = json!({});
    }
    let Value::Object(labels) = labels else {
        return Err(unreadable("its labels are no map"));
    };
    labels.insert(LABEL.to_owned(), json!(label));
    body.remove("status");
    Ok((key, Value::Object(body)))
}

fn key(kind: OwnedKind, metadata: &Map<String, Value>) -> Result<OwnedKey, String> {
    let word = kind.as_str();
    let text = |field: &str| match metadata.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.is_empty())),
        // YAML takes `no` and `1` for something else.
        Some(_) => Err(format!(
            "the {field} of the {word} is no text: put it in quotes"
        )),
    };
    let name = text("name")?.ok_or_else(|| format!("the {word} has no name"))?;
    let namespace = text("namespace")?;
    match (kind.is_namespaced(), &namespace) {
        (true, None) => Err(format!("{word} {name} names no namespace")),
        (false, Some(namespace)) => Err(format!(
            "{word} {name} is cluster-wide and names the namespace {namespace}"
        )),
        (true, Some(_)) | (false, None) => Ok(OwnedKey {
            kind,
            namespace,
            name,
        }),
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Cuts a stream at its document marks. A mark at the start of a line is one even within a block of text.
fn split(content: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut offset) = (0, 0);
    for line in content.split_inclusive('\n') {
        let rest = line.strip_prefix("---").or(line.strip_prefix("..."));
        if rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n'])) {
            parts.push(&content[start..offset]);
            // What follows a mark on its line belongs to the document it opens.
            start = offset + 3;
        }
        offset += line.len();
    }
    parts.push(&content[start..]);
    parts
}

/// Nothing but empty lines, comments and directives.
fn is_empty(part: &str) -> bool {
    let mut lines = part.lines().map(str::trim_start);
    lines.all(|line| line.is_empty() || line.starts_with(['#', '%']))
}

fn parse(part: &str) -> Result<Value, String> {
    let budget = serde_saphyr::budget! {
        max_nodes: part.len() + MADE_BY_ALIASES,
        max_events: 2 * (part.len() + MADE_BY_ALIASES),
    };
    let options = serde_saphyr::options! { legacy_octal_numbers: true, budget: budget };
    serde_saphyr::from_str_with_options(part, options).map_err(|error| {
        // The first line says what is wrong; the others draw a picture of the source.
        let message = error.to_string();
        let first = message.lines().next().unwrap_or_default();
        format!("it is not YAML: {}", first.trim_start_matches("error: "))
    })
}

#[cfg(test)]
mod tests;
