//! A shared informer of client-go misses no event while the server runs, and recovers after a restart.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use peers::Tool;
use polity_testing::objects::config_map;
use serde::Deserialize;
use tokio::sync::watch;

use crate::host::Host;
use crate::test_namespace::{TestNamespace, block_on, connect, soon};
use crate::writers::{Change, Histories, Writer, WriterResult};

/// One line of output of the informer.
#[derive(Debug, Clone, Deserialize)]
struct Line {
    r#type: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    uid: String,
    #[serde(default)]
    token: String,
}

/// The running informer program, with its output so far.
struct Informer {
    child: Child,
    lines: Arc<Mutex<Vec<Line>>>,
}

impl Informer {
    fn start(program: &std::path::Path, host: &Host, namespace: &str) -> Self {
        let mut command = Command::new(program);
        command.arg(host.kubeconfig()).arg(namespace);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        // The informer logs every failed connection attempt.
        command.stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let lines = Arc::new(Mutex::new(Vec::new()));
        let heard = lines.clone();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
                heard.lock().unwrap().push(line);
            }
        });
        Self { child, lines }
    }

    /// Waits until the informer has printed a matching line. Returns all lines.
    async fn reached(&self, is_it: impl Fn(&Line) -> bool) -> Vec<Line> {
        soon("the informer prints the event", || async {
            let lines = self.lines.lock().unwrap();
            let is_there = lines.iter().any(&is_it);
            is_there.then(|| lines.clone()).ok_or(lines.last().cloned())
        })
        .await
    }
}

impl Drop for Informer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Line {
    fn change(&self) -> Change {
        match self.r#type.as_str() {
            "delete" => Change::Gone {
                uid: self.uid.clone(),
                last: self.token.clone(),
            },
            _ => Change::Put {
                token: self.token.clone(),
            },
        }
    }
}

#[test]
fn an_informer_misses_nothing_and_comes_back() {
    let Some(program) = Tool::Informer.or_skip() else {
        return;
    };
    block_on(async {
        let mut host = Host::start();
        let test_namespace =
            TestNamespace::create(connect(&host.kubeconfig()).await, "informer").await;
        let informer = Informer::start(&program, &host, &test_namespace.namespace);
        informer.reached(|line| line.r#type == "synced").await;

        let (calm, ()) = write(&test_namespace, "calm", async |n_written| {
            n_written.wait_for(|n| *n >= 300).await.unwrap();
        })
        .await;
        let lines = informer.reached(|line| line.name == "calm").await;
        for (name, expected) in &calm.histories {
            let seen = lines.iter().filter(|line| line.name == *name);
            let seen: Vec<Change> = seen.map(Line::change).collect();
            assert_eq!(&seen, expected, "{name}: each change once and in order");
        }

        let (storm, host) = write(&test_namespace, "storm", async |n_written| {
            n_written.wait_for(|n| *n >= 50).await.unwrap();
            host.terminate();
            host.start_again();
            n_written.wait_for(|n| *n >= 100).await.unwrap();
            host.kill();
            host.start_again();
            n_written.wait_for(|n| *n >= 150).await.unwrap();
            host
        })
        .await;
        let lines = informer.reached(|line| line.name == "storm").await;
        check_order(&lines, &storm.histories);
        check_end(&lines, &[&calm, &storm]);
        drop(host);
    });
}

/// Runs a writer while `meanwhile` runs. The last object has the name of the writer.
async fn write<T>(
    test_namespace: &TestNamespace,
    name: &str,
    meanwhile: impl AsyncFnOnce(&mut watch::Receiver<u64>) -> T,
) -> (WriterResult, T) {
    let maps: Api<ConfigMap> = test_namespace.api();
    let progress = Arc::new(watch::Sender::new(0));
    let mut n_written = progress.subscribe();
    let (stop, stopped) = watch::channel(false);
    let writer = Writer::new(name, maps.clone(), progress);
    let writing = tokio::spawn(writer.write_until(stopped));
    let outcome = meanwhile(&mut n_written).await;
    stop.send(true).unwrap();
    let done = writing.await.unwrap();
    let last = config_map(name, []);
    maps.create(&PostParams::default(), &last).await.unwrap();
    (done, outcome)
}

/// After a lost connection an informer may list again and skip intermediate changes. It never goes back in time and
/// never reports a change twice.
fn check_order(lines: &[Line], histories: &Histories) {
    for (name, history) in histories {
        let mut rest = history.iter();
        for line in lines.iter().filter(|line| line.name == *name) {
            let Change::Put { token } = line.change() else {
                continue;
            };
            let is_ahead = rest.any(|done| {
                *done
                    == Change::Put {
                        token: token.clone(),
                    }
            });
            assert!(is_ahead, "{name}: {token} out of turn");
        }
    }
}

/// The final state of the informer equals the objects that the writers left.
fn check_end(lines: &[Line], done: &[&WriterResult]) {
    let mut believed: BTreeMap<&str, &str> = BTreeMap::new();
    for line in lines {
        if line.r#type == "delete" {
            believed.remove(line.name.as_str());
        } else if !line.token.is_empty() {
            believed.insert(&line.name, &line.uid);
        }
    }
    let live = done.iter().flat_map(|done| &done.live);
    let live: BTreeMap<&str, &str> = live
        .map(|(name, map)| (name.as_str(), map.metadata.uid.as_deref().unwrap()))
        .collect();
    assert_eq!(believed, live);
}
