//! Strategic merge patch: a merge patch with rules about which lists are merged, and by which key.

use std::collections::{HashMap, HashSet};

use polity_core::go_text;
use serde_json::{Map, Value};

use crate::schema::{Schema, Type};
use crate::text::shown;

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";

/// Why a strategic merge patch was refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum StrategicError {
    /// An element of a merged list has no merge key.
    #[error("map: {element} does not contain declared merge key: {key}")]
    MissingMergeKey { element: String, key: String },
    /// The schema has no such field, so how to merge it is unknown.
    #[error("unable to find api field {field:?}")]
    UnknownField { field: String },
    /// A `$patch` directive other than `delete` and `replace`.
    #[error("unknown patch type: {directive} in map: {map}")]
    UnknownDirective { directive: String, map: String },
    /// A directive that cannot mean anything.
    #[error("{0}")]
    BadDirective(String),
    /// The elements of a list are not all of one kind.
    #[error("list element types are not identical: {0}")]
    MixedList(String),
}

/// Applies `patch` to `live` and returns the merged value.
pub fn strategic(schema: &Schema, live: &Value, patch: &Value) -> Result<Value, StrategicError> {
    match (live, patch) {
        (Value::Object(live), Value::Object(patch)) => merge_map(Some(schema), live.clone(), patch),
        (_, patch) => Ok(without_directives(patch).unwrap_or(Value::Null)),
    }
}

type Object = Map<String, Value>;

fn merge_map(
    schema: Option<&Schema>,
    mut live: Object,
    patch: &Object,
) -> Result<Value, StrategicError> {
    match patch.get(DIRECTIVE) {
        None => {}
        Some(Value::String(directive)) if directive == "replace" => {
            let rest = patch.iter().filter(|(key, _)| *key != DIRECTIVE);
            return Ok(Value::Object(
                rest.map(|(key, value)| (key.clone(), value.clone()))
                    .collect(),
            ));
        }
        Some(Value::String(directive)) if directive == "delete" => {
            return Ok(Value::Object(Map::new()));
        }
        Some(other) => return Err(unknown_directive(other, &Value::Object(patch.clone()))),
    }
    retain_keys(&mut live, patch)?;
    let ordered = merge_ordered_lists(schema, &mut live, patch)?;
    for (key, value) in patch {
        if !is_directive(key) && !ordered.contains(key.as_str()) {
            merge_field(schema, &mut live, key, value)?;
        }
    }
    for (key, values) in patch
        .iter()
        .filter(|(key, _)| key.starts_with(DELETE_FROM_LIST))
    {
        delete_from_list(&mut live, directive_field(key, DELETE_FROM_LIST)?, values);
    }
    Ok(Value::Object(live))
}

fn merge_field(
    schema: Option<&Schema>,
    live: &mut Object,
    key: &str,
    patch: &Value,
) -> Result<(), StrategicError> {
    if patch.is_null() {
        live.remove(key);
        return Ok(());
    }
    let merged = match (live.remove(key), patch) {
        (Some(Value::Object(live)), Value::Object(patch)) => {
            let field = field_of(schema, key)?;
            if field.is_some_and(|field| field.patch_strategy().replace) {
                Some(Value::Object(patch.clone()))
            } else {
                Some(merge_map(field, live, patch)?)
            }
        }
        (Some(Value::Array(live)), Value::Array(patch)) => {
            Some(merge_list(field_of(schema, key)?, live, patch)?)
        }
        (_, patch) => without_directives(patch),
    };
    if let Some(merged) = merged {
        live.insert(key.to_owned(), merged);
    }
    Ok(())
}

/// The schema of a field; `None` below a node whose fields are not described.
fn field_of<'a>(
    schema: Option<&'a Schema>,
    key: &str,
) -> Result<Option<&'a Schema>, StrategicError> {
    let Some(schema) = schema else {
        return Ok(None);
    };
    match schema.field(key) {
        Some(field) => Ok(Some(field)),
        None if schema.preserve_unknown()
            || schema.kind() != Type::Object
            || schema.properties().is_empty() =>
        {
            Ok(None)
        }
        None => Err(StrategicError::UnknownField {
            field: key.to_owned(),
        }),
    }
}

