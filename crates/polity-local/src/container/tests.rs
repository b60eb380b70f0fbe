//! The workload of a policy server finds its arguments, variables and places.

use k8s_openapi::ByteString;
use serde_json::json;

use super::*;

/// One ConfigMap `settings` and one Secret `keys`.
struct Objects;

impl Sources for Objects {
    fn config_map(&self, name: &str) -> Option<ConfigMap> {
        (name == "settings").then(|| ConfigMap {
            data: Some(BTreeMap::from([
                ("level".into(), "debug".into()),
                ("dir".into(), "/config/more".into()),
            ])),
            ..ConfigMap::default()
        })
    }

    fn secret(&self, name: &str) -> Option<Secret> {
        (name == "keys").then(|| Secret {
            data: Some(BTreeMap::from([
                ("token".into(), ByteString(b"t0p".to_vec())),
                ("path".into(), ByteString(b"/root/.ssh/id".to_vec())),
            ])),
            ..Secret::default()
        })
    }
}

fn launch(container: serde_json::Value) -> Result<Launch, Unready> {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "web-1", "namespace": "team", "uid": "u1", "labels": {"app": "web"},
            "annotations": {"path": "/root/.ssh/id"}},
        "spec": {"nodeName": "here", "containers": [container]},
    }))
    .unwrap();
    let container = crate::pod::container(&pod).unwrap();
    // The real directories are below a mount path: nothing may be rewritten twice.
    let mounts = Mounts::new([
        ("/config".to_owned(), "/tmp/pods/config".to_owned()),
        ("/tmp".to_owned(), "/tmp/pods/store".to_owned()),
    ]);
    let ports = Ports::assign(container, [40_001, 40_002]);
    let given = BTreeMap::from([("KUBECONFIG".to_owned(), "/tmp/pods/kubeconfig".to_owned())]);
    let around = Surroundings {
        sources: &Objects,
        mounts: &mounts,
        ports: &ports,
        given: &given,
    };
    resolve(&pod, container, around)
}

#[test]
fn the_workload_of_a_policy_server_finds_its_places() {
    // admission.md 4.3
    let launch = launch(json!({
        "name": "server", "image": "polity",
        "command": ["/polity"], "args": ["server", "--level=$(LEVEL)", "--store", "/tmp"],
        "env": [
            {"name": "KUBEWARDEN_PORT", "value": "8443"},
            {"name": "KUBEWARDEN_READINESS_PROBE_PORT", "value": "8081"},
            {"name": "KUBEWARDEN_POLICIES", "value": "/config/policies.yml"},
            {"name": "KUBEWARDEN_SIGSTORE_CACHE_DIR", "value": "/tmp/sigstore-data"},
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "POD_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}},
            {"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
            {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
            {"name": "LEVEL", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "level"}}},
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}}},
            {"name": "MAYBE", "valueFrom": {"secretKeyRef": {"name": "none", "key": "k", "optional": true}}},
            {"name": "URL", "value": "http://$(KUBEWARDEN_BIND_ADDRESS):$(KUBEWARDEN_PORT)/$(POD_NAME)"},
        ],
    }))
    .unwrap();
    assert_eq!(launch.called.as_deref(), Some("/polity"));
    assert_eq!(
        launch.args,
        ["server", "--level=debug", "--store", "/tmp/pods/store"]
    );
    let expected = [
        ("APP", "web"),
        ("KUBECONFIG", "/tmp/pods/kubeconfig"),
        ("KUBEWARDEN_BIND_ADDRESS", "127.0.0.1"),
        ("KUBEWARDEN_POLICIES", "/tmp/pods/config/policies.yml"),
        ("KUBEWARDEN_PORT", "40001"),
        ("KUBEWARDEN_READINESS_PROBE_PORT", "40002"),
        (
            "KUBEWARDEN_SIGSTORE_CACHE_DIR",
            "/tmp/pods/store/sigstore-data",
        ),
        ("LEVEL", "debug"),
        ("POD_NAME", "web-1"),
        ("POD_NAMESPACE", "team"),
        ("POD_UID", "u1"),
        ("TOKEN", "t0p"),
        // A variable that is defined later is not known yet.
        ("URL", "http://$(KUBEWARDEN_BIND_ADDRESS):40001/web-1"),
    ];
    let expected: BTreeMap<String, String> = expected
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    assert_eq!(launch.env, expected);
}

