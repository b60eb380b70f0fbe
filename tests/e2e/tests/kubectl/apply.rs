//! `kubectl apply`, client-side and server-side, and `kubectl diff`.

use std::collections::BTreeMap;

use e2e::Kubectl;
use serde_json::{Value, json};

e2e::scenarios![
    applies_client_side,
    applies_server_side,
    moves_to_server_side_apply,
    shows_the_difference,
    prunes_removed_objects,
];

fn config_map(data: &Value) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": data})
        .to_string()
}

/// Objects are created, unchanged or configured. Fields that are removed from the manifest are deleted; fields of
/// other clients stay.
fn applies_client_side(k: &Kubectl) {
    assert_eq!(
        k.apply(&config_map(&json!({"x": "1", "y": "1"}))),
        "configmap/a created"
    );
    assert_eq!(
        k.apply(&config_map(&json!({"x": "1", "y": "1"}))),
        "configmap/a unchanged"
    );
    k.ok(r#"patch cm a -p '{"data":{"other":"o"}}'"#);
    assert_eq!(
        k.apply(&config_map(&json!({"x": "2"}))),
        "configmap/a configured"
    );
    assert_eq!(k.field("cm/a", ".data"), r#"{"other":"o","x":"2"}"#);
    let last = k.ok("apply view-last-applied cm a -o json");
    assert_eq!(
        serde_json::from_str::<Value>(&last).unwrap()["data"],
        json!({"x": "2"})
    );
    let dry = k.ok_with_input(
        "apply --dry-run=server -f -",
        &config_map(&json!({"x": "3"})),
    );
    assert_eq!(dry, "configmap/a configured (server dry run)");
    assert_eq!(k.field("cm/a", ".data.x"), "2");
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b", "namespace": "elsewhere"}});
    let refused = k.fails_with_input("apply -f -", &other.to_string());
    assert!(
        refused.contains("does not match the namespace"),
        "{refused}"
    );
}

/// Field managers, a conflict, force, and giving up fields.
fn applies_server_side(k: &Kubectl) {
    let apply = "apply --server-side -f -";
    let as_other = "apply --server-side --field-manager=other -f -";
    assert_eq!(
        k.ok_with_input(apply, &config_map(&json!({"x": "1", "y": "1"}))),
        "configmap/a serverside-applied"
    );
    let version = k.field("cm/a", ".metadata.resourceVersion");
    k.ok_with_input(apply, &config_map(&json!({"x": "1", "y": "1"})));
    assert_eq!(k.field("cm/a", ".metadata.resourceVersion"), version, "S18");
    k.ok_with_input(as_other, &config_map(&json!({"x": "1"})));
    let conflict = k.fails_with_input(as_other, &config_map(&json!({"x": "2"})));
    assert!(
        conflict.contains(r#"Apply failed with 1 conflict: conflict with "kubectl": .data.x"#),
        "{conflict}"
    );
    assert!(conflict.contains("--force-conflicts"), "{conflict}");
    k.ok_with_input(
        &format!("{as_other} --force-conflicts"),
        &config_map(&json!({"x": "2"})),
    );
    assert_eq!(k.field("cm/a", ".data.x"), "2");
    // Only kubectl owned `y`.
    k.ok_with_input(apply, &config_map(&json!({"z": "1"})));
    assert_eq!(k.field("cm/a", ".data"), r#"{"x":"2","z":"1"}"#);
    let object = k.json("get cm a --show-managed-fields");
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    // By name, because entries are sorted by time in whole seconds.
    let owned: BTreeMap<&str, &Value> = entries
        .iter()
        .map(|entry| (entry["manager"].as_str().unwrap(), &entry["fieldsV1"]))
        .collect();
    let (x, z) = (
        json!({"f:data": {"f:x": {}}}),
        json!({"f:data": {"f:z": {}}}),
    );
    assert_eq!(owned, BTreeMap::from([("kubectl", &z), ("other", &x)]));
}

/// Server-side apply takes over an object from client-side apply without a conflict.
fn moves_to_server_side_apply(k: &Kubectl) {
    k.apply(&config_map(&json!({"x": "1", "gone": "1"})));
    let moved = k.run("apply --server-side -f -", &config_map(&json!({"x": "2"})));
    assert_eq!(moved.code, Some(0), "{moved:?}");
    assert_eq!(k.field("cm/a", ".data"), r#"{"x":"2"}"#);
    let last = k.ok("apply view-last-applied cm a -o json");
    assert_eq!(
        serde_json::from_str::<Value>(&last).unwrap()["data"],
        json!({"x": "2"})
    );
    assert_eq!(
        k.apply(&config_map(&json!({"x": "3"}))),
        "configmap/a configured"
    );
    assert_eq!(k.field("cm/a", ".data"), r#"{"x":"3"}"#);
}

/// `diff` sends a dry run. Its exit code shows whether there is a difference.
fn shows_the_difference(k: &Kubectl) {
    let new = k.run("diff -f -", &config_map(&json!({"x": "1"})));
    assert_eq!(new.code, Some(1), "{new:?}");
    assert!(new.stdout.contains("+  x: \"1\""), "{new:?}");
    k.apply(&config_map(&json!({"x": "1"})));
    for side in ["", " --server-side"] {
        let same = k.run(&format!("diff{side} -f -"), &config_map(&json!({"x": "1"})));
        if side.is_empty() {
            assert_eq!((same.code, same.stdout.as_str()), (Some(0), ""), "{same:?}");
        }
        let changed = k.run(&format!("diff{side} -f -"), &config_map(&json!({"x": "2"})));
        assert_eq!(changed.code, Some(1), "{changed:?}");
        assert!(
            changed.stdout.contains("-  x: \"1\"\n+  x: \"2\""),
            "{changed:?}"
        );
    }
    assert_eq!(k.field("cm/a", ".data.x"), "1");
}

/// A list of objects is applied at once. Objects with the label that are no longer in it are deleted.
fn prunes_removed_objects(k: &Kubectl) {
    let list = |names: &[&str]| {
        let items: Vec<Value> = names
            .iter()
            .map(|name| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"set": "mine"}}}))
            .collect();
        json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
    };
    let prune = "apply --prune --prune-allowlist=core/v1/ConfigMap -l set=mine -f -";
    assert_eq!(
        k.ok_with_input(prune, &list(&["a", "b"])),
        "configmap/a created\nconfigmap/b created"
    );
    assert_eq!(
        k.ok_with_input(prune, &list(&["b", "c"])),
        "configmap/b unchanged\nconfigmap/c created\nconfigmap/a pruned"
    );
    assert_eq!(
        k.ok("get cm -l set=mine -o name"),
        "configmap/b\nconfigmap/c"
    );
}
