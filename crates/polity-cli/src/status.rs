//! `polity status`: what runs, and whether policies are enforced.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use kube::Client;
use polity_runtime::args::ClientArgs;
use polity_runtime::clock::Clock;
use serde::Serialize;

use crate::exit::{Exit, in_words};
use crate::health::cluster::{self, List, ObservedCluster, Probe};
use crate::health::{Finding, ReachedCluster, Severity, Target, exit, observe, unreachable};
use crate::local::{ClusterState, DataDirArgs, Local, RunState, quoted};
use crate::output::{OutputArgs, Paint, columns};

/// How long a cluster may take for a response.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Show what runs: clusters, policy servers, policies, and what is wrong
///
/// The local instance is shown, unless --kubeconfig, KUBECONFIG or --context name another cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity status
  polity status -o json
  polity status --kubeconfig prod.yaml --context prod

Exit codes: 0 everything runs, 1 nothing runs or something is wrong, 2 the
check failed. `polity doctor` checks more and shows how to fix what is wrong.")]
pub struct StatusArgs {
    #[command(flatten)]
    data_dir: DataDirArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    client: ClientArgs,
}

/// The answer of `polity status`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    running: bool,
    /// Absent for a cluster that does not run on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    data_dir: Option<PathBuf>,
    #[serde(flatten)]
    run: Option<RunState>,
    health: Vec<Health>,
    policy_servers: Vec<ServerHealth>,
    policies: Vec<PolicyHealth>,
    /// Whether the policies are all that exist.
    #[serde(skip)]
    are_policies_read: bool,
    /// What is wrong, or may interest the user.
    findings: Vec<Finding>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Health {
    cluster: String,
    ready: bool,
    message: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServerHealth {
    name: String,
    desired: i32,
    ready: i32,
    /// Replicas that gave a response when they were asked.
    answering: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PolicyHealth {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    name: String,
    mode: String,
    /// The phase in the status of the object; absent until a controller has acted on the current generation.
    phase: Option<polity_api::policies::v1::Phase>,
    policy_server: String,
}

impl StatusArgs {
    pub async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            data_dir,
            client,
            output,
        } = self;
        let now = Clock::system().now();
        let (status, crashed) = match Target::of(&data_dir, client)? {
            Target::Local(local) => {
                let status = of_local(&local, now).await?;
                let crashed = !status.running && local.last_run()?.is_some();
                (status, crashed)
            }
            Target::Cluster(args) => {
                let status = match crate::connect(&args).await {
                    Ok(client) => of_cluster(&client, now).await,
                    Err(error) => {
                        Status::of_problem(unreachable(ReachedCluster::Kubeconfig, &error))
                    }
                };
                (status, false)
            }
        };
        output.print(&status, |status| {
            table(status, crashed, Paint::for_stdout())
        })?;
        let fine = status.running && status.health.iter().all(|health| health.ready);
        Ok(if fine {
            exit(&status.findings)
        } else {
            Exit::Findings
        })
    }
}

/// A cluster that does not run on this machine.
async fn of_cluster(client: &Client, now: Timestamp) -> Status {
    match observe::observe_reachable(client, ReachedCluster::Kubeconfig, None).await {
        Ok((_, observed)) => Status::new(&observed, now),
        Err(unreachable) => Status::of_problem(unreachable),
    }
}

async fn of_local(local: &Local, now: Timestamp) -> anyhow::Result<Status> {
    let run = local.running()?;
    let mut status = Status {
        data_dir: Some(local.dir().to_owned()),
        ..Status::default()
    };
    let Some(run) = run else {
        return Ok(status);
    };
    let mut health = Vec::new();
    for cluster in &run.clusters {
        health.push(probe(&run, cluster).await);
    }
    // The hub comes first, and it alone has the controller and the policy servers.
    if let (Some(hub), Some(true)) = (run.clusters.first(), health.first().map(|hub| hub.ready)) {
        let client = crate::local_client(&run.kubeconfig, &hub.context).await?;
        let observed = observe::observe(&client, Some(run.started)).await;
        status = Status {
            data_dir: status.data_dir,
            ..Status::new(&observed, now)
        };
    }
    Ok(Status {
        running: true,
        run: Some(run),
        health,
        ..status
    })
}

impl Status {
    /// Nothing is known but this problem.
    fn of_problem(problem: Finding) -> Self {
        Self {
            findings: vec![problem],
            ..Self::default()
        }
    }

