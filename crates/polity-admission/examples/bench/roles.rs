//! The roles of the processes that this program starts: our server, and an echo server.

use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use polity_admission::{
    ClusterChoice, EngineOptions, FairLimits, ModuleOptions, RequestLimits, ServerOptions,
    StandaloneOptions, runtime_threads,
};
use polity_runtime::args::{ClientArgs, LogArgs};
use polity_runtime::metrics::Metrics;
use polity_runtime::serve::Server;
use polity_runtime::tls::{ClientAuthMode, ServerTls, TlsFiles};
use polity_runtime::{Clock, Shutdown};

use crate::servers::Fixture;

/// Runs the policy server in the same way as `polity server`.
pub(crate) fn serve(folder: &Path, log_level: &str) {
    let logs = LogArgs {
        log_level: log_level.parse().expect("a level"),
        log_fmt: polity_runtime::logs::LogFormat::Json,
        log_no_color: true,
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    runtime(runtime_threads(workers)).block_on(async {
        let _logging = logs.init("bench").expect("logs");
        let server = options(folder, workers).start().await.expect("a start");
        let shutdown = Shutdown::on_signals().expect("signals");
        server.run_until(shutdown).await.expect("an end");
    });
}

/// Reads each body and responds like a policy that allows the request.
pub(crate) fn echo(folder: &Path) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    runtime(threads).block_on(async {
        let address = format!("127.0.0.1:{}", Fixture::port(folder, "port"));
        let mut server = Server::bind(address.parse().expect("an address")).await.expect("a port");
        if let Some(files) = tls(folder) {
            let material = files.read().await.expect("a certificate");
            server = server.with_tls(ServerTls::new(&material).expect("a certificate"));
        }
        let echo = tower::service_fn(async |request: Request<Incoming>| {
            let body = request.into_body().collect().await.expect("a body").to_bytes();
            assert!(!body.is_empty() || cfg!(not(debug_assertions)));
            let answer = Bytes::from_static(br#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":"u","allowed":true,"auditAnnotations":null,"warnings":null}}"#);
            Ok::<_, Infallible>(Response::new(Full::new(answer)))
        });
        server.run(echo, Shutdown::on_signals().expect("signals")).await;
    });
}

fn runtime(threads: usize) -> tokio::runtime::Runtime {
    polity_runtime::tls::install_provider();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_stack_size(4 << 20)
        .enable_all()
        .build()
        .expect("a runtime")
}

fn tls(folder: &Path) -> Option<TlsFiles> {
    let certificate = folder.join("tls.crt");
    certificate.exists().then(|| TlsFiles {
        certificate,
        key: folder.join("tls.key"),
        client_authorities: Vec::new(),
        client_auth: ClientAuthMode::None,
    })
}

fn options(folder: &Path, workers: usize) -> StandaloneOptions {
    let address = |name| {
        format!("127.0.0.1:{}", Fixture::port(folder, name))
            .parse()
            .expect("an address")
    };
    StandaloneOptions {
        server: ServerOptions {
            listen: address("port"),
            readiness_listen: address("readiness"),
            tls: tls(folder),
            engine: EngineOptions::default(),
            modules: ModuleOptions {
                store: folder.join("store"),
                ..ModuleOptions::default()
            },
            policy_timeout: Some(Duration::from_secs(2)),
            always_accept_namespace: None,
            limits: RequestLimits {
                body: 8 << 20,
                bodies: 256 << 20,
                queue: FairLimits {
                    places: workers,
                    waiting: 1024,
                    waiting_per_policy: 256,
                    slow_after: Duration::from_millis(100),
                },
                time: Some(Duration::from_secs(30)),
            },
            shutdown_delay: Duration::ZERO,
            metrics: Metrics::new().expect("metrics"),
            clock: Clock::system(),
        },
        policies: folder.join("policies.yml"),
        cluster: ClusterChoice {
            client: ClientArgs::default(),
            may_be_missing: true,
        },
        continue_on_errors: false,
    }
}
