//! Where the scale subresource finds the numbers of a kind.

/// Where a kind keeps its replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec_replicas: Vec<String>,
    pub status_replicas: Vec<String>,
    pub selector: SelectorSource,
}

/// Where a kind keeps the selector of its Pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SelectorSource {
    None,
    /// A text at this path (custom resources).
    Text(Vec<String>),
    /// `.spec.selector` (built-ins).
    Spec,
}
