//! Does the API server of a cluster respond?

use std::time::Duration;

use anyhow::Context as _;
use kube::Client;

use super::Finding;
use crate::exit::in_words;

/// How long the API server may take for its first response.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Whether the cluster of this name responds.
pub(crate) async fn reachable(client: &Client, name: &str) -> Finding {
    match version(client).await {
        Ok(version) => Finding::ok("cluster", format!("{name} answers as {version}")),
        Err(error) => unreachable(name, &error),
    }
}

/// A cluster that does not respond, for this reason.
pub(crate) fn unreachable(name: &str, error: &anyhow::Error) -> Finding {
    Finding::problem("cluster", format!("does not answer: {}", in_words(error)))
        .about(name)
        .fix("look at the log of the API server; a local instance is restarted by polity down, polity up")
}

async fn version(client: &Client) -> anyhow::Result<String> {
    let version = tokio::time::timeout(TIME_LIMIT, client.apiserver_version());
    let version = version
        .await
        .with_context(|| format!("no response within {} s", TIME_LIMIT.as_secs()))?;
    Ok(version?.git_version)
}
