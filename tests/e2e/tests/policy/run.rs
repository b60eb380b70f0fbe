//! `run`, `bench` and `inspect`: verdicts, exit codes and error messages.

use std::io::Write as _;
use std::process::Stdio;

use base64::Engine as _;
use e2e::polity;
use serde_json::{Value, json};

use crate::support::{CommandOutput, DEFAULT_NAMESPACE, TestHome, module, pod, request};

#[test]
fn a_request_is_accepted_or_refused() {
    let Some(privileged) = module("pod-privileged") else {
        return;
    };
    let home = TestHome::new();
    let good = home.write("good.json", pod(json!({"image": "i"})).to_string());
    let bad = pod(json!({"image": "i", "securityContext": {"privileged": true}}));
    let bad = home.write("bad.json", json!({"request": bad}).to_string());

    let output = home.policy(&["run", &privileged, "-r", &good]);
    assert_eq!(
        (output.code, &output.json()["allowed"]),
        (0, &json!(true)),
        "{output:?}"
    );
    assert_eq!(
        output.out.lines().count(),
        1,
        "one line, as scripts expect it"
    );

    let output = home.policy(&["run", &privileged, "--request-path", &bad]);
    assert_eq!(output.code, 1, "{output:?}");
    let response = output.json();
    assert_eq!(
        (&response["allowed"], &response["uid"]),
        (&json!(false), &json!("u-1"))
    );

    let output = home.policy(&["run", &privileged, "-r", &bad, "-o", "table"]);
    assert!(output.out.contains(": refused\n"), "{output:?}");
    let output = home.policy(&["run", &privileged, "-r", &bad, "-o", "yaml"]);
    assert!(output.out.contains("allowed: false\n"), "{output:?}");
}

#[test]
fn called_as_kwctl_it_is_kwctl() {
    let Some(privileged) = module("pod-privileged") else {
        return;
    };
    let home = TestHome::new();
    let bad = pod(json!({"image": "i", "securityContext": {"privileged": true}}));
    let bad = home.write("bad.json", bad.to_string());
    let kwctl = home.path().join("kwctl");
    std::os::unix::fs::symlink(polity::binary(), &kwctl).unwrap();
    let output = std::process::Command::new(kwctl)
        .env_clear()
        .env("HOME", home.path())
        .args(["run", &privileged, "-r", &bad])
        .output()
        .unwrap();
    let output = CommandOutput::of(output);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.out.contains(r#""allowed":false"#), "{output:?}");
}

#[test]
fn a_mutation_is_a_patch() {
    let home = TestHome::new();
    let output = {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "labels": {"team": "a"}}});
        let request = home.write("request.json", request("ConfigMap", object).to_string());
        let settings = home.write(
            "settings.yml",
            "labels: {required: [team], defaults: {tier: back}}",
        );
        let Some(metadata) = module("required-metadata") else {
            return;
        };
        home.policy(&["run", &metadata, "-r", &request, "-s", &settings])
    };
    assert_eq!(output.code, 0, "{output:?}");
    let response = output.json();
    assert_eq!(response["patchType"], "JSONPatch");
    let patch = base64::engine::general_purpose::STANDARD
        .decode(response["patch"].as_str().unwrap())
        .unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    assert_eq!(
        patch,
        json!([{"op": "add", "path": "/metadata/labels/tier", "value": "back"}])
    );
}

