//! Conflicts of an apply, with the messages of the real server.

use std::collections::BTreeMap;

use jiff::Timestamp;
use polity_core::findings::MAX_FINDINGS;

use super::managers::Operation;
use crate::fields::Path;
use crate::text::quoted;

/// A field that would change and has another owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub manager: String,
    pub operation: Operation,
    /// The version the owner wrote in; empty for an applier.
    pub api_version: String,
    /// Empty for the object itself.
    pub subresource: String,
    pub time: Option<Timestamp>,
    pub path: Path,
}

/// A cause of the Status that reports conflicts, with reason `FieldManagerConflict`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConflictCause {
    pub message: String,
    pub field: String,
}

impl Conflict {
    /// The owner as shown in messages: `"mgr" with subresource "status" using v1`.
    fn owner(&self) -> String {
        let mut owner = quoted(&self.manager);
        if !self.subresource.is_empty() {
            owner = format!("{owner} with subresource {}", quoted(&self.subresource));
        }
        if self.operation == Operation::Update {
            owner = format!("{owner} using {}", self.api_version);
            if let Some(time) = self.time {
                owner = format!("{owner} at {}", time.strftime("%Y-%m-%dT%H:%M:%SZ"));
            }
        }
        owner
    }
}

/// One cause per conflict, for the first [`MAX_FINDINGS`] conflicts.
pub fn conflict_causes(conflicts: &[Conflict]) -> Vec<ConflictCause> {
    let cause = |conflict: &Conflict| ConflictCause {
        message: format!("conflict with {}", conflict.owner()),
        field: conflict.path.shortened(),
    };
    conflicts.iter().take(MAX_FINDINGS).map(cause).collect()
}

/// The message of the Status that reports conflicts.
pub fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            only.owner(),
            only.path.shortened()
        );
    }
    let mut by_owner: BTreeMap<_, Vec<&Conflict>> = BTreeMap::new();
    for conflict in conflicts.iter().take(MAX_FINDINGS) {
        let key = (
            &conflict.manager,
            conflict.operation,
            &conflict.api_version,
            &conflict.subresource,
        );
        by_owner.entry(key).or_default().push(conflict);
    }
    let mut lines = Vec::new();
    for conflicts in by_owner.values() {
        lines.extend(
            conflicts
                .first()
                .map(|conflict| format!("conflicts with {}:", conflict.owner())),
        );
        lines.extend(
            conflicts
                .iter()
                .map(|conflict| format!("- {}", conflict.path.shortened())),
        );
    }
    if conflicts.len() > MAX_FINDINGS {
        lines.push(format!("and {} more", conflicts.len() - MAX_FINDINGS));
    }
    format!(
        "Apply failed with {} conflicts: {}",
        conflicts.len(),
        lines.join("\n")
    )
}
