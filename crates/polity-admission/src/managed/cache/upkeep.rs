//! The leader's upkeep of the shared cache: it removes files that no revision needs, and signs the others again after
//! a renewal of the certificate.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::Api;
use polity_fetch::Digest;
use polity_host::{Demand, ModuleFacts, Reference};
use polity_reconcile::Term;
use polity_runtime::Clock;
use tokio::sync::{Mutex, watch};
use tracing::{debug, info, warn};

use crate::managed::cache::shared::{SharedVault, facts};
use crate::managed::cache::vault::Pinned;
use crate::managed::revision::Revisions;
use crate::managed::revision::store::{Snapshot, Store};

/// How often unused files are removed.
const ROUND: Duration = Duration::from_mins(10);
/// How long to wait after a deletion of revisions: usually several are deleted together.
const SETTLE: Duration = Duration::from_secs(10);

/// The parts of the upkeep.
pub(crate) struct Upkeep {
    pub(crate) store: Store,
    pub(crate) vault: Arc<SharedVault>,
    pub(crate) stateful_sets: Api<StatefulSet>,
    /// The StatefulSet of this pod.
    pub(crate) stateful_set: String,
    pub(crate) clock: Clock,
    /// The signer that the files were last signed with, also in an earlier term.
    pub(crate) signed_with: Mutex<Option<String>>,
}

impl Upkeep {
    /// Runs until the term ends: only the leader may change the cache.
    pub(crate) async fn run(&self, term: &Term) {
        let _: Option<()> = term.run_until(self.work(term)).await;
    }

    async fn work(&self, term: &Term) {
        let mut signer = self.vault.signer();
        let mut signed_with = self.signed_with.lock().await;
        let mut changed = self.store.subscribe();
        loop {
            let snapshot = self.complete(&mut changed).await;
            let signs = signer.borrow_and_update().clone();
            if signs.is_some() && signs != *signed_with {
                self.sign_anew(&snapshot).await;
                *signed_with = signs;
            }
            self.collect(&snapshot, term).await;
            let n_revisions = snapshot.revisions.len();
            tokio::select! {
                () = self.clock.sleep(ROUND) => {}
                _ = signer.changed() => {}
                () = self.fewer(&mut changed, n_revisions) => self.clock.sleep(SETTLE).await,
            }
        }
    }

    /// Waits for a complete list of revisions.
    async fn complete(&self, changed: &mut watch::Receiver<()>) -> Snapshot {
        loop {
            changed.mark_unchanged();
            let snapshot = self.store.snapshot();
            if snapshot.is_complete {
                return snapshot;
            }
            // The store lives as long as this task.
            let _ = changed.changed().await;
        }
    }

    /// Waits until the number of revisions decreases.
    async fn fewer(&self, changed: &mut watch::Receiver<()>, n_revisions: usize) {
        while self.complete(changed).await.revisions.len() >= n_revisions {
            let _ = changed.changed().await;
        }
    }

    /// Signs all files again after a renewal: otherwise all old signatures would expire on one day.
    async fn sign_anew(&self, snapshot: &Snapshot) {
        let Some(cache) = self.vault.cache() else {
            return;
        };
        let (referenced, now) = (referenced(&snapshot.revisions), self.clock.now());
        let signed = tokio::task::spawn_blocking(move || cache.sign_anew(&referenced, now)).await;
        match signed {
            Ok(Ok(0)) | Err(_) => {}
            Ok(Ok(n_files)) => info!(n_files, "cache files signed again"),
            Ok(Err(error)) => warn!(%error, "cannot sign the cache files again"),
        }
    }

    /// Removes files that no revision refers to. This needs a complete list of revisions.
    async fn collect(&self, snapshot: &Snapshot, term: &Term) {
        let Some(cache) = self.vault.cache() else {
            return;
        };
        let demand = Demand {
            references: references(&snapshot.revisions),
            rollout_complete: self.is_rolled_out().await,
        };
        let (term, now) = (term.clone(), self.clock.now());
        let leads = move || term.is_current();
        let collected =
            tokio::task::spawn_blocking(move || cache.collect(&demand, now, leads)).await;
        match collected {
            Ok(Ok(collected)) if collected.files > 0 => {
                info!(n_files = collected.files, "unused cache files removed");
            }
            Ok(Ok(_)) | Err(_) => debug!("no unused cache files"),
            Ok(Err(error)) => warn!(%error, "cannot remove unused cache files"),
        }
    }

    /// Whether all replicas run this version. If that is unknown, files of other versions are kept.
    async fn is_rolled_out(&self) -> bool {
        let found = self.stateful_sets.get_opt(&self.stateful_set).await;
        found.ok().flatten().is_some_and(|set| is_complete(&set))
    }
}

fn is_complete(set: &StatefulSet) -> bool {
    let Some(status) = &set.status else {
        return false;
    };
    let wanted = set.spec.replicas.unwrap_or(1);
    status.observed_generation == set.metadata.generation
        && status.current_revision.is_some()
        && status.current_revision == status.update_revision
        && status.updated_replicas.unwrap_or(0) >= wanted
        && status.ready_replicas.unwrap_or(0) >= wanted
}

/// The modules of all revisions, including those that are kept only for a rollback.
fn references(revisions: &Revisions) -> Vec<Reference> {
    let all = revisions.values().flat_map(|revision| {
        let digests = revision
            .modules()
            .iter()
            .map(|module| module.digest.parse::<Digest>());
        digests.flatten().map(|digest| Reference {
            digest,
            enabled: revision.is_enabled,
        })
    });
    all.collect()
}

fn referenced(revisions: &Revisions) -> Vec<ModuleFacts> {
    let modules = revisions.values().flat_map(|revision| revision.modules());
    modules
        .filter_map(|module| {
            let digest = module.manifest_digest.as_ref();
            Some(facts(&Pinned {
                uri: module.uri.parse().ok()?,
                digest: module.digest.parse().ok()?,
                manifest: digest.and_then(|digest| digest.parse().ok()),
            }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rollout_is_complete_when_every_replica_is_updated_and_ready() {
        let status = |current: &str, updated: i32, ready: i32, generation: i64| {
            json!({
                "replicas": 2, "currentRevision": current, "updateRevision": "b", "updatedReplicas": updated,
                "readyReplicas": ready, "observedGeneration": generation,
            })
        };
        for (status, expected) in [
            (status("b", 2, 2, 2), true),
            (status("a", 2, 2, 2), false),
            (status("b", 1, 2, 2), false),
            (status("b", 2, 1, 2), false),
            (status("b", 2, 2, 1), false),
            (json!({"replicas": 0}), false),
            (json!(null), false),
        ] {
            let set = json!({"metadata": {"generation": 2}, "spec": {
                "replicas": 2, "selector": {}, "serviceName": "s", "template": {},
            }, "status": status});
            let found: StatefulSet = serde_json::from_value(set).unwrap();
            assert_eq!(is_complete(&found), expected, "{status}");
        }
    }
}
