//! `polity server`: the policy server, with the flags and variables that existing installations use.

mod cluster;
mod daemon;

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::CommandFactory as _;
use polity_admission::{
    ClusterChoice, EngineOptions, FairLimits, GuestLimits, ManagedOptions, ModuleOptions,
    RequestLimits, RunningServer, ServerOptions, StandaloneOptions, runtime_threads,
};
use polity_cli::exit::Exit;
use polity_runtime::args::{ByteSize, ClientArgs, HumanDuration, TlsArgs};
use polity_runtime::lease::LeaseTiming;
use polity_runtime::logs::LogArgs;
use polity_runtime::metrics::{Metrics, MetricsError};
use polity_runtime::{Clock, Shutdown, client, dirs, env};

/// An evaluation that takes longer makes its policy give way to the others.
const SLOW_AFTER: Duration = Duration::from_millis(100);
/// What collectors know a policy server by.
const SERVICE: &str = "kubewarden-policy-server";
/// The stack of a thread beyond what its guest may take.
const HOST_STACK: usize = 3 << 20;

/// Run a policy server, which evaluates Wasm policies for admission requests
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  polity server --standalone --policies policies.yml\n  polity server --standalone --policies policies.yml \\\n      --cert-file tls.crt --key-file tls.key --port 8443\n  kill -HUP PID                  read the policies again\n\n  # One replica of a PolicyServer, as the controller starts it\n  polity server --policy-server default --pod-name policy-server-default-0 \\\n      --pod-namespace kubewarden --pod-uid UID\n\n  polity server docs --output policy-server.md\n\nPolicies are also read again when their file changes. A link to this program\nthat is called policy-server is this command."
)]
pub(crate) struct ServerArgs {
    #[command(subcommand)]
    command: Option<ServerCommand>,
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    tls: TlsArgs,
    #[command(flatten)]
    policies: PolicyArgs,
    #[command(flatten)]
    cluster: cluster::InClusterArgs,
    #[command(flatten)]
    modules: ModuleArgs,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    daemon: daemon::DaemonArgs,
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    telemetry: TelemetryArgs,
    #[command(flatten)]
    refused: RefusedArgs,
}

