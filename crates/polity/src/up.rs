//! `polity up`: everything in one process on this machine.

use std::net::{Ipv4Addr, SocketAddr};

use futures::future::try_join_all;
use kube::Client;
use polity_apiserver::auth::AuthorizationMode;
use polity_apiserver::kubeconfig::context_name;
use polity_cli::exit::{Exit, Hinted};
use polity_cli::local::{ClusterState, DataDirArgs, Local, RunState};
use polity_cli::output::Paint;
use polity_runtime::args::ClientArgs;
use polity_runtime::{Clock, Shutdown, client, env, files};

use crate::services::{Plan, Services};
use crate::{banner, defaults, hub, install, pods};

const HUB: &str = "hub";
const FIRST_PORT: u16 = 6443;
const PORTS_TRIED: u16 = 100;

/// Run everything on this machine: a hub, and more clusters if you like
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  polity up\n  polity up -d                    in the background; polity status, polity down\n  polity up --clusters 20         a hub and a fleet of twenty\n\nYour own kubeconfig is never touched."
)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) data_dir: DataDirArgs,
    /// How many clusters to run besides the hub: cluster1, cluster2, …
    #[arg(long, env = env::CLUSTERS, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=500))]
    pub(crate) clusters: u16,
    /// The address to listen on [default: the first free port from 127.0.0.1:6443 on]
    #[arg(long, env = env::LISTEN, value_name = "ADDRESS")]
    pub(crate) listen: Option<SocketAddr>,
    /// Run in the background
    #[arg(short = 'd', long = "detach")]
    pub(crate) detach: bool,
}

impl UpArgs {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            data_dir,
            clusters,
            listen,
            detach: _,
        } = self;
        let shutdown = Shutdown::on_signals()?;
        let local = Local::new(data_dir.resolve()?);
        files::create_private_dir(local.dir())?;
        let Some(_held) = local.hold()? else {
            return Err(already_running(&local));
        };
        let listen = match listen {
            Some(address) => address,
            None => free_address(previous_port(&local)).await?,
        };
        let members: Vec<String> = (1..=clusters).map(|n| format!("cluster{n}")).collect();
        if !members.is_empty() {
            eprintln!("starting a hub and {} clusters …", members.len());
        }
        let plan = Plan {
            data_dir: Some(local.dir().to_owned()),
            listen,
            hub: HUB.into(),
            members,
            authorization: AuthorizationMode::Rbac,
            kubeconfig: local.kubeconfig(),
        };
        let services = Services::start(plan, shutdown).await?;
        let state = run_state(&services, &local);
        install::apply(&connect(&state).await?, &install::Definition::all()?).await?;
        pods::start(&services, local.dir(), hub_client(&state).await?).await?;
        let admin = hub_client(&state).await?;
        let controller = controller_client(&state).await?;
        hub::start(&services, &admin, controller).await?;
        defaults::create(&admin, local.dir(), &Clock::system()).await?;
        local.write_run(&state)?;
        eprintln!("{}", banner::text(&state, Paint::for_stderr()));
        services.run_until_shutdown().await?;
        local.clear_run()?;
        Ok(Exit::Fine)
    }
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
    Hinted::new(
        message,
        "polity status shows where; polity down stops it; --data-dir starts another one elsewhere",
    )
    .into()
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

/// The port of the kubeconfig that is there already, so that it stays true over restarts.
fn previous_port(local: &Local) -> Option<u16> {
    let text = std::fs::read_to_string(local.kubeconfig()).ok()?;
    let at = text.find("https://127.0.0.1:")? + "https://127.0.0.1:".len();
    let digits: String = text[at..]
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
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