/// `$retainKeys`: fields that are not listed are removed before the merge.
fn retain_keys(live: &mut Object, patch: &Object) -> Result<(), StrategicError> {
    let Some(directive) = patch.get(RETAIN_KEYS) else {
        return Ok(());
    };
    let bad =
        || StrategicError::BadDirective("the patch format for retainKeys is invalid".to_owned());
    let keys: HashSet<&str> = directive
        .as_array()
        .ok_or_else(bad)?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let is_directive =
        |key: &str| key.starts_with(DELETE_FROM_LIST) || key.starts_with(ELEMENT_ORDER);
    let mut given = patch
        .iter()
        .filter(|(key, value)| *key != RETAIN_KEYS && !value.is_null() && !is_directive(key));
    if given.any(|(key, _)| !keys.contains(key.as_str())) {
        return Err(bad());
    }
    live.retain(|key, _| keys.contains(key.as_str()));
    Ok(())
}

/// `$setElementOrder`: merges the lists with a requested order, and returns their names.
fn merge_ordered_lists<'a>(
    schema: Option<&Schema>,
    live: &mut Object,
    patch: &'a Object,
) -> Result<HashSet<&'a str>, StrategicError> {
    let mut done = HashSet::new();
    for (directive, order) in patch
        .iter()
        .filter(|(key, _)| key.starts_with(ELEMENT_ORDER))
    {
        let bad = || {
            StrategicError::BadDirective(
                "the patch format for setElementOrder is invalid".to_owned(),
            )
        };
        let order = order.as_array().ok_or_else(bad)?;
        let name = directive_field(directive, ELEMENT_ORDER)?;
        let stored = match live.get(name) {
            None => None,
            Some(stored) => Some(stored.as_array().ok_or_else(bad)?.clone()),
        };
        let given = match patch.get(name) {
            None => None,
            Some(given) => Some(given.as_array().ok_or_else(bad)?),
        };
        let field = field_of(schema, name)?;
        let key = field.and_then(Schema::patch_merge_key);
        check_order(given.map_or(&[], Vec::as_slice), order, key)?;
        let merged = match (&stored, given) {
            (None, None) => continue,
            (Some(stored), None) => Value::Array(stored.clone()),
            (None, Some(given)) => {
                without_directives(&Value::Array(given.clone())).unwrap_or_default()
            }
            (Some(stored), Some(given)) => merge_list(field, stored.clone(), given)?,
        };
        let Value::Array(merged) = merged else {
            continue;
        };
        let stored = stored.unwrap_or_default();
        let merged = match (key, given) {
            (Some(key), Some(given)) => {
                in_order(merged, order, &reused(&stored, given, key), Some(key))?
            }
            _ => in_order(merged, order, &stored, key)?,
        };
        live.insert(name.to_owned(), Value::Array(merged));
        done.insert(name);
    }
    Ok(done)
}

/// The stored order as the real server sees it after merging: it merges in place, so new elements take the positions
/// of deleted ones.
fn reused(stored: &[Value], given: &[Value], key: &str) -> Vec<Value> {
    let directed = |element: &Value, directive: &str| {
        element.get(DIRECTIVE).and_then(Value::as_str) == Some(directive)
    };
    if given.iter().any(|element| directed(element, "replace")) {
        return stored.to_vec();
    }
    let id = |element: &Value| element.get(key).map(Value::to_string);
    let deleted: HashSet<_> = given
        .iter()
        .filter(|element| directed(element, "delete"))
        .map(id)
        .collect();
    let mut order: Vec<Value> = stored
        .iter()
        .filter(|item| !deleted.contains(&id(item)))
        .cloned()
        .collect();
    let mut known: HashSet<_> = order.iter().map(id).collect();
    for element in given
        .iter()
        .filter(|element| element.get(DIRECTIVE).is_none())
    {
        if order.len() < stored.len() && known.insert(id(element)) {
            order.push(element.clone());
        }
    }
    order
}

