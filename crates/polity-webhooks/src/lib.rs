//! Calls the admission webhooks that are registered in a cluster: selects the matching webhooks, sends
//! AdmissionReviews, and applies the responses to the request.
//!
//! This crate does not depend on HTTP routing or storage: the API server passes the request as [`Attributes`] and
//! provides cluster information as [`Host`].

mod call;
pub mod configurations;
pub mod endpoints;
mod matching;
mod mutate;
mod review;
#[cfg(test)]
mod tests;
mod validate;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use polity_core::{GroupVersionKind, GroupVersionResource};
use serde_json::Value;

use polity_auth::UserInfo;
use polity_kinds::status::ApiError;

pub use mutate::Mutated;

/// The operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    /// The name in rules and reviews.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A request as admission sees it, except for the object, which changes on the way.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    pub operation: Operation,
    pub kind: &'a GroupVersionKind,
    pub resource: &'a GroupVersionResource,
    /// Empty for the resource itself.
    pub subresource: &'a str,
    /// Empty where the name is still to be generated.
    pub name: &'a str,
    /// Empty at the cluster scope; for a Namespace its own name.
    pub namespace: &'a str,
    pub user: &'a UserInfo,
    pub old_object: Option<&'a Value>,
    /// `CreateOptions` and the like, with kind and apiVersion.
    pub options: &'a Value,
    pub dry_run: bool,
}

impl Attributes<'_> {
    /// Whether the request is about a Namespace object, which counts as cluster-scoped.
    fn is_namespace(&self) -> bool {
        self.resource.group.is_empty() && self.resource.resource == "namespaces"
    }

    /// Whether webhooks never see the request, so that a broken webhook can always be repaired.
    fn is_exempt(&self) -> bool {
        match self.kind.group.as_str() {
            "admissionregistration.k8s.io" => matches!(
                self.kind.kind.as_str(),
                "ValidatingWebhookConfiguration"
                    | "MutatingWebhookConfiguration"
                    | "ValidatingAdmissionPolicy"
                    | "ValidatingAdmissionPolicyBinding"
                    | "MutatingAdmissionPolicy"
                    | "MutatingAdmissionPolicyBinding"
            ),
            "authentication.k8s.io" => {
                matches!(
                    self.resource.resource.as_str(),
                    "tokenreviews" | "selfsubjectreviews"
                )
            }
            "authorization.k8s.io" => matches!(
                self.resource.resource.as_str(),
                "localsubjectaccessreviews"
                    | "selfsubjectaccessreviews"
                    | "selfsubjectrulesreviews"
                    | "subjectaccessreviews"
            ),
            _ => false,
        }
    }
}

/// A version in which a resource is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    pub resource: GroupVersionResource,
    pub kind: GroupVersionKind,
}

/// The cluster information that admission needs. Responses come from memory.
pub trait Host: Send + Sync {
    /// The Namespace object of this name.
    fn namespace(&self, name: &str) -> Option<Arc<Value>>;

    /// All versions in which the resource (and the subresource, if any) is served. A conversion between them only
    /// changes `apiVersion`.
    fn equivalents(&self, resource: &GroupVersionResource, subresource: &str) -> Vec<Served>;

    /// Where a port of a Service is ready, or why it is nowhere; see [`endpoints::resolve`].
    fn endpoints(
        &self,
        namespace: &str,
        service: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, String>;

    /// Decodes an object that a webhook patched, prunes and defaults it.
    fn accept_patched(&self, kind: &GroupVersionKind, object: Value) -> Result<Value, ApiError>;

    /// The authorizer for the user in match conditions.
    fn authorizer(&self, user: &UserInfo) -> Arc<dyn polity_cel::Authorizer>;
}

/// Warnings and audit annotations of webhooks, also of refused requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Notes {
    /// To be sent as Warning headers.
    pub warnings: Vec<String>,
    pub audit_annotations: BTreeMap<String, String>,
}

impl Notes {
    fn add(&mut self, other: Self) {
        self.warnings.extend(other.warnings);
        self.audit_annotations.extend(other.audit_annotations);
    }
}
