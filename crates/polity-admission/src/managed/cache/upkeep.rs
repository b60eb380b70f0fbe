//! Upkeep of the shared cache by the leader: what nobody needs goes, what is good is signed anew after a renewal.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::Api;
use polity_fetch::Digest;
use polity_host::{Demand, ModuleFacts, Reference};
use polity_runtime::lease::Leadership;
use polity_runtime::{Clock, Shutdown};
use tokio::sync::watch;
use tracing::{debug, info, warn};

use crate::managed::cache::shared::{SharedVault, facts};
use crate::managed::cache::vault::Pinned;
use crate::managed::revision::Revisions;
use crate::managed::revision::store::{Snapshot, Store};

/// How often what nobody needs is looked for.
const ROUND: Duration = Duration::from_mins(10);
/// How long to wait after revisions were deleted: they go several at a time.
const SETTLE: Duration = Duration::from_secs(10);

/// What upkeep needs.
pub(crate) struct Upkeep {
    pub(crate) leadership: watch::Receiver<Leadership>,
    pub(crate) store: Store,
    pub(crate) vault: Arc<SharedVault>,
    pub(crate) stateful_sets: Api<StatefulSet>,
    /// The set that our pod is of.
    pub(crate) stateful_set: String,
    pub(crate) clock: Clock,
}

impl Upkeep {
    /// Takes part until the shutdown, whenever the lease is ours.
    pub(crate) async fn run(mut self, shutdown: Shutdown) {
        let _: Option<()> = shutdown.run_until(self.work()).await;
    }

    async fn work(&mut self) {
        let leading = |now: &Leadership| matches!(now, Leadership::Leading { .. });
        let mut signer = self.vault.signer();
        let mut signed_with = None;
        let mut snapshots = self.store.subscribe();
        loop {
            // Election and store tell as long as they live, and they live longer than we do.
            if self.leadership.wait_for(leading).await.is_err() {
                std::future::pending::<()>().await;
            }
            let complete = snapshots.wait_for(|snapshot| snapshot.is_complete).await;
            let Some(snapshot) = complete.ok().map(|snapshot| snapshot.clone()) else {
                return std::future::pending().await;
            };
            let signs = signer.borrow_and_update().clone();
            if signs.is_some() && signs != signed_with {
                self.sign_anew(&snapshot).await;
                signed_with = signs;
            }
            self.collect(&snapshot).await;
            tokio::select! {
                () = self.clock.sleep(ROUND) => {}
                _ = signer.changed() => {}
                () = fewer(&mut snapshots, snapshot.revisions.len()) => self.clock.sleep(SETTLE).await,
            }
        }
    }

    /// After a renewal old signatures would all turn bad on one day.
    async fn sign_anew(&self, snapshot: &Snapshot) {
        let Some(cache) = self.vault.cache() else {
            return;
        };
        let (referenced, now) = (referenced(&snapshot.revisions), self.clock.now());
        let signed = tokio::task::spawn_blocking(move || cache.sign_anew(&referenced, now)).await;
        match signed {
            Ok(Ok(0)) | Err(_) => {}
            Ok(Ok(n_files)) => info!(n_files, "files of the cache signed anew"),
            Ok(Err(error)) => warn!(%error, "the cache cannot be signed anew"),
        }
    }

    /// What no revision refers to goes. The list of them is complete, or nothing would be known about the rest.
    async fn collect(&self, snapshot: &Snapshot) {
        let Some(cache) = self.vault.cache() else {
            return;
        };
        let demand = Demand {
            references: references(&snapshot.revisions),
            rollout_complete: self.is_rolled_out().await,
        };
        let (leadership, clock, now) = (
            self.leadership.clone(),
            self.clock.clone(),
            self.clock.now(),
        );
        let leads = move || leadership.borrow().leads_at(clock.moment());
        let collected =
            tokio::task::spawn_blocking(move || cache.collect(&demand, now, leads)).await;
        match collected {
            Ok(Ok(collected)) if collected.files > 0 => {
                info!(n_files = collected.files, "files of the cache collected");
            }
            Ok(Ok(_)) | Err(_) => debug!("nothing to collect from the cache"),
            Ok(Err(error)) => warn!(%error, "the cache cannot be collected"),
        }
    }

    /// Whether all replicas run what we run. Who cannot tell keeps the files.
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

/// Waits until there are fewer revisions than there were.
async fn fewer(snapshots: &mut watch::Receiver<Snapshot>, n_revisions: usize) {
    let is_fewer = |snapshot: &Snapshot| snapshot.revisions.len() < n_revisions;
    if snapshots.wait_for(is_fewer).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Every module of every revision, also of those that can only be returned to.
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