    fn new(observed: &ObservedCluster, now: Timestamp) -> Self {
        let servers = observed.servers.iter().map(|server| ServerHealth {
            name: server.name.clone(),
            desired: server.desired,
            ready: server.ready.unwrap_or(0),
            answering: server
                .replicas
                .iter()
                .filter(|replica| replica.probe == Probe::Answers)
                .count(),
        });
        let policies = observed.policies.iter().map(|policy| PolicyHealth {
            kind: policy.kind.as_str(),
            namespace: policy.namespace.clone(),
            name: policy.name.clone(),
            mode: policy.mode.clone(),
            phase: policy.phase(),
            policy_server: policy.policy_server.clone(),
        });
        Self {
            running: true,
            data_dir: None,
            run: None,
            health: Vec::new(),
            policy_servers: servers.collect(),
            policies: policies.collect(),
            are_policies_read: observed.has_read(List::Policies),
            findings: cluster::findings(observed, now)
                .into_iter()
                .filter(|finding| finding.severity != Severity::Ok)
                .collect(),
        }
    }
}

async fn probe(run: &RunState, cluster: &ClusterState) -> Health {
    let asked = async {
        let client = crate::local_client(&run.kubeconfig, &cluster.context).await?;
        ask(&client).await
    };
    let (ready, message) = match asked.await {
        Ok(()) => (true, "ready".to_owned()),
        Err(error) => (false, in_words(&error)),
    };
    Health {
        cluster: cluster.name.clone(),
        ready,
        message,
    }
}

async fn ask(client: &Client) -> anyhow::Result<()> {
    let request = http::Request::get("/readyz").body(Vec::new())?;
    let answer = tokio::time::timeout(TIME_LIMIT, client.request_text(request));
    let answer = answer
        .await
        .with_context(|| format!("no response within {} s", TIME_LIMIT.as_secs()))?;
    Ok(answer.map(drop)?)
}

