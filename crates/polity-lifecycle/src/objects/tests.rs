//! The objects of a policy server.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::rbac::v1::Subject;
use polity_api::policies::v1::PolicyRevision;
use serde_json::{Value, json};

use super::*;

fn server(name: &str, fields: Value) -> PolicyServer {
    let mut spec = json!({"image": "registry.example/polity:1", "replicas": 3});
    spec.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    serde_json::from_value(json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyServer",
        "metadata": {"name": name, "uid": "uid-of-the-server"}, "spec": spec,
    }))
    .unwrap()
}

fn setup() -> Setup {
    Setup {
        namespace: "kubewarden".into(),
        ..Setup::default()
    }
}

#[test]
fn everything_is_owned_and_named_after_the_server() {
    let server = server("a", json!({"minAvailable": 1, "cache": {}}));
    let setup = setup();
    let metas = [
        service(&server, &setup).metadata,
        peers(&server, &setup).metadata,
        config_map(&server, &setup, &[]).metadata,
        disruption_budget(&server, &setup).unwrap().metadata,
        claim(&server, &setup).unwrap().metadata,
        role(&server, &setup).metadata,
        role_binding(&server, &setup, &BTreeSet::new()).metadata,
        service_account(&server, &setup).unwrap().metadata,
        lease(&server, &setup).metadata,
        stateful_set(&server, &setup, &Configs::default()).metadata,
    ];
    let names: Vec<_> = metas
        .iter()
        .filter_map(|meta| meta.name.as_deref())
        .collect();
    let own = "policy-server-a";
    assert_eq!(
        names,
        [
            own,
            "peers-a",
            own,
            own,
            "policy-server-a-cache",
            own,
            own,
            own,
            own,
            own
        ]
    );
    for meta in metas {
        assert_eq!(meta.namespace.as_deref(), Some("kubewarden"));
        let owners = meta.owner_references.unwrap();
        assert_eq!(
            (owners[0].uid.as_str(), owners[0].controller),
            ("uid-of-the-server", Some(true))
        );
        assert_eq!(meta.labels.unwrap()["kubewarden/policy-server"], "a");
    }
}

#[test]
fn the_service_goes_to_the_webhook_port_and_metrics_to_the_readiness_port() {
    let server = server(
        "a",
        json!({"webhookPort": 9443, "readinessProbePort": 9081}),
    );
    let ports = |setup: &Setup| -> Vec<_> {
        let ports = service(&server, setup).spec.unwrap().ports.unwrap();
        ports
            .into_iter()
            .map(|port| (port.name.unwrap(), port.port, json!(port.target_port)))
            .collect()
    };
    assert_eq!(
        ports(&setup()),
        [("policy-server".to_owned(), 443, json!(9443))]
    );
    let with_metrics = Setup {
        metrics_port: Some(8080),
        ..setup()
    };
    assert_eq!(
        ports(&with_metrics)[1],
        ("metrics".to_owned(), 8080, json!(9081))
    );
}

#[test]
fn a_budget_only_when_asked_for() {
    let budget = |fields| disruption_budget(&server("a", fields), &setup());
    assert_eq!(budget(json!({})), None);
    let spec = budget(json!({"maxUnavailable": "30%"}))
        .unwrap()
        .spec
        .unwrap();
    assert_eq!(
        (json!(spec.max_unavailable), spec.min_available),
        (json!("30%"), None)
    );
}

#[test]
fn which_cache_first_match() {
    let with_class = Setup {
        cache_storage_class: Some("nfs".into()),
        ..setup()
    };
    let own = |class: Option<&str>, size: &str| Cache::Own {
        storage_class: class.map(Into::into),
        size: k8s_openapi::apimachinery::pkg::api::resource::Quantity(size.into()),
    };
    for (fields, setup, expected) in [
        (json!({}), setup(), Cache::Ephemeral),
        (
            json!({"cache": {"ephemeral": true}}),
            with_class.clone(),
            Cache::Ephemeral,
        ),
        (
            json!({"cache": {"existingClaim": "shared"}}),
            with_class.clone(),
            Cache::Existing {
                claim: "shared".into(),
                sub_path: "a".into(),
            },
        ),
        (json!({}), with_class.clone(), own(Some("nfs"), "5Gi")),
        (json!({"cache": {}}), setup(), own(None, "5Gi")),
        (
            json!({"cache": {"storageClassName": "ceph", "size": "1Gi"}}),
            with_class,
            own(Some("ceph"), "1Gi"),
        ),
    ] {
        assert_eq!(
            Cache::of(&server("a", fields.clone()), &setup),
            expected,
            "{fields}"
        );
    }
}

