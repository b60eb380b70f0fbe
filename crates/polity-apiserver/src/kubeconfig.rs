//! Kubeconfigs for the clusters of a fleet.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::fleet::Fleet;

/// A kubeconfig with a context for each cluster: the hub's is called `polity` and is the current one,
/// the others `polity-{cluster}`.
pub fn of(fleet: &Fleet) -> String {
    let authority = STANDARD.encode(fleet.authority_pem());
    let (mut clusters, mut users, mut contexts): (Vec<Value>, Vec<Value>, Vec<Value>) =
        Default::default();
    let hub = fleet.hub().name();
    let ordered = fleet
        .clusters()
        .iter()
        .filter(|(name, _)| *name == hub)
        .chain(fleet.clusters().iter().filter(|(name, _)| *name != hub));
    for (name, cluster) in ordered {
        let context = context_name(name, hub);
        let user = format!("{context}-admin");
        clusters.push(json!({"name": context, "cluster": {"server": fleet.url(name), "certificate-authority-data": authority}}));
        users.push(
            json!({"name": user, "user": {"token": cluster.identity().admin_token().expose()}}),
        );
        contexts.push(json!({"name": context, "context": {"cluster": context, "user": user, "namespace": "default"}}));
    }
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": context_name(hub, hub),
        "clusters": clusters, "users": users, "contexts": contexts,
    });
    serde_saphyr::to_string(&config).expect("strings in maps and lists serialise")
}

/// The context of a cluster.
pub fn context_name(cluster: &str, hub: &str) -> String {
    if cluster == hub {
        "polity".into()
    } else {
        format!("polity-{cluster}")
    }
}
