//! Small objects to put into a cluster, and a custom kind of our own, the Widget.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{CustomResource, CustomResourceExt as _, Resource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What a Widget should be.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "testing.polity.dev",
    version = "v1",
    kind = "Widget",
    namespaced,
    status = "WidgetStatus",
    shortname = "wd"
)]
#[kube(scale(
    spec_replicas_path = ".spec.size",
    status_replicas_path = ".status.size"
))]
#[kube(printcolumn(name = "Size", type_ = "integer", json_path = ".spec.size"))]
#[kube(
    derive = "Default",
    derive = "PartialEq",
    crates(
        kube_core = "kube::core",
        k8s_openapi = "k8s_openapi",
        schemars = "schemars",
        serde = "serde",
        serde_json = "serde_json"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct WidgetSpec {
    /// How large it is.
    pub size: i32,
    /// What it looks like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub colour: Option<String>,
}

/// What a Widget is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WidgetStatus {
    /// How large it is by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
    /// The generation of the spec this was written for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// The definition of [`Widget`], namespaced, with the subresources status and scale.
pub fn widget_definition() -> CustomResourceDefinition {
    Widget::crd()
}

/// A Widget of a size.
pub fn widget(name: &str, size: i32) -> Widget {
    Widget::new(name, WidgetSpec { size, colour: None })
}

/// A ConfigMap with these data.
pub fn config_map<const N: usize>(name: &str, data: [(&str, &str); N]) -> ConfigMap {
    let data: BTreeMap<_, _> = data
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    ConfigMap {
        metadata: named(name),
        data: Some(data).filter(|data| !data.is_empty()),
        ..ConfigMap::default()
    }
}

/// A Namespace.
pub fn namespace(name: &str) -> Namespace {
    Namespace {
        metadata: named(name),
        ..Namespace::default()
    }
}

/// A Deployment of one container, labelled and selecting `app={name}`.
pub fn deployment(name: &str, replicas: i32) -> Deployment {
    let deployment = json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "registry.example/app:1"}]},
            },
        },
    });
    serde_json::from_value(deployment).expect("this is a Deployment")
}

/// Makes an object, which must have been stored, an owner of another.
pub fn owned_by<K, O>(mut object: K, owner: &O) -> K
where
    K: Resource,
    O: Resource<DynamicType = ()>,
{
    let reference: OwnerReference = owner.owner_ref(&()).expect("an owner has a name and a uid");
    object
        .meta_mut()
        .owner_references
        .get_or_insert_default()
        .push(reference);
    object
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
    use kube::runtime::wait::{await_condition, conditions};

    use super::*;
    use crate::{TestServer, eventually};

    #[tokio::test]
    async fn the_objects_are_accepted_as_they_are() {
        let server = TestServer::start().await;
        let client = server.client().await;
        let post = PostParams::default();
        let stored = Api::default_namespaced(client.clone())
            .create(&post, &deployment("web", 3))
            .await
            .unwrap();
        assert_eq!(stored.spec.replicas, Some(3));
        Api::all(client)
            .create(&post, &namespace("team"))
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn a_widget_has_a_spec_a_status_and_a_scale() {
        let server = TestServer::start().await;
        let client = server.client().await;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        definitions
            .create(&PostParams::default(), &widget_definition())
            .await
            .unwrap();
        let established = conditions::is_crd_established();
        await_condition(definitions, "widgets.testing.polity.dev", established)
            .await
            .unwrap();

        let widgets: Api<Widget> = Api::default_namespaced(client);
        widgets
            .create(&PostParams::default(), &widget("w", 2))
            .await
            .unwrap();
        let status = json!({"status": {"size": 1}});
        widgets
            .patch_status("w", &PatchParams::default(), &Patch::Merge(status))
            .await
            .unwrap();
        let scale = widgets.get_scale("w").await.unwrap();
        assert_eq!(
            (scale.spec.unwrap().replicas, scale.status.unwrap().replicas),
            (Some(2), 1)
        );
    }

    #[tokio::test]
    async fn an_owned_object_goes_with_its_owner() {
        let server = TestServer::start().await;
        let maps: Api<ConfigMap> = Api::default_namespaced(server.client().await);
        let owner = maps
            .create(&PostParams::default(), &config_map("owner", []))
            .await
            .unwrap();
        maps.create(
            &PostParams::default(),
            &owned_by(config_map("owned", []), &owner),
        )
        .await
        .unwrap();
        maps.delete("owner", &DeleteParams::default())
            .await
            .unwrap();
        eventually("the dependent is gone", || async {
            maps.get_opt("owned").await.unwrap().is_none()
        })
        .await;
    }
}
