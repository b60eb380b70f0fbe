//! Deletion: finalizers, owner references, `--wait` and `--force`.

use e2e::{Kubectl, eventually};
use serde_json::{Value, json};

e2e::scenarios![
    waits_for_finalizers,
    deletes_dependents,
    keeps_orphans,
    deletes_dependents_first,
    deletes_many,
];

fn config_map(name: &str, metadata: &Value) -> String {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    for (field, value) in metadata.as_object().into_iter().flatten() {
        object["metadata"][field] = value.clone();
    }
    object.to_string()
}

fn owner_of(k: &Kubectl, name: &str) -> Value {
    let uid = k.field(&format!("cm/{name}"), ".metadata.uid");
    json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "blockOwnerDeletion": true}])
}

/// The object stays with a deletion timestamp until its finalizers are removed. kubectl waits for that.
fn waits_for_finalizers(k: &Kubectl) {
    k.apply(&config_map(
        "held",
        &json!({"finalizers": ["example.com/a", "example.com/b"]}),
    ));
    let deletion = k.start("delete configmap held");
    k.ok(
        "wait configmap/held --for=jsonpath={.metadata.deletionGracePeriodSeconds}=0 --timeout=60s",
    );
    let marked = k.field("cm/held", ".metadata.deletionTimestamp");
    k.ok("delete configmap held --wait=false");
    assert_eq!(k.field("cm/held", ".metadata.deletionTimestamp"), marked);
    let late = k.fails(r#"patch cm held --type=merge -p '{"metadata":{"finalizers":["example.com/a","example.com/late"]}}'"#);
    assert!(
        late.contains("no new finalizers can be added if the object is being deleted"),
        "{late}"
    );
    k.ok(r#"patch cm held --type=merge -p '{"metadata":{"finalizers":["example.com/b"]}}'"#);
    k.ok(r#"patch cm held --type=json -p '[{"op":"remove","path":"/metadata/finalizers/0"}]'"#);
    let end = deletion.finish();
    assert_eq!(end.code, Some(0), "{end:?}");
    assert!(
        end.stdout.starts_with(r#"configmap "held" deleted"#),
        "{end:?}"
    );
    assert_eq!(k.ok("get cm held --ignore-not-found"), "");
    k.apply(&config_map(
        "held",
        &json!({"finalizers": ["example.com/a"]}),
    ));
    let impatient = k.fails("delete cm held --timeout=1s");
    assert!(
        impatient.contains("timed out waiting for the condition"),
        "{impatient}"
    );
    k.ok(r#"patch cm held --type=merge -p '{"metadata":{"finalizers":[]}}'"#);
    k.ok("wait cm/held --for=delete --timeout=60s");
}

/// Background deletion of dependents, two levels deep.
fn deletes_dependents(k: &Kubectl) {
    k.ok("create configmap owner");
    k.apply(&config_map(
        "child",
        &json!({"ownerReferences": owner_of(k, "owner")}),
    ));
    k.apply(&config_map(
        "grandchild",
        &json!({"ownerReferences": owner_of(k, "child")}),
    ));
    k.ok("delete configmap owner");
    k.ok("wait cm/child cm/grandchild --for=delete --timeout=60s");
    assert_eq!(
        k.ok("get cm child grandchild --ignore-not-found -o name"),
        ""
    );
}

/// Orphaned dependents stay without their owner reference.
fn keeps_orphans(k: &Kubectl) {
    k.ok("create configmap owner");
    k.apply(&config_map(
        "child",
        &json!({"ownerReferences": owner_of(k, "owner")}),
    ));
    k.ok("delete configmap owner --cascade=orphan");
    eventually("the child forgets its owner", || {
        k.field("cm/child", ".metadata.ownerReferences")
            .is_empty()
            .then_some(())
    });
    assert_eq!(k.ok("get cm owner --ignore-not-found"), "");
}

/// Foreground deletion removes the owner last.
fn deletes_dependents_first(k: &Kubectl) {
    k.ok("create configmap owner");
    k.apply(&config_map(
        "child",
        &json!({"ownerReferences": owner_of(k, "owner"), "finalizers": ["example.com/hold"]}),
    ));
    let deletion = k.start("delete configmap owner --cascade=foreground");
    k.ok("wait cm/child --for=jsonpath={.metadata.deletionGracePeriodSeconds}=0 --timeout=60s");
    assert_eq!(
        k.field("cm/owner", ".metadata.finalizers[*]"),
        "foregroundDeletion"
    );
    k.ok(r#"patch cm child --type=merge -p '{"metadata":{"finalizers":null}}'"#);
    let end = deletion.finish();
    assert_eq!(end.code, Some(0), "{end:?}");
    assert_eq!(k.ok("get cm owner child --ignore-not-found -o name"), "");
}

/// Deletion by label, by file, of all objects of a kind, of several kinds, and of missing objects.
fn deletes_many(k: &Kubectl) {
    for name in ["a", "b", "c", "d"] {
        k.apply(&config_map(name, &json!({"labels": {"mine": "yes"}})));
    }
    k.ok("create secret generic s");
    let output = k.ok_with_input("delete -f -", &config_map("a", &Value::Null));
    assert!(output.starts_with(r#"configmap "a" deleted"#), "{output}");
    k.ok("delete cm b --force --grace-period=0");
    k.ok("delete cm,secret -l mine=yes");
    assert_eq!(k.ok("get cm -l mine -o name"), "");
    assert_eq!(k.ok("get secret s -o name"), "secret/s");
    let missing = k.fails("delete cm a");
    assert!(missing.contains(r#"configmaps "a" not found"#), "{missing}");
    assert_eq!(k.ok("delete cm a --ignore-not-found"), "");
    k.ok("delete secret --all");
    assert_eq!(k.ok("get secret -o name"), "");
    k.ok("create configmap dry");
    assert!(
        k.ok("delete cm dry --dry-run=server")
            .contains("(server dry run)")
    );
    k.ok("get cm dry");
}
