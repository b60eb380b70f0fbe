//! The API server in the test's own process: the whole of it, on a loopback port, in memory or on disk.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use polity_apiserver::AuthorizationMode;
use polity_apiserver::cluster::Cluster;
use polity_apiserver::fleet::{Fleet, FleetError, FleetOptions};
use polity_apiserver::kubeconfig;
use polity_apiserver::metrics::RequestMetrics;
use polity_runtime::metrics::Metrics;
use polity_runtime::serve::Limits;
use polity_runtime::{Clock, Shutdown, Tasks, tls};
use serde_json::json;

use crate::{FaultyClient, Http};

/// The cluster at the root of every test server.
const HUB: &str = "hub";
/// How long tasks may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a [`TestServer`] is started.
#[derive(Debug, Clone)]
pub struct TestServerBuilder {
    data_dir: Option<PathBuf>,
    port: u16,
    members: Vec<String>,
    authorization: AuthorizationMode,
    clock: Clock,
    limits: Limits,
}

impl Default for TestServerBuilder {
    fn default() -> Self {
        Self {
            data_dir: None,
            port: 0,
            members: Vec::new(),
            authorization: AuthorizationMode::Rbac,
            clock: Clock::system(),
            limits: Limits {
                drain_timeout: Duration::from_secs(2),
                ..Limits::default()
            },
        }
    }
}

impl TestServerBuilder {
    /// Keeps everything in this directory instead of in memory.
    #[must_use]
    pub fn data_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(directory.into());
        self
    }

    /// Serves more clusters beside the hub, each behind `/clusters/{name}`.
    #[must_use]
    pub fn members<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.members = names.into_iter().map(Into::into).collect();
        self
    }

    /// Takes the time from this clock. A manual one should start at the real time, which is what clients
    /// compare certificates with.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Allows everybody everything.
    #[must_use]
    pub fn always_allow(mut self) -> Self {
        self.authorization = AuthorizationMode::AlwaysAllow;
        self
    }

    /// What clients can take from the server.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Starts the server.
    pub async fn start(self) -> TestServer {
        self.try_start()
            .await
            .unwrap_or_else(|error| panic!("the API server does not start: {}", chain(&error)))
    }

    /// Starts the server, for tests of what keeps it from starting.
    pub async fn try_start(self) -> Result<TestServer, FleetError> {
        tls::install_provider();
        let tasks = Tasks::new(Shutdown::new());
        let guard = StopOnDrop(tasks.shutdown().clone());
        let metrics = Metrics::new().expect("a fresh registry takes the reader");
        let rendered = metrics.clone();
        let requests = RequestMetrics::new(&metrics.meter("apiserver"), move || {
            rendered.render().unwrap_or_default()
        });
        let options = FleetOptions {
            data_dir: self.data_dir.clone(),
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)),
            hub: HUB.to_owned(),
            members: self.members.clone(),
            authorization: self.authorization,
            clock: self.clock.clone(),
            limits: self.limits,
        };
        let fleet = Fleet::start(options, &tasks, requests).await?;
        Ok(TestServer {
            fleet,
            tasks,
            guard,
            builder: self,
        })
    }
}

/// A running API server. It ends when this is dropped.
pub struct TestServer {
    fleet: Fleet,
    tasks: Tasks,
    guard: StopOnDrop,
    builder: TestServerBuilder,
}

/// Tests end without stopping their server.
struct StopOnDrop(Shutdown);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.trigger();
    }
}

impl TestServer {
    /// One cluster, in memory, under RBAC.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// Something else than [`Self::start`].
    pub fn builder() -> TestServerBuilder {
        TestServerBuilder::default()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.fleet.address()
    }

    /// The CA of its serving certificate.
    pub fn authority_pem(&self) -> &str {
        self.fleet.authority_pem()
    }

    /// The hub itself, for tests below HTTP.
    pub fn hub(&self) -> &Arc<Cluster> {
        self.fleet.hub()
    }

    /// The text of a kubeconfig with a context for each cluster.
    pub fn kubeconfig(&self) -> String {
        kubeconfig::of(&self.fleet)
    }

    /// How the hub's administrator connects.
    pub async fn config(&self) -> Config {
        self.config_of(HUB).await
    }

    /// How the administrator of a cluster connects to it.
    pub async fn config_of(&self, cluster: &str) -> Config {
        let kubeconfig = Kubeconfig::from_yaml(&self.kubeconfig())
            .expect("the server writes a kubeconfig kube reads");
        let options = KubeConfigOptions {
            context: Some(kubeconfig::context_name(cluster, HUB)),
            ..KubeConfigOptions::default()
        };
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .expect("the cluster has a context");
        // A test wants to see a refusal, not wait for its repetition.
        config.default_retry = false;
        config
    }

    /// The hub's administrator.
    pub async fn client(&self) -> Client {
        connect(self.config().await)
    }

    /// The administrator of a cluster.
    pub async fn client_of(&self, cluster: &str) -> Client {
        connect(self.config_of(cluster).await)
    }

