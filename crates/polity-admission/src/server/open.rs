//! The first half of a start, the same for every server: ports, certificates, engine, and the services behind host calls.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use axum::Router;
use axum::routing::get;
use http::StatusCode;
use polity_eval::{CachedServices, CapabilityRequest, Deadline, Engine, Environment, Services};
use polity_fetch::Fetcher;
use polity_host::{Cluster, HostServices, ServicesOptions};
use polity_runtime::admin::{self, Part, Readiness};
use polity_runtime::changes::ReloadTiming;
use polity_runtime::serve::{Limits, Server};
use polity_runtime::tls::{self, ServerTls, TlsError, TlsFiles};
use polity_runtime::{Clock, Tasks};
use tracing::warn;

use super::{DRAIN, RunningServer, ServerOptions, StartError, TaskGroups, beyond_this_machine};
use crate::metrics::ServerMetrics;
use crate::review::{RequestLimits, ReviewService, ReviewServiceOptions};
use crate::table::PolicyTable;
use crate::turnstile::off_the_worker;

/// A server whose ports are open. It answers on the admin port, and not yet on the port for reviews: callers wait there
/// until [`OpenServer::serve`].
pub(crate) struct OpenServer {
    pub(crate) tasks: TaskGroups,
    pub(crate) engine: Engine,
    pub(crate) fetcher: Fetcher,
    pub(crate) metrics: ServerMetrics,
    /// What is served: empty until policies are loaded.
    pub(crate) table: Arc<ArcSwap<PolicyTable>>,
    /// The readiness of the policies: `loading` until the caller changes it.
    pub(crate) policies: Part,
    /// How many modules and policies are loaded at once.
    pub(crate) parallelism: usize,
    pub(crate) address: SocketAddr,
    pub(crate) readiness_address: SocketAddr,
    pub(crate) clock: Clock,
    server: Server,
    readiness: Readiness,
    policy_timeout: Option<Duration>,
    always_accept_namespace: Option<String>,
    limits: RequestLimits,
    shutdown_delay: Duration,
}

impl OpenServer {
    /// Reads the configuration and opens the ports.
    pub(crate) async fn open(
        options: ServerOptions,
        tasks: TaskGroups,
    ) -> Result<Self, StartError> {
        let ServerOptions {
            listen,
            readiness_listen,
            tls,
            engine,
            modules,
            policy_timeout,
            always_accept_namespace,
            limits,
            shutdown_delay,
            metrics,
            clock,
        } = options;
        let fetcher = modules.fetcher(engine.limits.module_size)?;
        let engine = Engine::new(&engine)?;
        let server = Server::bind(listen).await?.with_limits(Limits {
            drain_timeout: DRAIN,
            ..Limits::default()
        });
        let server = follow_certificate(server, tls, &tasks.serving, &clock).await?;
        let readiness = Readiness::new();
        let policies = readiness.part("policies", "loading");
        let admin_server = Server::bind(readiness_listen).await?;
        let readiness_address = admin_server.address();
        let router = admin::router(readiness.clone(), metrics.clone())
            .merge(readiness_route(readiness.clone()));
        run_server(&tasks.admin, "admin port", admin_server, router);
        Ok(Self {
            tasks,
            engine,
            fetcher,
            metrics: ServerMetrics::new(&metrics.meter("kubewarden")),
            table: Arc::default(),
            policies,
            parallelism: limits.queue.places.max(2),
            address: server.address(),
            readiness_address,
            clock,
            server,
            readiness,
            policy_timeout,
            always_accept_namespace,
            limits,
            shutdown_delay,
        })
    }

    /// What evaluations share, with the services that answer the host calls of guests.
    pub(crate) fn environment(&self, cluster: Option<Cluster>) -> Environment {
        let services = HostServices::new(ServicesOptions {
            cluster,
            fetcher: beyond_this_machine(&self.fetcher),
            runtime: tokio::runtime::Handle::current(),
            clock: self.clock.clone(),
        });
        Environment {
            default_timeout: self.policy_timeout,
            timeouts: self.policy_timeout.is_some(),
            always_accept_namespace: self.always_accept_namespace.clone(),
            ..Environment::new(Arc::new(CachedServices::new(OffTheWorker(services))))
        }
    }

    /// Answers reviews from the table.
    pub(crate) fn serve(self, environment: Environment) -> RunningServer {
        let reviews = ReviewService::new(ReviewServiceOptions {
            environment,
            table: self.table,
            limits: self.limits,
            metrics: self.metrics,
            clock: self.clock.clone(),
        });
        run_server(&self.tasks.serving, "review endpoint", self.server, reviews);
        RunningServer {
            address: self.address,
            readiness_address: self.readiness_address,
            readiness: self.readiness,
            tasks: self.tasks,
            shutdown_delay: self.shutdown_delay,
            clock: self.clock,
        }
    }
}

fn run_server<S, B>(tasks: &Tasks, name: &'static str, server: Server, service: S)
where
    S: tower::Service<http::Request<hyper::body::Incoming>, Response = http::Response<B>>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let shutdown = tasks.shutdown().clone();
    tasks.spawn(name, async move {
        server.run(service, shutdown).await;
        Ok::<_, Infallible>(())
    });
}

/// `/readiness`, the path in the probes of existing installations: a status code without a body.
fn readiness_route(readiness: Readiness) -> Router {
    let code = move || {
        let is_ready = readiness.is_ready();
        async move {
            match is_ready {
                true => StatusCode::OK,
                false => StatusCode::SERVICE_UNAVAILABLE,
            }
        }
    };
    Router::new().route("/readiness", get(code))
}

/// Serves TLS if there are certificate files, and reads them again when they change.
async fn follow_certificate(
    server: Server,
    files: Option<TlsFiles>,
    tasks: &Tasks,
    clock: &Clock,
) -> Result<Server, TlsError> {
    let Some(files) = files else {
        warn!("no certificate: serving plain HTTP");
        return Ok(server);
    };
    let material = files.read().await?;
    let tls = ServerTls::new(&material)?;
    let watch = tls::watch(
        files,
        material,
        tls.clone(),
        ReloadTiming::default(),
        clock.clone(),
        tasks.shutdown().clone(),
    );
    tasks.spawn("certificate files", watch);
    Ok(server.with_tls(tls))
}

/// Services whose calls block. Evaluations run on the threads of the runtime, which must not block: a thread gives its
/// other work away before each call.
struct OffTheWorker<S>(S);

impl<S: Services> Services for OffTheWorker<S> {
    fn call(&self, request: &CapabilityRequest, deadline: Deadline) -> Result<Vec<u8>, String> {
        off_the_worker(|| self.0.call(request, deadline))
    }
}
