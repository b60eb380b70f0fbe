//! The StatefulSet of a policy server. Replicas have ordinals, start in any order, and are replaced from the highest.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{EnvVar, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use polity_api::policies::v1::PolicyServer;
use serde_json::{Value, json};

use super::config::{Configs, config_hash};
use super::rights::account;
use super::storage::Cache;
use super::{Collector, Setup, decoded, labels, metadata_of, name_of};
use crate::names;

/// How long a replica may take to finish what it has begun.
const GRACE_SECONDS: i64 = 45;
/// Annotation on the pod template: what its replicas read when they start.
const CONFIG_HASH: &str = "kubewarden.io/config-hash";
/// Annotations on the workload: which of its keys came from the PolicyServer, so that those removed there go here too.
const MANAGED_ANNOTATIONS: &str = "kubewarden.io/managed-annotation-keys";
const MANAGED_LABELS: &str = "kubewarden.io/managed-label-keys";
/// Where a pod finds what it trusts the collector by, and what it shows to it.
const COLLECTOR_CA: &str = "/otlp-ca";
const COLLECTOR_CLIENT: &str = "/otlp-client";
/// Annotation on the pods that a collector is put beside.
const SIDECAR: &str = "sidecar.opentelemetry.io/inject";

/// The workload.
pub fn stateful_set(server: &PolicyServer, setup: &Setup, configs: &Configs) -> StatefulSet {
    let name = name_of(server);
    let own_labels = server.spec.labels.clone().unwrap_or_default();
    let own_annotations = server.spec.annotations.clone().unwrap_or_default();
    // What the selector and the Service look for cannot be taken away.
    let all_labels = merged(&own_labels, labels(name));
    let mut pod_annotations = own_annotations.clone();
    pod_annotations.insert(CONFIG_HASH.to_owned(), config_hash(server, configs));
    if setup.collector == Collector::Sidecar {
        pod_annotations.insert(SIDECAR.to_owned(), "true".to_owned());
    }
    let keys = |map: &BTreeMap<String, String>| map.keys().cloned().collect::<Vec<_>>().join(",");
    let mut annotations = own_annotations.clone();
    annotations.insert(MANAGED_ANNOTATIONS.to_owned(), keys(&own_annotations));
    annotations.insert(MANAGED_LABELS.to_owned(), keys(&own_labels));
    StatefulSet {
        metadata: ObjectMeta {
            labels: Some(all_labels.clone()),
            annotations: Some(annotations),
            ..metadata_of(server, setup, names::stateful_set(name))
        },
        spec: StatefulSetSpec {
            replicas: Some(server.spec.replicas),
            service_name: Some(names::peers(name)),
            pod_management_policy: Some("Parallel".to_owned()),
            selector: LabelSelector {
                match_labels: Some(BTreeMap::from([(
                    "app.kubernetes.io/instance".to_owned(),
                    names::policy_server(name),
                )])),
                match_expressions: None,
            },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(all_labels),
                    annotations: Some(pod_annotations),
                    ..ObjectMeta::default()
                }),
                spec: Some(decoded(pod(server, setup))),
            },
            ..StatefulSetSpec::default()
        },
        ..StatefulSet::default()
    }
}

fn merged(
    ours: &BTreeMap<String, String>,
    over: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut all = ours.clone();
    all.extend(over);
    all
}

fn pod(server: &PolicyServer, setup: &Setup) -> Value {
    let spec = &server.spec;
    let contexts = spec.security_contexts.clone().unwrap_or_default();
    let container_context = contexts.container.map_or_else(
        || {
            json!({
                "readOnlyRootFilesystem": true, "allowPrivilegeEscalation": false, "privileged": false,
                "runAsNonRoot": true, "capabilities": {"drop": ["all"]},
            })
        },
        |own| json!(own),
    );
    let pod_context = contexts.pod.map_or_else(
        || json!({"seccompProfile": {"type": "RuntimeDefault"}}),
        |own| json!(own),
    );
    let (volumes, mounts) = volumes(server, setup);
    let pull_secrets = setup
        .image_pull_secrets
        .iter()
        .chain(&spec.image_pull_secret);
    let pull_secrets: Vec<_> = pull_secrets.map(|name| json!({ "name": name })).collect();
    let port =
        |name: &str, port: i32| json!({"name": name, "containerPort": port, "protocol": "TCP"});
    let mut pod = json!({
        "serviceAccountName": account(server),
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": pod_context,
        "imagePullSecrets": pull_secrets,
        "volumes": volumes,
        "containers": [{
            "name": "policy-server",
            "image": spec.image,
            "command": ["polity", "server"],
            "env": environment(server, setup),
            "ports": [port("policy-server", spec.webhook_port), port("readiness", spec.readiness_probe_port)],
            "readinessProbe": {"httpGet": {"path": "/readiness", "port": spec.readiness_probe_port, "scheme": "HTTP"}},
            "resources": {"limits": spec.limits, "requests": spec.requests},
            "securityContext": container_context,
            "volumeMounts": mounts,
        }],
    });
    for (key, value) in [
        ("affinity", json!(spec.affinity)),
        ("tolerations", json!(spec.tolerations)),
        ("priorityClassName", json!(spec.priority_class_name)),
        ("hostNetwork", json!(setup.host_network.then_some(true))),
    ] {
        if !value.is_null() {
            pod[key] = value;
        }
    }
    pod
}

