//! Where things are on disk.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt as _;

use super::objects::Objects;

/// The directories below the data directory.
#[derive(Debug, Clone)]
pub(super) struct Places {
    root: PathBuf,
}

impl Places {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
        }
    }

    pub(super) fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    fn claims(&self) -> PathBuf {
        self.root.join("claims")
    }

    /// What is a Pod's own, gone with it.
    pub(super) fn pod(&self, uid: &str) -> PathBuf {
        self.pods().join(uid)
    }

    pub(super) fn volume(&self, uid: &str, name: &str) -> PathBuf {
        self.pod(uid).join("volumes").join(name)
    }

    /// Where a Pod's kubeconfig and its token are.
    pub(super) fn access(&self, uid: &str) -> PathBuf {
        self.pod(uid).join("access")
    }

    /// What a claim keeps, gone with the claim.
    pub(super) fn claim(&self, claim: &PersistentVolumeClaim) -> PathBuf {
        self.claims().join(claim.uid().unwrap_or_default())
    }

    /// Takes away what belongs to Pods and claims that went while nobody looked.
    pub(super) fn prune(&self, objects: &Objects) {
        let pods = objects.pods.state();
        let pods = pods.iter().filter_map(|pod| pod.uid()).collect();
        keep_only(&self.pods(), &pods, str::to_owned);
        // A log's directory ends with the uid.
        keep_only(&self.logs(), &pods, |name| {
            name.rsplit('_').next().unwrap_or_default().to_owned()
        });
        let claims = objects.claims.state();
        let claims = claims.iter().filter_map(|claim| claim.uid()).collect();
        keep_only(&self.claims(), &claims, str::to_owned);
    }
}

fn keep_only(directory: &Path, uids: &BTreeSet<String>, uid_of: impl Fn(&str) -> String) {
    // What is not there needs no pruning, and what cannot be deleted does no harm.
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if !uids.contains(&uid_of(&name.to_string_lossy())) {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}
