//! The few controllers without which an API server is no use: garbage collection, namespaces, definitions,
//! default service accounts, aggregated roles, expired events.
//!
//! Each is level-based: a signal only says where to look, and what is found there decides.

pub mod definitions;
pub mod events;
pub mod garbage;
pub mod namespaces;
pub mod queue;
pub mod roles;
pub mod service_accounts;

use std::sync::Arc;

use tracing::debug;

use crate::cluster::Cluster;
use crate::custom;
use crate::engine::{Call, Warnings};
use crate::object::Stored;
use crate::served::ServedResource;
use polity_auth::UserInfo;
use queue::Queue;

/// Where controllers learn that something changed.
#[derive(Debug, Default)]
pub struct Signals {
    pub garbage: garbage::Inbox,
    pub namespaces: Queue<String>,
    pub definitions: Queue<String>,
    pub roles: Queue<()>,
}

impl Signals {
    /// Tells every controller concerned about a commit.
    pub fn committed(&self, cluster: &Cluster, stored: &Stored, deleted: bool) {
        self.garbage.committed(stored, deleted);
        let key = &stored.key;
        if &*key.bucket == "namespaces" && !deleted {
            self.namespaces.push(key.name.to_string());
        } else if deleted && !key.namespace.is_empty() {
            let terminating = cluster
                .namespace(&key.namespace)
                .is_some_and(|ns| ns.index.is_deleting());
            // NS8: what every namespace has comes back.
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

/// A controller as the caller of the engine: its user, and warnings nobody reads.
#[derive(Debug)]
pub struct Actor {
    user: UserInfo,
    warnings: Warnings,
}

impl Actor {
    /// A controller of the control plane, by the name of its service account.
    pub fn named(name: &str) -> Self {
        let user = UserInfo {
            username: format!("system:serviceaccount:kube-system:{name}"),
            groups: [
                "system:serviceaccounts",
                "system:serviceaccounts:kube-system",
                "system:authenticated",
                "system:masters",
            ]
            .map(str::to_owned)
            .to_vec(),
            ..UserInfo::default()
        };
        Self {
            user,
            warnings: Warnings::default(),
        }
    }

    /// A call in this controller's name.
    pub fn call<'a>(
        &'a self,
        cluster: &'a Arc<Cluster>,
        def: &Arc<ServedResource>,
        namespace: &'a str,
        name: &'a str,
    ) -> Call<'a> {
        Call {
            cluster,
            registry: cluster.registry(),
            def: def.clone(),
            user: &self.user,
            namespace,
            name,
            subresource: None,
            warnings: &self.warnings,
            now: cluster.now(),
            default_manager: "polity".into(),
        }
    }
}

/// Starts all controllers; they end with the cluster.
pub fn start(cluster: &Arc<Cluster>, tasks: &polity_runtime::shutdown::Tasks) {
    let run = |name: &'static str,
               cluster: Arc<Cluster>,
               future: std::pin::Pin<Box<dyn Future<Output = ()> + Send>>| {
        tasks.spawn_finite(name, async move {
            let shutdown = cluster.shutdown().clone();
            tokio::select! {
                () = shutdown.cancelled() => debug!(cluster = cluster.name(), controller = name, "controller stopped"),
                () = future => {}
            }
            Ok::<(), std::convert::Infallible>(())
        });
    };
    run(
        "garbage collector",
        cluster.clone(),
        Box::pin(garbage::run(cluster.clone())),
    );
    run(
        "namespaces",
        cluster.clone(),
        Box::pin(namespaces::run(cluster.clone())),
    );
    run(
        "definitions",
        cluster.clone(),
        Box::pin(definitions::run(cluster.clone())),
    );
    run(
        "roles",
        cluster.clone(),
        Box::pin(roles::run(cluster.clone())),
    );
    run(
        "events",
        cluster.clone(),
        Box::pin(events::run(cluster.clone())),
    );
}
