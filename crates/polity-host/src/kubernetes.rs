//! The cluster for guests: lists from stores that watches keep up to date, single objects, and access reviews.

mod kinds;
mod objects;
mod watched;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::authorization::v1 as authorization;
use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client};
use polity_eval::{GetResource, ListResources, SubjectAccessReview, prune_object};
use polity_runtime::Clock;
use serde_json::Value;

use self::kinds::{Kind, Kinds};
use self::watched::Stores;

/// Why a host call about the cluster failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClusterError {
    /// The cluster does not have the kind.
    #[error("the cluster has no kind {kind} in {api_version}")]
    NoKind {
        /// The API group and version.
        api_version: String,
        kind: String,
    },
    /// The kind is namespaced, and the call has no namespace.
    #[error("{kind} is namespaced: the call needs a namespace")]
    NoNamespace { kind: String },
    /// The kind is cluster-scoped, and the call has a namespace.
    #[error("{kind} is cluster-scoped: the call must not have a namespace")]
    NotNamespaced { kind: String },
    /// The name is invalid: it would change the path of the request.
    #[error("{name:?} is not a name")]
    BadName { name: String },
    /// The API server refused the request.
    #[error("cannot {doing}: {message}")]
    Refused {
        /// The attempted operation.
        doing: String,
        /// The HTTP status.
        code: u16,
        /// The message of the API server.
        message: String,
    },
    /// The API server cannot be reached.
    #[error("cannot {doing}: {reason}")]
    Unreachable {
        /// The attempted operation.
        doing: String,
        /// Why the request failed.
        reason: String,
    },
    /// The list is larger than the limit.
    #[error(
        "cannot {doing}: there is more than the {limit} bytes that lists may take; narrow it with selectors or field masks"
    )]
    TooLarge {
        /// The attempted operation.
        doing: String,
        /// The limit in bytes.
        limit: usize,
    },
}

/// The limits of watched lists.
#[derive(Debug, Clone, Copy)]
pub struct ClusterLimits {
    /// How many lists are watched at once; the least recently used one is dropped first.
    pub stores: usize,
    /// How many bytes all lists together may take.
    pub bytes: usize,
    /// How long a list is watched after its last use.
    pub idle: Duration,
}

impl Default for ClusterLimits {
    fn default() -> Self {
        Self {
            stores: 256,
            bytes: 512 << 20,
            idle: Duration::from_mins(10),
        }
    }
}

/// A cluster that guests may read. Clones share kinds and lists.
#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

struct Inner {
    client: Client,
    kinds: Kinds,
    stores: Stores,
}

impl Cluster {
    /// The cluster of this client. The first host call sends the first request.
    pub fn new(client: Client, limits: ClusterLimits, clock: Clock) -> Self {
        Self(Arc::new(Inner {
            kinds: Kinds::new(client.clone()),
            stores: Stores::new(limits, clock),
            client,
        }))
    }

    /// A list as JSON. The first call starts a watch and waits for its first list. Later calls are served from memory.
    pub async fn list(&self, query: &ListResources) -> Result<Vec<u8>, ClusterError> {
        let kind = self.kind(&query.api_version, &query.kind).await?;
        let api = match &query.namespace {
            None => Api::all_with(self.0.client.clone(), &kind.resource),
            Some(namespace) => self.namespaced(&kind, namespace)?,
        };
        self.0.stores.list(query, api).await
    }

    /// The current state of one object.
    pub async fn get(&self, query: &GetResource) -> Result<Value, ClusterError> {
        let kind = self.kind(&query.api_version, &query.kind).await?;
        let api: Api<DynamicObject> = match (&query.namespace, kind.is_namespaced) {
            (Some(namespace), true) => self.namespaced(&kind, namespace)?,
            (None, true) => {
                return Err(ClusterError::NoNamespace {
                    kind: query.kind.clone(),
                });
            }
            (_, false) => Api::all_with(self.0.client.clone(), &kind.resource),
        };
        check_name(&query.name)?;
        let object = api
            .get(&query.name)
            .await
            .map_err(|error| failed(format!("get {} {}", query.kind, query.name), &error))?;
        let mut object = objects::to_value(object, &query.api_version, &query.kind);
        prune_object(&mut object, query.field_masks.as_ref());
        Ok(object)
    }

    /// Whether a user may do an action, by a SubjectAccessReview.
    pub async fn can_i(
        &self,
        review: &SubjectAccessReview,
    ) -> Result<authorization::SubjectAccessReviewStatus, ClusterError> {
        let doing = || "review access".to_owned();
        let attributes = &review.resource_attributes;
        let question = authorization::SubjectAccessReview {
            spec: authorization::SubjectAccessReviewSpec {
                user: Some(review.user.clone()),
                groups: review.groups.clone(),
                resource_attributes: Some(authorization::ResourceAttributes {
                    verb: Some(attributes.verb.clone()),
                    resource: Some(attributes.resource.clone()),
                    group: attributes.group.clone(),
                    version: attributes.version.clone(),
                    subresource: attributes.subresource.clone(),
                    name: attributes.name.clone(),
                    namespace: attributes.namespace.clone(),
                    ..authorization::ResourceAttributes::default()
                }),
                ..authorization::SubjectAccessReviewSpec::default()
            },
            ..authorization::SubjectAccessReview::default()
        };
        let answer = Api::all(self.0.client.clone())
            .create(&PostParams::default(), &question)
            .await
            .map_err(|error| failed(doing(), &error))?;
        answer.status.ok_or_else(|| ClusterError::Unreachable {
            doing: doing(),
            reason: "the answer has no status".to_owned(),
        })
    }

    /// The number of watched lists.
    pub fn n_lists(&self) -> usize {
        self.0.stores.n_running()
    }

    async fn kind(&self, api_version: &str, kind: &str) -> Result<Kind, ClusterError> {
        self.0.kinds.find(api_version, kind).await
    }

    fn namespaced(&self, kind: &Kind, namespace: &str) -> Result<Api<DynamicObject>, ClusterError> {
        if !kind.is_namespaced {
            return Err(ClusterError::NotNamespaced {
                kind: kind.resource.kind.clone(),
            });
        }
        check_name(namespace)?;
        let client = self.0.client.clone();
        Ok(Api::namespaced_with(client, namespace, &kind.resource))
    }
}

/// Checks that a name is a single segment of a path.
fn check_name(name: &str) -> Result<(), ClusterError> {
    let is_odd = |c: char| matches!(c, '/' | '%' | '?' | '#' | '\\') || c.is_control() || c == ' ';
    if matches!(name, "" | "." | "..") || name.contains(is_odd) {
        return Err(ClusterError::BadName {
            name: name.to_owned(),
        });
    }
    Ok(())
}

/// The error of a request, with the message of the API server if there is one.
fn failed(doing: String, error: &kube::Error) -> ClusterError {
    if let kube::Error::Api(status) = error {
        return ClusterError::Refused {
            doing,
            code: status.code,
            message: status.message.clone(),
        };
    }
    let mut reason = error as &dyn std::error::Error;
    while let Some(cause) = reason.source() {
        reason = cause;
    }
    ClusterError::Unreachable {
        doing,
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        for name in ["a", "a.b-c", "system:node:x", "ü"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            "../secrets",
            "a/b",
            "a%2fb",
            "a?b",
            "a#b",
            "a b",
            "a\n",
            "a\\b",
        ] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }
}
