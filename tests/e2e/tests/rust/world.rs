//! A namespace on one of the servers, and the clients that work in it.

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

/// A minute: the real server and a loaded machine take their time.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Where a scenario is played.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl World {
    /// A new namespace with its service account.
    pub(crate) async fn create(client: Client, namespace: &str) -> Self {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let post = PostParams::default();
        namespaces
            .create(&post, &objects::namespace(namespace))
            .await
            .unwrap();
        let world = Self {
            client,
            namespace: namespace.to_owned(),
        };
        let accounts: Api<ServiceAccount> = world.api();
        soon("the namespace has its account", || async {
            accounts.get_opt("default").await.unwrap()
        })
        .await;
        world
    }

    /// Objects of a kind in this namespace.
    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Widgets in this namespace; their definition is made unless it is there.
    pub(crate) async fn widgets(&self) -> Api<Widget> {
        define(&self.client, &objects::widget_definition()).await;
        self.api()
    }
}

/// Makes a definition, unless it is there, and waits until it is established.
pub(crate) async fn define(client: &Client, definition: &CustomResourceDefinition) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let name = definition.metadata.name.clone().unwrap();
    let params = PatchParams::apply("e2e").force();
    definitions
        .patch(&name, &params, &Patch::Apply(definition))
        .await
        .unwrap();
    let established = await_condition(definitions, &name, conditions::is_crd_established());
    tokio::time::timeout(PATIENCE, established)
        .await
        .expect("it is established in time")
        .unwrap();
    // A real server serves a kind a moment after it says so.
    let versions = &definition.spec.versions[0].name;
    let group_version = format!("{}/{versions}", definition.spec.group);
    soon("the kind is served", || async {
        let list = client.list_api_group_resources(&group_version).await;
        list.is_ok_and(|list| !list.resources.is_empty())
    })
    .await;
}

/// A client of the server with this kubeconfig. Refusals are seen at once.
pub(crate) async fn connect(kubeconfig: &Path) -> Client {
    polity_runtime::tls::install_provider();
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// [`polity_testing::eventually`] with patience for real servers.
#[track_caller]
pub(crate) fn soon<O, F, L>(what: &str, look: L) -> impl Future<Output = O::Value>
where
    O: Outcome,
    F: Future<Output = O>,
    L: FnMut() -> F,
{
    eventually_within(PATIENCE, what, look)
}

/// What a look at an object should say; the object itself is what was seen instead.
pub(crate) fn when<K>(object: Option<K>, holds: impl FnOnce(&K) -> bool) -> Result<K, Option<K>>
where
    K: Debug + DeserializeOwned,
{
    match object {
        Some(object) if holds(&object) => Ok(object),
        other => Err(other),
    }
}

/// Plays a scenario in a namespace of its own.
pub(crate) fn play<F: Future<Output = ()>>(
    server: Option<&Server>,
    name: &str,
    scenario: impl FnOnce(World) -> F,
) {
    let Some(server) = server else { return };
    block_on(async {
        let client = connect(server.kubeconfig()).await;
        let namespace = format!("rust-{}", name.replace('_', "-"));
        scenario(World::create(client, &namespace).await).await;
    });
}

/// A runtime of two threads, as small machines have them.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(future)
}

/// Turns async functions over a [`World`] into tests on both servers.
macro_rules! on_both_servers {
    ($($name:ident),+ $(,)?) => {
        mod on_the_embedded_server {
            $(#[test] fn $name() { crate::world::play(Some(e2e::servers::embedded()), stringify!($name), super::$name); })+
        }
        mod on_the_real_server {
            $(#[test] fn $name() { crate::world::play(e2e::servers::real(), stringify!($name), super::$name); })+
        }
    };
}
pub(crate) use on_both_servers;
