//! A controller keeps working on both servers, through restarts, a crash, an expired resource version, and the
//! deletion of its namespace and of its CRD.

use std::pin::pin;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt as _};
use polity_testing::TestServer;
use polity_testing::objects::{config_map, widget_definition};
use serde_json::json;

use crate::controller::{Running, create, in_shape, resize};
use crate::host::Host;
use crate::test_namespace::{
    TIMEOUT, TestNamespace, block_on, connect, define, on_both_servers, soon,
};

/// Delay before a broken watch is retried.
const PAUSE: Duration = Duration::from_millis(50);

on_both_servers![
    widgets_are_reconciled,
    widgets_are_reconciled_with_streaming_lists,
    a_namespace_is_deleted_with_its_widgets,
    a_kind_is_deleted_and_recreated,
];

async fn play_through(test_namespace: TestNamespace, config: watcher::Config) {
    let widgets = test_namespace.widgets().await;
    create(&test_namespace, "early", 1).await;
    let controller = Running::start(&test_namespace, &config);
    in_shape(&test_namespace, "early", 1).await;
    for n in 0..5 {
        create(&test_namespace, &format!("w{n}"), n).await;
    }
    for n in 0..5 {
        in_shape(&test_namespace, &format!("w{n}"), n).await;
        resize(&test_namespace, &format!("w{n}"), n + 10).await;
    }
    // A deleted or changed child is restored.
    let maps = test_namespace.api::<ConfigMap>();
    maps.delete("w0", &DeleteParams::default()).await.unwrap();
    let bent = Patch::Merge(json!({"data": {"size": "bent"}}));
    maps.patch("w1", &PatchParams::default(), &bent)
        .await
        .unwrap();
    for n in 0..5 {
        in_shape(&test_namespace, &format!("w{n}"), n + 10).await;
    }
    widgets
        .delete("w4", &DeleteParams::default())
        .await
        .unwrap();
    soon("the widget is gone", || async {
        widgets.get_opt("w4").await.unwrap().is_none()
    })
    .await;
    soon("its child is collected", || async {
        maps.get_opt("w4").await.unwrap().is_none()
    })
    .await;
    assert_eq!(controller.cleaned_up(), ["w4".to_owned()].into());
    controller.stop().await;
}

async fn widgets_are_reconciled(test_namespace: TestNamespace) {
    play_through(test_namespace, watcher::Config::default()).await;
}

async fn widgets_are_reconciled_with_streaming_lists(test_namespace: TestNamespace) {
    play_through(test_namespace, watcher::Config::default().streaming_lists()).await;
}

async fn a_namespace_is_deleted_with_its_widgets(test_namespace: TestNamespace) {
    test_namespace.widgets().await;
    let controller = Running::start(&test_namespace, &watcher::Config::default());
    for n in 0..3 {
        create(&test_namespace, &format!("w{n}"), n).await;
    }
    for n in 0..3 {
        in_shape(&test_namespace, &format!("w{n}"), n).await;
    }
    let namespaces: Api<Namespace> = Api::all(test_namespace.client.clone());
    namespaces
        .delete(&test_namespace.namespace, &DeleteParams::default())
        .await
        .unwrap();
    soon("the namespace is gone", || async {
        let left = namespaces.get_opt(&test_namespace.namespace).await.unwrap();
        left.map_or(Ok(()), |namespace| Err(namespace.status))
    })
    .await;
    assert_eq!(
        controller.cleaned_up().len(),
        3,
        "each finalizer was given its turn"
    );
    controller.stop().await;
}

/// A CRD that only this scenario uses.
fn gadgets(group: &str) -> (CustomResourceDefinition, ApiResource) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let resource =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1", "Gadget"), "gadgets");
    (serde_json::from_value(definition).unwrap(), resource)
}

async fn a_kind_is_deleted_and_recreated(test_namespace: TestNamespace) {
    let (definition, resource) = gadgets(&format!("{}.polity.dev", test_namespace.namespace));
    define(&test_namespace.client, &definition).await;
    let api: Api<DynamicObject> = Api::namespaced_with(
        test_namespace.client.clone(),
        &test_namespace.namespace,
        &resource,
    );
    let gadget = |name: &str| DynamicObject::new(name, &resource).within(&test_namespace.namespace);
    let post = PostParams::default();
    let mut events = pin!(watcher(api.clone(), watcher::Config::default()));
    until(&mut events, |event| matches!(event, Event::InitDone)).await;
    api.create(&post, &gadget("old")).await.unwrap();
    until(&mut events, |event| matches!(event, Event::Apply(_))).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(test_namespace.client.clone());
    let name = definition.name_any();
    let delete = DeleteParams::default();
    definitions.delete(&name, &delete).await.unwrap();
    until(
        &mut events,
        |event| matches!(event, Event::Delete(old) if old.name_any() == "old"),
    )
    .await;
    soon("the definition is gone", || async {
        definitions.get_opt(&name).await.unwrap().is_none()
    })
    .await;
    define(&test_namespace.client, &definition).await;
    soon("the kind is served again", || async {
        api.create(&post, &gadget("new")).await
    })
    .await;
    // Either as an event or as part of a new list.
    until(&mut events, |event| match event {
        Event::Apply(object) | Event::InitApply(object) => object.name_any() == "new",
        _ => false,
    })
    .await;
}

