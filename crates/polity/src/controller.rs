//! `polity controller`: policies, their revisions and webhooks, and the policy servers that run them.

mod cleanup;

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use anyhow::anyhow;
use k8s_openapi::api::core::v1::EnvVar;
use kube::Client;
use polity_cli::exit::Exit;
use polity_lifecycle::install::{CONTROLLER, WEBHOOK_PORT};
use polity_lifecycle::lifecycle::Settings;
use polity_lifecycle::names::UniqueNames;
use polity_lifecycle::objects::{Collector, Setup};
use polity_lifecycle::webhooks::{Registration, SERVICE, Webhooks};
use polity_lifecycle::{CONTROLLER_LEASE, LifecycleController, PolicyMetrics};
use polity_reconcile::{ControllerMetrics, LeaderElection, Term};
use polity_runtime::args::ClientArgs;
use polity_runtime::lease::{self, LeaseTiming};
use polity_runtime::process::{self, Process, ProcessError, ProcessSettings};
use polity_runtime::{Shutdown, client, env};

use cleanup::CleanupArgs;

/// What the collector is told about in the controller's own environment, and policy servers are told in turn.
pub(crate) const COLLECTOR_VARIABLES: &[&str] = &[
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "OTEL_EXPORTER_OTLP_INSECURE",
];
/// How long tasks may take to end.
const PATIENCE: Duration = Duration::from_secs(25);

/// Run the controller of policies and policy servers
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  polity controller --deployments-namespace kubewarden\n  polity controller --leader-elect               one of several is active\n  polity controller --revision-drain-seconds 30  serve old generations longer\n\n  # Apply the recommended policies in a ConfigMap\n  polity controller --defaults-configmap-name recommended-policies\n\n  # Before an uninstall: delete policies and policy servers\n  polity controller --cleanup --controller-deployment-name kubewarden-controller\n\nThe definitions of our kinds must exist: `polity install` creates them."
)]
pub(crate) struct ControllerArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    servers: ServersArgs,
    #[command(flatten)]
    policies: PoliciesArgs,
    /// Use leader election, so that several replicas can run
    #[arg(long, env = env::LEADER_ELECT)]
    leader_elect: bool,
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    cleanup: CleanupArgs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Network")]
struct ListenArgs {
    /// The port of the webhooks for the kinds of Polity; 0 takes a free one
    #[arg(long, env = env::WEBHOOK_SERVER_PORT, value_name = "PORT", default_value_t = WEBHOOK_PORT)]
    webhook_server_port: u16,
    /// The Service of these webhooks
    #[arg(long, env = env::WEBHOOK_SERVICE_NAME, value_name = "NAME", default_value = SERVICE)]
    webhook_service_name: String,
    /// Serve /metrics here; 0 for nowhere
    #[arg(long, env = env::METRICS_BIND_ADDRESS, value_name = "ADDRESS", default_value = ":8088")]
    metrics_bind_address: BindAddress,
    /// Address of /healthz and /readyz; 0 disables them
    #[arg(long, env = env::HEALTH_PROBE_BIND_ADDRESS, value_name = "ADDRESS", default_value = ":8081")]
    health_probe_bind_address: BindAddress,
}

/// An address as existing command lines give it: `:8081` is every interface, `0` is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BindAddress(Option<SocketAddr>);

