//! Delete and deletecollection: finalizers, grace, propagation
//! (docs/spec/apiserver.md#13).

use http::StatusCode;
use jiff::SignedDuration;
use polity_core::field::{FieldError, FieldPath};
use polity_store::{Change, CommitError, Expect, Write};
use serde_json::{Value, json};

use super::create::commit_failed;
use super::{Call, admit, special};
use crate::object::{Page, Stored};
use crate::object::{encode, meta};
use crate::request::query::{ListOptions, Query, WriteOptions, check_dry_run};
use polity_kinds::decode;
use polity_kinds::status::{ApiError, ResourceName};
use polity_webhooks::Operation;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// How dependents of a deleted object are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    Orphan,
    Background,
    Foreground,
}

/// The options of a DELETE, from its body or query.
#[derive(Debug, Clone, Default)]
pub struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub propagation: Option<Propagation>,
    /// The old option, which also changes the status code of the response.
    pub orphan_dependents: Option<bool>,
    pub dry_run: bool,
    /// The options as admission sees them.
    pub value: Value,
}

impl DeleteOptions {
    /// Options of a body, or of the query when there is none.
    pub fn parse(body: Option<&Value>, query: &Query) -> Result<Self, ApiError> {
        let from_query = || {
            let mut value = json!({});
            for key in [
                "propagationPolicy",
                "gracePeriodSeconds",
                "orphanDependents",
            ] {
                if query.has(key) {
                    value[key] = serde_json::from_str(query.get(key))
                        .unwrap_or_else(|_| json!(query.get(key)));
                }
            }
            if !value["gracePeriodSeconds"].is_null() {
                value["gracePeriodSeconds"] = json!(query.integer("gracePeriodSeconds")?);
            }
            if query.has("dryRun") {
                value["dryRun"] = json!(query.all("dryRun"));
            }
            Ok::<Value, ApiError>(value)
        };
        let mut value = match body {
            Some(body) => body.clone(),
            None => from_query()?,
        };
        if body.is_some() && query.has("dryRun") && value.get("dryRun").is_none() {
            value["dryRun"] = json!(query.all("dryRun"));
        }
        let options = Self::from_value(value)?;
        Ok(options)
    }

    fn from_value(mut value: Value) -> Result<Self, ApiError> {
        if !value.is_object() {
            return Err(ApiError::bad_request(
                "the body of a delete must be DeleteOptions",
            ));
        }
        if let Some(kind) = value
            .get("kind")
            .and_then(Value::as_str)
            .filter(|kind| !matches!(*kind, "" | "DeleteOptions"))
        {
            let version = value
                .get("apiVersion")
                .and_then(Value::as_str)
                .unwrap_or_default();
            return Err(ApiError::bad_request(format!(
                "no kind {kind:?} is registered for version {version:?}"
            )));
        }
        let mut errors = Vec::new();
        let dry_run = match value.get("dryRun") {
            None | Some(Value::Null) => false,
            Some(list) => {
                let values: Vec<String> = list
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|v| v.as_str().unwrap_or_default().to_owned())
                    .collect();
                check_dry_run(&values, &mut errors)
            }
        };
        let grace = match value.get("gracePeriodSeconds") {
            None | Some(Value::Null) => None,
            Some(seconds) => Some(seconds.as_i64().ok_or_else(|| ApiError::bad_request(format!(
                "json: cannot unmarshal {} into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
                decode::kind_of(seconds)
            )))?),
        };
        let orphan_dependents = value.get("orphanDependents").and_then(Value::as_bool);
        let policy = value.get("propagationPolicy").and_then(Value::as_str);
        let field = FieldPath::of("propagationPolicy");
        if orphan_dependents.is_some() && policy.is_some() {
            let detail = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid(&field, &json!(policy), detail));
        }
        let propagation = match policy {
            None => orphan_dependents.map(|orphan| {
                if orphan {
                    Propagation::Orphan
                } else {
                    Propagation::Background
                }
            }),
            Some("Orphan") => Some(Propagation::Orphan),
            Some("Background") => Some(Propagation::Background),
            Some("Foreground") => Some(Propagation::Foreground),
            Some(other) => {
                errors.push(FieldError::not_supported(
                    &field,
                    &json!(other),
                    &["Foreground", "Background", "Orphan", "nil"],
                ));
                None
            }
        };
        if !errors.is_empty() {
            return Err(ApiError::invalid(
                "DeleteOptions",
                "meta.k8s.io",
                "",
                &errors,
            ));
        }
        let precondition = |key: &str| {
            value
                .pointer(&format!("/preconditions/{key}"))
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        let (uid, resource_version) = (precondition("uid"), precondition("resourceVersion"));
        value["kind"] = json!("DeleteOptions");
        value["apiVersion"] = json!("meta.k8s.io/v1");
        Ok(Self {
            grace_period_seconds: grace,
            uid,
            resource_version,
            propagation,
            orphan_dependents,
            dry_run,
            value,
        })
    }
}

