//! Starts the two servers, and sends requests to them without the changes that client libraries make.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result};
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ConfigExt as _};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use peers::Cluster;
use polity_apiserver::AuthorizationMode;
use polity_apiserver::fleet::{Fleet, FleetOptions};
use polity_apiserver::kubeconfig;
use polity_apiserver::metrics::RequestMetrics;
use polity_runtime::metrics::Metrics;
use polity_runtime::serve::Limits;
use polity_runtime::{Clock, Shutdown, Tasks};
use tower::{BoxError, ServiceBuilder};

use crate::case::Identity;
use crate::hooks::Hooks;

/// Admission plugins of the real server that change objects and that the embedded server does not have. Their changes
/// only matter to kubelets, schedulers and volume controllers, which do not run here.
const WITHOUT_PLUGINS: &[&str] = &[
    "DefaultTolerationSeconds",
    "Priority",
    "ServiceAccount",
    "StorageObjectInUseProtection",
    "TaintNodesByCondition",
];

pub(crate) struct Servers {
    pub(crate) real: Target,
    pub(crate) ours: Target,
    pub(crate) hooks: Hooks,
    cluster: Cluster,
    tasks: Tasks,
    clock: Clock,
}

/// One of the two servers.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    admin: Client,
    anonymous: Client,
}

/// An unprocessed response.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

/// Starts both servers and the webhook server that they call.
pub(crate) async fn start() -> Result<Servers> {
    polity_runtime::tls::install_provider();
    let cluster = tokio::task::spawn_blocking(|| Cluster::start_without(WITHOUT_PLUGINS)).await??;
    let real = Kubeconfig::read_from(cluster.kubeconfig())?;
    let clock = Clock::system();
    let tasks = Tasks::new(Shutdown::new());
    let metrics = Metrics::new()?;
    let options = FleetOptions {
        data_dir: None,
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        hub: "hub".into(),
        members: Vec::new(),
        authorization: AuthorizationMode::Rbac,
        clock: clock.clone(),
        limits: Limits::default(),
    };
    let requests = RequestMetrics::new(&metrics.meter("apiserver"), String::new);
    let fleet = Fleet::start(options, &tasks, requests).await?;
    let ours = Kubeconfig::from_yaml(&kubeconfig::of(&fleet))?;
    Ok(Servers {
        real: Target::new("real", real).await?,
        ours: Target::new("ours", ours).await?,
        hooks: Hooks::start(&tasks, &clock).await?,
        cluster,
        tasks,
        clock,
    })
}

impl Servers {
    /// Stops both servers.
    pub(crate) async fn stop(self) {
        self.tasks.shutdown().trigger();
        self.tasks.finish(&self.clock, Duration::from_secs(5)).await;
        // Dropping it waits for its processes, which must not block the runtime.
        let cluster = self.cluster;
        let _ = tokio::task::spawn_blocking(move || drop(cluster)).await;
    }
}

impl Target {
    async fn new(name: &'static str, kubeconfig: Kubeconfig) -> Result<Self> {
        let config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let mut anonymous = config.clone();
        anonymous.auth_info = AuthInfo::default();
        Ok(Self {
            name,
            admin: client(&config)?,
            anonymous: client(&anonymous)?,
        })
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn send(
        &self,
        identity: Identity,
        request: Request<Vec<u8>>,
    ) -> Result<Response> {
        let client = match identity {
            Identity::Admin => &self.admin,
            Identity::Anonymous => &self.anonymous,
        };
        let what = format!("{} {} {}", self.name, request.method(), request.uri());
        let response = client
            .send(request.map(Body::from))
            .await
            .with_context(|| what.clone())?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await.with_context(|| what)?.to_bytes();
        Ok(Response {
            code: parts.status,
            headers: parts.headers,
            body: body.to_vec(),
        })
    }
}

/// A client without the retries and headers that kube adds by itself.
fn client(config: &Config) -> Result<Client> {
    let https = config.rustls_https_connector()?;
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .map_err(BoxError::from)
        .service(HyperClient::builder(TokioExecutor::new()).build(https));
    Ok(Client::new(service, "default"))
}
