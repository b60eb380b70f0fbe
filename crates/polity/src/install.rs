//! Installs Polity's own kinds into a cluster.

use anyhow::Context as _;
use futures::future::try_join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client};
use polity_runtime::write::Writer;

/// Applies every definition; those that are as they should be are not written.
pub(crate) async fn apply(
    client: &Client,
    definitions: &[CustomResourceDefinition],
) -> anyhow::Result<()> {
    let writer: Writer<CustomResourceDefinition> =
        Writer::new(Api::all(client.clone()), (), "polity/install");
    try_join_all(
        definitions
            .iter()
            .map(|definition| writer.apply(definition)),
    )
    .await
    .context("installing the definitions of our kinds")?;
    Ok(())
}
