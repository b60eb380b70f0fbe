//! The definitions of Gateway API, for those who try policies that attach to Gateways and routes.
//!
//! `cargo xtask gateway-api` writes them from the Go module. A definition that is there already is only replaced by a
//! newer one of the same channel: objects live by the one that is installed.

use anyhow::Context as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt as _};
use polity_reconcile::Writer;
use tracing::{info, warn};

use crate::install::bounded;

const BUNDLE_VERSION: &str = "gateway.networking.k8s.io/bundle-version";
const CHANNEL: &str = "gateway.networking.k8s.io/channel";
/// The field manager of what is installed.
const MANAGER: &str = "polity/gateway-api";

macro_rules! definitions {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../config/gateway-api/", $name, ".yaml")))),*]
    };
}

/// The definitions by the plural of their kind.
const DEFINITIONS: &[(&str, &str)] = definitions![
    "backendtlspolicies",
    "gatewayclasses",
    "gateways",
    "grpcroutes",
    "httproutes",
    "listenersets",
    "referencegrants",
    "tcproutes",
    "tlsroutes",
    "udproutes",
];

/// A version of Gateway API, in their order. A candidate comes before its release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Bundle {
    major: u64,
    minor: u64,
    patch: u64,
    is_release: bool,
}

impl Bundle {
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v')?;
        let (numbers, is_release) = match text.split_once('-') {
            Some((numbers, _)) => (numbers, false),
            None => (text, true),
        };
        let mut numbers = numbers.splitn(3, '.').map(|number| number.parse().ok());
        Some(Self {
            major: numbers.next()??,
            minor: numbers.next()??,
            patch: numbers.next()??,
            is_release,
        })
    }
}

/// What becomes of a definition that is there already.
#[derive(Debug, PartialEq, Eq)]
enum Existing {
    Replaced,
    Same,
    /// It is another's: newer, of another channel, or without a version.
    Left,
}

fn judge(found: &DynamicObject, ours: &DynamicObject) -> Existing {
    let bundle = |object: &DynamicObject| Bundle::parse(object.annotations().get(BUNDLE_VERSION)?);
    let (Some(installed), Some(brought)) = (bundle(found), bundle(ours)) else {
        return Existing::Left;
    };
    let channel = |object: &DynamicObject| object.annotations().get(CHANNEL).cloned();
    if channel(found) != channel(ours) || installed > brought {
        Existing::Left
    } else if installed < brought {
        Existing::Replaced
    } else {
        Existing::Same
    }
}

/// The definitions of this program.
fn definitions() -> anyhow::Result<Vec<DynamicObject>> {
    let definitions = DEFINITIONS.iter().map(|(name, text)| {
        serde_saphyr::from_str(text).with_context(|| format!("reading the definition of {name}"))
    });
    definitions.collect()
}

/// Installs the definitions into every cluster where they are absent or older.
pub(crate) async fn install(clusters: &[(&str, Client)]) -> anyhow::Result<()> {
    let definitions = definitions()?;
    let installs = clusters.iter().map(async |(cluster, client)| {
        for definition in &definitions {
            install_one(cluster, client, definition)
                .await
                .with_context(|| {
                    format!(
                        "installing {} in cluster {cluster:?}",
                        definition.name_any()
                    )
                })?;
        }
        anyhow::Ok(())
    });
    bounded(installs).await
}

