//! What the engine may ask: about a cluster, and of a template engine. Both only answer.

use std::sync::Arc;

use polity_core::selector::LabelSelector;
use polity_core::{GroupVersionKind, ObjectKey};
use serde_json::Value;

use crate::namespaces::Namespace;

/// A kind the cluster serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    pub gvk: GroupVersionKind,
    /// The resource name, as messages have it: `pods`.
    pub plural: String,
    pub namespaced: bool,
}

/// Why something could not be read, in the words to show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReadError(pub String);

/// The response of the API server to a dry-run update.
#[derive(Debug, Clone, PartialEq)]
pub enum DryRun {
    /// The object as it would be.
    Accepted(Value),
    /// Refused as invalid: a field that cannot change.
    Invalid(String),
    /// A field nobody knows: `strict decoding error: …`.
    Strict(String),
    /// The object is gone.
    NotFound,
    /// Anything else.
    Failed(String),
}

/// The cluster a policy is held against.
pub trait Cluster {
    /// The kind, if it is served.
    fn kind(&self, gvk: &GroupVersionKind) -> Result<Option<Kind>, ReadError>;

    /// All namespaces.
    fn namespaces(&self) -> Result<Vec<Namespace>, ReadError>;

    /// One object; the namespace is `None` for cluster-scoped kinds.
    fn get(&self, kind: &Kind, key: &ObjectKey) -> Result<Option<Arc<Value>>, ReadError>;

    /// The objects of a kind with these labels, in one namespace or of the whole cluster, in the order of their
    /// names.
    fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<Value>>, ReadError>;

    /// What an update from `current` to `updated` would give, with strict field validation.
    fn dry_run_update(&self, kind: &Kind, current: &Value, updated: &Value) -> DryRun;
}

/// What a template may see of the object it is resolved for.
#[derive(Debug, Clone, Copy, Default)]
pub struct TemplateContext<'a> {
    /// `.ObjectNamespace`, for namespaced kinds.
    pub namespace: Option<&'a str>,
    /// `.ObjectName`, once a name is known.
    pub name: Option<&'a str>,
    /// `.Object`: empty for an object that is not there.
    pub object: Option<&'a Value>,
}

/// A resolved template.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    pub value: Value,
    /// It has touched secret data.
    pub sensitive: bool,
    /// It has called `skipObject`.
    pub skipped: bool,
}

/// Go templates. Errors are the text for the user.
pub trait Templates {
    /// Resolves an object definition.
    fn resolve(&self, definition: &Value, context: TemplateContext<'_>)
    -> Result<Resolved, String>;

    /// Resolves a YAML text without a context, and reads what comes out.
    fn resolve_text(&self, text: &str) -> Result<Resolved, String>;

    /// Executes the template of a custom message over its data.
    fn message(&self, template: &str, data: &Value) -> Result<String, String>;
}

/// Whether a text has something to resolve.
pub fn has_template(text: &str) -> bool {
    text.contains("{{") || text.contains("$ocm_encrypted:")
}
