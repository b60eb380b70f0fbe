//! `polity doctor`: what is wrong with an installation, where, and how to fix it.

mod local;
mod processes;

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use polity_runtime::args::ClientArgs;
use polity_runtime::clock::Clock;

use crate::exit::Exit;
use crate::health::{
    Finding, ReachedCluster, Target, cluster, exit, observe, reachable, table, unreachable,
};
use crate::local::{DataDirArgs, Local};
use crate::output::{OutputArgs, Paint};

/// How long kubectl may take for its version.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Check an installation: what is wrong, where, and how to fix it
///
/// Policy servers, policies, webhooks, certificates, processes and data are checked: of the local instance, unless --kubeconfig, KUBECONFIG or --context name another cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity doctor
  polity doctor -o json
  polity doctor --kubeconfig prod.yaml --context prod

Exit codes: 0 nothing is wrong, 1 something is wrong, 2 the check failed.")]
pub struct DoctorArgs {
    #[command(flatten)]
    data_dir: DataDirArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    client: ClientArgs,
}

impl DoctorArgs {
    pub async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            data_dir,
            client,
            output,
        } = self;
        let now = Clock::system().now();
        let mut findings = vec![Finding::ok(
            "program",
            format!("polity {}", env!("CARGO_PKG_VERSION")),
        )];
        match Target::of(&data_dir, client)? {
            Target::Local(local) => findings.extend(of_local(&local, now).await),
            Target::Cluster(client) => {
                findings.extend(local::not_applicable());
                let cluster = ReachedCluster::Kubeconfig;
                match crate::connect(&client).await {
                    Ok(client) => findings.extend(of_cluster(&client, cluster, None, now).await),
                    Err(error) => findings.push(unreachable(cluster, &error)),
                }
            }
        }
        findings.push(kubectl().await);
        output.print(&findings, |findings| table(findings, Paint::for_stdout()))?;
        Ok(exit(&findings))
    }
}

async fn of_local(local: &Local, now: Timestamp) -> Vec<Finding> {
    let (mut findings, run) = local::findings(local);
    let Some(run) = run else {
        return findings;
    };
    // The hub comes first, and it alone has the controller and the policy servers.
    for (index, cluster) in run.clusters.iter().enumerate() {
        let client = crate::local_client(&run.kubeconfig, &cluster.context).await;
        let cluster = ReachedCluster::Local(local, &cluster.context);
        let client = match client {
            Ok(client) => client,
            Err(error) => {
                findings.push(unreachable(cluster, &error));
                continue;
            }
        };
        if index == 0 {
            findings.extend(of_cluster(&client, cluster, Some(run.started), now).await);
        } else {
            findings.push(reachable(&client, cluster).await);
        }
    }
    findings
}

/// Everything about the installation in a cluster; without a response from it, that only.
async fn of_cluster(
    client: &Client,
    cluster: ReachedCluster<'_>,
    started: Option<Timestamp>,
    now: Timestamp,
) -> Vec<Finding> {
    match observe::observe_reachable(client, cluster, started).await {
        Err(unreachable) => vec![unreachable],
        Ok((reachable, observed)) => {
            let mut findings = vec![reachable];
            findings.extend(cluster::findings(&observed, now));
            findings
        }
    }
}

async fn kubectl() -> Finding {
    const CHECK: &str = "kubectl";
    const VERSIONS: &str = "install it to talk to clusters; any version from 1.27 on works";
    let asked = tokio::process::Command::new("kubectl")
        .args(["version", "--client", "-o", "json"])
        .output();
    let Ok(Ok(output)) = tokio::time::timeout(TIME_LIMIT, asked).await else {
        return Finding::note(CHECK, "not found").fix(VERSIONS);
    };
    let answer = serde_json::from_slice::<serde_json::Value>(&output.stdout);
    let version = answer.ok().and_then(|answer| {
        let version = answer.pointer("/clientVersion/gitVersion")?;
        version.as_str().map(str::to_owned)
    });
    match version {
        Some(version) => Finding::ok(CHECK, version),
        None => Finding::note(CHECK, "does not print its version").fix(VERSIONS),
    }
}
