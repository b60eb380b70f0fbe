//! What the writers do to the objects of an API server, and that a controller can be killed at each of their writes.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, ObjectReference};
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use polity_core::ObjectKey;
use polity_reconcile::{
    Cache, Controller, Deletion, ObjectEvent, Requeue, SharedCache, Term, Watch, WriteError,
    WriteOutcome, Writer, publish_event,
};
use polity_runtime::{Clock, Shutdown};
use polity_testing::{Fault, FaultyClient, TestServer, eventually, for_every_write, objects};
use serde_json::json;

const MANAGER: &str = "polity/test";
const LABEL: &str = "made-by";

fn map(name: &str, text: &str) -> ConfigMap {
    let mut map = objects::config_map(name, [("text", text)]);
    map.metadata.namespace = Some("default".to_owned());
    map.labels_mut().insert(LABEL.to_owned(), "test".to_owned());
    map
}

async fn names(client: &Client) -> BTreeSet<String> {
    let maps: Api<ConfigMap> = Api::all(client.clone());
    let made = ListParams::default().labels(LABEL);
    let list = maps.list_metadata(&made).await.expect("maps are listed");
    list.iter().map(ResourceExt::name_any).collect()
}

#[tokio::test]
async fn an_apply_is_sent_only_when_something_differs() {
    let server = TestServer::start().await;
    let faulty = server.faulty().await;
    let client = faulty.client();
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let writer = Writer::<Deployment>::new(&client, MANAGER);
    let mut wanted = objects::deployment("web", 2);
    wanted.metadata.namespace = Some("default".to_owned());
    wanted.annotations_mut().insert("note".into(), "x".into());
    let apply = async |wanted: &Deployment| {
        let found = deployments.get_opt("web").await.unwrap();
        let n_writes = faulty.n_writes();
        let outcome = writer.apply_if_changed(found.as_ref(), wanted).await;
        let is_written = matches!(outcome.unwrap(), WriteOutcome::Written(_));
        assert_eq!(faulty.n_writes() - n_writes, usize::from(is_written));
        is_written
    };
    assert!(apply(&wanted).await, "there was none");
    assert!(
        !apply(&wanted).await,
        "defaults of the API server are no difference"
    );

    let edit = async |patch| {
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        deployments.patch("web", &params, &patch).await.unwrap();
    };
    edit(json!({ "metadata": { "labels": { "of": "others" } } })).await;
    assert!(!apply(&wanted).await, "fields of others are no difference");
    edit(json!({ "spec": { "replicas": 7 } })).await;
    assert!(apply(&wanted).await, "a wanted field was changed");

    wanted.annotations_mut().remove("note");
    assert!(apply(&wanted).await, "a field is no longer wanted");
    assert!(!apply(&wanted).await);
    let stored = deployments.get("web").await.unwrap();
    assert_eq!(stored.spec.replicas, Some(2));
    assert!(!stored.annotations().contains_key("note"));
    assert_eq!(stored.labels()["of"], "others");
}

#[tokio::test]
async fn dynamic_objects_are_written_like_typed_ones() {
    let server = TestServer::start().await;
    let faulty = server.faulty().await;
    let resource = ApiResource::erase::<ConfigMap>(&());
    let maps: Api<DynamicObject> = Api::default_namespaced_with(faulty.client(), &resource);
    let writer = Writer::of_kind(&faulty.client(), resource.clone(), MANAGER);
    let mut wanted = DynamicObject::new("a", &resource).within("default");
    wanted.data = json!({ "data": { "text": "1" } });
    writer.apply_if_changed(None, &wanted).await.unwrap();
    // The items of a list do not repeat their kind.
    let only = ListParams::default().fields("metadata.name=a");
    let found = maps.list(&only).await.unwrap().items.remove(0);
    let n_writes = faulty.n_writes();
    let again = writer
        .apply_if_changed(Some(&found), &wanted)
        .await
        .unwrap();
    assert_eq!(again, WriteOutcome::Unchanged);
    assert_eq!(faulty.n_writes(), n_writes);

    let mut changed = found.clone();
    changed.data["data"]["text"] = json!("2");
    writer.update(&changed).await.unwrap();
    let stale = writer.delete_unchanged(&found.metadata).await;
    assert!(
        matches!(stale, Err(WriteError::Conflict { .. })),
        "{stale:?}"
    );
    let deleted = writer.delete(&found.metadata).await.unwrap();
    assert_eq!(deleted, Deletion::Deleted);
    let gone = writer.delete(&found.metadata).await.unwrap();
    assert_eq!(gone, Deletion::AlreadyGone);
}

