//! The first thing that everybody does.

use e2e::stage::NAMESPACE;

use crate::scene::{Scene, scenarios};

scenarios![a_policy_is_applied_and_counts];

fn a_policy_is_applied_and_counts(scene: &Scene) {
    let (k, name) = (&scene.k, &scene.name);
    scene.apply(&scene.policy("pod-privileged"));
    scene.stage.until_phase(&scene.path(), "Active", 1);
    let refusal = k.fails("run trial --image=busybox:1 --privileged --dry-run=server");
    assert!(
        refusal.contains("container trial is privileged"),
        "{refusal}"
    );
    k.ok("run trial --image=busybox:1 --dry-run=server");
    scene.enforces("container trial is privileged");
    let shown = k.ok(&format!("get cap {name}"));
    assert!(
        shown.contains("active") && shown.contains("Active"),
        "{shown}"
    );
    let described = k.describe(&format!("cap {name}"));
    for reason in ["PolicyScheduled", "PolicyInitialized", "PolicyReady"] {
        assert!(described.contains(reason), "{described}");
    }
    let servers = k.in_namespace(NAMESPACE);
    servers.ok("rollout status statefulset policy-server-default --timeout=60s");
    k.ok(&format!("delete cap {name} --timeout=60s"));
    k.ok("run trial --image=busybox:1 --privileged --dry-run=server");
}