/// The result of a deletion.
#[derive(Debug)]
pub struct Deleted {
    /// The last state of the object, or its state while it waits for finalizers.
    pub object: Value,
    /// Whether the object was removed.
    pub gone: bool,
}

impl Deleted {
    pub fn code(&self, options: &DeleteOptions) -> StatusCode {
        let accepted = !self.gone && options.orphan_dependents == Some(false);
        if accepted {
            StatusCode::ACCEPTED
        } else {
            StatusCode::OK
        }
    }
}

impl Call<'_> {
    /// Deletes the object this call names.
    pub async fn delete(&self, options: &DeleteOptions) -> Result<Deleted, ApiError> {
        loop {
            let stored = self.live()?;
            let live = self.value(&stored);
            self.check_preconditions(&stored, options)?;
            special::may_delete(self)?;
            let write_options = WriteOptions {
                dry_run: options.dry_run,
                ..WriteOptions::internal()
            };
            let review = admit::Review {
                operation: Operation::Delete,
                options: &write_options,
                old: Some(&live),
            };
            admit::delete(self, &review, &options.value).await?;
            let (next, gone) = self.deletion_step(&live, options);
            if options.dry_run || (!gone && next == live) {
                return Ok(Deleted { object: next, gone });
            }
            match self.commit_deletion(&stored, next, gone).await {
                Ok(stored) => {
                    return Ok(Deleted {
                        object: self.value(&stored),
                        gone,
                    });
                }
                Err(CommitError::Changed { current: None, .. } | CommitError::Missing { .. }) => {
                    return Err(self.not_found());
                }
                Err(CommitError::Changed { .. }) => {}
                Err(error) => return Err(commit_failed(&error)),
            }
        }
    }

    async fn commit_deletion(
        &self,
        stored: &Stored,
        mut next: Value,
        gone: bool,
    ) -> Result<Stored, CommitError<crate::object::index::ObjectIndex>> {
        self.def.to_storage(&mut next);
        let payload = encode::payload(next.as_object().expect("a stored object is an object"));
        let change = if gone {
            Change::Delete(payload)
        } else {
            Change::Put(payload)
        };
        self.cluster
            .commit(Write {
                key: self.key(),
                expect: Expect::Exactly(stored.revision),
                change,
            })
            .await
    }

    fn check_preconditions(
        &self,
        stored: &Stored,
        options: &DeleteOptions,
    ) -> Result<(), ApiError> {
        let conflict = |what: &str, given: &str, found: &str, hint: &str| {
            let why = format!(
                "the {what} in the precondition ({given}) does not match the {what} in record ({found}). {hint}"
            );
            let kind = ResourceName {
                group: &self.def.gvk.group,
                plural: &self.def.gvk.kind,
            };
            Err(ApiError::conflict(kind, self.name, &why))
        };
        if let Some(uid) = options
            .uid
            .as_deref()
            .filter(|uid| *uid != stored.index.uid)
        {
            return conflict(
                "UID",
                uid,
                &stored.index.uid,
                "The object might have been deleted and then recreated",
            );
        }
        let version = stored.revision.to_string();
        match options.resource_version.as_deref() {
            Some(given) if given != version => conflict(
                "ResourceVersion",
                given,
                &version,
                "The object might have been modified",
            ),
            _ => Ok(()),
        }
    }

    /// The object after this deletion request, and whether it is gone with it.
    fn deletion_step(&self, live: &Value, options: &DeleteOptions) -> (Value, bool) {
        let mut next = live.clone();
        set_deletion_finalizers(&mut next, options.propagation);
        let grace = special::grace_seconds(&self.def, live, options.grace_period_seconds);
        let already = meta::is_deleting(live);
        let pending =
            !meta::finalizers(&next).is_empty() || special::holds_deletion(&self.def, live);
        if grace == 0 && !pending {
            if already || special::says_goodbye(&self.def) {
                self.mark_deleted(live, &mut next, 0);
            }
            return (next, true);
        }
        let was = meta::of(live)
            .get("deletionGracePeriodSeconds")
            .and_then(Value::as_i64);
        // A later delete may only shorten the grace.
        if !already || was.is_some_and(|was| grace < was) {
            self.mark_deleted(live, &mut next, grace);
            special::deletion_begins(&self.def, &mut next, self.now);
        }
        (next, false)
    }

    /// Sets the deletion timestamp and the grace period of an object.
    fn mark_deleted(&self, live: &Value, next: &mut Value, grace: i64) {
        let at = self
            .now
            .checked_add(SignedDuration::from_secs(grace))
            .unwrap_or(self.now);
        meta::set(next, "deletionTimestamp", json!(meta::time(at)));
        if !special::shows_grace(&self.def) {
            return;
        }
        if !meta::is_deleting(live) && meta::generation(live) > 0 {
            meta::set(next, "generation", json!(meta::generation(live) + 1));
        }
        meta::set(next, "deletionGracePeriodSeconds", json!(grace));
    }

    /// Deletes the listed objects one by one. The response is that list.
    pub async fn delete_collection(
        &self,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<Page, ApiError> {
        let page = self.list(list).await?;
        for stored in &page.items {
            let one = self.on(&stored.key.namespace, &stored.key.name);
            match one.delete(options).await {
                Ok(_) => {}
                Err(error) if error.reason == "NotFound" => {}
                Err(error) => return Err(error),
            }
        }
        Ok(page)
    }
}

