//! A ConfigurationPolicy as the engine evaluates it.

mod interval;
mod lower;

use serde_json::Value;

pub use interval::{Interval, IntervalError};
pub use lower::unknown_fields;

use crate::namespaces::NamespaceSelector;

/// A configuration policy.
#[derive(Debug, Clone)]
pub struct ConfigurationPolicy {
    pub name: String,
    pub namespace: String,
    pub generation: i64,
    /// It has a deletion timestamp.
    pub deleting: bool,
    /// Its annotation says that templates are not to be resolved.
    pub templates_disabled: bool,
    pub remediation: Remediation,
    pub namespace_selector: NamespaceSelector,
    pub evaluation_interval: EvaluationInterval,
    pub prune: PruneBehavior,
    pub custom_message: CustomMessage,
    pub objects: ObjectTemplates,
    /// The policy as it was written: what custom messages call `.Policy`.
    pub document: Value,
}

/// Whether what is wrong is only said or also mended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Remediation {
    #[default]
    Inform,
    Enforce,
}

/// When to look again, by what was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EvaluationInterval {
    pub compliant: Interval,
    pub noncompliant: Interval,
}

/// What happens to objects that a policy no longer asks for (11.9).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PruneBehavior {
    #[default]
    None,
    DeleteIfCreated,
    DeleteAll,
}

/// Go templates that replace the default message (11.8).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CustomMessage {
    pub compliant: Option<String>,
    pub noncompliant: Option<String>,
}

/// `object-templates`, or the text that makes them.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectTemplates {
    Listed(Vec<ObjectTemplate>),
    /// `object-templates-raw`: resolved once over the whole text; what comes out is not resolved again.
    Raw(String),
}

/// One object, or kind of objects, and what must be true of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectTemplate {
    pub compliance: ComplianceType,
    /// For labels and annotations; the same as `compliance` when absent.
    pub metadata_compliance: Option<ComplianceType>,
    /// The partial object.
    pub definition: Value,
    /// The JSON form of a label selector.
    pub object_selector: Option<Value>,
    pub record_diff: Option<RecordDiff>,
    pub recreate: RecreateOption,
}

/// What must be true of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComplianceType {
    MustHave,
    MustOnlyHave,
    MustNotHave,
}

/// Where a difference is written to (11.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordDiff {
    Log,
    InStatus,
    None,
    /// A note instead of the difference; nobody can ask for it, secrets have it by default.
    Censored,
}

/// Whether an object that cannot be updated may be deleted and created again (11.6).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecreateOption {
    #[default]
    None,
    IfRequired,
    Always,
}

impl ConfigurationPolicy {
    /// Whether what is wrong is mended.
    pub fn enforces(&self) -> bool {
        self.remediation == Remediation::Enforce
    }
}

impl ObjectTemplate {
    /// The compliance type of labels and annotations.
    pub fn metadata_compliance(&self) -> ComplianceType {
        self.metadata_compliance.unwrap_or(self.compliance)
    }

    /// Where the difference goes: what the template says, else the status, unless it may hold secrets.
    pub fn record_diff(&self, sensitive: bool) -> RecordDiff {
        self.record_diff
            .unwrap_or(if sensitive || holds_secrets(&self.definition) {
                RecordDiff::Censored
            } else {
                RecordDiff::InStatus
            })
    }
}

/// The kinds whose differences nobody sees unless they ask for it (3.5).
fn holds_secrets(definition: &Value) -> bool {
    let text = |field: &str| definition[field].as_str().unwrap_or_default();
    let group = text("apiVersion")
        .split_once('/')
        .map_or("", |parts| parts.0);
    matches!(
        (group, text("kind")),
        ("", "ConfigMap" | "Secret")
            | (
                "oauth.openshift.io",
                "OAuthAccessToken" | "OAuthAuthorizeTokens"
            )
            | ("route.openshift.io", "Route")
    )
}
