//! The real API server takes our definitions, our sample manifests, and refuses what the rules refuse.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use peers::{Cluster, Tool};

struct Kubectl(Cluster);

impl Kubectl {
    /// Runs kubectl with `input` on standard input; the output, or what it complained about.
    fn run(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        let mut command = Command::new(self.0.kubectl());
        command
            .arg("--kubeconfig")
            .arg(self.0.kubeconfig())
            .args(arguments);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    fn ok(&self, arguments: &[&str]) -> String {
        self.run(arguments, "")
            .unwrap_or_else(|error| panic!("kubectl {arguments:?}: {error}"))
    }

    fn refused(&self, arguments: &[&str], word: &str) {
        let error = self.run(arguments, "").expect_err("kubectl succeeded");
        assert!(error.contains(word), "kubectl {arguments:?}: {error}");
    }
}

#[test]
fn the_real_server_agrees() {
    if Tool::Kubernetes.or_skip().is_none() {
        return;
    }
    let kubectl = Kubectl(Cluster::start().unwrap());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let definitions = root.join("../../config/crd").display().to_string();
    kubectl.ok(&[
        "apply",
        "--server-side",
        "--validate=strict",
        "-f",
        &definitions,
    ]);
    kubectl.ok(&[
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        "crd",
        "--all",
    ]);
    let complaints =
        "jsonpath={.items[*].status.conditions[?(@.type=='NonStructuralSchema')].message}";
    assert_eq!(kubectl.ok(&["get", "crd", "-o", complaints]), "");

    for namespace in ["shop", "kubewarden"] {
        kubectl.ok(&["create", "namespace", namespace]);
    }
    let samples = root.join("tests/samples").display().to_string();
    kubectl.ok(&[
        "apply",
        "--server-side",
        "--validate=strict",
        "-f",
        &samples,
    ]);
    defaults_and_unknown_fields(&kubectl);
    rules(&kubectl);
    columns_and_scale(&kubectl);
}

fn defaults_and_unknown_fields(kubectl: &Kubectl) {
    let get =
        |path: &str| kubectl.ok(&["get", "ap", "labels", "-o", &format!("jsonpath={{{path}}}")]);
    assert_eq!(get(".spec.policyServer"), "default");
    assert_eq!(get(".spec.mode"), "protect");
    assert_eq!(get(".spec.timeoutSeconds"), "10");
    assert_eq!(get(".spec.backgroundAudit"), "true");
    let kept = kubectl.ok(&[
        "get",
        "polrev",
        "-n",
        "kubewarden",
        "-o",
        "jsonpath={.items[0].spec.data.spec.somethingNew}",
    ]);
    assert_eq!(kept, r#"{"kept":[1,2.5,null]}"#);
    // Null means absent everywhere but in settings, so the default comes back.
    kubectl.ok(&[
        "patch",
        "ap",
        "labels",
        "--type=merge",
        "-p",
        r#"{"spec":{"mode":null}}"#,
    ]);
    assert_eq!(get(".spec.mode"), "protect");
}

fn rules(kubectl: &Kubectl) {
    let patch = |kind: &str, name: &str, namespace: &str, patch: &str, word: &str| {
        kubectl.refused(
            &[
                "patch",
                kind,
                name,
                "-n",
                namespace,
                "--type=merge",
                "-p",
                patch,
            ],
            word,
        );
    };
    patch(
        "ap",
        "labels",
        "default",
        r#"{"spec":{"policyServer":"b"}}"#,
        "the policy server cannot be changed",
    );
    patch(
        "ap",
        "labels",
        "default",
        r#"{"spec":{"mode":"monitor"}}"#,
        "from protect to monitor",
    );
    patch(
        "ap",
        "labels",
        "default",
        r#"{"spec":{"timeoutEvalSeconds":11}}"#,
        "cannot be more than timeoutSeconds",
    );
    patch(
        "ap",
        "labels",
        "default",
        r#"{"spec":{"timeoutSeconds":31}}"#,
        "less than or equal to 30",
    );
    patch(
        "apg",
        "trusted-images",
        "shop",
        r#"{"spec":{"policies":{"a-b":{"module":"m"}}}}"#,
        "name of a member",
    );
    patch(
        "apg",
        "trusted-images",
        "shop",
        r#"{"spec":{"timeoutSeconds":7}}"#,
        "all members together",
    );
    patch(
        "capg",
        "owners",
        "default",
        r#"{"spec":{"message":""}}"#,
        "at least 1 chars long",
    );
    patch(
        "ps",
        "default",
        "default",
        r#"{"spec":{"readinessProbePort":8443}}"#,
        "must differ from webhookPort",
    );
    let cache = r#"{"spec":{"cache":{"existingClaim":"c"}}}"#;
    patch(
        "ps",
        "reserved-instance-for-tenant-a",
        "default",
        cache,
        "existingClaim excludes",
    );
    let revision = "clusterwide-privileged-pods-6469c6d5f6";
    patch(
        "polrev",
        revision,
        "kubewarden",
        r#"{"spec":{"policyGeneration":2}}"#,
        "policyGeneration cannot be changed",
    );
    kubectl.ok(&[
        "patch",
        "polrev",
        revision,
        "-n",
        "kubewarden",
        "--type=merge",
        "-p",
        r#"{"spec":{"enabled":false}}"#,
    ]);
    patch(
        "polrev",
        revision,
        "kubewarden",
        r#"{"spec":{"enabled":true}}"#,
        "cannot be enabled again",
    );
}

fn columns_and_scale(kubectl: &Kubectl) {
    let header = kubectl.ok(&["get", "cap", "-o", "wide"]);
    let expected = "NAME POLICY SERVER MUTATING BACKGROUNDAUDIT MODE OBSERVED MODE STATUS PHASE AGE SEVERITY CATEGORY MESSAGE";
    let found: Vec<_> = header.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(found.join(" "), expected);
    let wide = kubectl.ok(&[
        "get",
        "ap",
        "-n",
        "shop",
        "no-privileged-pods",
        "-o",
        "wide",
        "--no-headers",
    ]);
    assert!(wide.contains("high") && wide.contains("PSP"), "{wide}");
    let header = kubectl.ok(&["get", "ps"]);
    let found: Vec<_> = header.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(found.join(" "), "NAME READY REPLICAS POLICIES IMAGE AGE");
    kubectl.ok(&["scale", "ps", "default", "--replicas=3"]);
    assert_eq!(
        kubectl.ok(&["get", "ps", "default", "-o", "jsonpath={.spec.replicas}"]),
        "3"
    );
    let explained = kubectl.ok(&["explain", "cap.spec.module"]);
    assert!(explained.contains("registry://"), "{explained}");
}