#[test]
fn raw_requests_come_from_standard_input() {
    let Some(raw) = module("raw-access") else {
        return;
    };
    let home = TestHome::new();
    let settings = r#"{"rules": [{"name": "readers", "users": ["*"], "actions": ["read"], "resources": ["docs"]}]}"#;
    for (action, code) in [("read", 0), ("write", 1)] {
        let mut child = polity::command(home.path())
            .args([
                "policy",
                "run",
                &raw,
                "--raw",
                "-r",
                "-",
                "--settings-json",
                settings,
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let request = json!({"user": "ann", "action": action, "resource": "docs"});
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(request.to_string().as_bytes()).unwrap();
        drop(stdin);
        let output = CommandOutput::of(child.wait_with_output().unwrap());
        assert_eq!(output.code, code, "{action}: {output:?}");
    }
}

#[test]
fn a_context_aware_policy_runs_on_a_recording() {
    let Some(hosts) = module("unique-ingress-hosts") else {
        return;
    };
    let home = TestHome::new();
    let recording = r#"
- type: Exchange
  request: |
    !KubernetesListResourceAll
    api_version: networking.k8s.io/v1
    kind: Ingress
    field_masks: [metadata.name, metadata.namespace, spec.rules.host]
  response:
    type: Success
    payload: '{"apiVersion":"networking.k8s.io/v1","kind":"IngressList","metadata":{},"items":[{"metadata":{"name":"shop","namespace":"a"},"spec":{"rules":[{"host":"shop.example"}]}}]}'
"#;
    let recording = home.write("talk.yml", recording);
    let object =
        json!({"metadata": {"name": "new"}, "spec": {"rules": [{"host": "shop.example"}]}});
    let request = home.write("request.json", request("Ingress", object).to_string());
    let replay = ["--replay-host-capabilities-interactions", &recording];
    let run = ["run", &hosts, "-r", &request];

    let output = home.policy(&[&run[..], &replay, &["--allow-context-aware"]].concat());
    assert_eq!(output.code, 1, "{output:?}");
    assert_eq!(
        output.json()["status"]["message"],
        "host shop.example belongs to Ingress a/shop"
    );
    let output = home.policy(&[&run[..], &replay].concat());
    assert_eq!(output.code, 1, "{output:?}");
    let message = output.json()["status"]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains("has not been granted access to Kubernetes networking.k8s.io/v1/Ingress"),
        "{message}"
    );
    assert!(output.err.contains("--allow-context-aware"), "{output:?}");
    let none = [
        "--allow-context-aware",
        "--allowed-host-capabilities",
        "net/*",
    ];
    let output = home.policy(&[&run[..], &replay, &none].concat());
    let message = output.json()["status"]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        message.contains("'kubernetes/list_resources_all' host capability"),
        "{message}"
    );
}

#[test]
fn files_hold_policies_and_groups() {
    let (Some(probes), Some(privileged)) = (module("probes"), module("pod-privileged")) else {
        return;
    };
    let home = TestHome::new();
    let request = pod(json!({"image": "i"}));
    let request = home.write("request.json", request.to_string());
    let policies = home.write(
        "policies.yml",
        format!(
            "alone: {{module: 'file://{privileged}', policyMode: monitor}}
together:
  expression: probes() && unprivileged()
  message: not ready for production
  policies:
    probes: {{module: 'file://{probes}'}}
    unprivileged: {{module: 'file://{privileged}'}}
"
        ),
    );
    let output = home.policy(&["run", &policies, "-r", &request]);
    assert_eq!(output.code, 1, "{output:?}");
    let lines: Vec<Value> = output
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["allowed"], true);
    assert_eq!(lines[1]["status"]["message"], "not ready for production");
    assert_eq!(
        lines[1]["status"]["details"]["causes"][0]["field"],
        "spec.policies.probes"
    );

    let manifest = home.write(
        "manifest.yaml",
        format!(
            "apiVersion: policies.kubewarden.io/v1
kind: ClusterAdmissionPolicy
metadata: {{name: unprivileged}}
spec: {{module: 'file://{privileged}', rules: [], mutating: false}}
"
        ),
    );
    let output = home.policy(&["run", &manifest, "-r", &request]);
    assert_eq!(
        (output.code, output.out.lines().count()),
        (0, 1),
        "{output:?}"
    );
}