/// Reads events until one matches. Errors are skipped, because the watcher retries.
async fn until<K>(
    events: &mut (impl Stream<Item = watcher::Result<Event<K>>> + Unpin),
    is_it: impl Fn(&Event<K>) -> bool,
) {
    let reading = async {
        loop {
            match events.next().await.unwrap() {
                Ok(event) if is_it(&event) => break,
                Ok(_) => {}
                Err(_) => tokio::time::sleep(PAUSE).await, // tidy: before the next attempt
            }
        }
    };
    let read = tokio::time::timeout(TIMEOUT, reading).await;
    read.expect("the event comes in time");
}

#[test]
fn a_controller_survives_restarts_and_the_end_of_its_kind() {
    block_on(async {
        let mut host = Host::start();
        let test_namespace =
            TestNamespace::create(connect(&host.kubeconfig()).await, "restarts").await;
        let widgets = test_namespace.widgets().await;
        let controller = Running::start(&test_namespace, &watcher::Config::default());
        create(&test_namespace, "w", 1).await;
        in_shape(&test_namespace, "w", 1).await;
        host.terminate();
        host.start_again();
        resize(&test_namespace, "w", 2).await;
        in_shape(&test_namespace, "w", 2).await;
        host.kill();
        host.start_again();
        resize(&test_namespace, "w", 3).await;
        in_shape(&test_namespace, "w", 3).await;

        let definitions: Api<CustomResourceDefinition> = Api::all(test_namespace.client.clone());
        let (name, delete) = (widget_definition().name_any(), DeleteParams::default());
        definitions.delete(&name, &delete).await.unwrap();
        soon("the definition is gone", || async {
            definitions.get_opt(&name).await.unwrap().is_none()
        })
        .await;
        assert_eq!(controller.cleaned_up(), ["w".to_owned()].into());
        let gone = widgets.get("w").await.unwrap_err();
        assert!(matches!(gone, kube::Error::Api(status) if status.code == 404));
        test_namespace.widgets().await;
        create(&test_namespace, "x", 4).await;
        in_shape(&test_namespace, "x", 4).await;
        controller.stop().await;
    });
}

/// Both ways to watch, with streams that end after one second, and a name for each.
fn short_watches() -> [(&'static str, watcher::Config); 2] {
    let config = watcher::Config::default().timeout(1);
    [
        ("lists", config.clone()),
        ("streams", config.streaming_lists()),
    ]
}

#[tokio::test]
async fn a_controller_survives_an_expired_version() {
    let server = TestServer::start().await;
    for (name, config) in short_watches() {
        let test_namespace = TestNamespace::create(server.client().await, name).await;
        test_namespace.widgets().await;
        let faulty = server.faulty().await;
        let cut_off = TestNamespace {
            client: faulty.client(),
            ..test_namespace.clone()
        };
        let controller = Running::start(&cut_off, &config);
        create(&test_namespace, "w", 1).await;
        in_shape(&test_namespace, "w", 1).await;
        faulty.cut_off();
        // There are ten attempts per second, so after twenty both watches, which last one second, have ended.
        let until = faulty.n_requests() + 20;
        soon("the watches broke", || async {
            faulty.n_requests() >= until
        })
        .await;
        resize(&test_namespace, "w", 2).await;
        create(&test_namespace, "x", 3).await;
        server.compact().await;
        faulty.clear_faults();
        in_shape(&test_namespace, "w", 2).await;
        in_shape(&test_namespace, "x", 3).await;
        controller.stop().await;
    }
}

#[tokio::test]
async fn a_watcher_starts_over_when_its_version_has_expired() {
    let server = TestServer::start().await;
    for (name, config) in short_watches() {
        let test_namespace = TestNamespace::create(server.client().await, name).await;
        let maps: Api<ConfigMap> = test_namespace.api();
        let post = PostParams::default();
        maps.create(&post, &config_map("before", [])).await.unwrap();
        let faulty = server.faulty().await;
        let theirs: Api<ConfigMap> = Api::namespaced(faulty.client(), &test_namespace.namespace);
        let config = config.fields("metadata.name!=kube-root-ca.crt");
        let mut events = pin!(watcher(theirs, config));
        until(&mut events, |event| matches!(event, Event::InitDone)).await;
        faulty.cut_off();
        while events.next().await.unwrap().is_ok() {}
        maps.delete("before", &DeleteParams::default())
            .await
            .unwrap();
        maps.create(&post, &config_map("after", [])).await.unwrap();
        server.compact().await;
        faulty.clear_faults();
        let mut seen = Vec::new();
        while !seen.contains(&"InitDone".to_owned()) {
            match events.next().await.unwrap() {
                Ok(event) => seen.push(event.to_string()),
                Err(watcher::Error::WatchError(status)) => seen.push(status.code.to_string()),
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(seen, ["410", "Init", "InitApply(after)", "InitDone"]);
    }
}