#[test]
fn the_environment_in_the_order_of_the_contract() {
    let server = server(
        "a",
        json!({
            "env": [{"name": "KUBEWARDEN_LOG_LEVEL", "value": "debug"}], "imagePullSecret": "pull",
            "insecureSources": ["localhost:5000"], "verificationConfig": "v", "sigstoreTrustConfig": "t",
        }),
    );
    let setup = Setup {
        always_accept_own_namespace: true,
        metrics_port: Some(8080),
        has_tracing: true,
        collector: Collector::Sidecar,
        client_ca_config_map: Some("client".into()),
        ..setup()
    };
    let workload = stateful_set(&server, &setup, &Configs::default());
    let pod = workload.spec.template.spec.unwrap();
    let env: Vec<_> = pod.containers[0]
        .env
        .iter()
        .flatten()
        .map(|one| one.name.as_str())
        .collect();
    assert_eq!(
        env,
        [
            "KUBEWARDEN_CERT_FILE",
            "KUBEWARDEN_KEY_FILE",
            "KUBEWARDEN_PORT",
            "KUBEWARDEN_READINESS_PROBE_PORT",
            "KUBEWARDEN_POLICIES_DOWNLOAD_DIR",
            "KUBEWARDEN_POLICIES",
            "KUBEWARDEN_SIGSTORE_CACHE_DIR",
            "KUBEWARDEN_LOG_LEVEL",
            "KUBEWARDEN_ALWAYS_ACCEPT_ADMISSION_REVIEWS_ON_NAMESPACE",
            "KUBEWARDEN_VERIFICATION_CONFIG_PATH",
            "KUBEWARDEN_SIGSTORE_TRUST_CONFIG_PATH",
            "KUBEWARDEN_DOCKER_CONFIG_JSON_PATH",
            "KUBEWARDEN_SOURCES_PATH",
            "KUBEWARDEN_CLIENT_CA_FILE",
            "KUBEWARDEN_ENABLE_METRICS",
            "KUBEWARDEN_LOG_FMT",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            "POD_NAME",
            "POD_NAMESPACE",
            "POD_UID",
            "POLITY_POLICY_SERVER",
            "POLITY_CACHE_DIR",
            "POLITY_CACHE_SIGNING_DIR",
            "TMPDIR",
        ]
    );
    let mounts: Vec<_> = pod.containers[0]
        .volume_mounts
        .iter()
        .flatten()
        .map(|one| one.mount_path.as_str())
        .collect();
    assert_eq!(
        mounts,
        [
            "/tmp",
            "/pki",
            "/config",
            "/sources",
            "/verification",
            "/sigstore-trust",
            "/home/kubewarden/.docker",
            "/ca",
            "/client-ca",
            "/cache",
            "/cache-signing",
        ]
    );
}

#[test]
fn the_workload() {
    let workload = stateful_set(&server("a", json!({})), &setup(), &Configs::default());
    let spec = workload.spec;
    assert_eq!(spec.pod_management_policy.as_deref(), Some("Parallel"));
    assert_eq!(
        (spec.replicas, spec.service_name.as_deref()),
        (Some(3), Some("peers-a"))
    );
    let template = spec.template;
    let labels = template.metadata.as_ref().unwrap().labels.as_ref().unwrap();
    let wanted = spec.selector.match_labels.unwrap();
    assert!(
        wanted
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
    );
    let pod = template.spec.unwrap();
    assert_eq!(pod.termination_grace_period_seconds, Some(45));
    assert_eq!(pod.service_account_name.as_deref(), Some("policy-server-a"));
    let context = pod.containers[0].security_context.as_ref().unwrap();
    assert_eq!(
        (context.read_only_root_filesystem, context.run_as_non_root),
        (Some(true), Some(true))
    );
    let probe = pod.containers[0]
        .readiness_probe
        .as_ref()
        .unwrap()
        .http_get
        .as_ref()
        .unwrap();
    assert_eq!(
        (probe.path.as_deref(), json!(probe.port)),
        (Some("/readiness"), json!(8081))
    );
}