/// The status with one more condition, unless it is there.
fn with_condition(deployment: &Deployment, type_: &str) -> Option<DeploymentStatus> {
    let mut status = deployment.status.clone().unwrap_or_default();
    let conditions = status.conditions.get_or_insert_default();
    if conditions
        .iter()
        .any(|one| one.type_.as_deref() == Some(type_))
    {
        return None;
    }
    conditions.push(DeploymentCondition {
        type_: Some(type_.to_owned()),
        status: Some("True".to_owned()),
        ..DeploymentCondition::default()
    });
    Some(status)
}

#[tokio::test]
async fn writers_of_one_status_keep_the_entries_of_each_other() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let mut object = objects::deployment("web", 1);
    object.metadata.namespace = Some("default".to_owned());
    let writer = Writer::<Deployment>::new(&client, MANAGER);
    // All begin with the same version, so all but one meet a conflict.
    let seen = writer.create(&object).await.unwrap();
    let types: Vec<String> = (0..6).map(|n| format!("Writer{n}")).collect();
    let clock = Clock::system();
    let writes = types.iter().map(|type_| {
        let change = |deployment: &Deployment| with_condition(deployment, type_);
        writer.change_status(&clock, &seen, change)
    });
    for outcome in futures::future::join_all(writes).await {
        assert!(matches!(outcome.unwrap(), WriteOutcome::Written(_)));
    }
    let deployments: Api<Deployment> = Api::default_namespaced(client);
    let stored = deployments.get("web").await.unwrap();
    let conditions = stored.status.unwrap().conditions.unwrap();
    let written: BTreeSet<_> = conditions.into_iter().filter_map(|one| one.type_).collect();
    assert_eq!(written, types.into_iter().collect());
}

#[tokio::test]
async fn pruning_deletes_what_is_not_planned_in_all_namespaces_or_one() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let namespaces = Writer::<Namespace>::new(&client, MANAGER);
    namespaces
        .create(&objects::namespace("other"))
        .await
        .unwrap();
    let writer = Writer::<ConfigMap>::new(&client, MANAGER);
    let elsewhere = |name: &str| {
        let mut map = map(name, "1");
        map.metadata.namespace = Some("other".to_owned());
        map
    };
    let mut unlabelled = map("users", "1");
    unlabelled.metadata.labels = None;
    for map in [
        map("a", "1"),
        map("b", "1"),
        elsewhere("a"),
        elsewhere("c"),
        unlabelled,
    ] {
        writer.create(&map).await.unwrap();
    }
    let planned = BTreeSet::from([ObjectKey::namespaced("default", "a")]);
    let pruned = writer.prune_in("default", LABEL, &planned).await.unwrap();
    assert_eq!(pruned, [ObjectKey::namespaced("default", "b")]);
    let pruned = writer.prune(LABEL, &planned).await.unwrap();
    let expected = ["a", "c"].map(|name| ObjectKey::namespaced("other", name));
    assert_eq!(pruned, expected);
    assert_eq!(names(&client).await, BTreeSet::from(["a".to_owned()]));
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    assert!(maps.get_opt("users").await.unwrap().is_some());
}

/// Deletes all objects with our label for which no ConfigMap `<name>-source` exists.
async fn run_pruner(client: Client, shutdown: Shutdown) {
    let sources = SharedCache::new(Cache::<String, ()>::default());
    let mut controller = Controller::<String>::new("pruner", Clock::system()).after_first_lists();
    controller.keep(
        Watch::<ConfigMap>::namespaced(&client, "default")
            .fields("metadata.name!=kube-root-ca.crt"),
        &sources,
        |metadata| metadata.name.clone().unwrap_or_default(),
        |map| map.name_any().ends_with("-source").then_some(()),
        |_, _| {},
    );
    controller.queue().add("all".to_owned());
    let reconcile = move |_| {
        let (client, sources) = (client.clone(), sources.clone());
        async move {
            let planned = sources.read(|sources| {
                let names = sources
                    .iter()
                    .filter_map(|(name, ())| name.strip_suffix("-source"));
                names
                    .map(|name| ObjectKey::namespaced("default", name))
                    .collect()
            });
            let writer = Writer::<ConfigMap>::new(&client, MANAGER);
            writer.prune(LABEL, &planned).await?;
            Ok::<_, WriteError>(Requeue::Slowly)
        }
    };
    controller
        .run(&Term::without_election(&shutdown), reconcile)
        .await;
}

