//! What a new hub has to begin with: a policy server, and sample policies that watch.
//!
//! They are made once. Whoever changes or deletes them is not contradicted by the next `polity up`.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client, Resource};
use polity_api::policies::v1::ClusterAdmissionPolicy;
use polity_controller::webhooks;
use polity_runtime::Clock;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::hub::{self, NAMESPACE};
use crate::install::{Existing, apply_manifest};
use crate::samples;

/// Tells that it was done.
const MARKER: &str = "polity-defaults";
const LOOK_EVERY: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes what there should be to begin with, unless that was done before.
pub(crate) async fn create(client: &Client, data_dir: &Path, clock: &Clock) -> anyhow::Result<()> {
    let markers: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    // The modules are those of this program, also when it is a newer one.
    let policies = samples::unpack(data_dir)?;
    if markers.get_opt(MARKER).await?.is_some() {
        return Ok(());
    }
    webhooks_are_registered(client, clock).await?;
    for manifest in &hub::installation().defaults() {
        apply_manifest(client, manifest, Existing::Left).await?;
    }
    let api: Api<ClusterAdmissionPolicy> = Api::all(client.clone());
    for policy in policies {
        ensure(&api, policy).await?;
    }
    ensure(&markers, json!({"metadata": {"name": MARKER}})).await
}

/// What they fill in is filled in from the beginning.
async fn webhooks_are_registered(client: &Client, clock: &Clock) -> anyhow::Result<()> {
    let registered = async {
        while !webhooks::are_registered(client).await? {
            clock.sleep(LOOK_EVERY).await;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        done = registered => done,
        () = clock.sleep(PATIENCE) => anyhow::bail!("the controller's webhooks are not there after {PATIENCE:?}"),
    }
}

/// Creates an object, unless it is there.
async fn ensure<K>(api: &Api<K>, object: Value) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let kind = K::kind(&());
    let object: K = serde_json::from_value(object).with_context(|| format!("making a {kind}"))?;
    match api.create(&PostParams::default(), &object).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
        outcome => outcome
            .map(drop)
            .with_context(|| format!("creating the first {kind}")),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::api::{DeleteParams, ListParams};
    use polity_api::policies::v1::PolicyServer;
    use polity_testing::TestServer;

    use super::*;
    use crate::install;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_somebody_deleted_stays_deleted() {
        let server = TestServer::start().await;
        let client = server.client().await;
        let definitions = install::Definition::all().unwrap();
        install::apply(&[("hub", client.clone())], &definitions)
            .await
            .unwrap();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        ensure(&namespaces, json!({"metadata": {"name": NAMESPACE}}))
            .await
            .unwrap();
        let registered: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
        let name = webhooks::configuration_name(webhooks::Verb::Mutate);
        ensure(&registered, json!({"metadata": {"name": name}}))
            .await
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let up = async || {
            let clock = Clock::system();
            create(&client, folder.path(), &clock).await.unwrap();
            let servers: Api<PolicyServer> = Api::all(client.clone());
            let policies: Api<ClusterAdmissionPolicy> = Api::all(client.clone());
            let all = ListParams::default();
            let n_servers = servers.list(&all).await.unwrap().items.len();
            (n_servers, policies.list(&all).await.unwrap().items.len())
        };
        let n_samples = samples::names().count();
        assert_eq!(up().await, (1, n_samples));
        let servers: Api<PolicyServer> = Api::all(client.clone());
        let params = DeleteParams::default();
        servers.delete("default", &params).await.unwrap();
        assert_eq!(up().await, (0, n_samples));
    }
}
