//! Mutating webhooks are called in sequence. Each gets the object as changed by its predecessors.

use std::collections::HashSet;
use std::sync::Arc;

use polity_core::GroupVersionKind;
use polity_merge::patch::json_patch;
use serde_json::Value;

use super::configurations::{Configs, Webhook};
use super::matching::{self, Invocation};
use super::review::{Patch, Subject, in_version};
use super::validate::{CallFailure, call};
use super::{Attributes, Host, Notes};
use polity_kinds::status::ApiError;

/// The object as the webhooks left it.
#[derive(Debug)]
pub struct Mutated {
    /// `None` on DELETE.
    pub object: Option<Value>,
    pub changed: bool,
}

impl Configs {
    /// Shows a request to all mutating webhooks it matches, and to some again.
    pub async fn mutate(
        &self,
        host: &dyn Host,
        attributes: &Attributes<'_>,
        object: Option<Value>,
        notes: &mut Notes,
    ) -> Result<Mutated, ApiError> {
        if self.mutating.is_empty() || attributes.is_exempt() {
            return Ok(Mutated {
                object,
                changed: false,
            });
        }
        let managed = object
            .as_ref()
            .and_then(|object| object.pointer("/metadata/managedFields"))
            .cloned();
        let mut run = Run {
            host,
            attributes,
            object: object.map(Arc::new),
            subjects: Vec::new(),
            changed: false,
            reinvocation: Reinvocation::default(),
        };
        run.round(self, false, notes).await?;
        if run.changed {
            run.round(self, true, notes).await?;
        }
        let changed = run.changed;
        // No webhook's view of the object is needed any more, so this does not copy.
        run.subjects.clear();
        let mut object = run.object.map(Arc::unwrap_or_clone);
        if let Some(object) = object.as_mut().filter(|_| changed) {
            keep_managed_fields(object, managed);
            check_namespace(attributes, object)?;
        }
        Ok(Mutated { object, changed })
    }
}

/// Which webhooks run again. A webhook is known by its place in the index.
#[derive(Debug, Default)]
struct Reinvocation {
    /// Ran, want to run again if the object changes, and it has not changed since.
    waiting: HashSet<(usize, usize)>,
    due: HashSet<(usize, usize)>,
}

struct Run<'a> {
    host: &'a dyn Host,
    attributes: &'a Attributes<'a>,
    object: Option<Arc<Value>>,
    /// Views of the current object, by version.
    subjects: Vec<Arc<Subject<'a>>>,
    changed: bool,
    reinvocation: Reinvocation,
}

impl<'a> Run<'a> {
    async fn round(
        &mut self,
        configs: &Configs,
        is_second: bool,
        notes: &mut Notes,
    ) -> Result<(), ApiError> {
        for (config_index, config) in configs.mutating.iter().enumerate() {
            for (index, webhook) in config.webhooks.iter().enumerate() {
                let place = (config_index, index);
                if is_second && !self.reinvocation.due.contains(&place) {
                    continue;
                }
                let Some(subject) = self.subject_for(webhook)? else {
                    continue;
                };
                let changed = self.ask(webhook, &subject, notes).await?;
                if changed {
                    self.changed = true;
                    let waiting = std::mem::take(&mut self.reinvocation.waiting);
                    self.reinvocation.due.extend(waiting);
                }
                if webhook.reinvoked_if_needed {
                    self.reinvocation.waiting.insert(place);
                }
            }
        }
        Ok(())
    }

