//! What `polity up` creates on its hub: a policy server, and sample policies that only monitor.
//!
//! The samples are created at the first start only: those that a user deletes stay deleted. The policy server is created
//! again at every start that does not find it, because without it no policy is enforced.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::{Api, Client, Resource};
use polity_api::policies::v1::{ClusterAdmissionPolicy, PolicyServer};
use polity_lifecycle::webhooks;
use polity_runtime::Clock;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tracing::info;

use crate::hub::{self, NAMESPACE};
use crate::install::{Existing, apply_manifest};
use crate::samples;

/// The name of the policy server.
pub(crate) const SERVER: &str = "default";
/// The ConfigMap that records that the samples were created.
pub(crate) const MARKER: &str = "polity-defaults";
const LOOK_EVERY: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a start waits for the end of a policy server that is being deleted.
const DELETION_PATIENCE: Duration = Duration::from_secs(10);

/// Creates what is missing.
pub(crate) async fn create(client: &Client, data_dir: &Path, clock: &Clock) -> anyhow::Result<()> {
    // The modules are those of this program, also when it is a newer one.
    let policies = samples::unpack(data_dir)?;
    let markers: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let servers: Api<PolicyServer> = Api::all(client.clone());
    let is_first = markers.get_opt(MARKER).await?.is_none();
    let has_server = is_there(&servers, clock).await?;
    if has_server && !is_first {
        return Ok(());
    }
    webhooks_are_registered(client, clock).await?;
    for manifest in &hub::installation().defaults() {
        apply_manifest(client, manifest, Existing::Left).await?;
    }
    if !is_first {
        info!(name = SERVER, "missing policy server restored");
        return Ok(());
    }
    let api: Api<ClusterAdmissionPolicy> = Api::all(client.clone());
    for policy in policies {
        ensure(&api, policy).await?;
    }
    ensure(&markers, json!({"metadata": {"name": MARKER}})).await
}

/// Whether there is a policy server. One that was being deleted when the last run ended is waited for; should its end
/// take longer, the next start finds it gone.
async fn is_there(servers: &Api<PolicyServer>, clock: &Clock) -> kube::Result<bool> {
    let stays = async {
        loop {
            match servers.get_metadata_opt(SERVER).await? {
                None => return Ok(false),
                Some(server) if server.metadata.deletion_timestamp.is_none() => return Ok(true),
                Some(_) => clock.sleep(LOOK_EVERY).await,
            }
        }
    };
    tokio::select! {
        stays = stays => stays,
        () = clock.sleep(DELETION_PATIENCE) => Ok(true),
    }
}

/// Waits for the controller's webhooks: they fill in defaults of what is created.
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
    use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
    use polity_testing::TestServer;

    use super::*;
    use crate::install;

    #[tokio::test(flavor = "multi_thread")]
    async fn deleted_samples_stay_deleted_and_the_server_comes_back() {
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
        let servers: Api<PolicyServer> = Api::all(client.clone());
        let policies: Api<ClusterAdmissionPolicy> = Api::all(client.clone());
        let up = async || {
            let clock = Clock::system();
            create(&client, folder.path(), &clock).await.unwrap();
            let all = ListParams::default();
            let n_servers = servers.list(&all).await.unwrap().items.len();
            (n_servers, policies.list(&all).await.unwrap().items.len())
        };
        let n_samples = samples::names().count();
        assert_eq!(up().await, (1, n_samples));
        let before = servers.get(SERVER).await.unwrap();
        assert_eq!(up().await, (1, n_samples));
        assert_eq!(
            servers.get(SERVER).await.unwrap(),
            before,
            "one that is there is left alone"
        );

        let params = DeleteParams::default();
        servers.delete(SERVER, &params).await.unwrap();
        for sample in samples::names() {
            policies.delete(sample, &params).await.unwrap();
        }
        assert_eq!(up().await, (1, 0));

        // One that is on its way out is waited for.
        let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
        let patch = PatchParams::default();
        servers
            .patch(SERVER, &patch, &Patch::Merge(hold))
            .await
            .unwrap();
        let going = servers
            .delete(SERVER, &params)
            .await
            .unwrap()
            .left()
            .unwrap();
        let free = async {
            let free = json!({"metadata": {"finalizers": null}});
            servers
                .patch(SERVER, &patch, &Patch::Merge(free))
                .await
                .unwrap();
        };
        let (found, ()) = tokio::join!(up(), free);
        assert_eq!(found, (1, 0));
        assert_ne!(
            servers.get(SERVER).await.unwrap().metadata.uid,
            going.metadata.uid
        );
    }
}