impl FromStr for BindAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self(None));
        }
        let whole = match text.strip_prefix(':') {
            Some(port) => format!("0.0.0.0:{port}"),
            None => text.to_owned(),
        };
        let address = whole.parse::<SocketAddr>();
        let address = address.map_err(|_| "it is ADDRESS:PORT, :PORT, or 0 for nowhere")?;
        Ok(Self(Some(address)))
    }
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Policy servers")]
#[expect(clippy::struct_excessive_bools, reason = "one for each flag")]
struct ServersArgs {
    /// The namespace of policy servers and revisions [default: the namespace of this Pod]
    #[arg(long, env = env::DEPLOYMENTS_NAMESPACE, value_name = "NAMESPACE")]
    deployments_namespace: Option<String>,
    /// Accept all requests for the namespace of the policy servers
    #[arg(long, env = env::ALWAYS_ACCEPT_DEPLOYMENTS_NAMESPACE)]
    always_accept_admission_reviews_on_deployments_namespace: bool,
    /// Serve metrics, and push those of the controller to the collector
    #[arg(long, env = env::CONTROLLER_ENABLE_METRICS)]
    enable_metrics: bool,
    /// The metrics port of the Services of policy servers
    #[arg(long, env = env::POLICY_SERVER_METRICS_PORT, value_name = "PORT", default_value_t = 8080)]
    policy_server_metrics_port: u16,
    /// Export traces
    #[arg(long, env = env::ENABLE_TRACING)]
    enable_tracing: bool,
    /// Run an OpenTelemetry collector as a sidecar of each replica
    #[arg(long, env = env::ENABLE_OTEL_SIDECAR, conflicts_with = "host_network")]
    enable_otel_sidecar: bool,
    /// The Secret with the CA of the collector, key ca.crt
    #[arg(long, env = env::OPENTELEMETRY_CERTIFICATE_SECRET, value_name = "NAME")]
    opentelemetry_certificate_secret: Option<String>,
    /// The Secret with the client certificate for the collector, keys tls.crt and tls.key
    #[arg(long, env = env::OPENTELEMETRY_CLIENT_CERTIFICATE_SECRET, value_name = "NAME")]
    opentelemetry_client_certificate_secret: Option<String>,
    /// Require client certificates of the CA in this ConfigMap, key client-ca.crt
    #[arg(long, env = env::CLIENT_CA_CONFIGMAP_NAME, value_name = "NAME")]
    client_ca_configmap_name: Option<String>,
    /// Secrets to pull the image with
    #[arg(long, env = env::IMAGE_PULL_SECRETS, value_name = "NAME", value_delimiter = ',')]
    image_pull_secrets: Vec<String>,
    /// Run policy servers on the host network
    #[arg(long, env = env::HOST_NETWORK)]
    host_network: bool,
    /// The ReadWriteMany storage class of caches, unless a PolicyServer sets one
    #[arg(long, env = env::CACHE_STORAGE_CLASS, value_name = "NAME")]
    cache_storage_class: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Policies")]
struct PoliciesArgs {
    /// Number of earlier generations of a policy to keep for rollbacks
    #[arg(long, env = env::REVISION_HISTORY_LIMIT, value_name = "N", default_value_t = 10)]
    revision_history_limit: usize,
    /// How long the previous generation is served after a switch, in seconds
    #[arg(long, env = env::REVISION_DRAIN_SECONDS, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=300))]
    revision_drain_seconds: u64,
    /// The form of the ids of new policies: classic or dotted
    #[arg(long, env = env::UNIQUE_NAMES, value_name = "FORM", default_value = "classic", value_parser = unique_names)]
    unique_names: UniqueNames,
    /// Apply the policies and policy servers in this ConfigMap whenever it changes; it is in the namespace of the policy servers
    #[arg(long, env = env::DEFAULTS_CONFIGMAP_NAME, value_name = "NAME")]
    defaults_configmap_name: Option<String>,
}

fn unique_names(text: &str) -> Result<UniqueNames, String> {
    match text {
        "classic" => Ok(UniqueNames::Classic),
        "dotted" => Ok(UniqueNames::Dotted),
        _ => Err("it is classic or dotted".into()),
    }
}

impl ControllerArgs {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            client,
            servers,
            policies,
            leader_elect,
            listen,
            cleanup,
        } = self;
        let ListenArgs {
            webhook_server_port,
            webhook_service_name,
            metrics_bind_address,
            health_probe_bind_address,
        } = listen;
        let shutdown = Shutdown::on_signals()?;
        if let Some(deployment) = cleanup.asked_for() {
            let client = client::connect(&client).await?;
            let namespace = servers.setup(client.default_namespace()).namespace;
            let timeout = cleanup.cleanup_timeout;
            return cleanup::run(client, namespace, deployment, timeout, shutdown).await;
        }
        let settings = ProcessSettings {
            service: CONTROLLER,
            admin: [metrics_bind_address, health_probe_bind_address]
                .into_iter()
                .filter_map(|address| address.0)
                .collect(),
            pushes_metrics: servers.enable_metrics,
            drain: PATIENCE,
        };
        let services = Services {
            servers,
            policies,
            leader_elect,
            webhook_server_port,
            webhook_service_name,
        };
        let start = async |process: &Process, client: Client| services.start(process, client);
        match Box::pin(process::run(settings, &client, shutdown, start)).await {
            Ok(()) => Ok(Exit::Fine),
            // As it is: the hint of an error is found by its type.
            Err(ProcessError::Connect(error)) => Err(error.into()),
            Err(error) => Err(error.into()),
        }
    }
}

/// What runs in the process.
struct Services {
    servers: ServersArgs,
    policies: PoliciesArgs,
    leader_elect: bool,
    webhook_server_port: u16,
    webhook_service_name: String,
}

