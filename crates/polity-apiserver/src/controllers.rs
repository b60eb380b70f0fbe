//! The controllers that every API server needs: garbage collection, namespaces, definitions, default service accounts,
//! aggregated roles, expired events.
//!
//! Each is level-based: a signal names an object, and the state of that object determines the action.

pub mod bootstrap;
pub mod definitions;
pub mod events;
pub mod garbage;
pub mod namespaces;
pub mod roles;
pub mod service_accounts;

use std::sync::Arc;

use tracing::debug;

use crate::cluster::Cluster;
use crate::engine::{Call, Warnings};
use crate::served::ServedResource;
use polity_auth::UserInfo;

/// A controller as the caller of the engine: its user, and the warnings, which are dropped.
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
