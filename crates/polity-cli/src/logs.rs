//! `polity logs`: the logs of the policy servers on this machine.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::pin::pin;

use anyhow::Context as _;
use futures::{AsyncBufReadExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use polity_api::policies::names::WORKLOAD_POLICY_SERVER;
use polity_runtime::args::HumanDuration;
use tokio::sync::mpsc;

use crate::exit::{Exit, Hinted, in_words};
use crate::local::{DataDirArgs, Local, RunState};

/// What the controller gives every Pod of a policy server.
const OF_ANY_SERVER: &str = "app.kubernetes.io/component=policy-server";
/// Lines on their way to stdout. More only wait longer: a reader that is slow slows the readers of Pods down.
const LINES: usize = 64;

/// Show the logs of the policy servers on this machine
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  polity logs                             every policy server\n  polity logs -f --policy-server default  one, with new lines\n  polity logs policy-server-default-0 --tail 20\n  polity logs policy-server-default-0 --previous\n\n`kubectl logs` shows the same. The log of polity itself is on its terminal, or\nin polity.log in the data directory."
)]
pub struct LogsArgs {
    /// The Pod [default: all Pods of policy servers]
    #[arg(value_name = "POD", conflicts_with_all = ["selector", "policy_server"])]
    pod: Option<String>,
    /// All Pods with these labels
    #[arg(
        short = 'l',
        long,
        value_name = "LABELS",
        conflicts_with = "policy_server"
    )]
    selector: Option<String>,
    /// All Pods of this policy server
    #[arg(long, value_name = "NAME")]
    policy_server: Option<String>,
    /// The namespace of the Pods [default: all]
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// The cluster of the Pods [default: the hub]
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Show new lines as they are written, also of new Pods
    #[arg(short = 'f', long)]
    follow: bool,
    /// Only the last N lines of each Pod
    #[arg(long, value_name = "N")]
    tail: Option<u32>,
    /// Only lines that are not older than this, such as 10m
    #[arg(long, value_name = "DURATION")]
    since: Option<HumanDuration>,
    /// The log from before the last restart
    #[arg(short = 'p', long, conflicts_with = "follow")]
    previous: bool,
    /// Print the time of each line
    #[arg(long)]
    timestamps: bool,
    #[command(flatten)]
    data_dir: DataDirArgs,
}

impl LogsArgs {
    pub async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            pod,
            selector,
            policy_server,
            namespace,
            cluster,
            follow,
            tail,
            since,
            previous,
            timestamps,
            data_dir,
        } = self;
        let local = Local::new(data_dir.resolve()?);
        let Some(run) = local.running()? else {
            let message = format!("polity is not running in {}", local.dir().display());
            let hint = format!("start it with: {}", local.command("up"));
            return Err(Hinted::new(message, hint).into());
        };
        let client = client(&run, cluster.as_deref()).await?;
        let choice = Choice {
            labels: match (&pod, selector, policy_server) {
                (Some(_), ..) => None,
                (None, Some(selector), _) => Some(selector),
                (None, None, Some(server)) => Some(format!("{WORKLOAD_POLICY_SERVER}={server}")),
                (None, None, None) => Some(OF_ANY_SERVER.to_owned()),
            },
            pod,
            namespace,
        };
        let params = LogParams {
            follow,
            previous,
            timestamps,
            tail_lines: tail.map(i64::from),
            since_seconds: since.map(|since| since.0.as_secs().try_into().unwrap_or(i64::MAX)),
            ..LogParams::default()
        };
        let logs = Logs { client, choice };
        if follow {
            logs.follow(params).await
        } else {
            logs.print(&params).await
        }
    }
}

async fn client(run: &RunState, cluster: Option<&str>) -> anyhow::Result<Client> {
    let mut clusters = run.clusters.iter();
    let found = match cluster {
        Some(name) => clusters.find(|cluster| cluster.name == name),
        None => clusters.next(),
    };
    let found = found.ok_or_else(|| {
        let name = cluster.unwrap_or_default();
        let message = format!("there is no cluster {name:?} here");
        Hinted::new(message, "polity status lists them")
    })?;
    crate::local_client(&run.kubeconfig, &found.context).await
}

/// Which Pods.
#[derive(Debug, Clone)]
struct Choice {
    /// One by its name; else by labels.
    pod: Option<String>,
    labels: Option<String>,
    namespace: Option<String>,
}

impl Choice {
    fn fields(&self) -> Option<String> {
        self.pod.as_ref().map(|pod| format!("metadata.name={pod}"))
    }

    fn list(&self) -> ListParams {
        ListParams {
            label_selector: self.labels.clone(),
            field_selector: self.fields(),
            ..ListParams::default()
        }
    }

    fn watch(&self) -> watcher::Config {
        watcher::Config {
            label_selector: self.labels.clone(),
            field_selector: self.fields(),
            ..watcher::Config::default()
        }
    }
}

/// The Pods of a cluster that are asked for.
struct Logs {
    client: Client,
    choice: Choice,
}