impl Services {
    /// Spawns the controllers, in the terms that this process wins, and the webhooks, always.
    fn start(self, process: &Process, client: Client) -> anyhow::Result<()> {
        let PoliciesArgs {
            revision_history_limit,
            revision_drain_seconds,
            unique_names,
            defaults_configmap_name,
        } = self.policies;
        let clock = process.clock.clone();
        let setup = self.servers.setup(client.default_namespace());
        let registration = Registration::new(
            client.clone(),
            clock.clone(),
            &setup.namespace,
            &self.webhook_service_name,
        );
        let meter = process.metrics.meter("controller");
        let controller = LifecycleController {
            client: client.clone(),
            clock: clock.clone(),
            settings: Settings {
                namespace: setup.namespace.clone(),
                drain: Duration::from_secs(revision_drain_seconds),
                history_limit: revision_history_limit,
                unique_names,
                ca_bundle: String::new(),
            },
            setup: setup.clone(),
            defaults_config_map: defaults_configmap_name,
            policy_metrics: Some(PolicyMetrics::new(&meter)),
            controller_metrics: ControllerMetrics::new(&meter),
            registration: Some(registration.clone()),
        };
        let shutdown = process.shutdown().clone();
        if self.leader_elect {
            let identity = lease::unique_identity("polity-controller")
                .map_err(|_| anyhow!("no random bytes for a name in the election"))?;
            let election = LeaderElection {
                client: client.clone(),
                clock: clock.clone(),
                namespace: setup.namespace.clone(),
                lease: CONTROLLER_LEASE.to_owned(),
                identity,
                timing: LeaseTiming::default(),
            };
            let controllers = election.run(shutdown.clone(), move |term| {
                let controller = controller.clone();
                async move { controller.run(&term).await }
            });
            process.tasks.spawn("controller", controllers);
        } else {
            let term = Term::without_election(&shutdown);
            process.tasks.spawn("controller", async move {
                controller.run(&term).await;
                Ok::<_, Infallible>(())
            });
        }
        let webhooks = Webhooks {
            client,
            clock,
            listen: SocketAddr::from((Ipv4Addr::UNSPECIFIED, self.webhook_server_port)),
            registration,
            setup,
            unique_names,
        };
        let part = process.readiness.part("webhooks", "starting");
        process.tasks.spawn("webhooks", async move {
            let bound = webhooks.bind().await?;
            part.ready("listening");
            Box::pin(bound.run(shutdown)).await
        });
        Ok(())
    }
}

/// What the controller itself was told about the collector.
fn collector_variables() -> Vec<EnvVar> {
    let told = COLLECTOR_VARIABLES.iter().filter_map(|name| {
        let value = env::read(name)?.into_string().ok()?;
        Some(EnvVar {
            name: (*name).to_owned(),
            value: Some(value),
            value_from: None,
        })
    });
    told.collect()
}

impl ServersArgs {
    fn setup(self, own_namespace: &str) -> Setup {
        let Self {
            deployments_namespace,
            always_accept_admission_reviews_on_deployments_namespace,
            enable_metrics,
            policy_server_metrics_port,
            enable_tracing,
            enable_otel_sidecar,
            opentelemetry_certificate_secret,
            opentelemetry_client_certificate_secret,
            client_ca_configmap_name,
            image_pull_secrets,
            host_network,
            cache_storage_class,
        } = self;
        Setup {
            namespace: deployments_namespace.unwrap_or_else(|| own_namespace.to_owned()),
            always_accept_own_namespace: always_accept_admission_reviews_on_deployments_namespace,
            metrics_port: enable_metrics.then_some(i32::from(policy_server_metrics_port)),
            has_tracing: enable_tracing,
            collector: if enable_otel_sidecar {
                Collector::Sidecar
            } else {
                Collector::Elsewhere(collector_variables())
            },
            collector_ca_secret: opentelemetry_certificate_secret,
            collector_client_secret: opentelemetry_client_certificate_secret,
            client_ca_config_map: client_ca_configmap_name,
            image_pull_secrets,
            host_network,
            cache_storage_class,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: ControllerArgs,
    }

    fn parse(words: &str) -> Result<ControllerArgs, clap::error::ErrorKind> {
        let words = ["controller"].into_iter().chain(words.split_whitespace());
        let line = Line::try_parse_from(words);
        line.map(|line| line.args).map_err(|error| error.kind())
    }

    #[test]
    fn recommended_policies_come_from_a_config_map_that_is_named() {
        let name = |words: &str| parse(words).map(|args| args.policies.defaults_configmap_name);
        assert_eq!(name(""), Ok(None));
        let given = name("--defaults-configmap-name recommended");
        assert_eq!(given, Ok(Some("recommended".to_owned())));
    }

    #[test]
    fn a_cleanup_knows_the_deployment_and_has_five_minutes() {
        use clap::error::ErrorKind::MissingRequiredArgument;
        let asked = |words: &str| {
            let cleanup = parse(words)?.cleanup;
            Ok((cleanup.asked_for(), cleanup.cleanup_timeout.0.as_secs()))
        };
        let name = || Some("c".to_owned());
        for (words, expected) in [
            ("", Ok((None, 300))),
            ("--controller-deployment-name c", Ok((None, 300))),
            (
                "--cleanup --controller-deployment-name c",
                Ok((name(), 300)),
            ),
            (
                "--cleanup --controller-deployment-name c --cleanup-timeout 90s",
                Ok((name(), 90)),
            ),
            ("--cleanup", Err(MissingRequiredArgument)),
            ("--cleanup-timeout 90s", Err(MissingRequiredArgument)),
        ] {
            assert_eq!(asked(words), expected, "{words}");
        }
    }

    #[test]
    fn addresses_as_existing_command_lines_give_them() {
        let parsed = |text: &str| {
            text.parse::<BindAddress>()
                .map(|one| one.0.map(|one| one.to_string()))
        };
        assert_eq!(parsed(":8081"), Ok(Some("0.0.0.0:8081".to_owned())));
        assert_eq!(parsed("127.0.0.1:1"), Ok(Some("127.0.0.1:1".to_owned())));
        assert_eq!(parsed("0"), Ok(None));
        assert!(parsed("8081").is_err());
    }
}
