//! What an editor of a namespace, or of the deployment namespace itself, may try.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

const NAMESPACE: &str = "kubewarden";

/// The PolicyServers `default` and `other`, and whatever sets there are.
struct Live(BTreeMap<String, StatefulSet>);

impl Owners for Live {
    fn stateful_set(&self, name: &str) -> Option<StatefulSet> {
        self.0.get(name).cloned()
    }

    fn policy_server_uid(&self, name: &str) -> Option<String> {
        matches!(name, "default" | "other").then(|| format!("uid-of-{name}"))
    }
}

fn permit() -> Permit {
    Permit {
        namespace: NAMESPACE.into(),
        set_of_server: |server| format!("policy-server-{server}"),
    }
}

fn owner(api_version: &str, kind: &str, name: &str, uid: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true})
}

/// A set as the controller makes it.
fn set() -> Value {
    json!({
        "metadata": {
            "name": "policy-server-default", "namespace": NAMESPACE, "uid": "set",
            "ownerReferences": [owner("policies.kubewarden.io/v1", "PolicyServer", "default", "uid-of-default")],
        },
        "spec": {"selector": {}, "serviceName": "x", "template": {}},
    })
}

/// A Pod as the runtime makes it of that set.
fn pod() -> Value {
    json!({
        "metadata": {
            "name": "policy-server-default-0", "namespace": NAMESPACE, "uid": "pod",
            "ownerReferences": [owner("apps/v1", "StatefulSet", "policy-server-default", "set")],
        },
        "spec": {
            "nodeName": "local",
            "containers": [{
                "name": "policy-server", "image": "polity:v1", "command": ["polity", "server"],
                "env": [
                    {"name": "KUBEWARDEN_PORT", "value": "8443"},
                    {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": "http://localhost:4317"},
                    {"name": "POLITY_POLICY_SERVER", "value": "default"},
                    {"name": "TMPDIR", "value": "/tmp"},
                ],
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}, {"name": "cache", "mountPath": "/cache", "subPath": "a/b"}],
            }],
            "volumes": [
                {"name": "tmp", "emptyDir": {}},
                {"name": "cache", "persistentVolumeClaim": {"claimName": "cache"}},
                {"name": "certs", "secret": {"secretName": "certs"}},
                {"name": "config", "configMap": {"name": "config"}},
                {"name": "token", "projected": {"sources": []}},
            ],
        },
    })
}

/// Decides about a Pod and a set, each with a value put in at a place.
#[track_caller]
fn check(name: &str, at_pod: &[(&str, Value)], at_set: &[(&str, Value)], expected: &str) {
    let put = |mut object: Value, changes: &[(&str, Value)]| {
        for (pointer, value) in changes {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            match object.pointer_mut(parent).unwrap() {
                Value::Array(list) => list.push(value.clone()),
                other => other[key] = value.clone(),
            }
        }
        object
    };
    let set: StatefulSet = serde_json::from_value(put(set(), at_set)).unwrap();
    let pod: Pod = serde_json::from_value(put(pod(), at_pod)).unwrap();
    let live = Live([(set.metadata.name.clone().unwrap(), set)].into());
    let said = match may_run(&pod, &live, &permit()) {
        Ok(()) => "run".to_owned(),
        Err(refusal) => refusal.to_string(),
    };
    assert!(said.starts_with(expected), "{name}: {said}");
}

#[test]
fn a_pod_of_a_policy_server_is_run() {
    check("as the controller makes it", &[], &[], "run");
    let command = "/spec/containers/0/command";
    check(
        "by its own name",
        &[(command, json!(["policy-server"]))],
        &[],
        "run",
    );
    let args = [
        (command, json!(null)),
        ("/spec/containers/0/args", json!(["server"])),
    ];
    check("as arguments", &args, &[], "run");
    let version = json!([owner(
        "policies.kubewarden.io/v1alpha2",
        "PolicyServer",
        "default",
        "uid-of-default"
    )]);
    check(
        "by another version",
        &[],
        &[("/metadata/ownerReferences", version)],
        "run",
    );
}

#[test]
fn an_editor_of_a_namespace_runs_nothing() {
    let elsewhere = ("/metadata/namespace", json!("team"));
    check(
        "another namespace",
        std::slice::from_ref(&elsewhere),
        &[],
        "it is in namespace \"team\"",
    );
    check(
        "a set elsewhere",
        &[],
        &[elsewhere],
        "it is in namespace \"team\"",
    );
    let owners = "/metadata/ownerReferences";
    check(
        "a Pod of its own",
        &[(owners, json!(null))],
        &[],
        "no StatefulSet controls it",
    );
}