impl Logs {
    fn api(&self) -> Api<Pod> {
        match &self.choice.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    /// The Pods there are; a Pod that was named must be there, and once.
    async fn find(&self) -> anyhow::Result<Vec<Pod>> {
        let found = self.api().list(&self.choice.list()).await;
        let found = found.context("listing Pods")?.items;
        match (&self.choice.pod, found.len()) {
            (Some(pod), 0) => {
                let message = format!("there is no Pod {pod:?}");
                Err(Hinted::new(message, "kubectl get pods -A lists them").into())
            }
            (Some(pod), 2..) => {
                let message = format!("there are several Pods {pod:?}");
                Err(Hinted::new(message, "name the namespace with -n").into())
            }
            _ => Ok(found),
        }
    }

    /// What there is, Pod by Pod.
    async fn print(&self, params: &LogParams) -> anyhow::Result<Exit> {
        let pods = self.find().await?;
        if pods.is_empty() {
            eprintln!("there is no such Pod");
            return Ok(Exit::Findings);
        }
        let mut exit = Exit::Fine;
        for pod in &pods {
            let (sender, mut lines) = mpsc::channel(LINES);
            let source = Source::of(&self.client, pod, pods.len() > 1);
            let (read, printed) = tokio::join!(source.read(params, sender), print(&mut lines));
            printed?;
            if let Err(error) = read {
                tell(&source.pod, &error);
                exit = Exit::Findings;
            }
        }
        Ok(exit)
    }

    /// What there is and what comes, of all Pods at once, through restarts and replacements.
    async fn follow(&self, mut params: LogParams) -> anyhow::Result<Exit> {
        if self.find().await?.is_empty() {
            eprintln!("there is no such Pod yet; waiting");
        }
        let is_one = self.choice.pod.is_some();
        let (sender, mut lines) = mpsc::channel::<Vec<u8>>(LINES);
        let mut events = pin!(watcher(self.api(), self.choice.watch()).default_backoff());
        let mut seen = BTreeSet::new();
        loop {
            let event = tokio::select! {
                event = events.try_next() => event,
                Some(line) = lines.recv() => {
                    show(&line)?;
                    continue;
                }
            };
            match event {
                Ok(Some(Event::Apply(pod) | Event::InitApply(pod))) => {
                    let Some(process) = running(&pod) else {
                        continue;
                    };
                    if seen.insert(process) {
                        let source = Source::of(&self.client, &pod, !is_one);
                        let (params, sender) = (params.clone(), sender.clone());
                        tokio::spawn(async move {
                            if let Err(error) = source.read(&params, sender).await {
                                tell(&source.pod, &error);
                            }
                        });
                    }
                }
                // Of what starts from now on everything is new.
                Ok(Some(Event::InitDone)) => {
                    (params.tail_lines, params.since_seconds) = (None, None);
                }
                Ok(Some(Event::Delete(_))) if is_one => break,
                Ok(Some(Event::Init | Event::Delete(_))) => {}
                Ok(None) => break,
                Err(error) => tell("the list of Pods", &error.into()),
            }
        }
        drop(sender);
        print(&mut lines).await?;
        Ok(Exit::Fine)
    }
}

/// What runs in a Pod, by a name that changes with each restart.
fn running(pod: &Pod) -> Option<String> {
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let status = statuses.first()?;
    status.state.as_ref()?.running.as_ref()?;
    Some(format!("{:?} {:?}", pod.uid(), status.container_id))
}

/// Where lines come from.
struct Source {
    api: Api<Pod>,
    pod: String,
    /// What stands before each line.
    prefix: String,
}

impl Source {
    fn of(client: &Client, pod: &Pod, is_one_of_many: bool) -> Self {
        let name = pod.name_any();
        let namespace = pod.namespace().unwrap_or_default();
        Self {
            api: Api::namespaced(client.clone(), &namespace),
            prefix: if is_one_of_many {
                format!("{name} | ")
            } else {
                String::new()
            },
            pod: name,
        }
    }

    /// Sends lines until there are no more, or the receiver is closed.
    async fn read(&self, params: &LogParams, lines: mpsc::Sender<Vec<u8>>) -> anyhow::Result<()> {
        let mut log = pin!(self.api.log_stream(&self.pod, params).await?);
        loop {
            let mut line = self.prefix.clone().into_bytes();
            let n_bytes = log.read_until(b'\n', &mut line).await?;
            if n_bytes == 0 || lines.send(line).await.is_err() {
                return Ok(());
            }
        }
    }
}

async fn print(lines: &mut mpsc::Receiver<Vec<u8>>) -> std::io::Result<()> {
    while let Some(line) = lines.recv().await {
        show(&line)?;
    }
    Ok(())
}

fn show(line: &[u8]) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(line)?;
    stdout.flush()
}

fn tell(what: &str, error: &anyhow::Error) {
    eprintln!("{what}: {}", in_words(error));
}
