//! What every kind of server is made of: threads, ports, certificates, modules from elsewhere.

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use http::StatusCode;
use polity_eval::{CapabilityRequest, Deadline, Services};
use polity_fetch::{Credentials, Fetcher, LocalStore, Proxies, Reach, Sources, SourcesError};
use polity_runtime::admin::Readiness;
use polity_runtime::changes::ReloadTiming;
use polity_runtime::serve::Server;
use polity_runtime::tls::{self, ServerTls, TlsError, TlsFiles};
use polity_runtime::{Clock, Tasks, env};
use tracing::warn;

use crate::turnstile::off_the_worker;

/// How long requests in flight may take after the server stopped listening.
pub(crate) const DRAIN: Duration = Duration::from_secs(30);

/// How many threads the runtime of a server needs. Evaluations run on them, one for each: more threads would only
/// find every place taken and wake each other. A guest that takes long gives its thread's other work away, so
/// connections are served whatever guests do. Never fewer than two: a single one would have to wait for every handover.
pub fn runtime_threads(workers: usize) -> usize {
    workers.max(2)
}

/// Where modules come from and are kept.
#[derive(Debug, Clone, Default)]
pub struct ModuleOptions {
    /// The directory they are kept in, compiled code included.
    pub store: PathBuf,
    /// `sources.yml`.
    pub sources: Option<PathBuf>,
    /// The directory with the docker `config.json`.
    pub docker_config: Option<PathBuf>,
}

impl ModuleOptions {
    pub(crate) fn fetcher(self, max_module: usize) -> Result<Fetcher, SourcesError> {
        let Self {
            store,
            sources,
            docker_config,
        } = self;
        Ok(Fetcher {
            sources: sources
                .map(|path| Sources::load(&path))
                .transpose()?
                .unwrap_or_default(),
            credentials: docker_config
                .map(|directory| Credentials::from_directory(&directory))
                .unwrap_or_default(),
            store: LocalStore::new(store),
            limits: polity_fetch::Limits {
                module_bytes: max_module as u64,
                ..polity_fetch::Limits::default()
            },
        })
    }
}

/// The same fetcher, for hosts that others choose: authors of policies in namespaces, and creators of the objects that
/// policies look up images of. It does not reach this machine and its link, but for the sources listed as insecure.
pub(crate) fn beyond_this_machine(fetcher: &Fetcher) -> Fetcher {
    let mut fetcher = fetcher.clone();
    fetcher.sources.reach = Reach::BeyondThisMachine;
    // A proxy may be on this machine. It makes the connections, and decides which hosts it reaches.
    fetcher.sources.proxies.get_or_insert_with(|| Proxies {
        http_proxy: proxy("http_proxy"),
        https_proxy: proxy("https_proxy"),
        no_proxy: proxy("no_proxy"),
    });
    fetcher
}

/// A proxy as the environment names it, in small or in capital letters.
fn proxy(name: &str) -> Option<String> {
    let found = env::read(name).or_else(|| env::read(&name.to_uppercase()));
    found?.into_string().ok().filter(|proxy| !proxy.is_empty())
}

pub(crate) fn run_server<S, B>(tasks: &Tasks, name: &'static str, server: Server, service: S)
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

/// `/readiness`, as probes of existing installations ask for it: a code and nothing else.
pub(crate) fn probe(readiness: Readiness) -> Router {
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

/// Encrypts, if there are files to do it with, and keeps up with them.
pub(crate) async fn follow_certificate(
    server: Server,
    files: Option<TlsFiles>,
    tasks: &Tasks,
    clock: &Clock,
) -> Result<Server, TlsError> {
    let Some(files) = files else {
        warn!("no certificate: requests come in plain HTTP");
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

/// Host calls wait for others. Evaluations run on the runtime's threads, which must not wait: they
/// hand over what else they have to do first.
pub(crate) struct OffTheWorker<S>(pub(crate) S);

impl<S: Services> Services for OffTheWorker<S> {
    fn call(&self, request: &CapabilityRequest, deadline: Deadline) -> Result<Vec<u8>, String> {
        off_the_worker(|| self.0.call(request, deadline))
    }
}