fn table(status: &Status, crashed: bool, paint: Paint) -> String {
    if let (false, Some(data_dir)) = (status.running, &status.data_dir) {
        let what = if crashed {
            paint.warn("has stopped unexpectedly")
        } else {
            "is not running".into()
        };
        return format!(
            "polity {what} in {}\nstart it with: {}",
            data_dir.display(),
            Local::new(data_dir).command("up")
        );
    }
    if !status.running {
        return problems(&status.findings, paint).unwrap_or_default();
    }
    let parts = [
        status
            .run
            .as_ref()
            .map(|run| clusters(run, &status.health, paint)),
        Some(servers(&status.policy_servers)),
        policies(status),
        problems(&status.findings, paint),
        status
            .run
            .as_ref()
            .map(|run| format!("export KUBECONFIG={}", quoted(&run.kubeconfig))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    parts.join("\n")
}

fn clusters(run: &RunState, health: &[Health], paint: Paint) -> String {
    let mut rows = vec![row(&["CLUSTER", "STATE", "CONTEXT", "SERVER"])];
    for (cluster, health) in run.clusters.iter().zip(health) {
        let state = if health.ready {
            paint.good("ready")
        } else {
            paint.bad(&health.message)
        };
        rows.push(vec![
            cluster.name.clone(),
            state,
            cluster.context.clone(),
            cluster.server.clone(),
        ]);
    }
    format!(
        "polity {} runs since {} (pid {})\n\n{}",
        run.version,
        run.started.strftime("%Y-%m-%d %H:%M:%S UTC"),
        run.pid,
        columns(&rows),
    )
}

fn servers(servers: &[ServerHealth]) -> String {
    let mut rows = vec![row(&["POLICY SERVER", "READY", "ANSWERING"])];
    for server in servers {
        rows.push(vec![
            server.name.clone(),
            format!("{}/{}", server.ready, server.desired),
            format!("{}/{}", server.answering, server.desired),
        ]);
    }
    columns(&rows)
}

fn policies(status: &Status) -> Option<String> {
    if status.policies.is_empty() {
        return status.are_policies_read.then(|| "no policies\n".to_owned());
    }
    let mut rows = vec![row(&["POLICY", "MODE", "PHASE", "POLICY SERVER"])];
    for policy in &status.policies {
        let namespace = policy
            .namespace
            .as_ref()
            .map_or_else(String::new, |namespace| format!("{namespace}/"));
        let phase = policy
            .phase
            .map_or_else(|| "-".to_owned(), |phase| format!("{phase:?}"));
        rows.push(vec![
            format!("{} {namespace}{}", policy.kind, policy.name),
            policy.mode.clone(),
            phase,
            policy.policy_server.clone(),
        ]);
    }
    Some(columns(&rows))
}

fn problems(findings: &[Finding], paint: Paint) -> Option<String> {
    let problems: Vec<Finding> = findings
        .iter()
        .filter(|finding| finding.is_problem())
        .cloned()
        .collect();
    (!problems.is_empty()).then(|| crate::health::table(&problems, paint))
}

fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(findings: Vec<Finding>) -> Status {
        let cluster = ClusterState {
            name: "hub".into(),
            server: "https://127.0.0.1:6443".into(),
            context: "polity".into(),
        };
        Status {
            running: true,
            data_dir: Some("/data".into()),
            run: Some(RunState {
                pid: 42,
                version: "0.1.0".into(),
                started: "2026-01-01T00:00:00Z".parse().unwrap(),
                kubeconfig: "/data/kubeconfig".into(),
                clusters: vec![cluster],
            }),
            health: vec![Health {
                cluster: "hub".into(),
                ready: true,
                message: "ready".into(),
            }],
            policy_servers: vec![ServerHealth {
                name: "default".into(),
                desired: 2,
                ready: 2,
                answering: 0,
            }],
            policies: vec![PolicyHealth {
                kind: "ClusterAdmissionPolicy",
                namespace: None,
                name: "pod-privileged".into(),
                mode: "monitor".into(),
                phase: Some(polity_api::policies::v1::Phase::Active),
                policy_server: "default".into(),
            }],
            are_policies_read: true,
            findings,
        }
    }

    #[test]
    fn what_runs_is_shown_with_what_is_wrong() {
        let silent = Finding::problem("policy server", "no replica answers")
            .about("PolicyServer default")
            .fix("restart the replicas");
        let starting = Finding::note("policies", "pending for 3s");
        insta::assert_snapshot!(table(&status(vec![silent, starting]), false, Paint::plain()), @r"
    polity 0.1.0 runs since 2026-01-01 00:00:00 UTC (pid 42)

    CLUSTER   STATE   CONTEXT   SERVER
    hub       ready   polity    https://127.0.0.1:6443

    POLICY SERVER   READY   ANSWERING
    default         2/2     0/2

    POLICY                                  MODE      PHASE    POLICY SERVER
    ClusterAdmissionPolicy pod-privileged   monitor   Active   default

    ✗   policy server   PolicyServer default: no replica answers
                        → restart the replicas

    export KUBECONFIG=/data/kubeconfig
    ");
    }

    #[test]
    fn an_instance_that_does_not_run_is_started_in_its_own_data_directory() {
        let stopped = Status {
            data_dir: Some("/my data".into()),
            ..Status::default()
        };
        let shown = table(&stopped, false, Paint::plain());
        assert_eq!(
            shown,
            "polity is not running in /my data\nstart it with: polity up --data-dir '/my data'"
        );
    }

    #[test]
    fn policies_that_could_not_be_read_are_not_reported_as_none() {
        let rights = Finding::problem("rights", "cannot be read: forbidden");
        let mut status = status(vec![rights]);
        status.policies.clear();
        assert!(table(&status, false, Paint::plain()).contains("no policies"));
        status.are_policies_read = false;
        let shown = table(&status, false, Paint::plain());
        assert!(
            !shown.contains("no policies") && shown.contains("rights"),
            "{shown}"
        );
    }

    #[tokio::test]
    async fn a_cluster_that_cannot_be_reached_is_the_only_finding() {
        polity_runtime::tls::install_provider();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", free.local_addr().unwrap());
        drop(free);
        let client = Client::try_from(kube::Config::new(url.parse().unwrap())).unwrap();
        let status = of_cluster(&client, Clock::system().now()).await;
        assert!(!status.running);
        let checks: Vec<&str> = status
            .findings
            .iter()
            .map(|finding| finding.check)
            .collect();
        assert_eq!(checks, ["cluster"]);
        let shown = table(&status, false, Paint::plain());
        assert!(
            shown.starts_with("✗   cluster   the cluster: does not answer"),
            "{shown}"
        );
        assert!(!shown.contains("no policies"), "{shown}");
    }
}