fn directive_field<'a>(key: &'a str, prefix: &str) -> Result<&'a str, StrategicError> {
    key.strip_prefix(prefix)
        .and_then(|rest| rest.strip_prefix('/'))
        .filter(|name| !name.is_empty())
        .ok_or_else(|| {
            StrategicError::BadDirective(format!(
                "the patch format for {} is invalid",
                prefix.trim_start_matches('$')
            ))
        })
}

/// The elements of the patch must appear in the wanted order, in that order.
fn check_order(given: &[Value], order: &[Value], key: Option<&str>) -> Result<(), StrategicError> {
    if order.is_empty() {
        return Ok(());
    }
    let mut wanted = order.iter();
    for element in given
        .iter()
        .filter(|element| element.get(DIRECTIVE).is_none())
    {
        let id = identity(element, key)?;
        loop {
            let Some(next) = wanted.next() else {
                let message = format!(
                    "The order in patch list doesn't match {ELEMENT_ORDER} list at {}",
                    shown(id)
                );
                return Err(StrategicError::BadDirective(message));
            };
            if identity(next, key)? == id {
                break;
            }
        }
    }
    Ok(())
}

fn delete_from_list(live: &mut Object, name: &str, values: &Value) {
    if let (Some(Value::Array(items)), Value::Array(values)) = (live.get_mut(name), values) {
        let values: HashSet<String> = values.iter().map(Value::to_string).collect();
        items.retain(|item| !values.contains(&item.to_string()));
    }
}

fn merge_list(
    field: Option<&Schema>,
    live: Vec<Value>,
    patch: &[Value],
) -> Result<Value, StrategicError> {
    let Some(field) = field.filter(|field| field.patch_strategy().merge) else {
        return Ok(Value::Array(patch.to_vec()));
    };
    if live.is_empty() && patch.is_empty() {
        return Ok(Value::Array(live));
    }
    let n_objects = live
        .iter()
        .chain(patch)
        .filter(|item| item.is_object())
        .count();
    if n_objects == 0 {
        let mut merged = live.clone();
        merged.extend(patch.iter().cloned());
        return Ok(Value::Array(in_order(
            deduplicated(merged),
            patch,
            &live,
            None,
        )?));
    }
    if n_objects != live.len() + patch.len() {
        return Err(StrategicError::MixedList(
            Value::Array(patch.to_vec()).to_string(),
        ));
    }
    let Some(key) = field.patch_merge_key() else {
        return Err(StrategicError::BadDirective(
            "cannot merge lists without merge key".to_owned(),
        ));
    };
    let Directed { live, patch } = apply_element_directives(live, patch, key)?;
    let mut merged = live.clone();
    let mut places = IndexByKey::default();
    for (place, item) in merged.iter().enumerate() {
        places.note(place, item.get(key));
    }
    for element in &patch {
        let id = identity(element, Some(key))?;
        let item = places.find(id).and_then(|place| merged.get_mut(place));
        match (item, element) {
            (Some(Value::Object(item)), Value::Object(element)) => {
                let item_schema = field.items().map(AsRef::as_ref);
                let merged_item = merge_map(item_schema, std::mem::take(item), element)?;
                if let Value::Object(merged_item) = merged_item {
                    *item = merged_item;
                }
            }
            _ => {
                if let Some(element) = without_directives(element) {
                    places.note(merged.len(), element.get(key));
                    merged.push(element);
                }
            }
        }
    }
    Ok(Value::Array(in_order(merged, &patch, &live, Some(key))?))
}

/// Where the first element with each identity is in a list.
#[derive(Default)]
struct IndexByKey(HashMap<String, usize>);

impl IndexByKey {
    fn note(&mut self, index: usize, id: Option<&Value>) {
        if let Some(id) = id {
            self.0.entry(id.to_string()).or_insert(index);
        }
    }

    fn find(&self, id: &Value) -> Option<usize> {
        self.0.get(&id.to_string()).copied()
    }
}

/// A live list and a patch list after elements with `$patch` have had their effect.
struct Directed {
    live: Vec<Value>,
    patch: Vec<Value>,
}

