//! Queues from the commits of a cluster to its controllers.

mod inbox;
mod queue;

use super::Cluster;
use crate::custom;
use crate::object::Stored;

pub use inbox::GarbageInbox;
pub use queue::Queue;

/// The queues through which commits reach the controllers. A signal only contains the name of the object.
#[derive(Debug, Default)]
pub struct Signals {
    pub garbage: GarbageInbox,
    pub namespaces: Queue<String>,
    pub definitions: Queue<String>,
    pub roles: Queue<()>,
}

impl Signals {
    /// Queues a commit for every controller that it concerns.
    pub fn committed(&self, cluster: &Cluster, stored: &Stored, deleted: bool) {
        self.garbage.committed(stored, deleted);
        let key = &stored.key;
        if &*key.bucket == "namespaces" && !deleted {
            self.namespaces.push(key.name.to_string());
        } else if deleted && !key.namespace.is_empty() {
            let terminating = cluster
                .namespace(&key.namespace)
                .is_some_and(|ns| ns.index.is_deleting());
            // Every namespace has these two; a controller creates them again.
            let standard = matches!(
                (&*key.bucket, &*key.name),
                ("serviceaccounts", "default") | ("configmaps", "kube-root-ca.crt")
            );
            if terminating || standard {
                self.namespaces.push(key.namespace.to_string());
            }
        }
        if &*key.bucket == custom::DEFINITIONS && stored.index.is_deleting() && !deleted {
            self.definitions.push(key.name.to_string());
        } else if deleted && let Some(name) = custom::definition_of(&key.bucket) {
            let definition = cluster.get(custom::DEFINITIONS, "", name);
            if definition.is_some_and(|definition| definition.index.is_deleting()) {
                self.definitions.push(name.to_owned());
            }
        }
        if &*key.bucket == "clusterroles.rbac.authorization.k8s.io" {
            self.roles.push(());
        }
    }
}