    /// Somebody else in the hub, by impersonation.
    pub async fn client_as(&self, user: &str, groups: &[&str]) -> Client {
        let mut config = self.config().await;
        config.auth_info.impersonate = Some(user.to_owned());
        config.auth_info.impersonate_groups =
            Some(groups.iter().map(|&group| group.to_owned()).collect());
        connect(config)
    }

    /// Whoever this token belongs to, in a cluster.
    pub async fn client_with_token(&self, cluster: &str, token: &str) -> Client {
        let mut config = self.config_of(cluster).await;
        config.auth_info = serde_json::from_value::<AuthInfo>(json!({"token": token}))
            .expect("a token is credentials");
        connect(config)
    }

    /// Nobody: a client of the hub without credentials.
    pub async fn anonymous(&self) -> Client {
        let mut config = self.config().await;
        config.auth_info = AuthInfo::default();
        connect(config)
    }

    /// The hub's administrator, with faults on demand.
    pub async fn faulty(&self) -> FaultyClient {
        FaultyClient::new(self.client().await)
    }

    /// The hub's administrator, below kube's types.
    pub async fn http(&self) -> Http {
        Http::new(self.client().await)
    }

    /// Forgets the past of the hub's store: every older version is expired from now on.
    pub async fn compact(&self) {
        let store = self.hub().store();
        store
            .compact(store.current().revision())
            .await
            .unwrap_or_else(|error| panic!("compacting: {error}"));
    }

    /// Stops as on SIGTERM, and gives back the data directory.
    pub async fn stop(self) {
        let Self {
            fleet,
            tasks,
            guard,
            builder,
        } = self;
        drop(guard);
        let ends = tasks.finish(&Clock::system(), PATIENCE).await;
        assert!(ends.is_empty(), "a part of the server failed: {ends:?}");
        fleet.close().await;
        drop(builder);
    }

    /// Stops and starts again on the same port and, if there is one, the same directory.
    pub async fn restart(self) -> Self {
        let builder = TestServerBuilder {
            port: self.address().port(),
            ..self.builder.clone()
        };
        self.stop().await;
        builder.start().await
    }
}

fn connect(config: Config) -> Client {
    Client::try_from(config).expect("the configuration is complete")
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    use kube::Api;
    use kube::api::{ListParams, PostParams};

    use super::*;
    use crate::objects;

    fn code<T: std::fmt::Debug>(answer: kube::Result<T>) -> u16 {
        match answer {
            Err(kube::Error::Api(status)) => status.code,
            other => panic!("no refusal: {other:?}"),
        }
    }

    #[tokio::test]
    async fn admins_others_and_nobody() {
        let server = TestServer::start().await;
        let names = |client| Api::<Namespace>::all(client);
        let all = names(server.client().await)
            .list(&ListParams::default())
            .await
            .unwrap();
        assert!(
            all.items
                .iter()
                .any(|namespace| namespace.metadata.name.as_deref() == Some("kube-system"))
        );
        assert_eq!(
            code(
                names(server.client_as("alice", &["devs"]).await)
                    .list(&ListParams::default())
                    .await
            ),
            403
        );
        assert_eq!(
            code(
                names(server.anonymous().await)
                    .list(&ListParams::default())
                    .await
            ),
            403
        );
        assert_eq!(
            code(
                names(server.client_with_token(HUB, "wrong").await)
                    .list(&ListParams::default())
                    .await
            ),
            401
        );
        server
            .client_as("boss", &["system:masters"])
            .await
            .apiserver_version()
            .await
            .unwrap();
        server.stop().await;
    }

    #[tokio::test]
    async fn clusters_beside_the_hub_share_nothing() {
        let server = TestServer::builder()
            .members(["east", "west"])
            .start()
            .await;
        let maps =
            async |cluster| Api::<ConfigMap>::default_namespaced(server.client_of(cluster).await);
        maps("east")
            .await
            .create(
                &PostParams::default(),
                &objects::config_map("a", [("k", "v")]),
            )
            .await
            .unwrap();
        assert!(maps("east").await.get_opt("a").await.unwrap().is_some());
        assert!(maps("west").await.get_opt("a").await.unwrap().is_none());
        assert!(maps(HUB).await.get_opt("a").await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_restart_on_the_same_directory_is_the_same_cluster() {
        let directory = tempfile::tempdir().unwrap();
        let server = TestServer::builder()
            .data_dir(directory.path())
            .start()
            .await;
        let maps = Api::<ConfigMap>::default_namespaced(server.client().await);
        let before = maps
            .create(
                &PostParams::default(),
                &objects::config_map("a", [("k", "v")]),
            )
            .await
            .unwrap();
        let address = server.address();
        let server = server.restart().await;
        assert_eq!(server.address(), address);
        // The old client's credentials and CA still hold.
        assert_eq!(maps.get("a").await.unwrap(), before);
    }

    #[tokio::test]
    async fn what_keeps_it_from_starting_can_be_seen() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = TestServer::builder()
            .data_dir(file.path())
            .try_start()
            .await
            .err();
        assert!(error.is_some());
    }
}