fn set_deletion_finalizers(object: &mut Value, propagation: Option<Propagation>) {
    let Some(propagation) = propagation else {
        return;
    };
    let mut finalizers: Vec<String> = meta::finalizers(object)
        .into_iter()
        .filter(|f| !matches!(*f, ORPHAN | FOREGROUND))
        .map(str::to_owned)
        .collect();
    match propagation {
        Propagation::Orphan => finalizers.push(ORPHAN.into()),
        Propagation::Foreground => finalizers.push(FOREGROUND.into()),
        Propagation::Background => {}
    }
    meta::set(object, "finalizers", json!(finalizers));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn parse(body: Value) -> Result<DeleteOptions, u16> {
        DeleteOptions::parse(Some(&body), &Query::default()).map_err(|error| error.code.as_u16())
    }

    #[test]
    fn policies_and_their_old_form() {
        assert_eq!(parse(json!({})).unwrap().propagation, None);
        assert_eq!(
            parse(json!({"propagationPolicy": "Foreground"}))
                .unwrap()
                .propagation,
            Some(Propagation::Foreground)
        );
        assert_eq!(
            parse(json!({"orphanDependents": true}))
                .unwrap()
                .propagation,
            Some(Propagation::Orphan)
        );
        assert_eq!(
            parse(json!({"orphanDependents": true, "propagationPolicy": "Orphan"})).unwrap_err(),
            422
        );
        assert_eq!(
            parse(json!({"propagationPolicy": "Sideways"})).unwrap_err(),
            422
        );
        assert_eq!(parse(json!({"dryRun": ["Some"]})).unwrap_err(), 422);
        assert!(parse(json!({"dryRun": ["All"]})).unwrap().dry_run);
        assert_eq!(parse(json!([])).unwrap_err(), 400);
    }

    #[test]
    fn the_query_may_carry_the_options() {
        let query = Query::parse("propagationPolicy=Orphan&gracePeriodSeconds=0&dryRun=All");
        let options = DeleteOptions::parse(None, &query).unwrap();
        assert_eq!(options.propagation, Some(Propagation::Orphan));
        assert_eq!(options.grace_period_seconds, Some(0));
        assert!(options.dry_run);
    }
}
