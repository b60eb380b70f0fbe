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

/// Whether violations are only reported or also corrected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Remediation {
    #[default]
    Inform,
    Enforce,
}

/// When a policy is evaluated again, by its last compliance.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EvaluationInterval {
    pub compliant: Interval,
    pub noncompliant: Interval,
}

/// Which objects are deleted when a policy no longer lists them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PruneBehavior {
    #[default]
    None,
    DeleteIfCreated,
    DeleteAll,
}

/// Go templates that replace the default compliance messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CustomMessage {
    pub compliant: Option<String>,
    pub noncompliant: Option<String>,
}

/// `object-templates`, or the text that renders them.
#[derive(Debug, Clone, PartialEq)]
pub enum ObjectTemplates {
    Listed(Vec<ObjectTemplate>),
    /// `object-templates-raw`: resolved once over the whole text; what comes out is not resolved again.
    Raw(String),
}

/// One object, or all objects of a kind, with its required state.
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

/// Required state of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComplianceType {
    MustHave,
    MustOnlyHave,
    MustNotHave,
}

/// Where the difference between definition and object is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordDiff {
    Log,
    InStatus,
    None,
    /// A note instead of the difference: the default for objects that can contain sensitive data. It cannot be configured.
    Censored,
}

/// Whether an object that cannot be updated may be deleted and created again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RecreateOption {
    #[default]
    None,
    IfRequired,
    Always,
}

impl ConfigurationPolicy {
    /// Whether violations are corrected.
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

/// Whether objects of this kind can contain sensitive data, so that differences are recorded only on request.
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
