//! Existing manifests of both API versions are accepted by our webhooks.

use std::fs;
use std::path::Path;

use e2e::installation::NAMESPACE;
use serde_json::json;

use crate::test_namespace::{TestNamespace, scenarios};

scenarios![existing_manifests];

const COLUMNS: &str = "NAME POLICY SERVER MUTATING BACKGROUNDAUDIT MODE OBSERVED MODE STATUS PHASE AGE SEVERITY CATEGORY MESSAGE";

fn existing_manifests(test_namespace: &TestNamespace) {
    let (k, name) = (&test_namespace.k, &test_namespace.name);
    // One manifest refers to a Secret and a ConfigMap, which must exist.
    let servers = k.in_namespace(NAMESPACE);
    servers.ok("create secret docker-registry ghcr --docker-username=u --docker-password=p --docker-server=r");
    servers.ok("create configmap trust --from-literal=sigstore-trust-config={}");
    let samples =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/polity-api/tests/samples");
    let mut n_accepted = 0;
    for sample in fs::read_dir(samples).unwrap() {
        let sample = sample.unwrap().path();
        let text = fs::read_to_string(&sample).unwrap();
        if text.contains("kind: PolicyRevision") {
            // Only the controller creates PolicyRevisions.
            continue;
        }
        let text = text.replace("namespace: shop", &format!("namespace: {name}"));
        for how in ["apply", "apply --server-side --force-conflicts"] {
            let line = format!("{how} --dry-run=server --validate=strict -f -");
            let output = k.ok_with_input(&line, &text);
            assert!(
                output.contains("(server dry run)"),
                "{}: {output}",
                sample.display()
            );
        }
        n_accepted += 1;
    }
    assert_eq!(n_accepted, 10);

    let mut policy = test_namespace.policy("pod-privileged");
    policy["metadata"]["annotations"] = json!({
        "io.kubewarden.policy.severity": "high", "io.kubewarden.policy.category": "PSP",
    });
    test_namespace.apply(&policy);
    test_namespace
        .installation
        .until_phase(&test_namespace.path(), "Active", 1);
    let wide = k.ok(&format!("get cap {name} -o wide"));
    let lines: Vec<Vec<&str>> = wide
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0].join(" "), COLUMNS);
    let [name_shown, rest @ ..] = &lines[1][..] else {
        panic!("{wide}")
    };
    assert_eq!(*name_shown, name);
    let shown = [&rest[..7], &rest[8..]].concat().join(" ");
    assert_eq!(
        shown,
        "default false true protect protect active Active high PSP Generation 1 is enforced."
    );
}
