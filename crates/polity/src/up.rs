//! `polity up`: everything in one process on this machine.

mod clusters;
mod failures;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use futures::future::try_join_all;
use http::Uri;
use kube::Client;
use kube::config::Kubeconfig;
use polity_apiserver::AuthorizationMode;
use polity_apiserver::kubeconfig::context_name;
use polity_cli::exit::{Exit, Hinted};
use polity_cli::local::{ClusterState, DataDirArgs, Held, Local, RunState};
use polity_cli::output::Paint;
use polity_runtime::args::ClientArgs;
use polity_runtime::{Clock, Shutdown, client, env, files};

pub(crate) use self::clusters::ClusterCount;
use crate::banner::Facts;
use crate::services::{Plan, Services};
use crate::{backup, banner, defaults, gateway_api, hub, install, pods};

/// The hidden flag of an instance that `polity up -d` started.
pub(crate) const IN_BACKGROUND: &str = "--in-background";
const HUB: &str = "hub";
const FIRST_PORT: u16 = 6443;
const PORTS_TRIED: u16 = 100;

/// Start a local instance: Kubernetes API, controller and policy server
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "flags are independent of each other"
)]
#[command(
    after_help = "Examples:\n  polity up\n  polity up -d                    in the background; polity status, polity down\n  polity up --clusters 20         a hub and twenty clusters\n  polity up --gateway-api         with the CRDs of Gateway API\n\nYour own kubeconfig is never touched. Ctrl-C stops everything; the data stays."
)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) data_dir: DataDirArgs,
    /// Number of clusters to run besides the hub: cluster1, cluster2, … [default: as many as in the last run, else 0]
    #[arg(long, env = env::CLUSTERS, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=500))]
    clusters: Option<u16>,
    /// Address and port to listen on; 0.0.0.0 means all interfaces [default: 127.0.0.1 and the first free port
    /// from 6443]
    #[arg(long, env = env::LISTEN, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// Do not create the default policy server and the sample policies; existing ones stay
    #[arg(long, env = env::NO_POLICY_SERVER, value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) no_policy_server: bool,
    /// Install the CRDs of Gateway API (standard channel) into all clusters
    #[arg(long, env = env::GATEWAY_API, value_parser = clap::builder::FalseyValueParser::new())]
    pub(crate) gateway_api: bool,
    /// Run in the background
    #[arg(short = 'd', long = "detach")]
    pub(crate) detach: bool,
    /// Log to polity.log only, as the instance that `polity up -d` starts does
    #[arg(long = "in-background", hide = true, conflicts_with = "detach")]
    pub(crate) in_background: bool,
    /// Where the log goes, if not to stderr.
    #[arg(skip)]
    pub(crate) log: Option<PathBuf>,
}

/// What a shell reports of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// What is created in the clusters.
struct Content {
    policy_server: bool,
    gateway_api: bool,
}

impl UpArgs {
    /// Whether other machines reach the address that was asked for.
    pub(crate) fn is_exposed(&self) -> bool {
        self.listen
            .is_some_and(|address| !address.ip().is_loopback())
    }

    /// The clusters that this start runs besides the hub.
    pub(crate) fn cluster_count(&self, local: &Local) -> ClusterCount {
        ClusterCount::choose(self.clusters, local)
    }