#[test]
fn errors_name_their_cause() {
    let home = TestHome::new();
    let good = home.write("good.json", pod(json!({"image": "i"})).to_string());
    let odd = home.write("odd.json", "{\"uid\": 1}");
    let broken = home.write("broken.json", "{");
    let text = home.write("text.wasm", "text");
    let bare = home.write("bare.wasm", b"\0asm\x01\0\0\0");
    let settings = home.write("settings.yml", "[1]");
    let module = DEFAULT_NAMESPACE;
    for (arguments, code, expected) in [
        (&["run", module][..], 64, "--request-path"),
        (
            &["run", module, "-r", "none.json"],
            2,
            "reading the request none.json",
        ),
        (&["run", module, "-r", &broken], 2, "is not JSON"),
        (
            &["run", module, "-r", &odd],
            2,
            "is neither an AdmissionReview nor an AdmissionRequest",
        ),
        (
            &["run", "./none.wasm", "-r", &good],
            2,
            "there is no file ./none.wasm",
        ),
        (&["run", "none", "-r", &good], 2, "there is no file none"),
        (&["run", &text, "-r", &good], 2, "is not a policy module"),
        (&["run", &bare, "-r", &good], 2, "missing protocol version"),
        (
            &["run", &bare, "-r", &good, "-e", "opa"],
            2,
            "execution mode opa",
        ),
        (
            &["run", &bare, "-r", &good, "-e", "lua"],
            64,
            "unknown execution mode lua",
        ),
        (
            &["run", module, "-r", &good, "--settings-json", "{"],
            2,
            "settings are not JSON",
        ),
        (
            &["run", module, "-r", &good, "-s", &settings],
            2,
            "settings must be an object",
        ),
        (
            &[
                "run",
                module,
                "-r",
                &good,
                "--allowed-host-capabilities",
                "x/y",
            ],
            2,
            "unknown host capability",
        ),
        (
            &["run", module, "-r", &good, "-k", "key.pem"],
            2,
            "signatures cannot be checked yet",
        ),
        (&["inspect", &bare, "-o", "yaml"], 2, "has no metadata"),
        (
            &["push", &bare, "localhost:5000/p:v1"],
            2,
            "has no metadata",
        ),
        (
            &["rm", "registry://h.example/p:v1"],
            2,
            "is not in the store",
        ),
        (
            &["digest", "https://h.example/p.wasm"],
            2,
            "only a module in a registry",
        ),
    ] {
        let output = home.policy(arguments);
        assert_eq!(output.code, code, "{arguments:?} {output:?}");
        assert!(output.err.contains(expected), "{arguments:?} {output:?}");
        assert_eq!(output.out, "", "{arguments:?}");
    }
}

#[test]
fn inspect_and_bench_describe_a_module() {
    let home = TestHome::new();
    let output = home.policy(&["inspect", DEFAULT_NAMESPACE]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.out.contains("kubewarden-wapc"), "{output:?}");
    let output = home.policy(&["inspect", DEFAULT_NAMESPACE, "-o", "json"]);
    assert_eq!(output.json()["protocolVersion"], "v1", "{output:?}");

    let request = home.write("request.json", pod(json!({"image": "i"})).to_string());
    let few = [
        "--num-samples",
        "20",
        "--warm-up-time",
        "0",
        "--measurement-time",
        "0",
    ];
    let bench = ["bench", DEFAULT_NAMESPACE, "-r", &request, "-o", "json"];
    let output = home.policy(&[&bench[..], &few].concat());
    let measured = &output.json()[0];
    assert_eq!(measured["evaluations"], 20, "{output:?}");
    let figure = |name: &str| measured[name].as_f64().unwrap();
    assert!(
        figure("min") <= figure("mean") && figure("p99") <= figure("max"),
        "{output:?}"
    );
}

#[test]
fn a_module_gets_its_metadata() {
    let home = TestHome::new();
    let metadata = home.write(
        "metadata.yml",
        "mutating: true
rules:
  - {apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE]}
annotations: {io.kubewarden.policy.title: mine}
",
    );
    let usage = home.write("usage.md", "# Use it\nlike this");
    let out = home.path().join("annotated.wasm");
    let out = out.to_str().unwrap();
    let annotate = ["annotate", DEFAULT_NAMESPACE, "-u", &usage, "-o", out];
    let output = home.policy(&[&annotate[..], &["-m", &metadata]].concat());
    assert_eq!(output.code, 0, "{output:?}");
    let output = home.policy(&["inspect", out, "-o", "json"]).json();
    assert_eq!(output["protocolVersion"], "v1", "the module was asked");
    assert_eq!(output["rules"][0]["resources"], json!(["pods"]));
    assert_eq!(
        output["annotations"]["io.kubewarden.policy.usage"],
        "# Use it\nlike this"
    );
    let request = home.write("request.json", pod(json!({"image": "i"})).to_string());
    let output = home.policy(&["run", out, "-r", &request]);
    assert!(output.out.contains("\"allowed\""), "{output:?}");

    for (content, expected) in [
        ("mutating: true", "missing field `rules`"),
        ("[1]", "a map of fields is meant"),
        (
            "{mutating: true, rules: [{apiGroups: [], apiVersions: [v1], resources: [pods], operations: [CREATE]}]}",
            "rules[0]: apiGroups must not be empty",
        ),
    ] {
        let metadata = home.write("metadata.yml", content);
        let output = home.policy(&[&annotate[..], &["-m", &metadata]].concat());
        assert_eq!(output.code, 2, "{output:?}");
        assert!(output.err.contains(expected), "{output:?}");
    }
}