#[tokio::test]
async fn a_controller_prunes_after_the_first_list_only() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let writer = Writer::<ConfigMap>::new(&client, MANAGER);
    let mut source = map("kept-source", "1");
    source.metadata.labels = None;
    for map in [source, map("kept", "1"), map("dropped", "1")] {
        writer.create(&map).await.unwrap();
    }
    // The first list of the watch takes a while.
    let faulty = FaultyClient::new(client.clone()).fail_nth(1, |_| true, Fault::Held);
    let shutdown = Shutdown::new();
    let running = tokio::spawn(run_pruner(faulty.client(), shutdown.clone()));
    faulty.struck().await;
    assert_eq!(names(&client).await.len(), 2);
    assert_eq!(faulty.n_writes(), 0);
    faulty.release();
    let is_pruned = || async { names(&client).await == BTreeSet::from(["kept".to_owned()]) };
    eventually("what has no source is pruned", is_pruned).await;
    assert_eq!(faulty.n_writes(), 1, "nothing else was deleted");
    shutdown.trigger();
    running.await.unwrap();
}

/// Each kind of write once: an apply, a status, an Event, a deletion and a prune. Doing it again is harmless.
async fn write_everything(client: &Client) -> Result<(), WriteError> {
    let clock = Clock::system();
    let maps = Writer::<ConfigMap>::new(client, MANAGER);
    let deployments = Writer::<Deployment>::new(client, MANAGER);
    let mut web = objects::deployment("web", 1);
    web.metadata.namespace = Some("default".to_owned());
    let found: Api<Deployment> = Api::default_namespaced(client.clone());
    let found = found.get_opt("web").await.ok().flatten();
    let web = match (
        deployments.apply_if_changed(found.as_ref(), &web).await?,
        found,
    ) {
        (WriteOutcome::Written(written), _) | (WriteOutcome::Unchanged, Some(written)) => written,
        (WriteOutcome::Unchanged, None) => unreachable!("it was applied"),
    };
    let change = |deployment: &Deployment| with_condition(deployment, "Tested");
    deployments.change_status(&clock, &web, change).await?;
    let event = ObjectEvent {
        about: ObjectReference {
            kind: Some("Deployment".to_owned()),
            name: Some("web".to_owned()),
            namespace: Some("default".to_owned()),
            uid: web.uid(),
            ..ObjectReference::default()
        },
        reason: "Tested",
        note: "it was tested",
        is_warning: false,
        manager: MANAGER,
        rank: 0,
    };
    publish_event(client, &event, clock.now()).await;
    let all: Api<ConfigMap> = Api::default_namespaced(client.clone());
    if let Some(old) = all.get_opt("old").await.ok().flatten() {
        maps.delete(&old.metadata).await?;
    }
    let planned = BTreeSet::from([ObjectKey::namespaced("default", "planned")]);
    maps.prune(LABEL, &planned).await?;
    Ok(())
}

#[tokio::test]
async fn a_controller_can_be_killed_at_each_kind_of_write() {
    let n_cut_off = for_every_write(|point| async move {
        let server = TestServer::start().await;
        let client = server.client().await;
        for name in ["old", "planned", "unplanned"] {
            let maps = Writer::<ConfigMap>::new(&client, MANAGER);
            maps.create(&map(name, "1")).await.unwrap();
        }
        let dying = point.client(client.clone());
        let died = write_everything(&dying.client()).await.is_err();
        let writes: Vec<String> = dying
            .writes()
            .iter()
            .map(|write| {
                let path = write.path.split('?').next().unwrap_or_default();
                let tail = path.split("/default/").nth(1).unwrap_or_default();
                let kind = tail.split('/').next().unwrap_or_default();
                let is_status = tail.ends_with("/status");
                let kind = if is_status { "status" } else { kind };
                format!("{} {kind}", write.method)
            })
            .collect();
        if !died && !dying.has_struck() {
            let expected = [
                "PATCH deployments",
                "PUT status",
                "POST events",
                "DELETE configmaps",
                "DELETE configmaps",
            ];
            assert_eq!(
                writes, expected,
                "every write of the kit can be the last one"
            );
        }
        write_everything(&client).await.unwrap();
        let left = BTreeSet::from(["planned".to_owned()]);
        assert_eq!(names(&client).await, left, "{point:?}");
        let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
        let web = deployments.get("web").await.unwrap();
        assert_eq!(with_condition(&web, "Tested"), None, "{point:?}");
        let events: Api<Event> = Api::default_namespaced(client);
        let events = events.list(&ListParams::default()).await.unwrap();
        assert_eq!(events.items.len(), 1, "{point:?}");
        let times = events.items[0].count;
        assert!(matches!(times, Some(1 | 2)), "{point:?}: {times:?}");
    })
    .await;
    assert_eq!(n_cut_off, 10, "five writes, cut off in two ways");
}
