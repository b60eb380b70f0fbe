//! Revisions: the templates a set has had, kept as objects so that an update can go on, or back, after a restart.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{Seen, Step, name_and_uid, owner, pods};
use crate::hex;

/// How many old revisions are kept when the set does not say.
const HISTORY: i32 = 10;
/// Ten letters: with the hyphen they leave a set 52 of the 63 that a label value has.
const HASH_BYTES: usize = 5;

/// A template by the name of its revision.
#[derive(Debug, Clone)]
pub(super) struct Revision {
    pub(super) name: String,
    pub(super) template: PodTemplateSpec,
}

/// The two that matter: where the set comes from, and where it goes.
#[derive(Debug, Clone)]
pub(super) struct Revisions {
    current: Revision,
    update: Revision,
}

impl Revisions {
    pub(super) fn of(set: &StatefulSet, known: &[&ControllerRevision]) -> Self {
        let update = Revision {
            name: name(set),
            template: set.spec.template.clone(),
        };
        let status = set.status.as_ref();
        let current = status
            .and_then(|status| status.current_revision.as_deref())
            .and_then(|name| {
                known
                    .iter()
                    .find(|known| known.metadata.name.as_deref() == Some(name))
            })
            .and_then(|known| stored(known))
            // A revision that is gone cannot be gone back to.
            .unwrap_or_else(|| update.clone());
        Self { current, update }
    }

    pub(super) fn current(&self) -> &Revision {
        &self.current
    }

    pub(super) fn update(&self) -> &Revision {
        &self.update
    }

    pub(super) fn update_name(&self) -> &str {
        &self.update.name
    }

    /// The newest revision is there and has the highest number; of the old ones as many as the set wants.
    pub(super) fn steps(&self, seen: &Seen<'_>) -> Vec<Step> {
        let number = |known: &ControllerRevision| known.revision.unwrap_or(0);
        let highest = seen.revisions.iter().map(|known| number(known)).max();
        let found = seen
            .revisions
            .iter()
            .find(|known| known.metadata.name.as_deref() == Some(&self.update.name));
        let mut steps = Vec::new();
        match (found, highest) {
            (None, highest) => steps.push(Step::CreateRevision(Box::new(
                self.object(seen.set, highest.unwrap_or(0) + 1),
            ))),
            (Some(found), Some(highest)) if number(found) < highest => {
                steps.push(Step::RenumberRevision {
                    name: self.update.name.clone(),
                    revision: highest + 1,
                });
            }
            (Some(_), _) => {}
        }
        steps.extend(self.prune(seen));
        steps
    }

    fn prune(&self, seen: &Seen<'_>) -> Vec<Step> {
        let used: BTreeSet<&str> = seen
            .pods
            .iter()
            .filter_map(|pod| pods::revision(pod))
            .chain([self.current.name.as_str(), self.update.name.as_str()])
            .collect();
        let mut old: Vec<_> = seen
            .revisions
            .iter()
            .filter(|known| !used.contains(known.metadata.name.as_deref().unwrap_or_default()))
            .collect();
        old.sort_by_key(|known| known.revision);
        let kept = seen.set.spec.revision_history_limit.unwrap_or(HISTORY);
        let n_pruned = old
            .len()
            .saturating_sub(kept.max(0).unsigned_abs() as usize);
        old.into_iter()
            .take(n_pruned)
            .map(|known| {
                let (name, uid) = name_and_uid(&known.metadata);
                Step::DeleteRevision { name, uid }
            })
            .collect()
    }

    fn object(&self, set: &StatefulSet, revision: i64) -> ControllerRevision {
        let mut object = ControllerRevision {
            // The form in which `kubectl rollout undo` applies it as a patch.
            data: RawExtension(json!({"spec": {"template": with_patch(&self.update.template)}})),
            revision: Some(revision),
            ..ControllerRevision::default()
        };
        let template = self.update.template.metadata.as_ref();
        object.metadata.name = Some(self.update.name.clone());
        object
            .metadata
            .namespace
            .clone_from(&set.metadata.namespace);
        object.metadata.labels = template.and_then(|template| template.labels.clone());
        object.metadata.owner_references = Some(vec![owner(set)]);
        object
    }
}

fn with_patch(template: &PodTemplateSpec) -> serde_json::Value {
    let mut value = json!(template);
    value["$patch"] = json!("replace");
    value
}

fn stored(revision: &ControllerRevision) -> Option<Revision> {
    let template = revision.data.0.pointer("/spec/template")?.clone();
    Some(Revision {
        name: revision.metadata.name.clone()?,
        template: serde_json::from_value(template).ok()?,
    })
}

/// The name of the revision a set asks for: its own and a digest of the template.
fn name(set: &StatefulSet) -> String {
    let text = json!(set.spec.template).to_string();
    let digest = Sha256::digest(text.as_bytes());
    let set_name = set.metadata.name.as_deref().unwrap_or_default();
    format!("{set_name}-{}", hex(&digest[..HASH_BYTES]))
}