fn apply_element_directives(
    mut live: Vec<Value>,
    patch: &[Value],
    key: &str,
) -> Result<Directed, StrategicError> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut deleted = HashSet::new();
    let mut replace = false;
    for element in patch {
        match element.get(DIRECTIVE) {
            None => plain.push(element.clone()),
            Some(Value::String(directive)) if directive == "delete" => {
                deleted.insert(identity(element, Some(key))?.to_string());
            }
            Some(Value::String(directive)) if directive == "replace" => replace = true,
            Some(Value::String(directive)) if directive == "merge" => {
                let message = "merging lists cannot yet be specified in the patch".to_owned();
                return Err(StrategicError::BadDirective(message));
            }
            Some(other) => return Err(unknown_directive(other, element)),
        }
    }
    if !deleted.is_empty() {
        live.retain(|item| {
            let id = item.get(key);
            id.is_none_or(|id| !deleted.contains(&id.to_string()))
        });
    }
    Ok(if replace {
        Directed {
            live: plain,
            patch: Vec::new(),
        }
    } else {
        Directed { live, patch: plain }
    })
}

/// Sorts the elements of the patch by `order`, and inserts the others at their stored positions.
fn in_order(
    merged: Vec<Value>,
    order: &[Value],
    stored: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, StrategicError> {
    let positions = |list: &[Value]| -> Result<Vec<String>, StrategicError> {
        list.iter()
            .map(|item| identity(item, key).map(Value::to_string))
            .collect()
    };
    let index = |list: Vec<String>| -> HashMap<String, usize> {
        let mut index = HashMap::with_capacity(list.len());
        for (position, id) in list.into_iter().enumerate() {
            index.entry(id).or_insert(position);
        }
        index
    };
    let wanted = index(positions(order)?);
    let stored = index(positions(stored)?);
    let mut mentioned = Vec::new();
    let mut others = Vec::new();
    for item in merged {
        let id = identity(&item, key)?.to_string();
        let place = stored.get(&id).copied();
        match wanted.get(&id) {
            Some(position) => mentioned.push((*position, place, item)),
            None => others.push((place, item)),
        }
    }
    mentioned.sort_by_key(|(position, ..)| *position);
    others.sort_by_key(|(place, _)| *place);

    let mut woven = Vec::with_capacity(mentioned.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (_, place, item) in mentioned {
        if let Some(place) = place {
            while let Some((_, other)) =
                others.next_if(|(other, _)| other.is_some_and(|other| other < place))
            {
                woven.push(other);
            }
        }
        woven.push(item);
    }
    woven.extend(others.map(|(_, item)| item));
    Ok(woven)
}

/// The identity of an element: the value of its merge key, or a scalar itself.
fn identity<'a>(element: &'a Value, key: Option<&str>) -> Result<&'a Value, StrategicError> {
    match key {
        None => Ok(element),
        Some(key) => element
            .get(key)
            .ok_or_else(|| StrategicError::MissingMergeKey {
                element: go_text::value(element),
                key: key.to_owned(),
            }),
    }
}

fn unknown_directive(directive: &Value, map: &Value) -> StrategicError {
    StrategicError::UnknownDirective {
        directive: go_text::value(directive),
        map: go_text::value(map),
    }
}

fn deduplicated(items: Vec<Value>) -> Vec<Value> {
    let mut seen = HashSet::new();
    items
        .into_iter()
        .filter(|item| seen.insert(item.to_string()))
        .collect()
}

/// A patch value without nulls and directives.
fn without_directives(patch: &Value) -> Option<Value> {
    match patch {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(Value::Object(
            map.iter()
                .filter(|(key, value)| !value.is_null() && !is_directive(key))
                .filter_map(|(key, value)| Some((key.clone(), without_directives(value)?)))
                .collect(),
        )),
        Value::Array(items) => Some(Value::Array(
            items.iter().filter_map(without_directives).collect(),
        )),
        scalar => Some(scalar.clone()),
    }
}

fn is_directive(key: &str) -> bool {
    key == RETAIN_KEYS || key.starts_with(DELETE_FROM_LIST) || key.starts_with(ELEMENT_ORDER)
}
