//! The controller through all that may happen to it (section 22): on both servers, and through restarts, a crash, an
//! expired version, the end of its namespace and the end of its kind.

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
use crate::world::{PATIENCE, World, block_on, connect, define, on_both_servers, soon};

/// Between two attempts to go on with a broken watch.
const PAUSE: Duration = Duration::from_millis(50);

on_both_servers![
    widgets_are_kept_in_shape,
    widgets_are_kept_in_shape_by_streaming_lists,
    a_namespace_goes_with_all_its_widgets,
    a_kind_goes_and_comes_back,
];

async fn play_through(world: World, config: watcher::Config) {
    let widgets = world.widgets().await;
    create(&world, "early", 1).await;
    let controller = Running::start(&world, &config);
    in_shape(&world, "early", 1).await;
    for n in 0..5 {
        create(&world, &format!("w{n}"), n).await;
    }
    for n in 0..5 {
        in_shape(&world, &format!("w{n}"), n).await;
        resize(&world, &format!("w{n}"), n + 10).await;
    }
    // A child that is lost or bent comes back.
    let maps = world.api::<ConfigMap>();
    maps.delete("w0", &DeleteParams::default()).await.unwrap();
    let bent = Patch::Merge(json!({"data": {"size": "bent"}}));
    maps.patch("w1", &PatchParams::default(), &bent)
        .await
        .unwrap();
    for n in 0..5 {
        in_shape(&world, &format!("w{n}"), n + 10).await;
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

async fn widgets_are_kept_in_shape(world: World) {
    play_through(world, watcher::Config::default()).await;
}

async fn widgets_are_kept_in_shape_by_streaming_lists(world: World) {
    play_through(world, watcher::Config::default().streaming_lists()).await;
}

async fn a_namespace_goes_with_all_its_widgets(world: World) {
    world.widgets().await;
    let controller = Running::start(&world, &watcher::Config::default());
    for n in 0..3 {
        create(&world, &format!("w{n}"), n).await;
    }
    for n in 0..3 {
        in_shape(&world, &format!("w{n}"), n).await;
    }
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces
        .delete(&world.namespace, &DeleteParams::default())
        .await
        .unwrap();
    soon("the namespace is gone", || async {
        let left = namespaces.get_opt(&world.namespace).await.unwrap();
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

/// A definition of a kind that is this scenario's alone.
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

async fn a_kind_goes_and_comes_back(world: World) {
    let (definition, resource) = gadgets(&format!("{}.polity.dev", world.namespace));
    define(&world.client, &definition).await;
    let api: Api<DynamicObject> =
        Api::namespaced_with(world.client.clone(), &world.namespace, &resource);
    let gadget = |name: &str| DynamicObject::new(name, &resource).within(&world.namespace);
    let post = PostParams::default();
    let mut events = pin!(watcher(api.clone(), watcher::Config::default()));
    until(&mut events, |event| matches!(event, Event::InitDone)).await;
    api.create(&post, &gadget("old")).await.unwrap();
    until(&mut events, |event| matches!(event, Event::Apply(_))).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
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
    define(&world.client, &definition).await;
    soon("the kind is served again", || async {
        api.create(&post, &gadget("new")).await
    })
    .await;
    // As news or as part of a new list.
    until(&mut events, |event| match event {
        Event::Apply(object) | Event::InitApply(object) => object.name_any() == "new",
        _ => false,
    })
    .await;
}

/// Reads on until an event is seen. Errors are passed over: the watcher goes on by itself.
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
    let read = tokio::time::timeout(PATIENCE, reading).await;
    read.expect("the event comes in time");
}

#[test]
fn a_controller_survives_restarts_and_the_end_of_its_kind() {
    block_on(async {
        let mut host = Host::start();
        let world = World::create(connect(&host.kubeconfig()).await, "restarts").await;
        let widgets = world.widgets().await;
        let controller = Running::start(&world, &watcher::Config::default());
        create(&world, "w", 1).await;
        in_shape(&world, "w", 1).await;
        host.terminate();
        host.start_again();
        resize(&world, "w", 2).await;
        in_shape(&world, "w", 2).await;
        host.kill();
        host.start_again();
        resize(&world, "w", 3).await;
        in_shape(&world, "w", 3).await;

        let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
        let (name, delete) = (widget_definition().name_any(), DeleteParams::default());
        definitions.delete(&name, &delete).await.unwrap();
        soon("the definition is gone", || async {
            definitions.get_opt(&name).await.unwrap().is_none()
        })
        .await;
        assert_eq!(controller.cleaned_up(), ["w".to_owned()].into());
        let gone = widgets.get("w").await.unwrap_err();
        assert!(matches!(gone, kube::Error::Api(status) if status.code == 404));
        world.widgets().await;
        create(&world, "x", 4).await;
        in_shape(&world, "x", 4).await;
        controller.stop().await;
    });
}

/// Both ways to watch, each with streams that end after a second, and a name for it.
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
        let world = World::create(server.client().await, name).await;
        world.widgets().await;
        let faulty = server.faulty().await;
        let cut_off = World {
            client: faulty.client(),
            ..world.clone()
        };
        let controller = Running::start(&cut_off, &config);
        create(&world, "w", 1).await;
        in_shape(&world, "w", 1).await;
        faulty.cut_off();
        // Ten attempts a second; after twenty both watches, which last one second, have come to their end.
        let until = faulty.n_requests() + 20;
        soon("the watches broke", || async {
            faulty.n_requests() >= until
        })
        .await;
        resize(&world, "w", 2).await;
        create(&world, "x", 3).await;
        server.compact().await;
        faulty.mend();
        in_shape(&world, "w", 2).await;
        in_shape(&world, "x", 3).await;
        controller.stop().await;
    }
}

#[tokio::test]
async fn a_watcher_starts_over_when_its_version_has_expired() {
    let server = TestServer::start().await;
    for (name, config) in short_watches() {
        let world = World::create(server.client().await, name).await;
        let maps: Api<ConfigMap> = world.api();
        let post = PostParams::default();
        maps.create(&post, &config_map("before", [])).await.unwrap();
        let faulty = server.faulty().await;
        let theirs: Api<ConfigMap> = Api::namespaced(faulty.client(), &world.namespace);
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
        faulty.mend();
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
