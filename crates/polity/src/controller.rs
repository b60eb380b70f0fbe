//! `polity controller`: policies, their revisions and webhooks, and the policy servers that run them.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::anyhow;
use polity_cli::exit::Exit;
use polity_controller::Controller;
use polity_controller::lifecycle::Settings;
use polity_controller::names::UniqueNames;
use polity_controller::objects::{Collector, Setup};
use polity_controller::webhooks::Webhooks;
use polity_runtime::args::ClientArgs;
use polity_runtime::{Clock, Shutdown, Tasks, client, env, lease};

/// The account of policy servers that name none.
pub(crate) const SERVICE_ACCOUNT: &str = "policy-server";
/// How long tasks may take to end.
const PATIENCE: Duration = Duration::from_secs(25);

/// Run the controller: policies get revisions, policy servers get replicas, webhooks move when all are ready
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  polity controller --deployments-namespace kubewarden\n  polity controller --leader-elect                 one of several works, the others wait\n  polity controller --revision-drain-seconds 30    answer longer for the generation before\n  kubectl get cap                                  what became of the policies\n\nIt needs the definitions of our kinds; `polity up` brings them along."
)]
pub(crate) struct ControllerArgs {
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    servers: ServersArgs,
    #[command(flatten)]
    policies: PoliciesArgs,
    /// Work only while holding the lease, so that several can run
    #[arg(long, env = env::LEADER_ELECT)]
    leader_elect: bool,
    /// The port of the webhooks for our own kinds; 0 takes a free one
    #[arg(long, env = env::WEBHOOK_SERVER_PORT, value_name = "PORT", default_value_t = 9443)]
    webhook_server_port: u16,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Policy servers")]
#[expect(clippy::struct_excessive_bools, reason = "one for each flag")]
struct ServersArgs {
    /// Where policy servers and revisions live [default: the namespace of this pod]
    #[arg(long, env = env::DEPLOYMENTS_NAMESPACE, value_name = "NAMESPACE")]
    deployments_namespace: Option<String>,
    /// Let everything through that concerns the policy servers' own namespace
    #[arg(long, env = env::ALWAYS_ACCEPT_DEPLOYMENTS_NAMESPACE)]
    always_accept_admission_reviews_on_deployments_namespace: bool,
    /// Serve metrics
    #[arg(long, env = env::CONTROLLER_ENABLE_METRICS)]
    enable_metrics: bool,
    /// The port of their Services for metrics
    #[arg(long, env = env::POLICY_SERVER_METRICS_PORT, value_name = "PORT", default_value_t = 8080)]
    policy_server_metrics_port: u16,
    /// Export traces
    #[arg(long, env = env::ENABLE_TRACING)]
    enable_tracing: bool,
    /// Put a collector beside each replica
    #[arg(long, env = env::ENABLE_OTEL_SIDECAR, conflicts_with = "host_network")]
    enable_otel_sidecar: bool,
    /// Demand client certificates of the authority in this ConfigMap, key client-ca.crt
    #[arg(long, env = env::CLIENT_CA_CONFIGMAP_NAME, value_name = "NAME")]
    client_ca_configmap_name: Option<String>,
    /// Secrets to pull the image with
    #[arg(long, env = env::IMAGE_PULL_SECRETS, value_name = "NAME", value_delimiter = ',')]
    image_pull_secrets: Vec<String>,
    /// Use the network of the node
    #[arg(long, env = env::HOST_NETWORK)]
    host_network: bool,
    /// The ReadWriteMany storage class of caches that no policy server asks for
    #[arg(long, env = env::CACHE_STORAGE_CLASS, value_name = "NAME")]
    cache_storage_class: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Policies")]
struct PoliciesArgs {
    /// How many earlier generations of a policy are kept for a rollback
    #[arg(long, env = env::REVISION_HISTORY_LIMIT, value_name = "N", default_value_t = 10)]
    revision_history_limit: usize,
    /// How long the generation before is answered for after a switch
    #[arg(long, env = env::REVISION_DRAIN_SECONDS, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=300))]
    revision_drain_seconds: u64,
    /// How the ids of new policies are spelled: classic or dotted
    #[arg(long, env = env::UNIQUE_NAMES, value_name = "FORM", default_value = "classic", value_parser = unique_names)]
    unique_names: UniqueNames,
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
            webhook_server_port,
        } = self;
        let shutdown = Shutdown::on_signals()?;
        let client = client::connect(&client).await?;
        let setup = servers.setup(client.default_namespace());
        let PoliciesArgs {
            revision_history_limit,
            revision_drain_seconds,
            unique_names,
        } = policies;
        let clock = Clock::system();
        let identity = if leader_elect {
            let name = lease::unique_identity("polity-controller");
            Some(name.map_err(|_| anyhow!("no random bytes for a name in the election"))?)
        } else {
            None
        };
        let controller = Controller {
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
            identity,
        };
        let webhooks = Webhooks {
            client,
            clock: clock.clone(),
            listen: SocketAddr::from((Ipv4Addr::UNSPECIFIED, webhook_server_port)),
            setup,
            unique_names,
        };
        let tasks = Tasks::new(shutdown.clone());
        tasks.spawn("controller", controller.run(shutdown.clone()));
        tasks.spawn("webhooks", webhooks.run(shutdown));
        match tasks.finish(&clock, PATIENCE).await.into_iter().next() {
            None => Ok(Exit::Fine),
            Some(end) => Err(end.into()),
        }
    }
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
            client_ca_configmap_name,
            image_pull_secrets,
            host_network,
            cache_storage_class,
        } = self;
        Setup {
            namespace: deployments_namespace.unwrap_or_else(|| own_namespace.to_owned()),
            service_account: SERVICE_ACCOUNT.to_owned(),
            always_accept_own_namespace: always_accept_admission_reviews_on_deployments_namespace,
            metrics_port: enable_metrics.then_some(i32::from(policy_server_metrics_port)),
            has_tracing: enable_tracing,
            collector: if enable_otel_sidecar {
                Collector::Sidecar
            } else {
                Collector::default()
            },
            client_ca_config_map: client_ca_configmap_name,
            image_pull_secrets,
            host_network,
            cache_storage_class,
        }
    }
}