    /// The log of a process in the foreground, in a data directory that is there.
    pub(crate) fn open_log(&self) -> anyhow::Result<PathBuf> {
        let local = Local::new(self.data_dir.resolve()?);
        let made = files::create_private_dir(local.dir());
        made.map_err(|error| failures::data_dir(error.into(), &local))?;
        // One that runs already writes there.
        match local
            .is_held()
            .map_err(|error| failures::data_dir(error, &local))?
        {
            true => Err(already_running(&local)),
            false => Ok(local.log()),
        }
    }

    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let is_exposed = self.is_exposed();
        let Self {
            data_dir,
            clusters,
            listen,
            no_policy_server,
            gateway_api,
            detach: _,
            in_background,
            log,
        } = self;
        let shutdown = Shutdown::on_signals()?;
        let local = Local::new(data_dir.resolve()?);
        let held = take(&local)?;
        let listen = match listen {
            Some(address) => address,
            None => free_address(previous_port(&local)).await?,
        };
        let clusters = ClusterCount::choose(clusters, &local);
        if !in_background {
            clusters.print();
        }
        let plan = Plan {
            data_dir: Some(local.dir().to_owned()),
            listen,
            hub: HUB.into(),
            members: clusters.names(),
            authorization: AuthorizationMode::Rbac,
            kubeconfig: local.kubeconfig(),
        };
        // A part that fails stops the others, which is not the same as a signal.
        let starting = Services::start(plan, shutdown.child());
        let Some(started) = shutdown.run_until(starting).await else {
            return Ok(interrupted());
        };
        let services = started.map_err(|error| failures::hinted(error, &local))?;
        let content = Content {
            policy_server: !no_policy_server,
            gateway_api,
        };
        let parts = services.tasks().shutdown().clone();
        let set_up = parts
            .run_until(Box::pin(set_up(&services, &local, &content)))
            .await;
        let state = match set_up {
            Some(Ok(state)) => state,
            Some(Err(error)) if !shutdown.is_triggered() => return Err(error),
            Some(Err(_)) | None => {
                let ended = services.run_until_shutdown().await;
                local.clear_run()?;
                return match shutdown.is_triggered() {
                    true => Ok(interrupted()),
                    false => ended.and(Err(anyhow::anyhow!("a part of polity ended"))),
                };
            }
        };
        let facts = Facts::of(&state, &local, log, is_exposed).await;
        eprintln!("{}", banner::text(&state, &facts, Paint::for_stderr()));
        services.run_until_shutdown().await?;
        local.clear_run()?;
        drop(held);
        Ok(Exit::Fine)
    }
}

fn interrupted() -> Exit {
    eprintln!("interrupted while it was starting; nothing runs");
    Exit::Code(INTERRUPTED)
}

/// Takes the data directory for this process, and undoes a restore that was interrupted.
pub(crate) fn take(local: &Local) -> anyhow::Result<Held> {
    let failed = |error: anyhow::Error| failures::data_dir(error, local);
    files::create_private_dir(local.dir()).map_err(|error| failed(error.into()))?;
    let held = local.hold().map_err(failed)?;
    let held = held.ok_or_else(|| already_running(local))?;
    backup::recover(local)?;
    Ok(held)
}

/// Installs, starts and creates everything that the API server does not do by itself.
async fn set_up(services: &Services, local: &Local, content: &Content) -> anyhow::Result<RunState> {
    let state = run_state(services, local);
    let clusters = connect(&state).await?;
    install::apply(&clusters, &install::Definition::all()?).await?;
    if content.gateway_api {
        gateway_api::install(&clusters).await?;
    }
    pods::start(services, local.dir(), hub_client(&state).await?).await?;
    let admin = hub_client(&state).await?;
    let controller = controller_client(&state).await?;
    hub::start(services, &admin, controller).await?;
    if content.policy_server {
        defaults::create(&admin, local.dir(), &Clock::system()).await?;
    }
    local.write_run(&state)?;
    Ok(state)
}

/// A client for each cluster, by its name.
async fn connect(state: &RunState) -> anyhow::Result<Vec<(&str, Client)>> {
    let clients = state.clusters.iter().map(async |cluster| {
        let client = client_of(state, &cluster.context, None).await?;
        Ok((cluster.name.as_str(), client))
    });
    try_join_all(clients).await
}

/// A client for the hub. Each part has its own, as it would in a process of its own.
async fn hub_client(state: &RunState) -> anyhow::Result<Client> {
    client_of(state, &context_name(HUB, HUB), None).await
}

/// A client for the hub with the rights of the controller's account.
async fn controller_client(state: &RunState) -> anyhow::Result<Client> {
    let user = hub::controller_user();
    client_of(state, &context_name(HUB, HUB), Some(user)).await
}