    /// The object for the webhook, if the webhook is to be called.
    fn subject_for(&mut self, webhook: &Webhook) -> Result<Option<Arc<Subject<'a>>>, ApiError> {
        let Some(invocation) =
            matching::matched(webhook, self.host, self.attributes, self.object.as_deref())?
        else {
            return Ok(None);
        };
        let subject = self.subject(invocation);
        let holds = matching::conditions_hold(webhook, self.host, self.attributes, &subject)?;
        Ok(holds.then_some(subject))
    }

    fn subject(&mut self, invocation: Invocation<'a>) -> Arc<Subject<'a>> {
        let known = self.subjects.iter().find(|subject| {
            subject.invocation.kind == invocation.kind
                && subject.invocation.resource == invocation.resource
        });
        if let Some(subject) = known {
            return Arc::clone(subject);
        }
        let subject = Arc::new(Subject::new(
            invocation,
            self.object.as_ref(),
            self.attributes.old_object,
        ));
        self.subjects.push(Arc::clone(&subject));
        subject
    }

    /// Calls one webhook; whether it changed the object.
    async fn ask(
        &mut self,
        webhook: &Webhook,
        subject: &Subject<'a>,
        notes: &mut Notes,
    ) -> Result<bool, ApiError> {
        let answered = call(webhook, self.host, self.attributes, subject, true, notes).await;
        let patch = match answered {
            Ok(patch) => patch,
            Err(failure) => return failure.settle(webhook).map(|()| false),
        };
        let Some(patch) = patch else {
            return Ok(false);
        };
        match self.apply(webhook, &patch, &subject.invocation.kind) {
            Ok(changed) => Ok(changed),
            Err(failure) => failure.settle(webhook).map(|()| false),
        }
    }

    /// Patches the object in the version the webhook saw, then reads it like a client's.
    fn apply(
        &mut self,
        webhook: &Webhook,
        patch: &Patch,
        kind: &GroupVersionKind,
    ) -> Result<bool, CallFailure> {
        let operations: Vec<Value> = serde_json::from_slice(&patch.bytes).map_err(|error| {
            CallFailure::Call(format!(
                "received undecodable patch in webhook response: {error}"
            ))
        })?;
        if operations.is_empty() {
            return Ok(false);
        }
        let Some(object) = &self.object else {
            let why = format!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                webhook.name
            );
            return Err(CallFailure::Refused(ApiError::internal(why)));
        };
        if patch.kind != "JSONPatch" {
            return Err(CallFailure::Call(format!(
                "unsupported patch type {:?}",
                patch.kind
            )));
        }
        let mut patched = in_version(object, &kind.api_version());
        apply_operations(&mut patched, operations)
            .map_err(|why| CallFailure::Refused(ApiError::internal(why)))?;
        let own_version = self.attributes.kind.api_version();
        if patched.get("apiVersion").and_then(Value::as_str) == Some(&kind.api_version()) {
            patched = in_version(&patched, &own_version);
        }
        let accepted = self
            .host
            .accept_patched(self.attributes.kind, patched)
            .map_err(CallFailure::Refused)?;
        let changed = accepted != **object;
        if changed {
            self.object = Some(Arc::new(accepted));
            self.subjects.clear();
        }
        Ok(changed)
    }
}

fn apply_operations(object: &mut Value, operations: Vec<Value>) -> Result<(), String> {
    if operations
        .iter()
        .any(|operation| operation.get("op").and_then(Value::as_str) == Some("replace"))
    {
        // The patch library of the real server allows `replace` of a missing member.
        for mut operation in operations {
            let is_new = operation.get("op").and_then(Value::as_str) == Some("replace")
                && operation
                    .get("path")
                    .and_then(Value::as_str)
                    .is_some_and(|path| names_new_member(object, path));
            if is_new {
                operation["op"] = "add".into();
            }
            json_patch(object, &Value::Array(vec![operation]))
                .map_err(|error| error.to_string())?;
        }
        return Ok(());
    }
    json_patch(object, &Value::Array(operations)).map_err(|error| error.to_string())
}

/// Whether the path leads to a member that an existing object does not have.
fn names_new_member(object: &Value, path: &str) -> bool {
    let parent = path
        .rsplit_once('/')
        .and_then(|(parent, _)| object.pointer(parent));
    parent.is_some_and(Value::is_object) && object.pointer(path).is_none()
}

/// Managed fields that a webhook made unusable are put back.
fn keep_managed_fields(object: &mut Value, before: Option<Value>) {
    let after = object.pointer("/metadata/managedFields");
    if after == before.as_ref() || after.is_none_or(are_usable) {
        return;
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        match before {
            Some(before) => metadata.insert("managedFields".to_owned(), before),
            None => metadata.remove("managedFields"),
        };
    }
}

fn are_usable(managed_fields: &Value) -> bool {
    managed_fields.as_array().is_some_and(|entries| {
        entries.iter().all(|entry| {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            matches!(text("operation"), "Apply" | "Update")
                && !text("apiVersion").is_empty()
                && text("fieldsType") == "FieldsV1"
                && entry.get("fieldsV1").is_some_and(Value::is_object)
        })
    })
}

/// Webhooks do not move objects.
fn check_namespace(attributes: &Attributes<'_>, object: &Value) -> Result<(), ApiError> {
    let namespace = object
        .pointer("/metadata/namespace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let expected = if attributes.is_namespace() {
        ""
    } else {
        attributes.namespace
    };
    if namespace == expected {
        return Ok(());
    }
    let why =
        "the namespace of the provided object does not match the namespace sent on the request";
    Err(ApiError::bad_request(why))
}
