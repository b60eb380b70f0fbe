//! `polity status`: what runs on this machine.

use anyhow::Context as _;
use serde::Serialize;

use crate::exit::Exit;
use crate::local::{ClusterState, DataDirArgs, Local, RunState};
use crate::output::{OutputArgs, Paint, columns};

/// Show what runs on this machine, and where
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  polity status\n  polity status -o json\n\nExit code 1: nothing runs, or something that runs does not answer."
)]
pub struct StatusArgs {
    #[command(flatten)]
    data_dir: DataDirArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// The answer of `polity status`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    running: bool,
    data_dir: std::path::PathBuf,
    #[serde(flatten)]
    run: Option<RunState>,
    health: Vec<Health>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Health {
    cluster: String,
    ready: bool,
    message: String,
}

impl StatusArgs {
    pub async fn run(self) -> anyhow::Result<Exit> {
        let Self { data_dir, output } = self;
        let local = Local::new(data_dir.resolve()?);
        let run = local.running()?;
        let mut health = Vec::new();
        if let Some(run) = &run {
            for cluster in &run.clusters {
                health.push(probe(run, cluster).await);
            }
        }
        let status = Status {
            running: run.is_some(),
            data_dir: local.dir().to_owned(),
            run,
            health,
        };
        let crashed = !status.running && local.last_run()?.is_some();
        output.print(&status, |status| table(status, crashed))?;
        let fine = status.running && status.health.iter().all(|health| health.ready);
        Ok(if fine { Exit::Fine } else { Exit::Findings })
    }
}

async fn probe(run: &RunState, cluster: &ClusterState) -> Health {
    let asked = ask(run, cluster).await;
    let (ready, message) = match asked {
        Ok(()) => (true, "ready".to_owned()),
        Err(error) => (false, format!("{error:#}")),
    };
    Health {
        cluster: cluster.name.clone(),
        ready,
        message,
    }
}

async fn ask(run: &RunState, cluster: &ClusterState) -> anyhow::Result<()> {
    let client = crate::local_client(&run.kubeconfig, &cluster.context).await?;
    let request = http::Request::get("/readyz").body(Vec::new())?;
    let answer = tokio::time::timeout(
        std::time::Duration::from_secs(5),
        client.request_text(request),
    );
    answer.await.context("no answer within 5 s")??;
    Ok(())
}

fn table(status: &Status, crashed: bool) -> String {
    let paint = Paint::for_stdout();
    let Some(run) = &status.run else {
        let what = if crashed {
            paint.warn("stopped unexpectedly")
        } else {
            "not running".into()
        };
        return format!(
            "polity is {what} in {}\nstart it with: polity up",
            status.data_dir.display()
        );
    };
    let mut rows = vec![
        ["CLUSTER", "STATE", "CONTEXT", "SERVER"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for (cluster, health) in run.clusters.iter().zip(&status.health) {
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
        "polity {} runs since {} (pid {})\n\n{}\nexport KUBECONFIG={}",
        run.version,
        run.started.strftime("%Y-%m-%d %H:%M:%S UTC"),
        run.pid,
        columns(&rows),
        run.kubeconfig.display()
    )
}
