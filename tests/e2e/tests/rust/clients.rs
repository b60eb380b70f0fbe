//! Helpers of kube and kube-runtime, one test for each.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Event as CoreEvent, Pod};
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::core::{GroupVersionKind, PartialObjectMeta};
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{Event as Finalizer, finalizer};
use kube::runtime::wait::{await_condition, conditions, delete::delete_and_finalize};
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Api, Discovery, Resource, ResourceExt};
use polity_testing::objects::{config_map, deployment, owned_by, widget};
use serde_json::json;

use crate::test_namespace::{TestNamespace, on_both_servers, soon, when};

on_both_servers![
    watchers_of_both_strategies_see_every_change,
    a_reflector_holds_the_current_objects,
    metadata_alone_can_be_watched,
    a_finalizer_is_added_and_removed,
    apply_takes_and_yields_fields,
    status_and_spec_are_written_separately,
    events_are_recorded_and_counted,
    conditions_can_be_waited_for,
    discovery_finds_every_kind,
    pages_and_raw_watches,
    replacing_needs_the_newest_version,
];

/// The next event of a watcher in short form.
async fn next<K>(
    stream: &mut (impl Stream<Item = watcher::Result<watcher::Event<K>>> + Unpin),
) -> String
where
    K: Resource,
{
    let event = tokio::time::timeout(Duration::from_mins(1), stream.next()).await;
    event
        .expect("an event comes in time")
        .unwrap()
        .unwrap()
        .to_string()
}