#[derive(Debug, clap::Subcommand)]
enum ServerCommand {
    /// Write the reference of all flags as Markdown
    Docs {
        /// The file to write
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Network")]
struct ListenArgs {
    /// The address to listen on
    #[arg(long, env = env::BIND_ADDRESS, value_name = "ADDRESS", default_value = "0.0.0.0")]
    addr: IpAddr,
    /// The port for requests; 0 takes a free one
    #[arg(long, env = env::PORT, value_name = "PORT", default_value_t = 3000)]
    port: u16,
    /// The port of /readiness, /ready, /live and /metrics, always plain HTTP
    #[arg(long, env = env::READINESS_PROBE_PORT, value_name = "PORT", default_value_t = 8081)]
    readiness_probe_port: u16,
    /// How long to serve after SIGTERM, until the endpoints are updated
    #[arg(long, env = env::SHUTDOWN_DELAY, value_name = "DURATION", default_value = "5s")]
    shutdown_delay: HumanDuration,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Policies")]
struct PolicyArgs {
    /// Read the policies from the file of --policies, even with --policy-server; the default without --policy-server
    #[arg(long, env = env::STANDALONE)]
    standalone: bool,
    /// The file with the policies; valid changes take effect without a restart
    #[arg(long, env = env::POLICIES, value_name = "FILE", default_value = "policies.yml")]
    policies: PathBuf,
    /// Accept all requests for this namespace without evaluating policies
    #[arg(long, env = env::ALWAYS_ACCEPT_NAMESPACE, value_name = "NAMESPACE")]
    always_accept_admission_reviews_on_namespace: Option<String>,
    /// Start even if policies need a cluster and it cannot be reached
    #[arg(long, env = env::IGNORE_KUBERNETES_CONNECTION_FAILURE)]
    ignore_kubernetes_connection_failure: bool,
    /// Serve policies that are not ready by refusing, with the reason
    #[arg(long, env = env::CONTINUE_ON_ERRORS, hide = true)]
    continue_on_errors: bool,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Modules")]
struct ModuleArgs {
    /// The directory for modules and their compiled code
    #[arg(long, env = env::POLICIES_DOWNLOAD_DIR, value_name = "DIRECTORY", default_value = ".")]
    policies_download_dir: PathBuf,
    /// YAML file with insecure registries, certificate authorities and proxies
    #[arg(long, env = env::SOURCES_PATH, value_name = "FILE")]
    sources_path: Option<PathBuf>,
    /// The directory with the docker config.json
    #[arg(long, env = env::DOCKER_CONFIG_JSON_PATH, value_name = "DIRECTORY")]
    docker_config_json_path: Option<PathBuf>,
    /// Maximum size of a module
    #[arg(long, env = env::MAX_MODULE_SIZE, value_name = "BYTES", default_value = "128Mi")]
    max_module_size: ByteSize,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Limits")]
struct LimitArgs {
    /// Number of evaluations at the same time [default: the number of CPUs]
    #[arg(long, env = env::WORKERS, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
    /// Time limit of an evaluation in seconds, unless its policy sets one
    #[arg(long, env = env::POLICY_TIMEOUT, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    policy_timeout: u64,
    /// Disable the time limits of evaluations, also those of policies
    #[arg(long, env = env::DISABLE_TIMEOUT_PROTECTION)]
    disable_timeout_protection: bool,
    /// Time limit of a request with its time in the queue, unless the caller sets a shorter one
    #[arg(long, env = env::REQUEST_TIMEOUT, value_name = "DURATION", default_value = "30s")]
    request_timeout: HumanDuration,
    /// Maximum number of requests in the queue
    #[arg(long, env = env::MAX_WAITING, value_name = "N", default_value_t = 1024)]
    max_waiting: usize,
    /// Maximum number of requests in the queue for one policy
    #[arg(long, env = env::MAX_WAITING_PER_POLICY, value_name = "N", default_value_t = 256)]
    max_waiting_per_policy: usize,
    /// Maximum size of a request body
    #[arg(long, env = env::MAX_BODY_SIZE, value_name = "BYTES", default_value = "8Mi")]
    max_body_size: ByteSize,
    /// Maximum size of all request bodies in memory
    #[arg(long, env = env::MAX_BODIES_SIZE, value_name = "BYTES", default_value = "256Mi")]
    max_bodies_size: ByteSize,
    /// Maximum memory of one evaluation
    #[arg(long, env = env::MAX_GUEST_MEMORY, value_name = "BYTES", default_value = "512Mi")]
    max_guest_memory: ByteSize,
    /// Maximum number of table elements of one evaluation
    #[arg(long, env = env::MAX_GUEST_TABLE_ELEMENTS, value_name = "N", default_value_t = 200_000)]
    max_guest_table_elements: usize,
    /// Maximum stack of one evaluation
    #[arg(long, env = env::MAX_GUEST_STACK, value_name = "BYTES", default_value = "1Mi")]
    max_guest_stack: ByteSize,
    /// Maximum size of the response of a policy, and of the request and response of each host call
    #[arg(long, env = env::MAX_GUEST_OUTPUT, value_name = "BYTES", default_value = "16Mi")]
    max_guest_output: ByteSize,
    /// Maximum number of host calls of one evaluation, including log entries
    #[arg(long, env = env::MAX_HOST_CALLS, value_name = "N", default_value_t = 10_000)]
    max_host_calls: u32,
    /// Maximum size of all log entries of one evaluation; one entry is cut at 64Ki
    #[arg(long, env = env::MAX_GUEST_LOG, value_name = "BYTES", default_value = "1Mi")]
    max_guest_log: ByteSize,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Telemetry")]
struct TelemetryArgs {
    /// Push metrics to a collector with OTLP (OTEL_EXPORTER_OTLP_ENDPOINT); /metrics of the readiness port always serves
    /// them
    #[arg(long, env = env::ENABLE_METRICS)]
    enable_metrics: bool,
}

/// Flags of existing command lines that are refused or ignored.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "For compatibility")]
struct RefusedArgs {
    /// Refused: a running server is profiled from outside
    #[arg(long, env = env::ENABLE_PPROF)]
    enable_pprof: bool,
    /// Refused: signatures are not verified yet
    #[arg(long, env = env::VERIFICATION_CONFIG, value_name = "FILE")]
    verification_path: Option<PathBuf>,
    /// Refused: signatures are not verified yet
    #[arg(long, env = env::SIGSTORE_TRUST_CONFIG, value_name = "FILE")]
    sigstore_trust_config: Option<PathBuf>,
    /// Accepted, and unused until signatures are verified
    #[arg(long, env = env::SIGSTORE_CACHE_DIR, value_name = "DIRECTORY", default_value = "sigstore-data")]
    sigstore_cache_dir: PathBuf,
}

/// A flag that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Refusal {
    flag: &'static str,
    why: &'static str,
    hint: &'static str,
}

impl ServerArgs {
    pub(crate) fn run(self, logs: &LogArgs) -> anyhow::Result<Exit> {
        if let Some(ServerCommand::Docs { output }) = &self.command {
            return write_docs(output);
        }
        if let Some(Refusal { flag, why, hint }) = self.refusal() {
            eprintln!("error: {flag}: {why}\nhint: {hint}");
            return Ok(Exit::Code(64));
        }
        if self.daemon.daemon {
            return self.daemon.start(self.listen.readiness());
        }
        let workers = self.workers();
        let stack = self.limits.max_guest_stack.0.saturating_add(HOST_STACK);
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(runtime_threads(workers))
            .thread_stack_size(stack)
            .enable_all()
            .build()?
            .block_on(async {
                let logging = logs.init(SERVICE)?;
                let metrics = self.telemetry.metrics()?;
                let outcome = self.serve(workers, metrics.clone()).await;
                metrics.finish();
                logging.finish();
                outcome
            })
    }

    async fn serve(self, workers: usize, metrics: Metrics) -> anyhow::Result<Exit> {
        if self.limits.disable_timeout_protection {
            tracing::warn!("nothing limits the time of evaluations: timeout protection is off");
        }
        let shutdown = Shutdown::on_signals()?;
        let start = async {
            match self.is_managed() {
                true => Ok(self.managed(workers, metrics).await?.start().await?),
                false => Ok(self.standalone(workers, metrics).start().await?),
            }
        };
        // A signal during the start leaves nothing to finish.
        let started: Option<anyhow::Result<RunningServer>> =
            shutdown.run_until(Box::pin(start)).await;
        if let Some(server) = started {
            server?.run_until(shutdown).await?;
        }
        Ok(Exit::Fine)
    }

    /// Whether the policies come from a cluster. Older command lines have no flag for it.
    fn is_managed(&self) -> bool {
        !self.policies.standalone && self.cluster.policy_server.is_some()
    }

    /// What asks for something that must not be passed over.
    fn refusal(&self) -> Option<Refusal> {
        let RefusedArgs {
            enable_pprof,
            verification_path,
            sigstore_trust_config,
            sigstore_cache_dir: _,
        } = &self.refused;
        let unverified = |flag| Refusal {
            flag,
            why: "signatures cannot be verified yet, and nothing that asks for it is served unverified",
            hint: "pin modules by digest (registry://host/policy@sha256:…) and leave the flag out",
        };
        if verification_path.is_some() {
            return Some(unverified("--verification-path"));
        }
        if sigstore_trust_config.is_some() {
            return Some(unverified("--sigstore-trust-config"));
        }
        if *enable_pprof {
            return Some(Refusal {
                flag: "--enable-pprof",
                why: "the port that judges requests does not hand out profiles",
                hint: "profile the process from outside, for example with perf record -p PID",
            });
        }
        if self.is_managed()
            && let Some(flag) = self.cluster.missing()
        {
            return Some(Refusal {
                flag,
                why: "a replica of a policy server must know its pod",
                hint: "the controller sets POD_NAME, POD_NAMESPACE and POD_UID; --standalone needs none of them",
            });
        }
        let ListenArgs {
            port,
            readiness_probe_port,
            ..
        } = self.listen;
        (port == readiness_probe_port && port != 0).then_some(Refusal {
            flag: "--readiness-probe-port",
            why: "it must be another port than that of --port",
            hint: "the default ports are 3000 and 8081",
        })
    }

    fn workers(&self) -> usize {
        match self.limits.workers {
            Some(workers) => usize::from(workers),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    async fn managed(self, workers: usize, metrics: Metrics) -> anyhow::Result<ManagedOptions> {
        let client = client::connect(&self.client)
            .await
            .context("connecting to the cluster")?;
        Ok(ManagedOptions {
            server_config: self.cluster.server_config(&self.policies.policies),
            cache: self.cluster.cache(),
            identity: self.cluster.identity(),
            client,
            lease: LeaseTiming::default(),
            server: self.server(workers, metrics),
        })
    }

    fn standalone(self, workers: usize, metrics: Metrics) -> StandaloneOptions {
        StandaloneOptions {
            policies: self.policies.policies.clone(),
            cluster: ClusterChoice {
                client: self.client.clone(),
                may_be_missing: self.policies.ignore_kubernetes_connection_failure,
            },
            continue_on_errors: self.policies.continue_on_errors,
            server: self.server(workers, metrics),
        }
    }

    /// The options of both kinds of server.
    fn server(self, workers: usize, metrics: Metrics) -> ServerOptions {
        let Self {
            command: _,
            listen,
            tls,
            policies,
            cluster: _,
            modules,
            limits,
            daemon: _,
            client: _,
            telemetry: _,
            refused: _,
        } = self;
        ServerOptions {
            listen: listen.requests(),
            readiness_listen: listen.readiness(),
            tls: tls.files(),
            engine: limits.engine(workers, modules.max_module_size),
            modules: modules.options(),
            policy_timeout: limits.policy_timeout(),
            always_accept_namespace: policies.always_accept_admission_reviews_on_namespace,
            limits: limits.requests(workers),
            shutdown_delay: listen.shutdown_delay.0,
            metrics,
            clock: Clock::system(),
        }
    }
}

impl ListenArgs {
    fn requests(&self) -> SocketAddr {
        SocketAddr::new(self.addr, self.port)
    }

    fn readiness(&self) -> SocketAddr {
        SocketAddr::new(self.addr, self.readiness_probe_port)
    }
}

impl TelemetryArgs {
    fn metrics(&self) -> Result<Metrics, MetricsError> {
        match self.enable_metrics {
            true => Metrics::pushed(SERVICE),
            false => Metrics::new(),
        }
    }
}

impl ModuleArgs {
    fn options(self) -> ModuleOptions {
        let Self {
            policies_download_dir,
            sources_path,
            docker_config_json_path,
            max_module_size: _,
        } = self;
        ModuleOptions {
            store: policies_download_dir,
            sources: sources_path,
            docker_config: docker_config_json_path.or_else(dirs::docker_config),
        }
    }
}

impl LimitArgs {
    fn policy_timeout(&self) -> Option<Duration> {
        (!self.disable_timeout_protection).then(|| Duration::from_secs(self.policy_timeout))
    }

    fn engine(&self, workers: usize, max_module: ByteSize) -> EngineOptions {
        let defaults = EngineOptions::default();
        EngineOptions {
            limits: GuestLimits {
                module_size: max_module.0,
                memory: self.max_guest_memory.0,
                table_elements: self.max_guest_table_elements,
                stack: self.max_guest_stack.0,
                output: self.max_guest_output.0,
                host_payload: self.max_guest_output.0,
                host_calls: self.max_host_calls,
                log_total: self.max_guest_log.0,
                ..GuestLimits::default()
            },
            // Requests and, during a reload, settings are evaluated side by side.
            instances: u32::try_from(2 * workers + 2)
                .unwrap_or(u32::MAX)
                .max(defaults.instances),
            ..defaults
        }
    }

    fn requests(&self, workers: usize) -> RequestLimits {
        RequestLimits {
            body: self.max_body_size.0,
            bodies: self.max_bodies_size.0,
            queue: FairLimits {
                places: workers,
                waiting: self.max_waiting,
                waiting_per_policy: self.max_waiting_per_policy,
                slow_after: SLOW_AFTER,
            },
            time: (!self.disable_timeout_protection).then_some(self.request_timeout.0),
        }
    }
}

fn write_docs(output: &Path) -> anyhow::Result<Exit> {
    let page = crate::markdown::page_of(crate::Cli::command(), "server");
    std::fs::File::create(output)
        .and_then(|mut file| file.write_all(page.as_bytes()))
        .with_context(|| format!("writing {}", output.display()))?;
    Ok(Exit::Fine)
}

#[cfg(test)]
mod tests;
