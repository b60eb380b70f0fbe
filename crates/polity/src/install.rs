//! Installs the kinds that Polity needs into clusters: its own, and those it shares with others.

mod command;
#[cfg(test)]
mod containerfile_tests;
mod readiness;

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{ApiResource, DynamicObject};
use polity_reconcile::{WriteError, Writer};
use polity_runtime::VERSION;

#[cfg(test)]
pub(crate) use command::install;
pub(crate) use command::{Existing, InstallArgs, apply_manifest};

/// How many definitions are written at once, over all clusters: enough to share commits, few enough that no request
/// times out on a slow machine.
const AT_ONCE: usize = 16;
/// The field manager of what is installed.
pub(crate) const MANAGER: &str = "polity/install";

/// The image of an installation that names none. No registry has it: it is built from a clone.
pub(crate) fn default_image() -> String {
    format!("polity:v{VERSION}")
}

/// A definition to install.
pub(crate) struct Definition {
    // As plain JSON: what the servers answer is not decoded into large types only to be dropped.
    object: DynamicObject,
    /// Whether other producers of reports use the kind too, and may have installed it in a form of their own.
    is_shared: bool,
}

impl Definition {
    /// The definitions of all kinds of this version.
    pub(crate) fn all() -> anyhow::Result<Vec<Self>> {
        let own = polity_api::crds().into_iter().map(|crd| (crd, false));
        let shared = polity_api::crd::shared().into_iter().map(|crd| (crd, true));
        own.chain(shared)
            .map(|(crd, is_shared)| {
                let object = serde_json::from_value(serde_json::to_value(crd)?)?;
                Ok(Self { object, is_shared })
            })
            .collect::<Result<_, serde_json::Error>>()
            .context("encoding the definitions of our kinds")
    }

    async fn install(&self, writer: &Writer<DynamicObject>) -> Result<(), WriteError> {
        if !self.is_shared {
            return writer.apply(&self.object).await.map(drop);
        }
        match writer.create(&self.object).await {
            // A definition of another program is never changed: its objects depend on it.
            Err(WriteError::AlreadyExists { .. }) => Ok(()),
            outcome => outcome.map(drop),
        }
    }
}

/// Applies the definitions to every cluster. What is as it should be is not written, and a shared one only where there
/// is none.
pub(crate) async fn apply(
    clusters: &[(&str, Client)],
    definitions: &[Definition],
) -> anyhow::Result<()> {
    let writes = clusters.iter().flat_map(|(cluster, client)| {
        let kind = ApiResource::erase::<CustomResourceDefinition>(&());
        let writer = Writer::of_kind(client, kind, MANAGER);
        definitions.iter().map(move |definition| {
            let writer = writer.clone();
            async move {
                let installed = definition.install(&writer).await;
                installed.with_context(|| {
                    format!("installing the definitions of our kinds in cluster {cluster:?}")
                })
            }
        })
    });
    bounded(writes).await
}

/// Runs writes to clusters, [`AT_ONCE`] at a time, until one fails.
pub(crate) async fn bounded(
    writes: impl Iterator<Item = impl Future<Output = anyhow::Result<()>>>,
) -> anyhow::Result<()> {
    stream::iter(writes)
        .buffer_unordered(AT_ONCE)
        .try_for_each(|()| async { Ok(()) })
        .await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use kube::Api;
    use kube::ResourceExt as _;
    use kube::api::{ListParams, PostParams};
    use polity_testing::TestServer;

    use super::*;

    /// Every definition of the cluster with its resource version.
    async fn versions(api: &Api<CustomResourceDefinition>) -> BTreeMap<String, String> {
        let list = api.list(&ListParams::default()).await.unwrap();
        let versions = list.items.iter().map(|definition| {
            let version = definition.resource_version().unwrap_or_default();
            (definition.name_any(), version)
        });
        versions.collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn shared_kinds_are_created_where_absent_and_never_overwritten() {
        let server = TestServer::start().await;
        let client = server.client().await;
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let mut foreign = polity_api::crd::shared().remove(0);
        let name = foreign.name_any();
        foreign.labels_mut().insert("by".into(), "others".into());
        for version in &mut foreign.spec.versions {
            version.additional_printer_columns = None;
        }
        let foreign = api.create(&PostParams::default(), &foreign).await.unwrap();

        let definitions = Definition::all().unwrap();
        apply(&[("hub", client)], &definitions).await.unwrap();
        let installed = versions(&api).await;
        assert_eq!(installed.len(), polity_api::crd::all().len());
        for definition in &definitions {
            let name = definition.object.name_any();
            assert!(installed.contains_key(&name), "{name} is installed");
        }
        let found = api.get(&name).await.unwrap();
        assert_eq!(found.spec, foreign.spec, "another's definition stays");
        assert_eq!(found.labels()["by"], "others");
    }

    #[tokio::test]
    async fn few_writes_run_at_once() {
        let (running, most) = (Cell::new(0), Cell::new(0));
        let writes = (0..5 * AT_ONCE).map(async |_| {
            running.set(running.get() + 1);
            most.set(most.get().max(running.get()));
            tokio::task::yield_now().await;
            running.set(running.get() - 1);
            Ok(())
        });
        bounded(writes).await.unwrap();
        assert_eq!((most.get(), running.get()), (AT_ONCE, 0));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_there_already_is_not_written_again() {
        let server = TestServer::start().await;
        let clusters = [("hub", server.client().await)];
        let api: Api<CustomResourceDefinition> = Api::all(clusters[0].1.clone());
        let definitions = Definition::all().unwrap();
        apply(&clusters, &definitions).await.unwrap();
        polity_testing::eventually("all definitions are served", || async {
            let list = api.list(&ListParams::default()).await.unwrap();
            let served = |definition: &CustomResourceDefinition| {
                let status = definition.status.iter();
                let mut conditions = status.flat_map(|status| &status.conditions).flatten();
                conditions
                    .any(|condition| condition.type_ == "Established" && condition.status == "True")
            };
            list.items.iter().all(served)
        })
        .await;
        let before = versions(&api).await;
        apply(&clusters, &definitions).await.unwrap();
        assert_eq!(versions(&api).await, before);
    }
}
