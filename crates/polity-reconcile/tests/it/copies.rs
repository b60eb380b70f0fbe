//! A controller as services write them: it copies the text of each ConfigMap `…-source` into a ConfigMap `…-copy`.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use polity_reconcile::{Controller, LeaderElection, Requeue, Term, Watch, WriteError, Writer};
use polity_runtime::lease::LeaseTiming;
use polity_runtime::{Clock, Shutdown};
use polity_testing::{Fault, FaultyClient, TestServer, eventually, for_every_write, objects};
use tokio::task::JoinHandle;

const COPY: &str = "copy-of";

#[derive(Debug, thiserror::Error)]
enum CopyError {
    #[error("reading ConfigMaps")]
    Read(#[from] kube::Error),
    #[error(transparent)]
    Write(#[from] WriteError),
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::default_namespaced(client.clone())
}

/// Reads, plans and writes for one source.
async fn reconcile(client: Client, name: String) -> Result<Requeue, CopyError> {
    let maps = maps(&client);
    let writer = Writer::new(&client, "polity/copies");
    let source = maps.get_opt(&format!("{name}-source")).await?;
    let copy = maps.get_opt(&format!("{name}-copy")).await?;
    match (source, copy) {
        (None, None) => return Ok(Requeue::Never),
        (None, Some(copy)) => {
            writer.delete(&copy.metadata).await?;
        }
        (Some(source), copy) => {
            let mut wanted = objects::config_map(&format!("{name}-copy"), []);
            wanted.metadata.namespace = source.namespace();
            wanted.labels_mut().insert(COPY.to_owned(), name);
            wanted.data = source.data;
            writer.apply_if_changed(copy.as_ref(), &wanted).await?;
        }
    }
    Ok(Requeue::Slowly)
}

async fn run(client: Client, clock: Clock, term: Term) {
    let client = term.guard(&client);
    let mut controller = Controller::new("copies", clock).with_workers(2);
    controller.watch(
        Watch::<ConfigMap>::namespaced(&client, "default"),
        |map| Some(map.name_any().strip_suffix("-source")?.to_owned()),
        |queue, name, _| queue.add(name.clone()),
    );
    controller.watch(
        Watch::<ConfigMap>::namespaced(&client, "default").labels(COPY),
        |map| map.labels().get(COPY).cloned(),
        |queue, name, _| queue.add(name.clone()),
    );
    let reconcile = move |name| reconcile(client.clone(), name);
    controller.run(&term, reconcile).await;
}

/// Starts the controller without an election.
fn start(client: Client) -> (Shutdown, JoinHandle<()>) {
    let shutdown = Shutdown::new();
    let term = Term::without_election(&shutdown);
    (shutdown, tokio::spawn(run(client, Clock::system(), term)))
}

async fn write_source(client: &Client, name: &str, text: &str) {
    let mut source = objects::config_map(&format!("{name}-source"), [("text", text)]);
    source.metadata.namespace = None;
    let params = PatchParams::apply("user").force();
    let name = source.name_any();
    maps(client)
        .patch(&name, &params, &Patch::Apply(&source))
        .await
        .expect("the API server accepts the source");
}

async fn copied(client: &Client, name: &str) -> Option<String> {
    let copy = maps(client).get_opt(&format!("{name}-copy")).await;
    let copy = copy.expect("the API server answers");
    copy?.data?.remove("text")
}

#[tokio::test]
async fn changes_of_every_watched_object_are_reconciled() {
    let server = TestServer::start().await;
    let client = server.client().await;
    write_source(&client, "early", "1").await;
    let (shutdown, running) = start(client.clone());
    write_source(&client, "late", "1").await;
    for name in ["early", "late"] {
        let is_copied = || async { copied(&client, name).await.as_deref() == Some("1") };
        eventually("the source is copied", is_copied).await;
    }
    write_source(&client, "late", "2").await;
    let is_copied = || async { copied(&client, "late").await.as_deref() == Some("2") };
    eventually("the change is copied", is_copied).await;
    let params = DeleteParams::default();
    maps(&client).delete("early-copy", &params).await.unwrap();
    let is_back = || async { copied(&client, "early").await.is_some() };
    eventually("a deleted copy is restored", is_back).await;
    maps(&client).delete("late-source", &params).await.unwrap();
    let is_gone = || async { copied(&client, "late").await.is_none() };
    eventually("the copy of a deleted source is deleted", is_gone).await;
    shutdown.trigger();
    running.await.unwrap();
}

#[tokio::test]
async fn a_source_that_is_deleted_while_the_watch_is_down_is_noticed() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let faulty = FaultyClient::new(client.clone());
    write_source(&client, "a", "1").await;
    let (shutdown, running) = start(faulty.client());
    let is_copied = || async { copied(&client, "a").await.is_some() };
    eventually("the source is copied", is_copied).await;
    faulty.cut_off();
    // The history of the server forgets the deletion, so that the watch must list again.
    maps(&client)
        .delete("a-source", &DeleteParams::default())
        .await
        .unwrap();
    faulty.clear_faults();
    let is_gone = || async { copied(&client, "a").await.is_none() };
    eventually("the copy is deleted", is_gone).await;
    shutdown.trigger();
    running.await.unwrap();
}

#[tokio::test]
async fn a_refused_write_is_retried() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let faulty = FaultyClient::new(client.clone());
    let refused = Fault::Refused(http::StatusCode::SERVICE_UNAVAILABLE);
    let faulty = faulty.fail_write(1, refused).fail_write(2, refused);
    let (shutdown, running) = start(faulty.client());
    write_source(&client, "a", "1").await;
    let is_copied = || async { copied(&client, "a").await.is_some() };
    eventually("the source is copied", is_copied).await;
    assert!(faulty.n_writes() >= 3, "{:?}", faulty.writes());
    shutdown.trigger();
    running.await.unwrap();
}

