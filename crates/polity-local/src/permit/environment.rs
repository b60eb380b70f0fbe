//! The variables that a Pod may give its process.
//!
//! A list of what is let through, not of what is dangerous: `LD_PRELOAD`, `PATH`, `HOME`, `KUBECONFIG`, `DOCKER_CONFIG`
//! and all that libraries read are refused because nobody names them here.

use k8s_openapi::api::core::v1::{Container, EnvVar};

use super::{Owner, Refusal};

const POLICY_SERVER: &str = "POLITY_POLICY_SERVER";

/// Names that begin so are let through.
const PREFIXES: [&str; 3] = ["KUBEWARDEN_", "OTEL_", "POLITY_"];
/// Other names that are let through.
const NAMES: [&str; 15] = [
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_COLOR",
    "NO_PROXY",
    "POD_NAME",
    "POD_NAMESPACE",
    "POD_UID",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TMPDIR",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];
/// Names with one of the prefixes that are refused all the same: they choose other credentials, detach the process, or
/// make it serve what a file says instead of what the cluster says.
const REFUSED: [&str; 12] = [
    "KUBEWARDEN_DAEMON",
    "KUBEWARDEN_DAEMON_PID_FILE",
    "KUBEWARDEN_DAEMON_STDERR_FILE",
    "KUBEWARDEN_DAEMON_STDOUT_FILE",
    "KUBEWARDEN_STANDALONE",
    "POLITY_ADMIN_LISTEN",
    "POLITY_AS",
    "POLITY_AS_GROUP",
    "POLITY_CONTEXT",
    "POLITY_DATA_DIR",
    "POLITY_KUBECONFIG_OUT",
    "POLITY_LISTEN",
];

pub(super) fn check(container: &Container, owner: &Owner<'_>) -> Result<(), Refusal> {
    if container.env_from.iter().flatten().next().is_some() {
        return Err(Refusal::EnvFrom);
    }
    let variables = container.env.iter().flatten();
    let mut names: Vec<String> = variables
        .map(|variable| &variable.name)
        .filter(|name| !is_allowed(name))
        .cloned()
        .collect();
    names.sort();
    names.dedup();
    if !names.is_empty() {
        return Err(Refusal::Variables { names });
    }
    match owner {
        // Without it, or with that of another, the program would serve something else.
        Owner::PolicyServer(server) if !names_server(container, server) => {
            Err(Refusal::OtherServer {
                server: server.clone(),
            })
        }
        Owner::PolicyServer(_) | Owner::Installed(_) => Ok(()),
    }
}

fn is_allowed(name: &str) -> bool {
    let is_known = PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    (is_known && !REFUSED.contains(&name)) || NAMES.contains(&name)
}

/// Whether the PolicyServer is named, as plain text, and everywhere the same.
fn names_server(container: &Container, server: &str) -> bool {
    let is_plain = |variable: &EnvVar| {
        variable.value_from.is_none() && variable.value.as_deref() == Some(server)
    };
    let mut named = container
        .env
        .iter()
        .flatten()
        .filter(|variable| variable.name == POLICY_SERVER)
        .peekable();
    named.peek().is_some() && named.all(is_plain)
}