async fn watchers_of_both_strategies_see_every_change(test_namespace: TestNamespace) {
    let maps: Api<ConfigMap> = test_namespace.api();
    let post = PostParams::default();
    maps.create(&post, &config_map("a", [])).await.unwrap();
    let only_ours = watcher::Config::default().fields("metadata.name!=kube-root-ca.crt");
    for config in [only_ours.clone(), only_ours.streaming_lists()] {
        let mut events = pin!(watcher(maps.clone(), config));
        for expected in ["Init", "InitApply(a)", "InitDone"] {
            assert_eq!(next(&mut events).await, expected);
        }
        maps.create(&post, &config_map("b", [])).await.unwrap();
        let patch = json!({"metadata": {"labels": {"touched": "yes"}}});
        maps.patch("b", &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
        maps.delete("b", &DeleteParams::default()).await.unwrap();
        for expected in ["Apply(b)", "Apply(b)", "Delete(b)"] {
            assert_eq!(next(&mut events).await, expected);
        }
    }
}

async fn a_reflector_holds_the_current_objects(test_namespace: TestNamespace) {
    let maps: Api<ConfigMap> = test_namespace.api();
    let (reader, writer) = reflector::store();
    let config = watcher::Config::default().labels("held=yes").page_size(2);
    let held = reflector(writer, watcher(maps.clone(), config)).touched_objects();
    let task = tokio::spawn(held.for_each(|_| async {}));
    let post = PostParams::default();
    for n in 0..5 {
        let mut map = config_map(&format!("m{n}"), []);
        map.labels_mut().insert("held".into(), "yes".into());
        maps.create(&post, &map).await.unwrap();
    }
    let names =
        || -> BTreeSet<String> { reader.state().iter().map(|map| map.name_any()).collect() };
    soon("the store holds all five", || async { names().len() == 5 }).await;
    // Objects that no longer match are removed from the store, like deleted ones.
    let patch = json!({"metadata": {"labels": {"held": "no"}}});
    maps.patch("m0", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    maps.delete("m1", &DeleteParams::default()).await.unwrap();
    let expected = ["m2", "m3", "m4"].map(str::to_owned).into();
    soon("the store follows", || async { names() == expected }).await;
    task.abort();
}

async fn metadata_alone_can_be_watched(test_namespace: TestNamespace) {
    let post = PostParams::default();
    test_namespace
        .api::<ConfigMap>()
        .create(&post, &config_map("a", [("k", "v")]))
        .await
        .unwrap();
    let maps: Api<PartialObjectMeta<ConfigMap>> = test_namespace.api();
    for config in [
        watcher::Config::default(),
        watcher::Config::default().streaming_lists(),
    ] {
        let mut events = pin!(watcher(maps.clone(), config.fields("metadata.name=a")));
        assert_eq!(next(&mut events).await, "Init");
        let Some(Ok(watcher::Event::InitApply(seen))) = events.next().await else {
            panic!("no object")
        };
        assert_eq!(
            seen.types.map(|types| types.kind).as_deref(),
            Some("PartialObjectMetadata")
        );
        assert_eq!(next(&mut events).await, "InitDone");
    }
    let list = test_namespace
        .api::<ConfigMap>()
        .list_metadata(&ListParams::default())
        .await
        .unwrap();
    assert!(list.items.iter().any(|map| map.name_any() == "a"));
}

async fn a_finalizer_is_added_and_removed(test_namespace: TestNamespace) {
    const NAME: &str = "e2e.polity.dev/cleanup";
    let widgets = test_namespace.widgets().await;
    widgets
        .create(&PostParams::default(), &widget("w", 1))
        .await
        .unwrap();
    let step = async || {
        let live = Arc::new(widgets.get("w").await.unwrap());
        let mut seen = "nothing";
        let outcome = finalizer(&widgets, NAME, live, |event| {
            seen = match event {
                Finalizer::Apply(_) => "apply",
                Finalizer::Cleanup(_) => "cleanup",
            };
            async { Ok::<_, std::io::Error>(Action::await_change()) }
        });
        outcome.await.unwrap();
        seen
    };
    assert_eq!(step().await, "nothing", "first the finalizer is added");
    assert_eq!(widgets.get("w").await.unwrap().finalizers(), [NAME]);
    assert_eq!(step().await, "apply");
    widgets.delete("w", &DeleteParams::default()).await.unwrap();
    assert_eq!(step().await, "cleanup");
    soon("it is gone", || async {
        widgets.get_opt("w").await.unwrap().is_none()
    })
    .await;
}

async fn apply_takes_and_yields_fields(test_namespace: TestNamespace) {
    let maps: Api<ConfigMap> = test_namespace.api();
    let apply = |manager: &str| PatchParams::apply(manager);
    let ours = config_map("m", [("shared", "ours"), ("own", "1")]);
    let stored = maps
        .patch("m", &apply("ours"), &Patch::Apply(&ours))
        .await
        .unwrap();
    let again = maps
        .patch("m", &apply("ours"), &Patch::Apply(&ours))
        .await
        .unwrap();
    assert_eq!(again.resource_version(), stored.resource_version(), "S18");
    let theirs = config_map("m", [("shared", "theirs")]);
    let refused = maps
        .patch("m", &apply("theirs"), &Patch::Apply(&theirs))
        .await;
    let Err(kube::Error::Api(status)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    maps.patch("m", &apply("theirs").force(), &Patch::Apply(&theirs))
        .await
        .unwrap();
    // A manager that lost a field may stop applying it. The owner of the field determines its value.
    let mine = config_map("m", []);
    let left = maps
        .patch("m", &apply("ours"), &Patch::Apply(&mine))
        .await
        .unwrap();
    assert_eq!(
        left.data,
        Some(BTreeMap::from([("shared".to_owned(), "theirs".to_owned())]))
    );
}

async fn status_and_spec_are_written_separately(test_namespace: TestNamespace) {
    let widgets = test_namespace.widgets().await;
    let stored = widgets
        .create(&PostParams::default(), &widget("w", 3))
        .await
        .unwrap();
    let patch = json!({"spec": {"size": 9}, "status": {"size": 3, "observedGeneration": 1}});
    let written = widgets
        .patch_status("w", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    assert_eq!(
        (written.spec.size, written.status.clone().unwrap().size),
        (3, Some(3))
    );
    assert_eq!(written.meta().generation, stored.meta().generation);
    let mut replaced = written.clone();
    replaced.spec.size = 4;
    replaced.status = None;
    let replaced = widgets
        .replace("w", &PostParams::default(), &replaced)
        .await
        .unwrap();
    assert_eq!(
        (replaced.spec.size, replaced.status.clone().unwrap().size),
        (4, Some(3))
    );
    assert_eq!(replaced.meta().generation, Some(2));
    let mut status = replaced.clone();
    status.status.as_mut().unwrap().size = Some(4);
    let status = widgets
        .replace_status("w", &PostParams::default(), &status)
        .await
        .unwrap();
    assert_eq!(status.status.unwrap().size, Some(4));
    let applied = json!({
        "apiVersion": "testing.polity.dev/v1", "kind": "Widget", "status": {"observedGeneration": 2},
    });
    let applied = widgets
        .patch_status(
            "w",
            &PatchParams::apply("status").force(),
            &Patch::Apply(applied),
        )
        .await
        .unwrap();
    assert_eq!(applied.status.unwrap().observed_generation, Some(2));
    let scale = widgets.get_scale("w").await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(4));
    let patch = Patch::Merge(json!({"spec": {"replicas": 7}}));
    widgets
        .patch_scale("w", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(widgets.get("w").await.unwrap().spec.size, 7);
}

async fn events_are_recorded_and_counted(test_namespace: TestNamespace) {
    let maps: Api<ConfigMap> = test_namespace.api();
    let map = maps
        .create(&PostParams::default(), &config_map("m", []))
        .await
        .unwrap();
    let reporter = Reporter {
        controller: "e2e.polity.dev/recorder".into(),
        instance: Some("one".into()),
    };
    let recorder = Recorder::new(test_namespace.client.clone(), reporter);
    let event = Event {
        type_: EventType::Normal,
        reason: "Tested".into(),
        note: Some("it was tested".into()),
        action: "Testing".into(),
        secondary: None,
    };
    for _ in 0..3 {
        recorder
            .publish(&event, &map.object_ref(&()))
            .await
            .unwrap();
    }
    let events: Api<CoreEvent> = test_namespace.api();
    let fields = "involvedObject.name=m,involvedObject.kind=ConfigMap,reason=Tested";
    let list = events
        .list(&ListParams::default().fields(fields))
        .await
        .unwrap();
    let [seen] = &list.items[..] else {
        panic!("one event, not {:?}", list.items)
    };
    assert_eq!(seen.message.as_deref(), Some("it was tested"));
    assert_eq!(seen.series.as_ref().unwrap().count, Some(3));
}

async fn conditions_can_be_waited_for(test_namespace: TestNamespace) {
    let pods: Api<Pod> = test_namespace.api();
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let pod = pods.create(&PostParams::default(), &pod).await.unwrap();
    let running = tokio::spawn(await_condition(
        pods.clone(),
        "p",
        conditions::is_pod_running(),
    ));
    let patch = Patch::Merge(json!({"status": {"phase": "Running"}}));
    pods.patch_status("p", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let seen = tokio::time::timeout(Duration::from_mins(1), running)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(seen.unwrap().uid(), pod.uid());

    let maps: Api<ConfigMap> = test_namespace.api();
    let mut held = config_map("held", []);
    held.metadata.finalizers = Some(vec!["e2e.polity.dev/hold".into()]);
    let held = maps.create(&PostParams::default(), &held).await.unwrap();
    let deletion = tokio::spawn({
        let maps = maps.clone();
        async move { delete_and_finalize(maps, "held", &DeleteParams::foreground()).await }
    });
    soon("it is being deleted", || async {
        when(maps.get_opt("held").await.unwrap(), |map| {
            map.meta().deletion_timestamp.is_some()
        })
    })
    .await;
    let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("held", &PatchParams::default(), &patch)
        .await
        .unwrap();
    tokio::time::timeout(Duration::from_mins(1), deletion)
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    let owned = owned_by(config_map("owned", []), &held);
    maps.create(&PostParams::default(), &owned).await.unwrap();
    soon("a dependent of what is gone is collected", || async {
        maps.get_opt("owned").await.unwrap().is_none()
    })
    .await;
}

async fn discovery_finds_every_kind(test_namespace: TestNamespace) {
    test_namespace.widgets().await;
    for discovery in [
        Discovery::new(test_namespace.client.clone())
            .run()
            .await
            .unwrap(),
        Discovery::new(test_namespace.client.clone())
            .run_aggregated()
            .await
            .unwrap(),
    ] {
        for (group, version, kind, plural) in [
            ("", "v1", "ConfigMap", "configmaps"),
            ("apps", "v1", "Deployment", "deployments"),
            ("testing.polity.dev", "v1", "Widget", "widgets"),
        ] {
            let gvk = GroupVersionKind::gvk(group, version, kind);
            let (resource, capabilities) = discovery
                .resolve_gvk(&gvk)
                .unwrap_or_else(|| panic!("no {kind}"));
            assert_eq!(resource.plural, plural);
            assert_eq!(
                capabilities.scope,
                kube::discovery::Scope::Namespaced,
                "{kind}"
            );
            assert!(capabilities.supports_operation("watch"), "{kind}");
        }
        let gvk = GroupVersionKind::gvk("testing.polity.dev", "v1", "Widget");
        let (_, capabilities) = discovery.resolve_gvk(&gvk).unwrap();
        let subresources: BTreeSet<_> = capabilities
            .subresources
            .iter()
            .map(|(sub, _)| sub.plural.clone())
            .collect();
        assert_eq!(subresources.len(), 2, "status and scale: {subresources:?}");
    }
    let version = test_namespace.client.apiserver_version().await.unwrap();
    assert_eq!(version.major, "1");
}

async fn pages_and_raw_watches(test_namespace: TestNamespace) {
    let maps: Api<ConfigMap> = test_namespace.api();
    for n in 0..7 {
        maps.create(&PostParams::default(), &config_map(&format!("m{n}"), []))
            .await
            .unwrap();
    }
    let fields = ListParams::default().fields("metadata.name!=kube-root-ca.crt");
    let first = maps.list(&fields.clone().limit(3)).await.unwrap();
    maps.delete("m5", &DeleteParams::default()).await.unwrap();
    let mut names: Vec<String> = first.items.iter().map(ResourceExt::name_any).collect();
    let mut token = first.metadata.continue_.clone();
    while let Some(next) = token.filter(|token| !token.is_empty()) {
        let page = maps
            .list(&fields.clone().limit(3).continue_token(&next))
            .await
            .unwrap();
        assert_eq!(
            page.metadata.resource_version,
            first.metadata.resource_version
        );
        names.extend(page.items.iter().map(ResourceExt::name_any));
        token = page.metadata.continue_;
    }
    assert_eq!(
        names,
        (0..7).map(|n| format!("m{n}")).collect::<Vec<_>>(),
        "one snapshot"
    );
    let version = first.metadata.resource_version.unwrap();
    let mut lines = maps
        .watch(&WatchParams::default().timeout(1), &version)
        .await
        .unwrap()
        .boxed();
    let Some(Ok(WatchEvent::Deleted(gone))) = lines.next().await else {
        panic!("no deletion")
    };
    assert_eq!(gone.name_any(), "m5");
    assert!(
        lines
            .by_ref()
            .take(9)
            .all(|event| async move { matches!(event, Ok(WatchEvent::Bookmark(_))) })
            .await,
        "then only bookmarks, and a clean end"
    );
}

async fn replacing_needs_the_newest_version(test_namespace: TestNamespace) {
    let deployments = test_namespace.api();
    let stored = deployments
        .create(&PostParams::default(), &deployment("d", 1))
        .await
        .unwrap();
    let mut next = stored.clone();
    next.spec.replicas = Some(2);
    let replaced = deployments
        .replace("d", &PostParams::default(), &next)
        .await
        .unwrap();
    assert_eq!(replaced.metadata.generation, Some(2));
    next.spec.replicas = Some(3);
    let refused = deployments
        .replace("d", &PostParams::default(), &next)
        .await;
    let Err(kube::Error::Api(status)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let mut dry_object = replaced.clone();
    dry_object.spec.replicas = Some(8);
    deployments.replace("d", &dry, &dry_object).await.unwrap();
    assert_eq!(deployments.get("d").await.unwrap(), replaced);
    let mut entry = deployments
        .entry("d")
        .await
        .unwrap()
        .and_modify(|deployment| deployment.spec.replicas = Some(5));
    let kube::api::entry::Entry::Occupied(ref mut occupied) = entry else {
        panic!("it is there")
    };
    occupied.commit(&PostParams::default()).await.unwrap();
    assert_eq!(
        deployments
            .get_scale("d")
            .await
            .unwrap()
            .spec
            .unwrap()
            .replicas,
        Some(5)
    );
}
