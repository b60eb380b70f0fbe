//! The controller of the hub in the process of `polity up`: the same as `polity controller`, with a client of its own.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{Namespace, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::{Api, Client};
use polity_controller::Controller;
use polity_controller::install::POLICY_SERVER_ACCOUNT;
use polity_controller::lifecycle::Settings;
use polity_controller::names::UniqueNames;
use polity_controller::objects::Setup;
use polity_controller::webhooks::{self, ServeError, Webhooks};
use polity_runtime::write::Writer;
use polity_runtime::{Clock, Shutdown};
use serde_json::{Value, json};

use crate::services::Services;

/// Where the controller and the policy servers live.
pub(crate) const NAMESPACE: &str = "kubewarden";
/// What policies may look at through the policy server.
const READERS: &str = "kubewarden-context-watcher";
/// The field manager of what is written here.
const MANAGER: &str = "polity/up";
/// As `polity controller` has them.
const DRAIN: Duration = Duration::from_secs(10);
const HISTORY_LIMIT: usize = 10;

/// Starts the controller and its webhooks.
pub(crate) async fn start(services: &Services, client: Client) -> anyhow::Result<()> {
    let listen = free_address().context("finding a port for the controller's webhooks")?;
    prepare(&client, listen.port()).await?;
    let clock = Clock::system();
    let setup = Setup {
        namespace: NAMESPACE.to_owned(),
        service_account: POLICY_SERVER_ACCOUNT.to_owned(),
        // The runtime binds claims of every class to directories that all Pods of this machine share.
        cache_storage_class: Some("local".to_owned()),
        ..Setup::default()
    };
    let controller = Controller {
        client: client.clone(),
        clock: clock.clone(),
        settings: Settings {
            namespace: NAMESPACE.to_owned(),
            drain: DRAIN,
            history_limit: HISTORY_LIMIT,
            unique_names: UniqueNames::Classic,
            ca_bundle: String::new(),
        },
        setup: setup.clone(),
        // There is no other one to elect.
        identity: None,
        metrics: None,
    };
    let webhooks = Webhooks {
        client,
        clock,
        listen,
        service: webhooks::SERVICE.to_owned(),
        setup,
        unique_names: UniqueNames::Classic,
    };
    let tasks = services.tasks();
    let shutdown = tasks.shutdown().clone();
    tasks.spawn("controller", controller.run(shutdown.clone()));
    tasks.spawn("webhooks", serve(webhooks, shutdown));
    Ok(())
}

/// Serves the webhooks. Whoever stops everything while they start takes the API away from them: that is no failure.
async fn serve(webhooks: Webhooks, shutdown: Shutdown) -> Result<(), ServeError> {
    let served = async {
        let bound = webhooks.bind().await?;
        Box::pin(bound.run(shutdown.clone())).await
    };
    match served.await {
        Err(_) if shutdown.is_triggered() => Ok(()),
        outcome => outcome,
    }
}

/// A port of this machine that nobody has; should somebody be quicker, the start fails and says so.
fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// What an installation makes before the controller starts: its namespace, the account of policy servers and its
/// rights, and the Service of its webhooks, which leads to this process.
async fn prepare(client: &Client, port: u16) -> anyhow::Result<()> {
    let all = client.clone();
    let namespaces: Api<Namespace> = Api::all(all.clone());
    let roles: Api<ClusterRole> = Api::all(all.clone());
    let bindings: Api<ClusterRoleBinding> = Api::all(all.clone());
    let accounts: Api<ServiceAccount> = Api::namespaced(all.clone(), NAMESPACE);
    let services: Api<Service> = Api::namespaced(all.clone(), NAMESPACE);
    let slices: Api<EndpointSlice> = Api::namespaced(all, NAMESPACE);
    apply(namespaces, json!({"metadata": {"name": NAMESPACE}})).await?;
    apply(
        accounts,
        json!({"metadata": {"name": POLICY_SERVER_ACCOUNT}}),
    )
    .await?;
    apply(roles, readers()).await?;
    apply(
        bindings,
        json!({
            "metadata": {"name": READERS},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": READERS},
            "subjects": [{"kind": "ServiceAccount", "name": POLICY_SERVER_ACCOUNT, "namespace": NAMESPACE}],
        }),
    )
    .await?;
    let service = json!({
        "metadata": {"name": webhooks::SERVICE},
        "spec": {"ports": [{"name": "webhooks", "port": 443}]},
    });
    apply(services, service).await?;
    apply(slices, endpoints(port)).await
}

/// As the usual installation has it.
fn readers() -> Value {
    let read = json!(["get", "list", "watch"]);
    json!({
        "metadata": {"name": READERS},
        "rules": [
            {"apiGroups": [""], "resources": ["namespaces", "pods", "services"], "verbs": read},
            {"apiGroups": ["apps"], "resources": ["deployments", "replicasets", "statefulsets", "daemonsets"], "verbs": read},
            {"apiGroups": ["networking.k8s.io"], "resources": ["ingresses"], "verbs": read},
            {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
        ],
    })
}

fn endpoints(port: u16) -> Value {
    json!({
        "metadata": {"name": webhooks::SERVICE, "labels": {"kubernetes.io/service-name": webhooks::SERVICE}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [Ipv4Addr::LOCALHOST], "conditions": {"ready": true}}],
        "ports": [{"name": "webhooks", "port": port, "protocol": "TCP"}],
    })
}

async fn apply<K>(api: Api<K>, object: Value) -> anyhow::Result<()>
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
{
    let kind = K::kind(&());
    let object: K = serde_json::from_value(object).with_context(|| format!("making a {kind}"))?;
    let written = Writer::new(api, (), MANAGER).apply(&object).await;
    written
        .map(drop)
        .with_context(|| format!("setting up the controller's {kind}"))
}
