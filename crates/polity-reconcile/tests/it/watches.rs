//! What watches do with objects that they cannot decode.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::PostParams;
use kube::core::{ApiResource, GroupVersionKind, ObjectMeta};
use kube::{Api, Resource};
use polity_reconcile::{Cache, Controller, Requeue, SharedCache, Term, Watch};
use polity_runtime::{Clock, Shutdown};
use polity_testing::{TestServer, eventually, objects};
use serde::{Deserialize, Serialize};

/// A ConfigMap of which every value must be a number.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct NumberMap {
    metadata: ObjectMeta,
    #[serde(default)]
    data: Numbers,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Numbers {
    #[serde(default)]
    number: Digits,
}

/// Digits as text.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
struct Digits(u32);

impl<'de> Deserialize<'de> for Digits {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

impl Resource for NumberMap {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind(kind: &()) -> std::borrow::Cow<'_, str> {
        ConfigMap::kind(kind)
    }

    fn group(kind: &()) -> std::borrow::Cow<'_, str> {
        ConfigMap::group(kind)
    }

    fn version(kind: &()) -> std::borrow::Cow<'_, str> {
        ConfigMap::version(kind)
    }

    fn plural(kind: &()) -> std::borrow::Cow<'_, str> {
        ConfigMap::plural(kind)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

fn name_of(metadata: &ObjectMeta) -> String {
    metadata.name.clone().unwrap_or_default()
}

#[tokio::test]
async fn one_undecodable_object_does_not_stop_a_watch() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let create = async |name: &str, number: &str| {
        let map = objects::config_map(name, [("number", number)]);
        maps.create(&PostParams::default(), &map).await.unwrap();
    };
    create("listed-bad", "many").await;
    create("listed-good", "1").await;
    let numbers = SharedCache::new(Cache::<String, u32>::default());
    let shutdown = Shutdown::new();
    let term = Term::without_election(&shutdown);
    let mut controller = Controller::<String>::new("numbers", Clock::system());
    controller.keep(
        Watch::<NumberMap>::namespaced(&client, "default")
            .fields("metadata.name!=kube-root-ca.crt"),
        &numbers,
        name_of,
        |map| Some(map.data.number.0),
        |_, _| {},
    );
    let running = tokio::spawn(async move {
        let nothing = |_| async { Ok::<_, kube::Error>(Requeue::Never) };
        controller.run(&term, nothing).await;
    });
    numbers.listed().await;
    create("watched-bad", "few").await;
    create("watched-good", "2").await;
    let names = || {
        numbers.read(|numbers| {
            let names = numbers.iter().map(|(name, _)| name.clone());
            names.collect::<BTreeSet<_>>()
        })
    };
    let expected = ["listed-good", "watched-good"].map(str::to_owned).into();
    eventually("the good objects are known", || async {
        names() == expected
    })
    .await;
    shutdown.trigger();
    running.await.unwrap();
}

#[tokio::test]
async fn dynamic_kinds_are_watched_like_typed_ones() {
    let server = TestServer::start().await;
    let client = server.client().await;
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let known = SharedCache::new(Cache::<String, Option<String>>::default());
    let shutdown = Shutdown::new();
    let term = Term::without_election(&shutdown);
    let mut controller = Controller::<String>::new("dynamic", Clock::system());
    controller.keep(
        Watch::<kube::api::DynamicObject>::all_with(&client, &resource).labels("mine"),
        &known,
        name_of,
        |map| Some(map.metadata.resource_version.clone()),
        |_, _| {},
    );
    let running = tokio::spawn(async move {
        let nothing = |_| async { Ok::<_, kube::Error>(Requeue::Never) };
        controller.run(&term, nothing).await;
    });
    let mut map = objects::config_map("a", []);
    map.metadata.labels = Some([("mine".to_owned(), "yes".to_owned())].into());
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    maps.create(&PostParams::default(), &map).await.unwrap();
    let is_known = || async { known.read(|known| known.get(&"a".to_owned()).is_some()) };
    eventually("the object is known", is_known).await;
    shutdown.trigger();
    running.await.unwrap();
}
