//! Installs Polity's own kinds into clusters.

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client};
use polity_runtime::write::Writer;

/// How many definitions are under way at once, over all clusters: enough to share commits, few enough that none waits
/// for long where the machine is slow.
const AT_ONCE: usize = 16;

/// Applies every definition to every cluster; those that are as they should be are not written.
pub(crate) async fn apply(
    clusters: &[(&str, Client)],
    definitions: &[CustomResourceDefinition],
) -> anyhow::Result<()> {
    // As plain JSON: what the servers answer is not decoded into large types only to be dropped.
    let definitions = definitions
        .iter()
        .map(|definition| serde_json::from_value(serde_json::to_value(definition)?))
        .collect::<Result<Vec<DynamicObject>, serde_json::Error>>()
        .context("encoding the definitions of our kinds")?;
    let writes = clusters.iter().flat_map(|(cluster, client)| {
        let kind = ApiResource::erase::<CustomResourceDefinition>(&());
        let api = Api::all_with(client.clone(), &kind);
        let writer = Writer::new(api, kind, "polity/install");
        definitions.iter().map(move |definition| {
            let writer = writer.clone();
            async move {
                writer.apply(definition).await.with_context(|| {
                    format!("installing the definitions of our kinds in cluster {cluster:?}")
                })
            }
        })
    });
    stream::iter(writes)
        .buffer_unordered(AT_ONCE)
        .try_for_each(|_| async { Ok(()) })
        .await
}