/// The environment of the container. The user's own variables override those that come before them.
fn environment(server: &PolicyServer, setup: &Setup) -> Vec<EnvVar> {
    let spec = &server.spec;
    let set = |name: &str, value: &str| EnvVar {
        name: name.to_owned(),
        value: Some(value.to_owned()),
        value_from: None,
    };
    let from = |name: &str, field: &str| EnvVar {
        name: name.to_owned(),
        value: None,
        value_from: Some(decoded(json!({"fieldRef": {"fieldPath": field}}))),
    };
    let mut env = vec![
        set("KUBEWARDEN_CERT_FILE", "/pki/tls.crt"),
        set("KUBEWARDEN_KEY_FILE", "/pki/tls.key"),
        set("KUBEWARDEN_PORT", &spec.webhook_port.to_string()),
        set(
            "KUBEWARDEN_READINESS_PROBE_PORT",
            &spec.readiness_probe_port.to_string(),
        ),
        set("KUBEWARDEN_POLICIES_DOWNLOAD_DIR", "/tmp"),
        set("KUBEWARDEN_POLICIES", "/config/policies.yml"),
        set("KUBEWARDEN_SIGSTORE_CACHE_DIR", "/tmp/sigstore-data"),
    ];
    env.extend(spec.env.iter().flatten().cloned());
    let needed = [
        (
            setup.always_accept_own_namespace,
            "KUBEWARDEN_ALWAYS_ACCEPT_ADMISSION_REVIEWS_ON_NAMESPACE",
            setup.namespace.as_str(),
        ),
        (
            spec.verification_config.is_some(),
            "KUBEWARDEN_VERIFICATION_CONFIG_PATH",
            "/verification/verification.yml",
        ),
        (
            spec.sigstore_trust_config.is_some(),
            "KUBEWARDEN_SIGSTORE_TRUST_CONFIG_PATH",
            "/sigstore-trust/sigstore-trust-config.json",
        ),
        (
            spec.image_pull_secret.is_some(),
            "KUBEWARDEN_DOCKER_CONFIG_JSON_PATH",
            "/home/kubewarden/.docker",
        ),
        (
            has_sources(server),
            "KUBEWARDEN_SOURCES_PATH",
            "/sources/sources.yml",
        ),
        (
            setup.client_ca_config_map.is_some(),
            "KUBEWARDEN_CLIENT_CA_FILE",
            "/ca/ca.crt,/client-ca/client-ca.crt",
        ),
        (
            setup.metrics_port.is_some(),
            "KUBEWARDEN_ENABLE_METRICS",
            "true",
        ),
        (setup.has_tracing, "KUBEWARDEN_LOG_FMT", "otlp"),
    ];
    env.extend(
        needed
            .iter()
            .filter(|(is_needed, ..)| *is_needed)
            .map(|(_, name, value)| set(name, value)),
    );
    if setup.collector_ca_secret.is_some() {
        let path = format!("{COLLECTOR_CA}/ca.crt");
        env.push(set("OTEL_EXPORTER_OTLP_CERTIFICATE", &path));
    }
    if setup.collector_client_secret.is_some() {
        for (name, file) in [
            ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "tls.crt"),
            ("OTEL_EXPORTER_OTLP_CLIENT_KEY", "tls.key"),
        ] {
            env.push(set(name, &format!("{COLLECTOR_CLIENT}/{file}")));
        }
    }
    match &setup.collector {
        Collector::Sidecar => env.push(set("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4317")),
        Collector::Elsewhere(told) => env.extend(told.iter().cloned()),
    }
    env.extend([
        from("POD_NAME", "metadata.name"),
        from("POD_NAMESPACE", "metadata.namespace"),
        from("POD_UID", "metadata.uid"),
        set("POLITY_POLICY_SERVER", name_of(server)),
        set("POLITY_CACHE_DIR", "/cache"),
        set("POLITY_CACHE_SIGNING_DIR", "/cache-signing"),
        set("TMPDIR", "/tmp"),
    ]);
    env
}

