//! Server-side apply, and field ownership for every other write.
//!
//! `metadata.managedFields` is read from the live object, updated, and written to the result. No other state is kept.
//! All versions of a kind share their paths (conversion None), so entries of other versions are used unchanged.

mod conflict;
mod last_applied;
mod managers;
mod ownership;

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::fields::FieldSet;
use crate::schema::Schema;
use crate::typed::{self, Duplicates, Type};

pub use conflict::{Conflict, ConflictCause, conflict_causes, conflict_message};
pub use managers::Operation;

use managers::{Id, Managers};
use ownership::Write;

/// An apply request.
#[derive(Debug, Clone, Copy)]
pub struct ApplyInput<'a> {
    /// The schema of the version that is applied.
    pub schema: &'a Schema,
    /// The stored object in that version, if there is one.
    pub live: Option<&'a Value>,
    /// The applied configuration.
    pub body: &'a Value,
    pub manager: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub api_version: &'a str,
    /// Take fields from their managers instead of failing.
    pub force: bool,
    pub now: jiff::Timestamp,
    /// Paths this endpoint never records, such as `status` for the main resource.
    pub ignore: &'a FieldSet,
}

/// Any other write: create, update, or a patch that is already merged.
#[derive(Debug)]
pub struct UpdateInput<'a> {
    /// The schema of the version that is written.
    pub schema: &'a Schema,
    /// The stored object in that version; `None` for a create.
    pub live: Option<&'a Value>,
    /// The fields that a new object of this kind always has. By default they come from its schema.
    pub blank: Option<&'a Value>,
    /// The object as it will be stored; its managedFields are set.
    pub new: &'a mut Value,
    pub manager: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    pub api_version: &'a str,
    pub now: jiff::Timestamp,
    /// Paths this endpoint never records.
    pub ignore: &'a FieldSet,
}

/// Why an apply was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Other managers own fields that would change.
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<Conflict>),
    /// The body contains managedFields, which an apply must not: a bad request.
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsInBody,
    /// The body or the live object does not match the schema.
    #[error("{0}")]
    NotTyped(String),
    /// The live object's managedFields cannot be parsed.
    #[error("failed to decode managed fields: {0}")]
    LiveManagedFields(String),
}

/// Merges an applied configuration into the live object.
///
/// The result contains the new `metadata.managedFields`. An apply without a change returns the live object unchanged,
/// including timestamps.
pub fn apply(input: &ApplyInput<'_>) -> Result<Value, ApplyError> {
    let body_meta = input.body.get("metadata");
    if body_meta
        .and_then(|meta| meta.get("managedFields"))
        .is_some_and(|fields| !fields.is_null())
    {
        return Err(ApplyError::ManagedFieldsInBody);
    }
    let ty = Type::of(input.schema);
    typed::check(ty, input.body, Duplicates::Refused).map_err(|error| {
        ApplyError::NotTyped(format!(
            "failed to create typed patch object ({}): {error}",
            title(input.body)
        ))
    })?;
    let live = &*live_or_empty(input.live, input.schema);
    typed::check(ty, live, Duplicates::Allowed).map_err(|error| {
        ApplyError::NotTyped(format!(
            "failed to create typed live object ({}): {error}",
            title(live)
        ))
    })?;
    let mut managers =
        Managers::decode(managed_fields(live)).map_err(ApplyError::LiveManagedFields)?;
    if managers.is_empty() && input.live.is_some() {
        // Earlier writers were not recorded; their fields must not look unowned.
        let id = Id::update("before-first-apply", input.subresource, input.api_version);
        let write = Write {
            id,
            api_version: input.api_version,
            now: input.now,
            ignore: input.ignore,
        };
        ownership::update(
            ty,
            &typed::empty_object(input.schema),
            live,
            &mut managers,
            &write,
        );
    }

    let id = Id::apply(input.manager, input.subresource);
    let write = Write {
        id,
        api_version: input.api_version,
        now: input.now,
        ignore: input.ignore,
    };
    let outcome =
        match ownership::apply(ty, live, input.body, managers.clone(), &write, input.force) {
            Err(conflicts) if input.manager == last_applied::KUBECTL => {
                let allowed = last_applied::owned(ty, live, input.api_version);
                let remaining: Vec<_> = conflicts
                    .into_iter()
                    .filter(|conflict| !allowed.contains(&conflict.path.0))
                    .collect();
                if !remaining.is_empty() {
                    return Err(ApplyError::Conflicts(remaining));
                }
                ownership::apply(ty, live, input.body, managers, &write, true)
            }
            other => other,
        };
    let (mut merged, managers) = outcome.map_err(ApplyError::Conflicts)?;
    if input.manager == last_applied::KUBECTL {
        last_applied::refresh(&mut merged, input.body);
    }
    set_managed_fields(&mut merged, managers.encode());
    match input.live {
        Some(live) if typed::equal(live, &merged) => Ok(live.clone()),
        _ => Ok(merged),
    }
}