#[test]
fn everything_of_an_object_at_once() {
    let launch = launch(json!({
        "name": "c", "envFrom": [{"prefix": "S_", "configMapRef": {"name": "settings"}},
            {"secretRef": {"name": "none", "optional": true}}],
    }))
    .unwrap();
    assert_eq!(launch.env["S_level"], "debug");
    assert_eq!(launch.env["S_dir"], "/tmp/pods/config/more");
    assert!(launch.args.is_empty() && launch.called.is_none());
}

#[test]
fn paths_outside_the_volumes_are_refused() {
    let variables = [
        json!([{"name": "A", "value": "/etc/passwd"}]),
        json!([{"name": "A", "value": "/config/../x"}]),
        // Put together from harmless parts.
        json!([{"name": "D", "value": "."}, {"name": "A", "value": "/config/$(D)$(D)/x"}]),
        json!([{"name": "D", "value": "etc"}, {"name": "A", "value": "$(X)/$(D)"}]),
        json!([{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['path']"}}}]),
        json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "path"}}}]),
    ];
    for env in variables {
        let error = launch(json!({"name": "c", "env": env})).unwrap_err();
        let message = "variable A has a path that is in none of the Pod's volumes";
        assert_eq!(
            (error.reason, error.message.as_str()),
            ("Forbidden", message),
            "{env}"
        );
    }
    let error =
        launch(json!({"name": "c", "args": ["server", "--policies", "/etc/x.yml"]})).unwrap_err();
    assert_eq!(
        error.message,
        "argument 3 has a path that is in none of the Pod's volumes"
    );
}

#[test]
fn what_is_missing_is_named() {
    let cases = [
        (
            json!({"configMapKeyRef": {"name": "none", "key": "k"}}),
            "configmap \"none\" not found",
        ),
        (
            json!({"secretKeyRef": {"name": "keys", "key": "k"}}),
            "couldn't find key k in secret keys",
        ),
        (
            json!({"fieldRef": {"fieldPath": "spec.magic"}}),
            "fieldPath \"spec.magic\" is not known here",
        ),
        (
            json!({"resourceFieldRef": {"resource": "limits.cpu"}}),
            "only fieldRef, configMapKeyRef and secretKeyRef are known here",
        ),
    ];
    for (source, expected) in cases {
        let container = json!({"name": "c", "env": [{"name": "X", "valueFrom": source}]});
        let error = launch(container).unwrap_err();
        assert_eq!(
            (error.reason, error.message.as_str()),
            ("CreateContainerConfigError", expected)
        );
    }
}

#[test]
fn ports_by_number_and_by_name() {
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    let container: Container = serde_json::from_value(json!({
        "name": "c", "env": [{"name": "KUBEWARDEN_PORT", "value": "8443"}],
        "ports": [{"name": "https", "containerPort": 8443}, {"name": "other", "containerPort": 9999}],
    }))
    .unwrap();
    let ports = Ports::assign(&container, [1, 2]);
    let cases = [
        (IntOrString::Int(8443), Some(1)),
        (IntOrString::Int(8081), Some(2)),
        (IntOrString::String("https".into()), Some(1)),
        (IntOrString::String("other".into()), None),
        (IntOrString::String("8081".into()), Some(2)),
        (IntOrString::String("nobody".into()), None),
        // Those of other processes.
        (IntOrString::Int(22), None),
        (IntOrString::Int(70_000), None),
    ];
    for (port, expected) in cases {
        assert_eq!(ports.real(&port), expected, "{port:?}");
    }
}