#[tokio::test]
async fn a_controller_that_dies_at_any_write_is_replaced_by_the_next_leader() {
    let n_writes = for_every_write(|point| async move {
        let server = TestServer::start().await;
        let client = server.client().await;
        write_source(&client, "a", "1").await;
        let dying = point.client(client.clone());
        let (stop, died) = start(dying.client());
        let (next_stop, next) = (Shutdown::new(), client.clone());
        let end_of_first = async {
            tokio::select! {
                () = dying.struck() => {}
                () = eventually("the source is copied", || async { copied(&client, "a").await.is_some() }) => {}
            }
            stop.trigger();
        };
        end_of_first.await;
        died.await.unwrap();
        let election = LeaderElection {
            client: client.clone(),
            clock: Clock::system(),
            namespace: "default".to_owned(),
            lease: "copies".to_owned(),
            identity: "next".to_owned(),
            timing: LeaseTiming::default(),
        };
        let running = election.run(next_stop.clone(), move |term| {
            run(next.clone(), Clock::system(), term)
        });
        let running = tokio::spawn(async move { running.await.unwrap() });
        let is_copied = || async { copied(&client, "a").await.as_deref() == Some("1") };
        eventually("the source is copied", is_copied).await;
        next_stop.trigger();
        running.await.unwrap();
        let copies = ListParams::default().labels(COPY);
        let list = maps(&client).list(&copies).await;
        assert_eq!(list.unwrap().items.len(), 1, "{point:?}");
    })
    .await;
    assert_eq!(n_writes, 2, "one write, cut off in two ways");
}

#[tokio::test]
async fn a_term_that_ends_stops_the_controller() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let (shutdown, running) = start(client.clone());
    shutdown.trigger();
    running.await.unwrap();
    let source = objects::config_map("a-source", [("text", "1")]);
    maps(&client)
        .create(&PostParams::default(), &source)
        .await
        .unwrap();
    Clock::system().sleep(Duration::from_millis(100)).await;
    assert_eq!(copied(&client, "a").await, None);
}
