//! All environment variables of the project. Only this module reads the environment.
//!
//! Most belong to a flag, which clap fills. They have the name of the reference implementation if there is one
//! (`KUBEWARDEN_…`), otherwise `POLITY_…`. The few without a flag are read here.

use std::ffi::OsString;

macro_rules! variables {
    ($($(#[doc = $help:literal])+ $name:ident = $value:literal;)+) => {
        $($(#[doc = $help])+ pub const $name: &str = $value;)+

        /// All variables with their help, in the order of this file; the reference page is
        /// made from it.
        pub const ALL: &[Variable] = &[
            $(Variable { name: $name, help: concat!($($help),+) },)+
        ];
    };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    pub name: &'static str,
    /// Its effect, in a sentence or two.
    pub help: &'static str,
}

variables! {
    /// The kubeconfig files to read, as in kubectl (`--kubeconfig`).
    KUBECONFIG = "KUBECONFIG";
    /// The kubeconfig context to use (`--context`).
    CONTEXT = "POLITY_CONTEXT";
    /// The user to act as (`--as`).
    AS = "POLITY_AS";
    /// The groups to act as, separated by commas (`--as-group`).
    AS_GROUP = "POLITY_AS_GROUP";
    /// Where the local Polity keeps its data (`--data-dir`).
    DATA_DIR = "POLITY_DATA_DIR";
    /// The address the API server listens on (`--listen`).
    LISTEN = "POLITY_LISTEN";
    /// Where the API server writes a kubeconfig (`--kubeconfig-out`).
    KUBECONFIG_OUT = "POLITY_KUBECONFIG_OUT";
    /// Whether the API server keeps its objects in memory only (`--in-memory`).
    IN_MEMORY = "POLITY_IN_MEMORY";
    /// How the API server authorizes requests (`--authorization-mode`).
    AUTHORIZATION_MODE = "POLITY_AUTHORIZATION_MODE";
    /// How many clusters to run beside the hub (`--clusters`).
    CLUSTERS = "POLITY_CLUSTERS";
    /// Start without the default policy server and the sample policies (`--no-policy-server`).
    NO_POLICY_SERVER = "POLITY_NO_POLICY_SERVER";
    /// Install the kinds of Gateway API (`--gateway-api`).
    GATEWAY_API = "POLITY_GATEWAY_API";
    /// Where live, ready and metrics are served (`--admin-listen`).
    ADMIN_LISTEN = "POLITY_ADMIN_LISTEN";
    /// The serving certificate chain in PEM (`--cert-file`).
    CERT_FILE = "KUBEWARDEN_CERT_FILE";
    /// The serving certificate's private key in PEM (`--key-file`).
    KEY_FILE = "KUBEWARDEN_KEY_FILE";
    /// The authorities of client certificates in PEM, separated by commas (`--client-ca-file`).
    CLIENT_CA_FILE = "KUBEWARDEN_CLIENT_CA_FILE";
    /// The hosts from which modules may be pulled, and how to connect to them (`--sources-path`).
    SOURCES_PATH = "KUBEWARDEN_SOURCES_PATH";
    /// The directory of the docker `config.json` with registry credentials (`--docker-config-json-path`).
    DOCKER_CONFIG_JSON_PATH = "KUBEWARDEN_DOCKER_CONFIG_JSON_PATH";
    /// The same directory, as in docker.
    DOCKER_CONFIG = "DOCKER_CONFIG";
    /// Where fetched policy modules are kept (`--store`).
    POLICY_STORE = "POLITY_POLICY_STORE";
    /// More kinds for a dry run of configuration policies (`--mappings-file`).
    DRYRUN_MAPPINGS_FILE = "DRYRUN_MAPPINGS_FILE";
    /// Whether a dry run reads the cluster instead of files (`--from-cluster`).
    DRYRUN_FROM_CLUSTER = "DRYRUN_FROM_CLUSTER";
    /// The PolicyServer whose policies are served (`--policy-server`).
    POLICY_SERVER = "POLITY_POLICY_SERVER";
    /// The pod of a replica, which ends in its number (`--pod-name`).
    POD_NAME = "POD_NAME";
    /// The namespace of the pod (`--pod-namespace`).
    POD_NAMESPACE = "POD_NAMESPACE";
    /// The UID of the pod (`--pod-uid`).
    POD_UID = "POD_UID";
    /// Where the replicas of a policy server keep modules for each other (`--cache-dir`).
    CACHE_DIR = "POLITY_CACHE_DIR";
    /// The certificate and key that files of the cache are signed with (`--cache-signing-dir`).
    CACHE_SIGNING_DIR = "POLITY_CACHE_SIGNING_DIR";
    /// The host capabilities of namespaced policies (`--server-config`).
    SERVER_CONFIG = "POLITY_SERVER_CONFIG";
    /// Whether the policy server reads its policies from a file (`--standalone`).
    STANDALONE = "KUBEWARDEN_STANDALONE";
    /// The address the policy server listens on (`--addr`).
    BIND_ADDRESS = "KUBEWARDEN_BIND_ADDRESS";
    /// The port the policy server listens on (`--port`).
    PORT = "KUBEWARDEN_PORT";
    /// The port of readiness, liveness and metrics (`--readiness-probe-port`).
    READINESS_PROBE_PORT = "KUBEWARDEN_READINESS_PROBE_PORT";
    /// How many evaluations run at once (`--workers`).
    WORKERS = "KUBEWARDEN_WORKERS";
    /// The file with the policies (`--policies`).
    POLICIES = "KUBEWARDEN_POLICIES";
    /// Where modules and their compiled code are kept (`--policies-download-dir`).
    POLICIES_DOWNLOAD_DIR = "KUBEWARDEN_POLICIES_DOWNLOAD_DIR";
    /// Where trust roots would be kept (`--sigstore-cache-dir`).
    SIGSTORE_CACHE_DIR = "KUBEWARDEN_SIGSTORE_CACHE_DIR";
    /// A custom trust root (`--sigstore-trust-config`).
    SIGSTORE_TRUST_CONFIG = "KUBEWARDEN_SIGSTORE_TRUST_CONFIG_PATH";
    /// The signatures that modules must have (`--verification-path`).
    VERIFICATION_CONFIG = "KUBEWARDEN_VERIFICATION_CONFIG_PATH";
    /// Whether metrics are wanted (`--enable-metrics`).
    ENABLE_METRICS = "KUBEWARDEN_ENABLE_METRICS";
    /// A namespace whose requests are accepted without evaluation (`--always-accept-admission-reviews-on-namespace`).
    ALWAYS_ACCEPT_NAMESPACE = "KUBEWARDEN_ALWAYS_ACCEPT_ADMISSION_REVIEWS_ON_NAMESPACE";
    /// Whether evaluations may take unlimited time (`--disable-timeout-protection`).
    DISABLE_TIMEOUT_PROTECTION = "KUBEWARDEN_DISABLE_TIMEOUT_PROTECTION";
    /// How many seconds an evaluation may take (`--policy-timeout`).
    POLICY_TIMEOUT = "KUBEWARDEN_POLICY_TIMEOUT";
    /// Whether the policy server runs in the background (`--daemon`).
    DAEMON = "KUBEWARDEN_DAEMON";
    /// Where the number of the background process is written (`--daemon-pid-file`).
    DAEMON_PID_FILE = "KUBEWARDEN_DAEMON_PID_FILE";
    /// The file for standard output of the background process (`--daemon-stdout-file`).
    DAEMON_STDOUT_FILE = "KUBEWARDEN_DAEMON_STDOUT_FILE";
    /// The file for standard error of the background process (`--daemon-stderr-file`).
    DAEMON_STDERR_FILE = "KUBEWARDEN_DAEMON_STDERR_FILE";
    /// Whether to go on without a cluster (`--ignore-kubernetes-connection-failure`).
    IGNORE_KUBERNETES_CONNECTION_FAILURE = "KUBEWARDEN_IGNORE_KUBERNETES_CONNECTION_FAILURE";
    /// Whether profiles are wanted (`--enable-pprof`).
    ENABLE_PPROF = "KUBEWARDEN_ENABLE_PPROF";
    /// Whether policies that are not ready are served as such (`--continue-on-errors`).
    CONTINUE_ON_ERRORS = "KUBEWARDEN_CONTINUE_ON_ERRORS";
    /// The largest request body (`--max-body-size`).
    MAX_BODY_SIZE = "KUBEWARDEN_MAX_BODY_SIZE";
    /// How many bytes of request bodies are held at once (`--max-bodies-size`).
    MAX_BODIES_SIZE = "KUBEWARDEN_MAX_BODIES_SIZE";
    /// The maximum size of a module (`--max-module-size`).
    MAX_MODULE_SIZE = "KUBEWARDEN_MAX_MODULE_SIZE";
    /// How much memory an evaluation may take (`--max-guest-memory`).
    MAX_GUEST_MEMORY = "KUBEWARDEN_MAX_GUEST_MEMORY";
    /// How many elements a guest's tables may have (`--max-guest-table-elements`).
    MAX_GUEST_TABLE_ELEMENTS = "KUBEWARDEN_MAX_GUEST_TABLE_ELEMENTS";
    /// How much stack a guest may take (`--max-guest-stack`).
    MAX_GUEST_STACK = "KUBEWARDEN_MAX_GUEST_STACK";
    /// The maximum size of a guest's response and of the payload of a host call (`--max-guest-output`).
    MAX_GUEST_OUTPUT = "KUBEWARDEN_MAX_GUEST_OUTPUT";
    /// How many host calls an evaluation may make (`--max-host-calls`).
    MAX_HOST_CALLS = "KUBEWARDEN_MAX_HOST_CALLS";
    /// How much an evaluation may log (`--max-guest-log`).
    MAX_GUEST_LOG = "KUBEWARDEN_MAX_GUEST_LOG";
    /// How many requests may wait (`--max-waiting`).
    MAX_WAITING = "KUBEWARDEN_MAX_WAITING";
    /// How many requests for one policy may wait (`--max-waiting-per-policy`).
    MAX_WAITING_PER_POLICY = "KUBEWARDEN_MAX_WAITING_PER_POLICY";
    /// How long a request may take (`--request-timeout`).
    REQUEST_TIMEOUT = "KUBEWARDEN_REQUEST_TIMEOUT";
    /// How long a server keeps serving after it was asked to stop (`--shutdown-delay`).
    SHUTDOWN_DELAY = "KUBEWARDEN_SHUTDOWN_DELAY";
    /// Where policy servers and revisions live (`--deployments-namespace`).
    DEPLOYMENTS_NAMESPACE = "POLITY_DEPLOYMENTS_NAMESPACE";
    /// Whether policy servers let everything through that concerns their own namespace
    /// (`--always-accept-admission-reviews-on-deployments-namespace`).
    ALWAYS_ACCEPT_DEPLOYMENTS_NAMESPACE = "POLITY_ALWAYS_ACCEPT_DEPLOYMENTS_NAMESPACE";
    /// Whether controllers choose one among them that works (`--leader-elect`).
    LEADER_ELECT = "POLITY_LEADER_ELECT";
    /// The port of the webhooks for our own kinds (`--webhook-server-port`).
    WEBHOOK_SERVER_PORT = "POLITY_WEBHOOK_SERVER_PORT";
    /// The Service by which API servers reach the controller's webhooks (`--webhook-service-name`).
    WEBHOOK_SERVICE_NAME = "POLITY_WEBHOOK_SERVICE_NAME";
    /// Where the controller serves its metrics (`--metrics-bind-address`).
    METRICS_BIND_ADDRESS = "POLITY_METRICS_BIND_ADDRESS";
    /// Where the controller serves health probes (`--health-probe-bind-address`).
    HEALTH_PROBE_BIND_ADDRESS = "POLITY_HEALTH_PROBE_BIND_ADDRESS";
    /// The namespace of an installation (`--namespace`).
    INSTALL_NAMESPACE = "POLITY_INSTALL_NAMESPACE";
    /// The image of an installation (`--image`).
    INSTALL_IMAGE = "POLITY_INSTALL_IMAGE";
    /// The port of the Services of policy servers for metrics (`--policy-server-metrics-port`).
    POLICY_SERVER_METRICS_PORT = "KUBEWARDEN_POLICY_SERVER_SERVICES_METRICS_PORT";
    /// Whether policy servers serve metrics (`--enable-metrics`).
    CONTROLLER_ENABLE_METRICS = "POLITY_ENABLE_METRICS";
    /// Whether policy servers export traces (`--enable-tracing`).
    ENABLE_TRACING = "POLITY_ENABLE_TRACING";
    /// Whether a collector is put beside each policy server (`--enable-otel-sidecar`).
    ENABLE_OTEL_SIDECAR = "POLITY_ENABLE_OTEL_SIDECAR";
    /// The Secret with the authority of the collector (`--opentelemetry-certificate-secret`).
    OPENTELEMETRY_CERTIFICATE_SECRET = "POLITY_OPENTELEMETRY_CERTIFICATE_SECRET";
    /// The Secret with the certificate that the collector is shown (`--opentelemetry-client-certificate-secret`).
    OPENTELEMETRY_CLIENT_CERTIFICATE_SECRET = "POLITY_OPENTELEMETRY_CLIENT_CERTIFICATE_SECRET";
    /// The ConfigMap with the authority of API servers, for mutual TLS (`--client-ca-configmap-name`).
    CLIENT_CA_CONFIGMAP_NAME = "POLITY_CLIENT_CA_CONFIGMAP_NAME";
    /// The Secrets that policy servers pull their image with, separated by commas (`--image-pull-secrets`).
    IMAGE_PULL_SECRETS = "POLITY_IMAGE_PULL_SECRETS";
    /// Whether policy servers use the network of their node (`--host-network`).
    HOST_NETWORK = "POLITY_HOST_NETWORK";
    /// How many earlier generations of a policy are kept (`--revision-history-limit`).
    REVISION_HISTORY_LIMIT = "POLITY_REVISION_HISTORY_LIMIT";
    /// How long an earlier generation still serves requests after a switch (`--revision-drain-seconds`).
    REVISION_DRAIN_SECONDS = "POLITY_REVISION_DRAIN_SECONDS";
    /// How the ids of new policies are spelled: classic or dotted (`--unique-names`).
    UNIQUE_NAMES = "POLITY_UNIQUE_NAMES";
    /// The ConfigMap with recommended policies (`--defaults-configmap-name`).
    DEFAULTS_CONFIGMAP_NAME = "POLITY_DEFAULTS_CONFIGMAP_NAME";
    /// The Deployment of the controller (`--controller-deployment-name`).
    CONTROLLER_DEPLOYMENT_NAME = "POLITY_CONTROLLER_DEPLOYMENT_NAME";
    /// The storage class of caches whose policy server does not set one (`--cache-storage-class`).
    CACHE_STORAGE_CLASS = "POLITY_CACHE_STORAGE_CLASS";
    /// How much is logged: a level, or filter directives (`--log-level`).
    LOG_LEVEL = "KUBEWARDEN_LOG_LEVEL";
    /// How log lines look: text, json, or otlp for text and traces to a collector (`--log-fmt`).
    LOG_FMT = "KUBEWARDEN_LOG_FMT";
    /// The collector that metrics (`--enable-metrics`) and traces (`--log-fmt otlp`) are pushed to by OTLP; its
    /// relatives of the same prefix are heeded too.
    OTLP_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT";
    /// The name of this host, for traces.
    HOSTNAME = "HOSTNAME";
    /// No colours when set to anything, see no-color.org.
    NO_COLOR = "NO_COLOR";
    /// The base of the user's data directory, see the XDG base directory specification.
    XDG_DATA_HOME = "XDG_DATA_HOME";
    /// The base of the user's cache directory, see the XDG base directory specification.
    XDG_CACHE_HOME = "XDG_CACHE_HOME";
    /// The user's home directory.
    HOME = "HOME";
}

/// Whether the user wants no colours anywhere.
pub fn no_color() -> bool {
    read(NO_COLOR).is_some()
}

/// The name of this host, from its environment.
pub fn host_name() -> String {
    read(HOSTNAME).map_or_else(
        || "unknown".to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// The value of a variable that has no flag; an empty one counts as not set.
#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the environment"
)]
pub fn read(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_variable_stands_once_and_has_help() {
        let names: BTreeSet<&str> = ALL.iter().map(|variable| variable.name).collect();
        assert_eq!(names.len(), ALL.len());
        for variable in ALL {
            assert!(variable.help.trim().ends_with('.'), "{}", variable.name);
        }
    }
}
