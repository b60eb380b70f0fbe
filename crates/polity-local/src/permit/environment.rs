//! The variables that a Pod may give its process.
//!
//! An exact list of the names that are accepted: what the controller writes into the StatefulSet of a policy server, and
//! what the documentation lets users set in `spec.env` of a PolicyServer. Every other name is refused, such as
//! `LD_PRELOAD`, `PATH`, `HOME`, `KUBECONFIG` and `DOCKER_CONFIG`, and so are the variables of `polity server` that
//! choose other credentials, detach the process, or make it serve policies from a file.

use k8s_openapi::api::core::v1::{Container, EnvVar};
use polity_runtime::env;

use super::Refusal;

/// The names that the controller writes.
const OF_CONTROLLER: &[&str] = &[
    env::ALWAYS_ACCEPT_NAMESPACE,
    env::CACHE_DIR,
    env::CACHE_SIGNING_DIR,
    env::CERT_FILE,
    env::CLIENT_CA_FILE,
    env::DOCKER_CONFIG_JSON_PATH,
    env::ENABLE_METRICS,
    env::KEY_FILE,
    env::LOG_FMT,
    env::OTLP_ENDPOINT,
    env::POD_NAME,
    env::POD_NAMESPACE,
    env::POD_UID,
    env::POLICIES,
    env::POLICIES_DOWNLOAD_DIR,
    env::POLICY_SERVER,
    env::PORT,
    env::READINESS_PROBE_PORT,
    env::SIGSTORE_CACHE_DIR,
    env::SIGSTORE_TRUST_CONFIG,
    env::SOURCES_PATH,
    env::VERIFICATION_CONFIG,
    "OTEL_EXPORTER_OTLP_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_CLIENT_KEY",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_INSECURE",
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    "OTEL_EXPORTER_OTLP_TIMEOUT",
    "TMPDIR",
];

/// The other names that users may set.
const OF_USERS: &[&str] = &[
    env::BIND_ADDRESS,
    env::CONTINUE_ON_ERRORS,
    env::DISABLE_TIMEOUT_PROTECTION,
    env::ENABLE_PPROF,
    env::IGNORE_KUBERNETES_CONNECTION_FAILURE,
    env::LOG_LEVEL,
    env::MAX_BODIES_SIZE,
    env::MAX_BODY_SIZE,
    env::MAX_GUEST_LOG,
    env::MAX_GUEST_MEMORY,
    env::MAX_GUEST_OUTPUT,
    env::MAX_GUEST_STACK,
    env::MAX_GUEST_TABLE_ELEMENTS,
    env::MAX_HOST_CALLS,
    env::MAX_MODULE_SIZE,
    env::MAX_WAITING,
    env::MAX_WAITING_PER_POLICY,
    env::NO_COLOR,
    env::POLICY_TIMEOUT,
    env::REQUEST_TIMEOUT,
    env::SERVER_CONFIG,
    env::SHUTDOWN_DELAY,
    env::WORKERS,
    // What the OpenTelemetry SDK reads.
    "OTEL_BSP_EXPORT_TIMEOUT",
    "OTEL_BSP_MAX_CONCURRENT_EXPORTS",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
    "OTEL_BSP_MAX_QUEUE_SIZE",
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_EXPORTER_OTLP_COMPRESSION",
    "OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_METRICS_CLIENT_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_METRICS_CLIENT_KEY",
    "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
    "OTEL_EXPORTER_OTLP_METRICS_INSECURE",
    "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL",
    "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE",
    "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT",
    "OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE",
    "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY",
    "OTEL_EXPORTER_OTLP_TRACES_COMPRESSION",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
    "OTEL_EXPORTER_OTLP_TRACES_INSECURE",
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT",
    "OTEL_METRIC_EXPORT_INTERVAL",
    "OTEL_METRIC_EXPORT_TIMEOUT",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_SERVICE_NAME",
    "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    "OTEL_SPAN_EVENT_COUNT_LIMIT",
    "OTEL_SPAN_LINK_COUNT_LIMIT",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
    // How the network is reached, and what the process logs.
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

pub(super) fn check(container: &Container, server: &str) -> Result<(), Refusal> {
    if container.env_from.iter().flatten().next().is_some() {
        return Err(Refusal::EnvFrom);
    }
    let variables = container.env.iter().flatten();
    let mut names: Vec<String> = variables
        .map(|variable| &variable.name)
        .filter(|name| !is_accepted(name))
        .cloned()
        .collect();
    names.sort();
    names.dedup();
    if !names.is_empty() {
        return Err(Refusal::Variables { names });
    }
    // Without the variable, or with the name of another PolicyServer, the process would serve other policies.
    match names_server(container, server) {
        true => Ok(()),
        false => Err(Refusal::OtherServer {
            server: server.to_owned(),
        }),
    }
}

pub(super) fn is_accepted(name: &str) -> bool {
    OF_CONTROLLER.contains(&name) || OF_USERS.contains(&name)
}

/// Whether the PolicyServer is named as plain text, and every time by the same name.
fn names_server(container: &Container, server: &str) -> bool {
    let is_plain = |variable: &EnvVar| {
        variable.value_from.is_none() && variable.value.as_deref() == Some(server)
    };
    let mut named = container
        .env
        .iter()
        .flatten()
        .filter(|variable| variable.name == env::POLICY_SERVER)
        .peekable();
    named.peek().is_some() && named.all(is_plain)
}
