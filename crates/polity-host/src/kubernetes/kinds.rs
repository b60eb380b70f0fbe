//! The kinds of the cluster, looked up at the first host call that needs one.

use std::time::Duration;

use kube::Client;
use kube::api::{ApiResource, GroupVersionKind};
use kube::discovery::{self, Scope};
use moka::sync::Cache;

use super::{ClusterError, failed};

/// How long a kind is cached: CustomResourceDefinitions are replaced rarely.
const HOLDS: Duration = Duration::from_mins(5);
/// The number of cached kinds: policies read only a few.
const MAX_KINDS: u64 = 1000;

/// A kind with its API resource.
#[derive(Debug, Clone)]
pub(super) struct Kind {
    pub(super) resource: ApiResource,
    pub(super) is_namespaced: bool,
}

pub(super) struct Kinds {
    client: Client,
    known: Cache<(String, String), Kind>,
}

impl Kinds {
    pub(super) fn new(client: Client) -> Self {
        let known = Cache::builder()
            .max_capacity(MAX_KINDS)
            .time_to_live(HOLDS)
            .build();
        Self { client, known }
    }

    /// Finds a kind. A missing kind is not cached, because its definition may be created.
    pub(super) async fn find(&self, api_version: &str, kind: &str) -> Result<Kind, ClusterError> {
        let key = (api_version.to_owned(), kind.to_owned());
        if let Some(found) = self.known.get(&key) {
            return Ok(found);
        }
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let missing = || ClusterError::NoKind {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        };
        let (resource, capabilities) = match discovery::pinned_kind(&self.client, &gvk).await {
            Ok(found) => found,
            Err(kube::Error::Discovery(_)) => return Err(missing()),
            Err(kube::Error::Api(status)) if status.code == 404 => return Err(missing()),
            Err(error) => return Err(failed(format!("look for kind {kind}"), &error)),
        };
        let found = Kind {
            resource,
            is_namespaced: capabilities.scope == Scope::Namespaced,
        };
        self.known.insert(key, found.clone());
        Ok(found)
    }
}
