//! Which objects are deleted when a policy no longer lists them. See docs/spec/governance.md#11-9.

use std::collections::{BTreeMap, BTreeSet};

use polity_api::decode_fields;
use polity_api::policy::v1;
use polity_core::FieldPath;
use serde_json::Value;

use crate::policy::{ConfigurationPolicy, PruneBehavior};
use crate::related::{NO_NAME, ObjectRef, Related};
use crate::status::Status;

/// An object that dropped out while its policy only informed: an entry of `prunableObjects`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prunable {
    pub object: ObjectRef,
    pub uid: String,
    pub created_by_policy: bool,
}

/// An object that may have to be deleted; [`Target::judge`] decides, once it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub object: ObjectRef,
    behavior: PruneBehavior,
    created_by_policy: bool,
    uid: String,
}

/// What to do about a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is gone, or not ours to delete.
    Leave,
    Delete,
    /// It is being deleted and has not gone yet: a failure, to be tried again.
    Hanging,
}

/// What an evaluation leaves to prune.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pruning {
    pub(crate) targets: Vec<Target>,
    pub(crate) remembered: Vec<Prunable>,
}

impl Target {
    /// Decides by what is there now; `None` is an object that is gone, or whose kind is.
    pub fn judge(&self, existing: Option<&Value>) -> Step {
        let Some(existing) = existing else {
            return Step::Leave;
        };
        let metadata = &existing["metadata"];
        let ours = match self.behavior {
            PruneBehavior::None => false,
            PruneBehavior::DeleteAll => true,
            PruneBehavior::DeleteIfCreated => {
                self.created_by_policy && metadata["uid"].as_str().unwrap_or_default() == self.uid
            }
        };
        match ours {
            false => Step::Leave,
            true if metadata["deletionTimestamp"].is_string() => Step::Hanging,
            true => Step::Delete,
        }
    }
}

/// What dropped out with an evaluation. An incomplete one, where a template or a kind failed, prunes and
/// forgets nothing.
pub(crate) fn after(
    policy: &ConfigurationPolicy,
    previous: &Status,
    related: &[Related],
    complete: bool,
) -> Pruning {
    if policy.prune == PruneBehavior::None {
        return Pruning::default();
    }
    let mut dropped: BTreeMap<ObjectRef, Prunable> = previous
        .prunable
        .iter()
        .map(|known| (known.object.clone(), known.clone()))
        .collect();
    if complete {
        for old in &previous.related {
            dropped.insert(old.object.clone(), prunable(old));
        }
    }
    let listed: BTreeSet<&ObjectRef> = related.iter().map(|entry| &entry.object).collect();
    dropped.retain(|object, _| !listed.contains(object) && object.name != NO_NAME);
    if policy.enforces() && complete {
        return Pruning {
            targets: dropped
                .into_values()
                .map(|one| target(policy, one))
                .collect(),
            remembered: Vec::new(),
        };
    }
    Pruning {
        targets: Vec::new(),
        remembered: dropped.into_values().collect(),
    }
}

/// What goes with the policy itself: everything it was about. Nothing, while Polity is being uninstalled.
pub fn at_deletion(
    policy: &ConfigurationPolicy,
    status: &Status,
    uninstalling: bool,
) -> Vec<Target> {
    if !policy.enforces() || policy.prune == PruneBehavior::None || uninstalling {
        return Vec::new();
    }
    let mut all: BTreeMap<ObjectRef, Prunable> = status
        .prunable
        .iter()
        .map(|known| (known.object.clone(), known.clone()))
        .collect();
    for entry in &status.related {
        all.insert(entry.object.clone(), prunable(entry));
    }
    all.retain(|object, _| object.name != NO_NAME);
    all.into_values().map(|one| target(policy, one)).collect()
}

/// The message when targets could not be deleted; the state is Terminating then.
pub fn failure_message<'a>(failed: impl IntoIterator<Item = &'a Target>) -> String {
    let names: Vec<String> = failed
        .into_iter()
        .map(|target| {
            let object = &target.object;
            let (group, version) = object
                .api_version
                .split_once('/')
                .unwrap_or(("", &object.api_version));
            format!(
                "{group}/{version}, Kind={} \"{}\" in namespace {}",
                object.kind, object.name, object.namespace
            )
        })
        .collect();
    format!("Failed to delete objects: {}", names.join(", "))
}

fn prunable(related: &Related) -> Prunable {
    let properties = related.properties.as_ref();
    Prunable {
        object: related.object.clone(),
        uid: properties.map_or_else(String::new, |known| known.uid.clone()),
        created_by_policy: properties.is_some_and(|known| known.created_by_policy),
    }
}

fn target(policy: &ConfigurationPolicy, prunable: Prunable) -> Target {
    Target {
        object: prunable.object,
        behavior: policy.prune,
        created_by_policy: prunable.created_by_policy,
        uid: prunable.uid,
    }
}

impl Prunable {
    pub(crate) fn to_wire(&self) -> v1::PrunableObject {
        v1::PrunableObject {
            object: self.object.to_wire(),
            uid: Some(self.uid.clone()),
            created_by_policy: Some(self.created_by_policy),
        }
    }