async fn client_of(
    state: &RunState,
    context: &str,
    as_user: Option<String>,
) -> anyhow::Result<Client> {
    let args = ClientArgs {
        kubeconfig: Some(state.kubeconfig.clone()),
        context: Some(context.to_owned()),
        as_user,
        as_group: Vec::new(),
    };
    Ok(client::connect(&args).await?)
}

/// The error of a second `up`.
pub(crate) fn already_running(local: &Local) -> anyhow::Error {
    let pid = local
        .last_run()
        .ok()
        .flatten()
        .map(|run| format!(" (pid {})", run.pid))
        .unwrap_or_default();
    let message = format!("polity already runs on {}{pid}", local.dir().display());
    let hint = format!(
        "{} shows where; {} stops it; --data-dir starts another one elsewhere",
        local.command("status"),
        local.command("down")
    );
    Hinted::new(message, hint).into()
}

fn run_state(services: &Services, local: &Local) -> RunState {
    let fleet = &services.fleet;
    let hub = fleet.hub().name().to_owned();
    let mut names: Vec<&String> = fleet.clusters().keys().collect();
    names.sort_by_key(|name| (**name != hub, name.len(), (*name).clone()));
    let clusters = names
        .into_iter()
        .map(|name| ClusterState {
            name: name.clone(),
            server: fleet.url(name),
            context: context_name(name, &hub),
        })
        .collect();
    RunState {
        pid: std::process::id() as i32,
        version: polity_runtime::VERSION.to_owned(),
        started: Clock::system().now(),
        kubeconfig: local.kubeconfig(),
        clusters,
    }
}

/// The port of the last run, which kubeconfigs and scripts of users may name.
fn previous_port(local: &Local) -> Option<u16> {
    let kubeconfig = Kubeconfig::read_from(local.kubeconfig()).ok()?;
    let hub = context_name(HUB, HUB);
    let cluster = kubeconfig
        .clusters
        .into_iter()
        .find(|cluster| cluster.name == hub)?;
    let server: Uri = cluster.cluster?.server?.parse().ok()?;
    server.port_u16()
}

async fn free_address(previous: Option<u16>) -> anyhow::Result<SocketAddr> {
    for port in previous
        .into_iter()
        .chain(FIRST_PORT..FIRST_PORT + PORTS_TRIED)
    {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        if tokio::net::TcpListener::bind(address).await.is_ok() {
            return Ok(address);
        }
    }
    let message = format!(
        "no port from {FIRST_PORT} to {} is free on 127.0.0.1",
        FIRST_PORT + PORTS_TRIED - 1
    );
    Err(Hinted::new(message, "name one with --listen 127.0.0.1:PORT").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_the_hub_is_kept_whatever_its_address_was() {
        let folder = tempfile::tempdir().unwrap();
        let local = Local::new(folder.path());
        let port = |hub: &str| {
            let cluster = |name: &str, server: &str| {
                format!("- name: {name}\n  cluster:\n    server: \"{server}\"\n")
            };
            let clusters = [
                cluster(
                    "polity-cluster1",
                    "https://127.0.0.1:7001/clusters/cluster1",
                ),
                cluster("polity", hub),
            ];
            let text = format!(
                "apiVersion: v1\nkind: Config\nclusters:\n{}",
                clusters.concat()
            );
            std::fs::write(local.kubeconfig(), text).unwrap();
            previous_port(&local)
        };
        assert_eq!(port("https://127.0.0.1:7443"), Some(7443));
        assert_eq!(port("https://[::1]:7444"), Some(7444));
        assert_eq!(port("https://192.0.2.7:7445/"), Some(7445));
        assert_eq!(port("https://192.0.2.7"), None);
        std::fs::write(local.kubeconfig(), "{").unwrap();
        assert_eq!(previous_port(&local), None);
        std::fs::remove_file(local.kubeconfig()).unwrap();
        assert_eq!(previous_port(&local), None);
    }
}