#[test]
fn owners_are_the_live_ones() {
    let owners = "/metadata/ownerReferences";
    let of_set =
        |name: &str, uid: &str| (owners, json!([owner("apps/v1", "StatefulSet", name, uid)]));
    check(
        "no such set",
        &[of_set("none", "set")],
        &[],
        "the StatefulSet \"none\"",
    );
    check(
        "an older set",
        &[of_set("policy-server-default", "old")],
        &[],
        "the StatefulSet",
    );
    let server = owner(
        "policies.kubewarden.io/v1",
        "PolicyServer",
        "default",
        "uid-of-default",
    );
    check(
        "a server directly",
        &[(owners, json!([server]))],
        &[],
        "no StatefulSet controls it",
    );
    let group = owner(
        "example.com/v1",
        "StatefulSet",
        "policy-server-default",
        "set",
    );
    check(
        "another group",
        &[(owners, json!([group]))],
        &[],
        "no StatefulSet controls it",
    );
    let mut loose = owner("apps/v1", "StatefulSet", "policy-server-default", "set");
    loose["controller"] = json!(false);
    check(
        "no controller",
        &[(owners, json!([loose]))],
        &[],
        "no StatefulSet controls it",
    );
    for name in [
        "policy-server-default",
        "policy-server-default-",
        "policy-server-default-00",
        "web-0",
        "policy-server-default--1x",
    ] {
        check(
            name,
            &[("/metadata/name", json!(name))],
            &[],
            "its name is not one",
        );
    }
    let of_server = |group: &str, name: &str, uid: &str| {
        [(owners, json!([owner(group, "PolicyServer", name, uid)]))]
    };
    let ours = "policies.kubewarden.io/v1";
    check(
        "no server",
        &[],
        &[(owners, json!(null))],
        "no PolicyServer controls",
    );
    check(
        "a missing server",
        &[],
        &of_server(ours, "gone", "x"),
        "the PolicyServer \"gone\"",
    );
    check(
        "a forged uid",
        &[],
        &of_server(ours, "default", "x"),
        "the PolicyServer \"default\"",
    );
    check(
        "another's group",
        &[],
        &of_server(
            "policies.kubewarden.io.example/v1",
            "default",
            "uid-of-default",
        ),
        "no PolicyServer controls",
    );
    check(
        "another server's name",
        &[],
        &of_server(ours, "other", "uid-of-other"),
        "StatefulSet \"policy-server-default\" is not the one of PolicyServer \"other\"",
    );
}

#[test]
fn only_the_command_of_a_policy_server_is_run() {
    let command = |words: Value| [("/spec/containers/0/command", words)];
    for words in [
        json!(["polity", "template", "resolve", "/root/kubeconfig"]),
        json!(["polity", "server", "--policies", "/etc/x"]),
        json!(["polity", "server", "docs"]),
        json!(["polity"]),
        json!(["policy-server", "--standalone"]),
        json!(["kwctl", "server"]),
        json!(["/bin/sh", "-c", "id"]),
        json!(["$(X)", "server"]),
    ] {
        check(
            &words.to_string(),
            &command(words.clone()),
            &[],
            "its command is not `polity server` alone",
        );
    }
    check(
        "more arguments",
        &[("/spec/containers/0/args", json!(["--standalone"]))],
        &[],
        "its command is not",
    );
    let other = json!({"name": "other", "image": "polity", "args": ["server"]});
    check(
        "init containers",
        &[("/spec/initContainers", json!([other]))],
        &[],
        "it has init containers",
    );
    check(
        "ephemeral containers",
        &[("/spec/ephemeralContainers", json!([other]))],
        &[],
        "it has ephemeral containers",
    );
    check(
        "two containers",
        &[("/spec/containers/-", other)],
        &[],
        "it has several containers",
    );
    check(
        "no container",
        &[("/spec/containers", json!([]))],
        &[],
        "it has no container",
    );
}