    /// Reads an entry of `prunableObjects`; a field of the wrong type counts as absent.
    pub fn from_json(entry: &Value) -> Self {
        let (entry, _) = decode_fields::<v1::PrunableObject>(entry, &FieldPath::root());
        let entry = entry.unwrap_or_default();
        Self {
            object: entry.object.into(),
            uid: entry.uid.unwrap_or_default(),
            created_by_policy: entry.created_by_policy.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use polity_core::GroupVersionKind;

    use serde_json::json;

    use super::*;
    use crate::related::Properties;

    fn policy(action: &str, prune: &str) -> ConfigurationPolicy {
        ConfigurationPolicy::from_json(&json!({"metadata": {"name": "p"}, "spec": {
            "remediationAction": action, "pruneObjectBehavior": prune, "object-templates": []}}))
        .unwrap()
    }

    fn related(name: &str, created: bool) -> Related {
        Related {
            object: ObjectRef::new(
                &GroupVersionKind::new("", "v1", "ConfigMap"),
                Some("n"),
                name,
            ),
            compliant: true,
            reason: String::new(),
            properties: Some(Properties {
                created_by_policy: created,
                uid: format!("uid-{name}"),
                ..Properties::default()
            }),
        }
    }

    fn status(related: Vec<Related>) -> Status {
        Status {
            related,
            ..Status::default()
        }
    }

    fn names(targets: &[Target]) -> Vec<&str> {
        targets
            .iter()
            .map(|target| target.object.name.as_str())
            .collect()
    }

    /// docs/spec/governance.md#11-9
    #[test]
    fn what_dropped_out_is_pruned_when_enforcing() {
        let before = status(vec![
            related("x", true),
            related("y", true),
            related(NO_NAME, false),
        ]);
        let now = [related("x", true)];
        for (action, behavior, complete, expected) in [
            ("enforce", "DeleteAll", true, vec!["y"]),
            ("enforce", "DeleteIfCreated", true, vec!["y"]),
            ("enforce", "None", true, vec![]),
            ("inform", "DeleteAll", true, vec![]),
            ("enforce", "DeleteAll", false, vec![]),
        ] {
            let pruning = after(&policy(action, behavior), &before, &now, complete);
            assert_eq!(
                names(&pruning.targets),
                expected,
                "{action} {behavior} {complete}"
            );
        }
    }

    /// docs/spec/governance.md#11-9, and the scenario of an object that a new version drops.
    #[test]
    fn what_drops_out_in_inform_is_pruned_at_the_next_enforcement() {
        let before = status(vec![related("x", true), related("y", true)]);
        let inform = policy("inform", "DeleteIfCreated");
        let first = after(&inform, &before, &[related("x", true)], true);
        assert!(first.targets.is_empty());
        assert_eq!(first.remembered.len(), 1);
        let waiting = Status {
            prunable: first.remembered,
            ..status(vec![related("x", true)])
        };
        let listed_again = after(
            &inform,
            &waiting,
            &[related("x", true), related("y", true)],
            true,
        );
        assert!(
            listed_again.remembered.is_empty(),
            "an object listed again leaves the list"
        );
        let enforce = policy("enforce", "DeleteIfCreated");
        let broken = after(&enforce, &waiting, &[], false);
        assert_eq!(
            (broken.targets.len(), broken.remembered.len()),
            (0, 1),
            "failures forget nothing"
        );
        let last = after(&enforce, &waiting, &[related("x", true)], true);
        assert_eq!(names(&last.targets), ["y"]);
        assert!(last.remembered.is_empty());
    }

    #[test]
    fn targets_are_judged_by_what_is_there() {
        let object = |uid: &str| json!({"metadata": {"uid": uid}});
        let judge = |behavior: &str, created: bool, existing: Option<Value>| {
            let targets = at_deletion(
                &policy("enforce", behavior),
                &status(vec![related("x", created)]),
                false,
            );
            targets[0].judge(existing.as_ref())
        };
        assert_eq!(
            judge("DeleteAll", false, Some(object("other"))),
            Step::Delete
        );
        assert_eq!(judge("DeleteAll", false, None), Step::Leave);
        assert_eq!(
            judge("DeleteIfCreated", true, Some(object("uid-x"))),
            Step::Delete
        );
        assert_eq!(
            judge("DeleteIfCreated", true, Some(object("other"))),
            Step::Leave
        );
        assert_eq!(
            judge("DeleteIfCreated", false, Some(object("uid-x"))),
            Step::Leave
        );
        let going =
            json!({"metadata": {"uid": "uid-x", "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        assert_eq!(judge("DeleteAll", true, Some(going)), Step::Hanging);
    }

    #[test]
    fn deletion_takes_everything_but_an_uninstall_nothing() {
        let status = Status {
            prunable: vec![prunable(&related("old", true))],
            ..status(vec![related("x", true)])
        };
        let enforce = policy("enforce", "DeleteAll");
        assert_eq!(names(&at_deletion(&enforce, &status, false)), ["old", "x"]);
        assert!(at_deletion(&enforce, &status, true).is_empty());
        assert!(at_deletion(&policy("inform", "DeleteAll"), &status, false).is_empty());
        assert_eq!(
            failure_message(&at_deletion(&enforce, &status, false)),
            "Failed to delete objects: /v1, Kind=ConfigMap \"old\" in namespace n, \
             /v1, Kind=ConfigMap \"x\" in namespace n"
        );
    }
}
