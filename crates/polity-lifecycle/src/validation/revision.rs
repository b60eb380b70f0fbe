//! Revisions: what they say never changes, and each writer of their status writes only what is its own.
//!
//! RBAC cannot select by label. Without this the account of one policy server could mark another tenant's revision
//! initialised, with a digest of its choice.

use polity_api::policies::names;
use polity_api::policies::v1::{
    ConditionType, PolicyCondition, PolicyRevision, PolicyRevisionStatus,
};
use polity_core::{FieldError, FieldPath};

/// Who writes a status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusWriter {
    /// The controller.
    Controller,
    /// A replica of a policy server, by the account it runs under.
    Replica {
        /// The policy servers that run under this account.
        servers: Vec<String>,
        /// The ordinal of its pod, where the request tells which pod it came from.
        ordinal: Option<i32>,
    },
    /// Anybody else.
    Other,
}

/// What is wrong with a change of a revision: everything but `enabled` stays, and that goes from true to false only.
pub fn revision(new: &PolicyRevision, old: &PolicyRevision) -> Vec<FieldError> {
    let spec = FieldPath::of("spec");
    let (new, old) = (&new.spec, &old.spec);
    let mut wrong: Vec<_> = [
        (
            "objectReference",
            new.object_reference == old.object_reference,
        ),
        (
            "policyGeneration",
            new.policy_generation == old.policy_generation,
        ),
        ("data", new.data == old.data),
    ]
    .into_iter()
    .filter(|(_, is_same)| !is_same)
    .map(|(field, _)| {
        FieldError::forbidden(&spec.child(field), &format!("{field} cannot be changed"))
    })
    .collect();
    if new.enabled && !old.enabled {
        let detail = "a revision that was disabled cannot be enabled again";
        wrong.push(FieldError::forbidden(&spec.child("enabled"), detail));
    }
    wrong
}

/// What is wrong with a change of a revision's status by this writer.
pub fn revision_status(
    new: &PolicyRevision,
    old: &PolicyRevision,
    writer: &StatusWriter,
) -> Vec<FieldError> {
    let status = FieldPath::of("status");
    let server = old
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(names::REVISION_POLICY_SERVER));
    let ordinal = match writer {
        StatusWriter::Controller => return Vec::new(),
        StatusWriter::Replica { servers, ordinal }
            if server.is_some_and(|server| servers.contains(server)) =>
        {
            *ordinal
        }
        StatusWriter::Replica { .. } | StatusWriter::Other => {
            let server = server.map(String::as_str).unwrap_or_default();
            let detail = format!(
                "only the controller and the policy server {server:?} report about this revision"
            );
            return vec![FieldError::forbidden(&status, &detail)];
        }
    };
    let Some(own) = ordinal else {
        return Vec::new();
    };
    let conditions = status.child("conditions");
    changed(new, old)
        .into_iter()
        .filter(|replica| *replica != own)
        .map(|replica| {
            let detail = format!("replica {own} cannot report for replica {replica}");
            FieldError::forbidden(&conditions, &detail)
        })
        .collect()
}

/// The replicas whose `Ready` differs.
fn changed(new: &PolicyRevision, old: &PolicyRevision) -> Vec<i32> {
    let ready = |revision: &PolicyRevision| -> Vec<PolicyCondition> {
        let PolicyRevisionStatus { conditions, .. } = revision.status.clone().unwrap_or_default();
        let is_ready = |one: &PolicyCondition| one.type_ == ConditionType::Ready.as_str();
        conditions.into_iter().filter(is_ready).collect()
    };
    let (new, old) = (ready(new), ready(old));
    let mut changed: Vec<_> = new
        .iter()
        .filter(|one| !old.contains(one))
        .chain(old.iter().filter(|one| !new.contains(one)))
        .map(|one| one.replica.unwrap_or(-1))
        .collect();
    changed.sort_unstable();
    changed.dedup();
    changed
}
