//! Manifests as they are around, of both versions, with our webhooks looking at them (1.5, item 1).

use std::fs;
use std::path::Path;

use e2e::stage::NAMESPACE;
use serde_json::json;

use crate::scene::{Scene, scenarios};

scenarios![manifests_that_are_around];

const COLUMNS: &str = "NAME POLICY SERVER MUTATING BACKGROUNDAUDIT MODE OBSERVED MODE STATUS PHASE AGE SEVERITY CATEGORY MESSAGE";

fn manifests_that_are_around(scene: &Scene) {
    let (k, name) = (&scene.k, &scene.name);
    // One of them names a Secret and a ConfigMap, which are looked for.
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
            // Nobody writes them but the controller.
            continue;
        }
        let text = text.replace("namespace: shop", &format!("namespace: {name}"));
        for how in ["apply", "apply --server-side --force-conflicts"] {
            let line = format!("{how} --dry-run=server --validate=strict -f -");
            let said = k.feed(&line, &text);
            assert!(
                said.contains("(server dry run)"),
                "{}: {said}",
                sample.display()
            );
        }
        n_accepted += 1;
    }
    assert_eq!(n_accepted, 10);

    let mut policy = scene.policy("pod-privileged");
    policy["metadata"]["annotations"] = json!({
        "io.kubewarden.policy.severity": "high", "io.kubewarden.policy.category": "PSP",
    });
    scene.apply(&policy);
    scene.stage.until_phase(&scene.path(), "Active", 1);
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
