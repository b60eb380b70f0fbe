//! Creates, enforces and deletes a first policy.

use e2e::installation::NAMESPACE;

use crate::test_namespace::{TestNamespace, scenarios};

scenarios![a_policy_is_applied_and_enforced];

fn a_policy_is_applied_and_enforced(test_namespace: &TestNamespace) {
    let (k, name) = (&test_namespace.k, &test_namespace.name);
    test_namespace.apply(&test_namespace.policy("pod-privileged"));
    test_namespace
        .installation
        .until_phase(&test_namespace.path(), "Active", 1);
    let refusal = k.fails("run trial --image=busybox:1 --privileged --dry-run=server");
    assert!(
        refusal.contains("container trial is privileged"),
        "{refusal}"
    );
    k.ok("run trial --image=busybox:1 --dry-run=server");
    test_namespace.enforces("container trial is privileged");
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
