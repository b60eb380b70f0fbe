//! Confirms that the owner of an object is absent before an Event says so.
//!
//! Owners and what they own come through different watches, and either may be behind the other: a StatefulSet can be
//! seen before its PolicyServer. An Event would then tell users about a problem that does not exist.

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::Api;
use kube::core::PartialObjectMeta;
use polity_api::policies::v1::PolicyServer;

use super::{Shared, WRITE_PATIENCE};
use crate::permit::Refusal;

/// Whether a refusal is final. `false` if it rests on an owner that the cache does not have, and the API server has the
/// owner or cannot be asked.
pub(super) async fn is_final(shared: &Shared, refusal: &Refusal) -> bool {
    let found = match refusal {
        Refusal::ServerGone { name, uid, .. } => {
            let servers: Api<PolicyServer> = Api::all(shared.client.clone());
            let get = servers.get_metadata_opt(name);
            (uid, in_time(get).await.map(uid_of))
        }
        Refusal::SetGone { name, uid } => {
            let namespace = &shared.options.permit.namespace;
            let sets: Api<StatefulSet> = Api::namespaced(shared.client.clone(), namespace);
            let get = sets.get_metadata_opt(name);
            (uid, in_time(get).await.map(uid_of))
        }
        _ => return true,
    };
    matches!(found, (expected, Some(uid)) if uid.as_ref() != Some(expected))
}

/// `None` if the API server did not answer.
async fn in_time<T>(get: impl Future<Output = kube::Result<T>>) -> Option<T> {
    tokio::time::timeout(WRITE_PATIENCE, get).await.ok()?.ok()
}

fn uid_of<K>(found: Option<PartialObjectMeta<K>>) -> Option<String> {
    found?.metadata.uid
}