fn has_sources(server: &PolicyServer) -> bool {
    let spec = &server.spec;
    spec.insecure_sources
        .as_ref()
        .is_some_and(|all| !all.is_empty())
        || spec
            .source_authorities
            .as_ref()
            .is_some_and(|all| !all.is_empty())
}

/// The volumes and where they are mounted.
fn volumes(server: &PolicyServer, setup: &Setup) -> (Vec<Value>, Vec<Value>) {
    let spec = &server.spec;
    let own = names::policy_server(name_of(server));
    let secret = |name: &str| json!({"secret": {"secretName": name}});
    let map = |name: &str, key: &str, path: &str| json!({"configMap": {"name": name, "items": [{"key": key, "path": path}]}});
    let mut all: Vec<(&str, Value, &str, Option<String>)> = vec![
        ("policy-store", json!({"emptyDir": {}}), "/tmp", None),
        ("certs", secret(&own), "/pki", None),
        (
            "config",
            json!({"configMap": {"name": own}}),
            "/config",
            None,
        ),
    ];
    if has_sources(server) {
        all.push((
            "sources",
            map(&own, "sources.yml", "sources.yml"),
            "/sources",
            None,
        ));
    }
    if let Some(name) = &spec.verification_config {
        all.push((
            "verification",
            map(name, "verification-config", "verification.yml"),
            "/verification",
            None,
        ));
    }
    if let Some(name) = &spec.sigstore_trust_config {
        let trust = map(name, "sigstore-trust-config", "sigstore-trust-config.json");
        all.push(("sigstore-trust", trust, "/sigstore-trust", None));
    }
    if let Some(name) = &spec.image_pull_secret {
        let config = json!({"secret": {"secretName": name, "items": [{"key": ".dockerconfigjson", "path": "config.json"}]}});
        all.push(("imagepullsecret", config, "/home/kubewarden/.docker", None));
    }
    if let Some(name) = &setup.client_ca_config_map {
        let ca = json!({"secret": {"secretName": "kubewarden-ca", "items": [{"key": "ca.crt", "path": "ca.crt"}]}});
        all.push(("ca", ca, "/ca", None));
        all.push((
            "client-ca",
            map(name, "client-ca.crt", "client-ca.crt"),
            "/client-ca",
            None,
        ));
    }
    if let Some(name) = &setup.collector_ca_secret {
        all.push(("otlp-ca", secret(name), COLLECTOR_CA, None));
    }
    if let Some(name) = &setup.collector_client_secret {
        all.push(("otlp-client", secret(name), COLLECTOR_CLIENT, None));
    }
    let (cache, sub_path) = match Cache::of(server, setup) {
        Cache::Ephemeral => (json!({"emptyDir": {}}), None),
        Cache::Existing { claim, sub_path } => (
            json!({"persistentVolumeClaim": {"claimName": claim}}),
            Some(sub_path),
        ),
        Cache::Own { .. } => {
            let claim = names::cache_claim(name_of(server));
            (json!({"persistentVolumeClaim": {"claimName": claim}}), None)
        }
    };
    all.push(("cache", cache, "/cache", sub_path));
    let signer = names::cache_signer(name_of(server));
    // Group-readable: the process does not run as root.
    let signing = json!({"secret": {"secretName": signer, "defaultMode": 0o440}});
    all.push(("cache-signing", signing, "/cache-signing", None));
    all.into_iter()
        .map(|(name, mut volume, path, sub_path)| {
            volume["name"] = json!(name);
            let mut mount = json!({"name": name, "mountPath": path});
            if !matches!(name, "policy-store" | "cache") {
                mount["readOnly"] = json!(true);
            }
            if let Some(sub_path) = sub_path {
                mount["subPath"] = json!(sub_path);
            }
            (volume, mount)
        })
        .unzip()
}
