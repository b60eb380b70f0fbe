//! Does the API server of a cluster respond?

use std::time::Duration;

use anyhow::Context as _;
use kube::Client;

use polity_runtime::client::ConnectError;

use super::Finding;
use crate::exit::{Hinted, hint_of, in_words};
use crate::local::Local;

/// How long the API server may take for its first response.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// A cluster to reach.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReachedCluster<'a> {
    /// One of a local instance, by its context.
    Local(&'a Local, &'a str),
    /// The cluster of a kubeconfig.
    Kubeconfig,
}

impl ReachedCluster<'_> {
    fn name(&self) -> &str {
        match self {
            Self::Local(_, context) => context,
            Self::Kubeconfig => "the cluster",
        }
    }

    fn fix(&self) -> String {
        match self {
            Self::Local(local, _) => format!(
                "restart the local instance: {}, {}",
                local.command("down"),
                local.command("up -d")
            ),
            Self::Kubeconfig => {
                "check the server in the kubeconfig (kubectl config view --minify), and that it runs"
                    .to_owned()
            }
        }
    }
}

/// Whether the cluster responds.
pub(crate) async fn reachable(client: &Client, cluster: ReachedCluster<'_>) -> Finding {
    match version(client).await {
        Ok(version) => Finding::ok(
            "cluster",
            format!("{} answers as {version}", cluster.name()),
        ),
        Err(error) => unreachable(cluster, &error),
    }
}

/// A cluster that does not respond, for this reason.
pub(crate) fn unreachable(cluster: ReachedCluster<'_>, error: &anyhow::Error) -> Finding {
    let connects = error
        .chain()
        .any(|cause| cause.is::<ConnectError>() || cause.is::<Hinted>());
    let (message, fix) = match hint_of(error) {
        // There is nothing to connect to.
        Some(hint) if connects => (in_words(error), hint),
        _ => (
            format!("does not answer: {}", in_words(error)),
            cluster.fix(),
        ),
    };
    Finding::problem("cluster", message)
        .about(cluster.name())
        .fix(fix)
}

async fn version(client: &Client) -> anyhow::Result<String> {
    let version = tokio::time::timeout(TIME_LIMIT, client.apiserver_version());
    let version = version
        .await
        .with_context(|| format!("no response within {} s", TIME_LIMIT.as_secs()))?;
    Ok(version?.git_version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::table;
    use crate::output::Paint;

    fn shown(cluster: ReachedCluster<'_>, error: anyhow::Error) -> String {
        table(&[unreachable(cluster, &error)], Paint::plain())
    }

    #[test]
    fn the_fix_fits_the_cluster() {
        let silent = || anyhow::anyhow!("no response within 5 s");
        let elsewhere = Local::new("/try");
        let local = shown(ReachedCluster::Local(&elsewhere, "polity"), silent());
        insta::assert_snapshot!(local, @r"
        ✗   cluster   polity: does not answer: no response within 5 s
                      → restart the local instance: polity down --data-dir /try, polity up -d --data-dir /try
        ");
        let other = shown(ReachedCluster::Kubeconfig, silent());
        insta::assert_snapshot!(other, @r"
        ✗   cluster   the cluster: does not answer: no response within 5 s
                      → check the server in the kubeconfig (kubectl config view --minify), and that it runs
        ");
        let missing = ConnectError::Read {
            path: "/nope".into(),
            error: std::io::Error::from(std::io::ErrorKind::NotFound).into(),
        };
        let missing = shown(ReachedCluster::Kubeconfig, missing.into());
        insta::assert_snapshot!(missing, @r"
        ✗   cluster   the cluster: cannot read kubeconfig /nope: entity not found
                      → check --kubeconfig and the variable KUBECONFIG; `polity up` starts a local instance and writes its kubeconfig
        ");
    }
}