async fn install_one(
    cluster: &str,
    client: &Client,
    definition: &DynamicObject,
) -> anyhow::Result<()> {
    let kind = ApiResource::erase::<CustomResourceDefinition>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let name = definition.name_any();
    let found = api.get_opt(&name).await?;
    match found.map(|found| judge(&found, definition)) {
        Some(Existing::Same) => Ok(()),
        Some(Existing::Left) => {
            warn!(
                cluster,
                name, "definition of gateway api left as it is: another version or channel"
            );
            Ok(())
        }
        None | Some(Existing::Replaced) => {
            let writer = Writer::of_kind(client, kind, MANAGER);
            writer.apply(definition).await?;
            info!(cluster, name, "definition of gateway api installed");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use kube::api::{ListParams, Patch, PatchParams, PostParams};
    use kube::core::GroupVersionKind;
    use polity_testing::TestServer;
    use serde_json::{Value, json};

    use super::*;

    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

    fn definition(version: Option<&str>, channel: &str) -> DynamicObject {
        let mut annotations = json!({CHANNEL: channel});
        if let Some(version) = version {
            annotations[BUNDLE_VERSION] = json!(version);
        }
        let object = json!({"metadata": {"name": "x", "annotations": annotations}});
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn only_an_older_definition_of_the_channel_is_replaced() {
        let ours = definition(Some("v1.6.3"), "standard");
        let cases = [
            (Some("v1.6.3"), "standard", Existing::Same),
            (Some("v1.6.2"), "standard", Existing::Replaced),
            (Some("v1.6.3-rc.1"), "standard", Existing::Replaced),
            (Some("v0.10.0"), "standard", Existing::Replaced),
            (Some("v1.6.4"), "standard", Existing::Left),
            (Some("v1.10.0"), "standard", Existing::Left),
            (Some("v2.0.0-rc.1"), "standard", Existing::Left),
            (Some("v1.6.2"), "experimental", Existing::Left),
            (Some("main"), "standard", Existing::Left),
            (None, "standard", Existing::Left),
        ];
        for (version, channel, expected) in cases {
            let found = definition(version, channel);
            assert_eq!(judge(&found, &ours), expected, "{version:?} {channel}");
        }
    }

    #[test]
    fn every_file_is_brought_along() {
        let folder = Path::new(FOLDER).join("config/gateway-api");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "yaml"))
            .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        files.sort();
        let names: Vec<&str> = DEFINITIONS.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, files);
        for definition in definitions().unwrap() {
            assert_eq!(definition.annotations()[CHANNEL], "standard");
            assert!(Bundle::parse(&definition.annotations()[BUNDLE_VERSION]).is_some());
        }
    }

    async fn apply(client: &Client, object: Value) {
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let types = object.types.clone().unwrap();
        let kind = ApiResource::from_gvk(&GroupVersionKind::try_from(&types).unwrap());
        let api: Api<DynamicObject> = match object.namespace() {
            Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &kind),
            None => Api::all_with(client.clone(), &kind),
        };
        let params = PatchParams::apply("test").force();
        let name = object.name_any();
        let applied = api.patch(&name, &params, &Patch::Apply(&object)).await;
        applied.unwrap_or_else(|error| panic!("{} {name}: {error}", types.kind));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_samples_of_attached_policies_apply() {
        let server = TestServer::start().await;
        let client = server.client().await;
        install(&[("hub", client.clone())]).await.unwrap();
        let samples = Path::new(FOLDER).join("docs/samples/attachment");
        for file in ["kinds.yaml", "shop.yaml", "policies.yaml"] {
            let text = std::fs::read_to_string(samples.join(file)).unwrap();
            let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
            assert!(!documents.is_empty());
            for document in documents {
                apply(&client, document).await;
            }
        }
        // The rules came along too.
        let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "Gateway");
        let gateways: Api<DynamicObject> =
            Api::namespaced_with(client, "infra", &ApiResource::from_gvk(&kind));
        let mut wrong = gateways
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .remove(0);
        wrong.metadata = serde_json::from_value(json!({"name": "wrong"})).unwrap();
        let listener = wrong.data["spec"]["listeners"][0].clone();
        wrong.data["spec"]["listeners"] = json!([listener, listener]);
        let refused = gateways.create(&PostParams::default(), &wrong).await;
        assert!(refused.is_err(), "two listeners of one name: {refused:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn installing_twice_writes_once_and_leaves_a_newer_one() {
        let server = TestServer::start().await;
        let client = server.client().await;
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        let clusters = [("hub", client)];
        install(&clusters).await.unwrap();
        let name = "gateways.gateway.networking.k8s.io";
        let annotations = json!({"metadata": {"annotations": {BUNDLE_VERSION: "v9.0.0"}}});
        let newer = Patch::Merge(annotations);
        let newer = definitions
            .patch(name, &PatchParams::default(), &newer)
            .await
            .unwrap();
        let before = versions(&definitions).await;
        install(&clusters).await.unwrap();
        assert_eq!(versions(&definitions).await, before);
        let now = definitions.get(name).await.unwrap();
        assert_eq!(now.resource_version(), newer.resource_version());
    }

    async fn versions(api: &Api<CustomResourceDefinition>) -> Vec<(String, Option<String>)> {
        let list = api.list(&ListParams::default()).await.unwrap();
        let version =
            |object: &CustomResourceDefinition| (object.name_any(), object.resource_version());
        list.items.iter().map(version).collect()
    }
}