/// Records the field ownership after any write other than an apply.
///
/// An object whose managedFields were lost or cleared stays untracked until it is applied. If the object does not
/// match its schema, the live managedFields are kept.
pub fn track_update(input: UpdateInput<'_>) {
    let UpdateInput {
        schema,
        live,
        blank,
        new,
        manager,
        subresource,
        api_version,
        now,
        ignore,
    } = input;
    let stored = live.and_then(managed_fields);
    let mut managers = if subresource.is_empty() {
        requested_managers(new, stored)
    } else {
        Managers::decode(stored).unwrap_or_default()
    };
    take_managed_fields(new);
    let tracked = live.is_none() || !managers.is_empty();
    if tracked {
        let ty = Type::of(schema);
        let old = &*live_or_empty(live.or(blank), schema);
        if typed::check(ty, new, Duplicates::Allowed).is_err()
            || typed::check(ty, old, Duplicates::Allowed).is_err()
        {
            set_managed_fields(new, stored.cloned());
            return;
        }
        let write = Write {
            id: Id::update(manager, subresource, api_version),
            api_version,
            now,
            ignore,
        };
        ownership::update(ty, old, new, &mut managers, &write);
        managers.merge_oldest_updates();
    }
    set_managed_fields(new, managers.encode());
}

/// The managers an update starts from: an empty list clears them, an absent or unreadable one keeps the
/// stored ones, any other is taken.
fn requested_managers(new: &Value, stored: Option<&Value>) -> Managers {
    let requested = managed_fields(new);
    if requested
        .and_then(Value::as_array)
        .is_some_and(|list| is_reset(list))
    {
        return Managers::default();
    }
    match Managers::decode(requested) {
        Ok(managers) if !managers.is_empty() => managers,
        _ => Managers::decode(stored).unwrap_or_default(),
    }
}

fn is_reset(entries: &[Value]) -> bool {
    match entries {
        [] => true,
        [Value::Object(only)] => only.is_empty(),
        _ => false,
    }
}

/// The base of a write: the stored object, or a new object of this kind.
fn live_or_empty<'a>(live: Option<&'a Value>, schema: &Schema) -> Cow<'a, Value> {
    live.map_or_else(|| Cow::Owned(typed::empty_object(schema)), Cow::Borrowed)
}

fn managed_fields(object: &Value) -> Option<&Value> {
    object
        .get("metadata")?
        .get("managedFields")
        .filter(|fields| !fields.is_null())
}

fn take_managed_fields(object: &mut Value) {
    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
        metadata.remove("managedFields");
    }
}

fn set_managed_fields(object: &mut Value, fields: Option<Value>) {
    take_managed_fields(object);
    let (Value::Object(object), Some(fields)) = (object, fields) else {
        return;
    };
    let metadata = object
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    if let Value::Object(metadata) = metadata {
        metadata.insert("managedFields".to_owned(), fields);
    }
}

/// An object as messages name it: `namespace/name; group/version, Kind=kind`.
fn title(object: &Value) -> String {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let metadata = object.get("metadata");
    let namespace = text(metadata.and_then(|metadata| metadata.get("namespace")));
    let name = text(metadata.and_then(|metadata| metadata.get("name")));
    let api_version = text(object.get("apiVersion"));
    let group_version = if api_version.contains('/') {
        api_version
    } else {
        format!("/{api_version}")
    };
    format!(
        "{namespace}/{name}; {group_version}, Kind={}",
        text(object.get("kind"))
    )
}

#[cfg(test)]
mod tests;
