//! A namespace on one of the servers, with a client for it.

use std::fmt::Debug;
use std::path::Path;
use std::time::Duration;

use e2e::servers::Server;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, Config, Resource};
use polity_testing::objects::{self, Widget};
use polity_testing::{Outcome, eventually_within};
use serde::de::DeserializeOwned;

/// One minute: the real server is slow on a loaded machine.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(1);

/// The namespace of one scenario.
#[derive(Clone)]
pub(crate) struct TestNamespace {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl TestNamespace {
    /// Creates a namespace and waits for its ServiceAccount.
    pub(crate) async fn create(client: Client, namespace: &str) -> Self {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let post = PostParams::default();
        namespaces
            .create(&post, &objects::namespace(namespace))
            .await
            .unwrap();
        let test_namespace = Self {
            client,
            namespace: namespace.to_owned(),
        };
        let accounts: Api<ServiceAccount> = test_namespace.api();
        soon("the namespace has its account", || async {
            accounts.get_opt("default").await.unwrap()
        })
        .await;
        test_namespace
    }

    /// Objects of a kind in this namespace.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The API of Widgets in this namespace. Creates their CRD if necessary.
    pub(crate) async fn widgets(&self) -> Api<Widget> {
        define(&self.client, &objects::widget_definition()).await;
        self.api()
    }
}

/// Applies a CRD and waits until it is established.
pub(crate) async fn define(client: &Client, definition: &CustomResourceDefinition) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = definition.metadata.name.clone().unwrap();
    let params = PatchParams::apply("e2e").force();
    definitions
        .patch(&name, &params, &Patch::Apply(definition))
        .await
        .unwrap();
    let established = await_condition(definitions, &name, conditions::is_crd_established());
    tokio::time::timeout(TIMEOUT, established)
        .await
        .expect("it is established in time")
        .unwrap();
    // A real server serves a kind shortly after it reports the CRD as established.
    let versions = &definition.spec.versions[0].name;
    let group_version = format!("{}/{versions}", definition.spec.group);
    soon("the kind is served", || async {
        let list = client.list_api_group_resources(&group_version).await;
        list.is_ok_and(|list| !list.resources.is_empty())
    })
    .await;
}

/// A client for the server of this kubeconfig. It does not retry, so tests see every refusal.
pub(crate) async fn connect(kubeconfig: &Path) -> Client {
    polity_runtime::tls::install_provider();
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// [`polity_testing::eventually`] with a timeout for real servers.
#[track_caller]
pub(crate) fn soon<O, F, L>(what: &str, look: L) -> impl Future<Output = O::Value>
where
    O: Outcome,
    F: Future<Output = O>,
    L: FnMut() -> F,
{
    eventually_within(TIMEOUT, what, look)
}

/// Returns the object if the condition holds, otherwise what was seen instead.
pub(crate) fn when<K>(object: Option<K>, holds: impl FnOnce(&K) -> bool) -> Result<K, Option<K>>
where
    K: Debug + DeserializeOwned,
{
    match object {
        Some(object) if holds(&object) => Ok(object),
        other => Err(other),
    }
}

/// Runs a scenario in its own namespace.
pub(crate) fn play<F: Future<Output = ()>>(
    server: Option<&Server>,
    name: &str,
    scenario: impl FnOnce(TestNamespace) -> F,
) {
    let Some(server) = server else { return };
    block_on(async {
        let client = connect(server.kubeconfig()).await;
        let namespace = format!("rust-{}", name.replace('_', "-"));
        scenario(TestNamespace::create(client, &namespace).await).await;
    });
}

/// Runs a future on a runtime with two threads.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(future)
}

/// Turns async functions over a [`TestNamespace`] into tests on both servers.
macro_rules! on_both_servers {
    ($($name:ident),+ $(,)?) => {
        mod on_the_embedded_server {
            $(#[test] fn $name() { crate::test_namespace::play(Some(e2e::servers::embedded()), stringify!($name), super::$name); })+
        }
        mod on_the_real_server {
            $(#[test] fn $name() { crate::test_namespace::play(e2e::servers::real(), stringify!($name), super::$name); })+
        }
    };
}
pub(crate) use on_both_servers;
