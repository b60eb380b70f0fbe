//! Namespaces: creation, display, content and deletion.

use e2e::Kubectl;
use serde_json::json;

e2e::scenarios![
    a_namespace_is_created_and_deleted,
    a_deletion_waits_for_finalizers,
    every_command_works_on_a_namespace,
];

fn a_namespace_is_created_and_deleted(k: &Kubectl) {
    let name = k.namespace();
    assert_eq!(k.field(&format!("ns/{name}"), ".status.phase"), "Active");
    assert_eq!(
        k.field(
            &format!("ns/{name}"),
            r".metadata.labels.kubernetes\.io/metadata\.name"
        ),
        name
    );
    assert_eq!(
        k.field(&format!("ns/{name}"), ".spec.finalizers[*]"),
        "kubernetes"
    );
    let table = k.ok(&format!("get namespace {name}"));
    assert!(table.contains("Active"), "{table}");
    let text = k.describe(&format!("namespace {name}"));
    for part in [
        "Status: Active",
        "No resource quota.",
        "No LimitRange resource.",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    k.ok("create configmap a");
    k.ok("create deployment web --image=nginx:1");
    k.ok("run pod --image=nginx:1");
    k.ok("create secret generic s --from-literal=a=b");
    // `delete` waits until the namespace is gone.
    k.ok(&format!("delete namespace {name}"));
    assert_eq!(
        k.ok(&format!("get namespace {name} --ignore-not-found")),
        ""
    );
    let missing = k.fails("create configmap b");
    assert!(
        missing.contains(&format!(r#"namespaces "{name}" not found"#)),
        "{missing}"
    );
    // A new namespace with the same name is empty.
    k.ok(&format!("create namespace {name}"));
    assert_eq!(k.ok("get cm a --ignore-not-found"), "");
    let protected = k.fails("delete namespace kube-system");
    assert!(
        protected.contains("this namespace may not be deleted"),
        "{protected}"
    );
}

/// An object with a finalizer delays the deletion of its namespace, and new objects are refused meanwhile.
fn a_deletion_waits_for_finalizers(k: &Kubectl) {
    let name = k.namespace();
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    k.apply(&held.to_string());
    let deletion = k.start(&format!("delete namespace {name}"));
    k.ok(&format!(
        "wait namespace/{name} --for=jsonpath={{.status.phase}}=Terminating --timeout=60s"
    ));
    k.ok(
        "wait configmap/held --for=jsonpath={.metadata.deletionGracePeriodSeconds}=0 --timeout=60s",
    );
    let late = k.fails("create configmap late");
    assert!(late.contains("because it is being terminated"), "{late}");
    k.ok(&format!(
        "wait namespace/{name} --for=condition=NamespaceFinalizersRemaining --timeout=60s"
    ));
    let why = k.describe(&format!("namespace {name}"));
    assert!(why.contains("Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"), "{why}");
    k.ok(r#"patch configmap held --type=merge -p '{"metadata":{"finalizers":null}}'"#);
    let end = deletion.finish();
    assert_eq!(end.code, Some(0), "{end:?}");
    assert_eq!(
        k.ok(&format!("get namespace {name} --ignore-not-found")),
        ""
    );
}

/// All commands on a cluster-scoped built-in kind.
fn every_command_works_on_a_namespace(k: &Kubectl) {
    let name = format!("{}-x", k.namespace());
    let manifest = |label: &str| {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"l": label}}}).to_string()
    };
    assert_eq!(k.apply(&manifest("1")), format!("namespace/{name} created"));
    assert_eq!(
        k.apply(&manifest("1")),
        format!("namespace/{name} unchanged")
    );
    assert_eq!(k.run("diff -f -", &manifest("2")).code, Some(1));
    assert_eq!(
        k.ok_with_input("apply --server-side -f -", &manifest("2")),
        format!("namespace/{name} serverside-applied")
    );
    assert_eq!(
        k.ok(&format!("label ns {name} m=n")),
        format!("namespace/{name} labeled")
    );
    assert_eq!(
        k.ok(&format!("annotate ns {name} m=n")),
        format!("namespace/{name} annotated")
    );
    let object = k.json(&format!("get ns {name}"));
    assert_eq!(object["metadata"]["labels"]["l"], "2");
    assert_eq!(
        k.ok_with_input("replace -f -", &object.to_string()),
        format!("namespace/{name} replaced")
    );
    k.ok(&format!(
        r#"patch ns {name} --type=json -p '[{{"op":"remove","path":"/metadata/labels/m"}}]'"#
    ));
    assert_eq!(
        k.ok(&format!("get ns {name} -L l,m --no-headers"))
            .split_whitespace()
            .collect::<Vec<_>>()[3..],
        ["2"]
    );
    k.ok(&format!(
        "wait ns/{name} --for=jsonpath={{.status.phase}}=Active"
    ));
    k.ok("explain namespace.status.phase");
    assert_eq!(k.ok("auth can-i create namespaces"), "yes");
    k.ok(&format!("delete ns {name} --wait=false"));
    k.ok(&format!("wait ns/{name} --for=delete --timeout=60s"));
}