#[test]
fn only_what_is_read_at_the_start_replaces_the_pods() {
    let hash = |fields: Value, configs: &Configs| config_hash(&server("a", fields), configs);
    let plain = hash(json!({}), &Configs::default());
    for same in [
        json!({"replicas": 5}),
        json!({"namespacedPoliciesCapabilities": []}),
        json!({"imagePullSecret": "s"}),
    ] {
        assert_eq!(hash(same, &Configs::default()), plain);
    }
    assert_ne!(
        hash(json!({"insecureSources": ["a"]}), &Configs::default()),
        plain
    );
    let verification = Configs {
        verification: Some("x".into()),
        sigstore_trust: None,
    };
    let trust = Configs {
        verification: None,
        sigstore_trust: Some("x".into()),
    };
    assert_ne!(hash(json!({}), &verification), plain);
    assert_ne!(hash(json!({}), &verification), hash(json!({}), &trust));
}

#[test]
fn a_server_may_use_its_own_lease_and_no_secrets() {
    let server = server("a", json!({"serviceAccountName": "mine"}));
    let rules = role(&server, &setup()).rules.unwrap();
    let shown: Vec<_> = rules
        .iter()
        .map(|rule| {
            let resources = rule.resources.clone().unwrap_or_default().join(",");
            let names = rule.resource_names.clone().unwrap_or_default().join(",");
            format!("{resources} {} [{names}]", rule.verbs.join(","))
        })
        .collect();
    assert_eq!(
        shown,
        [
            "policyrevisions get,list,watch []",
            "policyrevisions/status get,update,patch []",
            "leases get,update,patch [policy-server-a]",
            "statefulsets get [policy-server-a]",
        ]
    );
    let subjects = role_binding(&server, &setup(), &BTreeSet::new()).subjects;
    assert_eq!(subject_names(subjects), ["mine"]);
}

fn subject_names(subjects: Option<Vec<Subject>>) -> Vec<String> {
    let subjects = subjects.unwrap_or_default().into_iter();
    subjects.map(|subject| subject.name).collect()
}

#[test]
fn a_server_has_an_account_of_its_own_unless_it_names_one() {
    let none = BTreeSet::new();
    let shared = BTreeSet::from(["policy-server".to_owned()]);
    let own = BTreeSet::from(["policy-server-a".to_owned()]);
    for (named, former, expected) in [
        (
            json!({}),
            &none,
            (
                "policy-server-a",
                vec!["policy-server-a"],
                vec!["policy-server-a"],
            ),
        ),
        (
            json!({"serviceAccountName": ""}),
            &none,
            (
                "policy-server-a",
                vec!["policy-server-a"],
                vec!["policy-server-a"],
            ),
        ),
        // Replicas of an earlier release run under the account that all servers shared.
        (
            json!({}),
            &shared,
            (
                "policy-server-a",
                vec!["policy-server-a", "policy-server"],
                vec!["policy-server-a"],
            ),
        ),
        (
            json!({"serviceAccountName": "mine"}),
            &none,
            ("mine", vec!["mine"], vec![]),
        ),
        // Replicas that still run under the server's own account go on reading the cluster.
        (
            json!({"serviceAccountName": "mine"}),
            &own,
            (
                "mine",
                vec!["mine", "policy-server-a"],
                vec!["policy-server-a"],
            ),
        ),
    ] {
        let server = server("a", named.clone());
        let is_named = expected.0 == "mine";
        assert_eq!(account(&server), expected.0, "{named}");
        assert_eq!(
            service_account(&server, &setup()).is_none(),
            is_named,
            "{named}"
        );
        let bound = role_binding(&server, &setup(), former);
        assert_eq!(subject_names(bound.subjects), expected.1, "{named}");
        let binding = context_binding(&server, &setup(), former);
        assert_eq!(subject_names(binding.subjects), expected.2, "{named}");
        assert_eq!(binding.role_ref.name, "kubewarden-context-watcher");
        assert_eq!(binding.metadata.namespace, None);
        assert_eq!(
            binding.metadata.name.as_deref(),
            Some("kubewarden-context-watcher-a")
        );
    }
}

