//! Findings about an object, with their reasons and messages. See docs/spec/governance.md#11-5.

use std::borrow::Cow;

/// Why an object is, or is not, compliant. In the order messages name them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It is there, as specified.
    Found,
    Created,
    Updated,
    Deleted,
    /// It should be there.
    NotFound,
    /// It is there, and not as specified.
    Mismatch,
    /// It is not there, as it should.
    Absent,
    /// It should not be there.
    Present,
    /// Anything else; the event has the whole message.
    Other(Cow<'static, str>),
}

/// The other reasons of 11.5.
pub mod reasons {
    pub const UPDATE_ERROR: &str = "K8s update template error";
    pub const CREATION_ERROR: &str = "K8s creation error";
    pub const DELETION_ERROR: &str = "K8s deletion error";
    pub const MAPPING_ERROR: &str = "K8s error";
    pub const MISSING_NAMESPACE: &str = "K8s missing namespace";
    pub const DECODE_ERROR: &str = "K8s decode object definition error";
    pub const TEMPLATE_ERROR: &str = "Error processing template";
    pub const CLEANUP_ERROR: &str = "Error cleaning up child objects";
    pub const NO_TEMPLATES: &str = "No object templates";
    pub const NAMESPACE_SELECTOR: &str = "namespaceSelector error";
    pub const OBJECT_SELECTOR: &str = "objectSelector error";
    pub const API_ERROR: &str = "api error";
    pub const INVALID_SPEC: &str = "Invalid spec";
}

impl Reason {
    /// The reason in `relatedObjects`.
    pub fn related(&self) -> &str {
        match self {
            Self::Found => "Resource found as expected",
            Self::Created => "K8s creation success",
            Self::Updated => "K8s update success",
            Self::Deleted => "K8s deletion success",
            Self::NotFound => "Resource not found but should exist",
            Self::Mismatch => "Resource found but does not match",
            Self::Absent => "Resource not found as expected",
            Self::Present => "Resource found but should not exist",
            Self::Other(reason) => reason,
        }
    }

    /// The reason in a condition.
    pub fn condition(&self) -> &str {
        match self {
            Self::Found => "K8s `must have` object already exists",
            Self::NotFound | Self::Mismatch => "K8s does not have a `must have` object",
            Self::Absent => "K8s `must not have` object already missing",
            Self::Present => "K8s has a `must not have` object",
            Self::Created | Self::Updated | Self::Deleted | Self::Other(_) => self.related(),
        }
    }

    /// What a message says after the names; `None` where the event has its own text.
    pub fn sentence(&self) -> Option<&'static str> {
        Some(match self {
            Self::Found => "found as specified",
            Self::Created => "was created successfully",
            Self::Updated => "was updated successfully",
            Self::Deleted => "was deleted successfully",
            Self::NotFound => "not found",
            Self::Mismatch => "found but not as specified",
            Self::Absent => "missing as expected",
            Self::Present => "found",
            Self::Other(_) => return None,
        })
    }

    fn is_compliant(&self) -> bool {
        matches!(
            self,
            Self::Found | Self::Created | Self::Updated | Self::Deleted | Self::Absent
        )
    }
}

/// One thing to say about an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub compliant: bool,
    pub reason: Reason,
    /// The whole message, for reasons without a sentence.
    pub message: String,
}

impl Event {
    /// An event whose message follows from its reason.
    pub fn of(reason: Reason) -> Self {
        Self {
            compliant: reason.is_compliant(),
            reason,
            message: String::new(),
        }
    }

    /// A violation with its own message.
    pub fn violation(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            compliant: false,
            reason: Reason::Other(reason.into()),
            message: message.into(),
        }
    }

    /// A notification with its own message.
    pub fn notification(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            compliant: true,
            ..Self::violation(reason, message)
        }
    }
}

/// How messages call an object: `pods [web] in namespace default`.
pub(crate) fn prefix(plural: &str, name: &str, namespace: Option<&str>) -> String {
    match namespace {
        Some(namespace) => format!("{plural} [{name}] in namespace {namespace}"),
        None => format!("{plural} [{name}]"),
    }
}