#[test]
fn only_variables_of_a_policy_server_are_given() {
    let add = |variable: Value| [("/spec/containers/0/env/-", variable)];
    for name in [
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "PATH",
        "HOME",
        "KUBECONFIG",
        "DOCKER_CONFIG",
        "XDG_CACHE_HOME",
        "XDG_DATA_HOME",
        "BASH_ENV",
        "GLIBC_TUNABLES",
        "MALLOC_CONF",
        "KUBEWARDEN_STANDALONE",
        "KUBEWARDEN_DAEMON",
        "KUBEWARDEN_DAEMON_STDOUT_FILE",
        "POLITY_AS",
        "POLITY_DATA_DIR",
        "POLITY_CONTEXT",
        "POLITY_ADMIN_LISTEN",
        "POLITY_GREETING",
        "KUBEWARDEN_UNKNOWN",
        "OTEL_UNKNOWN",
        "OTEL_EXPORTER_OTLP_ENDPOINT2",
        "Kubewarden_PORT",
        "",
    ] {
        let expected = format!("its environment sets {name}, which");
        check(
            name,
            &add(json!({"name": name, "value": "x"})),
            &[],
            &expected,
        );
        let from = json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}});
        check(name, &add(from), &[], &expected);
    }
    for name in [
        "KUBEWARDEN_WORKERS",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "HTTPS_PROXY",
        "no_proxy",
        "RUST_LOG",
        "SSL_CERT_FILE",
    ] {
        check(name, &add(json!({"name": name, "value": "x"})), &[], "run");
    }
    let from = json!([{"configMapRef": {"name": "x"}}]);
    check(
        "whole objects",
        &[("/spec/containers/0/envFrom", from)],
        &[],
        "variables from whole objects",
    );
    let server = |variable: Value| add(json!({"name": "POLITY_POLICY_SERVER", "value": variable}));
    check("twice the same", &server(json!("default")), &[], "run");
    check(
        "another server",
        &server(json!("other")),
        &[],
        "POLITY_POLICY_SERVER is not \"default\"",
    );
    let from = json!({"name": "POLITY_POLICY_SERVER", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "k"}}});
    check(
        "from an object",
        &add(from),
        &[],
        "POLITY_POLICY_SERVER is not",
    );
    check(
        "no server",
        &[("/spec/containers/0/env", json!([]))],
        &[],
        "POLITY_POLICY_SERVER is not",
    );
}

#[test]
fn volumes_stay_inside() {
    let add = |volume: Value| [("/spec/volumes/-", volume)];
    for (name, volume) in [
        ("hostPath", json!({"hostPath": {"path": "/"}})),
        (
            "two kinds",
            json!({"emptyDir": {}, "hostPath": {"path": "/"}}),
        ),
        ("two known kinds", json!({"emptyDir": {}, "secret": {}})),
        ("nfs", json!({"nfs": {"server": "x", "path": "/"}})),
        ("csi", json!({"csi": {"driver": "x"}})),
        ("none", json!({})),
    ] {
        let mut volume = volume;
        volume["name"] = json!("v");
        check(name, &add(volume), &[], "volume \"v\" is of a kind");
    }
    for name in ["..", "../../x", "a/b", "", "A", "/etc"] {
        check(
            name,
            &add(json!({"name": name, "emptyDir": {}})),
            &[],
            &format!("{name:?} is no name of a volume"),
        );
    }
    let mount = |mount: Value| [("/spec/containers/0/volumeMounts/-", mount)];
    for path in ["relative", "/a/../b", "/..", ""] {
        check(
            path,
            &mount(json!({"name": "tmp", "mountPath": path})),
            &[],
            &format!("{path:?} is no mount path"),
        );
    }
    for path in ["..", "a/../..", "/etc"] {
        let mount = mount(json!({"name": "tmp", "mountPath": "/x", "subPath": path}));
        check(
            path,
            &mount,
            &[],
            &format!("{path:?} is no path inside a volume"),
        );
    }
    let expression = json!({"name": "tmp", "mountPath": "/x", "subPathExpr": "$(X)"});
    check(
        "an expression",
        &mount(expression),
        &[],
        "\"$(X)\" is no subPath",
    );
}

#[test]
fn compiled_code_comes_only_from_directories_that_policy_servers_write() {
    let with = |name: &str, value: Value| {
        let mut variable = json!({ "name": name });
        variable
            .as_object_mut()
            .unwrap()
            .extend(value.as_object().unwrap().clone());
        vec![
            ("/spec/containers/0/env/-", variable),
            (
                "/spec/containers/0/volumeMounts/-",
                json!({"name": "config", "mountPath": "/evil"}),
            ),
            (
                "/spec/containers/0/volumeMounts/-",
                json!({"name": "certs", "mountPath": "/cache/certs"}),
            ),
        ]
    };
    for variable in [
        "POLITY_CACHE_DIR",
        "KUBEWARDEN_POLICIES_DOWNLOAD_DIR",
        "KUBEWARDEN_SIGSTORE_CACHE_DIR",
        "TMPDIR",
    ] {
        for path in ["/cache", "/cache/", "/cache/x", "/tmp/x"] {
            check(path, &with(variable, json!({ "value": path })), &[], "run");
        }
        for path in [
            "/evil",
            "/evil/..data/r",
            "/cache/certs",
            "/cache/certs/x",
            "/cache/../evil",
            "/cache/..data",
            "/cache$(X)",
            "/cachet",
            "/etc",
            "cache",
            "",
        ] {
            let expected =
                format!("{variable} does not name a directory in an emptyDir or a claim");
            check(
                path,
                &with(variable, json!({ "value": path })),
                &[],
                &expected,
            );
        }
        let from_map = json!({"valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}});
        let expected = format!("{variable} does not name");
        check(
            "from a ConfigMap",
            &with(variable, from_map),
            &[],
            &expected,
        );
    }
}