#[test]
fn former_accounts_are_those_of_replicas_that_still_run() {
    let server = server("a", json!({}));
    let mut workload = stateful_set(&server, &setup(), &Configs::default());
    workload.metadata.uid = Some("w".to_owned());
    let pod = |account: Value, owner: &str, phase: &str| -> Pod {
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "policy-server-a", "uid": owner});
        serde_json::from_value(json!({
            "metadata": {"name": "policy-server-a-0", "ownerReferences": [owner]},
            "spec": {"serviceAccountName": account, "containers": []}, "status": {"phase": phase},
        }))
        .unwrap()
    };
    for (what, pods, expected) in [
        (
            "its own account",
            vec![pod(json!("policy-server-a"), "w", "Running")],
            vec![],
        ),
        (
            "the shared account",
            vec![
                pod(json!("policy-server-a"), "w", "Running"),
                pod(json!("policy-server"), "w", "Running"),
            ],
            vec!["policy-server"],
        ),
        (
            "no account",
            vec![pod(Value::Null, "w", "Pending")],
            vec!["default"],
        ),
        (
            "an ended replica",
            vec![pod(json!("policy-server"), "w", "Failed")],
            vec![],
        ),
        (
            "a pod of another workload",
            vec![pod(json!("x"), "v", "Running")],
            vec![],
        ),
    ] {
        let found = former_accounts(&server, Some(&workload), &pods);
        assert_eq!(Vec::from_iter(found), expected, "{what}");
    }
    let stray = [pod(json!("x"), "w", "Running")];
    assert!(former_accounts(&server, None, &stray).is_empty());
}

#[test]
fn the_config_map_has_what_serves_for_scripts() {
    let revision = |kind: &str, namespace: Option<&str>, spec: Value| -> PolicyRevision {
        serde_json::from_value(json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyRevision",
            "metadata": {"name": "r", "annotations": {"kubewarden.io/policy-id": format!("id-{kind}")}},
            "spec": {
                "objectReference": {"apiVersion": "policies.kubewarden.io/v1", "kind": kind, "name": "p", "namespace": namespace},
                "policyGeneration": 1, "enabled": true, "data": {"spec": spec},
            },
        }))
        .unwrap()
    };
    let server = server(
        "a",
        json!({"namespacedPoliciesCapabilities": ["oci/*"], "sourceAuthorities": {"r.example": ["PEM"]}}),
    );
    let serving = [
        revision(
            "ClusterAdmissionPolicy",
            None,
            json!({"module": "m", "mutating": true, "mode": "monitor"}),
        ),
        revision(
            "AdmissionPolicyGroup",
            Some("team"),
            json!({"expression": "a()", "message": "no", "policies": {"a": {"module": "m", "settings": {"x": 1}}}}),
        ),
    ];
    let data = config_map(&server, &setup(), &serving).data.unwrap();
    let text = |key: &str| -> Value { serde_json::from_str(&data[key]).unwrap() };
    assert_eq!(
        text("policies.yml"),
        json!({
            "id-ClusterAdmissionPolicy": {
                "namespacedName": {"Namespace": "", "Name": "p"}, "policyMode": "monitor", "module": "m",
                "allowedToMutate": true, "hostCapabilities": ["*"],
            },
            "id-AdmissionPolicyGroup": {
                "namespacedName": {"Namespace": "team", "Name": "p"}, "policyMode": "protect", "expression": "a()",
                "message": "no",
                "policies": {"a": {"module": "m", "settings": {"x": 1}, "hostCapabilities": ["oci/*"]}},
            },
        })
    );
    assert_eq!(
        text("sources.yml"),
        json!({"insecure_sources": [], "source_authorities": {"r.example": [{"type": "Data", "data": "PEM"}]}})
    );
    assert_eq!(
        text("server.yml"),
        json!({"namespacedPoliciesCapabilities": ["oci/*"]})
    );
}
