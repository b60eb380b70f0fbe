//! All commands on one ConfigMap.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use e2e::Kubectl;

e2e::scenarios![
    reads_one_object_in_every_form,
    labels_and_annotates,
    patches_in_every_way,
    replaces,
    edits,
    describes,
    validates_fields,
];

/// Tables, JSON, names, jsonpath and templates of one object.
fn reads_one_object_in_every_form(k: &Kubectl) {
    k.ok("create configmap a --from-literal=x=1 --from-literal=y=2");
    let table = k.ok("get configmap a");
    assert!(
        table.starts_with("NAME   DATA   AGE\na      2      "),
        "{table}"
    );
    assert_eq!(k.ok("get cm a -o name"), "configmap/a");
    assert_eq!(k.field("cm/a", ".data.x"), "1");
    assert_eq!(k.json("get cm a")["data"]["y"], "2");
    assert_eq!(
        k.ok("get cm a -o go-template='{{.metadata.name}}-{{.kind}}'"),
        "a-ConfigMap"
    );
    let columns = k.ok("get cm a -o custom-columns=N:.metadata.name,X:.data.x --no-headers");
    assert_eq!(columns, "a     1");
    assert!(k.ok("get cm a -o yaml").contains("\nkind: ConfigMap\n"));
    assert!(k.ok("get cm a --show-labels").ends_with("<none>"));
    assert!(k.ok("get cm a -o wide").starts_with("NAME   DATA   AGE\n"));
    let missing = k.fails("get cm missing");
    assert_eq!(
        missing,
        r#"Error from server (NotFound): configmaps "missing" not found"#
    );
    assert_eq!(k.ok("get cm missing --ignore-not-found"), "");
    let twice = k.fails("create configmap a");
    assert_eq!(
        twice,
        r#"error: failed to create configmap: configmaps "a" already exists"#
    );
}

/// Merge patches of metadata, and one without a change.
fn labels_and_annotates(k: &Kubectl) {
    k.ok("create configmap a --from-literal=x=1");
    let labelled = |k: &Kubectl| k.field("cm/a", ".metadata.labels");
    assert_eq!(k.ok("label cm a tier=web env=dev"), "configmap/a labeled");
    assert_eq!(labelled(k), r#"{"env":"dev","tier":"web"}"#);
    let refused = k.fails("label cm a tier=db");
    assert!(
        refused.contains("'tier' already has a value (web), and --overwrite is false"),
        "{refused}"
    );
    k.ok("label cm a tier=db --overwrite");
    let version = k.field("cm/a", ".metadata.resourceVersion");
    assert_eq!(k.ok("label cm a tier=db"), "configmap/a not labeled");
    assert_eq!(k.ok("label cm a env-"), "configmap/a unlabeled");
    assert_ne!(k.field("cm/a", ".metadata.resourceVersion"), version);
    assert_eq!(labelled(k), r#"{"tier":"db"}"#);
    assert_eq!(
        k.ok("annotate cm a note='two words'"),
        "configmap/a annotated"
    );
    assert_eq!(k.field("cm/a", ".metadata.annotations.note"), "two words");
    let object = k.json("get cm a --show-managed-fields");
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let managers: BTreeSet<&str> = entries
        .iter()
        .filter_map(|entry| entry["manager"].as_str())
        .collect();
    assert_eq!(
        managers,
        BTreeSet::from(["kubectl-annotate", "kubectl-create", "kubectl-label"])
    );
    let wrong = k.fails("label cm a 'bad key!=x'");
    assert!(wrong.contains("bad key!"), "{wrong}");
}

/// Strategic merge, merge and JSON patches, a failed test operation, and a patch without a change.
fn patches_in_every_way(k: &Kubectl) {
    k.ok("create configmap a --from-literal=x=1");
    assert_eq!(
        k.ok(r#"patch cm a -p '{"data":{"y":"2"}}'"#),
        "configmap/a patched"
    );
    k.ok(r#"patch cm a --type=merge -p '{"data":{"x":null,"z":"3"}}'"#);
    k.ok(r#"patch cm a --type=json -p '[{"op":"test","path":"/data/y","value":"2"},{"op":"add","path":"/data/w","value":"4"}]'"#);
    assert_eq!(k.field("cm/a", ".data"), r#"{"w":"4","y":"2","z":"3"}"#);
    assert_eq!(
        k.ok(r#"patch cm a -p '{"data":{"y":"2"}}'"#),
        "configmap/a patched (no change)"
    );
    let test =
        k.fails(r#"patch cm a --type=json -p '[{"op":"test","path":"/data/y","value":"no"}]'"#);
    assert!(test.contains("The request is invalid"), "{test}");
    k.ok(r#"patch cm a --type=merge -p '{"data":{"y":"dry"}}' --dry-run=server"#);
    assert_eq!(k.field("cm/a", ".data.y"), "2");
    let typed = k.fails(r#"patch cm a --type=merge -p '{"data":{"y":2}}'"#);
    assert!(
        typed.contains("cannot be handled as a ConfigMap") || typed.contains("is invalid"),
        "{typed}"
    );
}

/// `replace` sends the version that it read. A stale version is a conflict. `--force` deletes and creates the object.
fn replaces(k: &Kubectl) {
    k.ok("create configmap a --from-literal=x=1");
    let mut object = k.json("get cm a");
    let uid = object["metadata"]["uid"].clone();
    object["data"]["x"] = "2".into();
    assert_eq!(
        k.ok_with_input("replace -f -", &object.to_string()),
        "configmap/a replaced"
    );
    object["data"]["x"] = "3".into();
    let stale = k.fails_with_input("replace -f -", &object.to_string());
    assert!(stale.contains("Error from server (Conflict)"), "{stale}");
    assert!(
        stale.contains(
            "the object has been modified; please apply your changes to the latest version"
        ),
        "{stale}"
    );
    assert_eq!(k.field("cm/a", ".data.x"), "2");
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.remove("resourceVersion");
    metadata.remove("uid");
    let forced = k.ok_with_input("replace --force -f -", &object.to_string());
    assert!(forced.ends_with("configmap/a replaced"), "{forced}");
    assert_ne!(k.json("get cm a")["metadata"]["uid"], uid);
    let missing = k.fails_with_input(
        "replace -f -",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}"#,
    );
    assert!(missing.contains(r#"configmaps "b" not found"#), "{missing}");
}

/// `edit` opens an editor and patches the changes.
fn edits(k: &Kubectl) {
    k.ok("create configmap a --from-literal=x=before");
    let editor = k.home().join("editor");
    fs::write(&editor, "#!/bin/sh\nsed -i.bak 's/before/after/' \"$1\"\n").unwrap();
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(k.ok("edit configmap a"), "configmap/a edited");
    assert_eq!(k.field("cm/a", ".data.x"), "after");
    let again = k.run("edit configmap a", "");
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(
        again.stderr.contains("Edit cancelled, no changes made"),
        "{again:?}"
    );
}

/// `describe` shows the object and its events.
fn describes(k: &Kubectl) {
    k.ok("create configmap a --from-literal=x=hello");
    let text = k.describe("configmap a");
    for part in [
        "Name: a\n",
        &format!("Namespace: {}\n", k.namespace()),
        "x:\n----\nhello\n",
        "Events: <none>",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let missing = k.fails("describe configmap missing");
    assert!(
        missing.contains(r#"configmaps "missing" not found"#),
        "{missing}"
    );
}

/// kubectl leaves field validation to the server, which is strict by default.
fn validates_fields(k: &Kubectl) {
    let manifest =
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"dada":{"x":"1"}}"#;
    let strict = k.fails_with_input("create -f -", manifest);
    assert!(
        strict.contains(r#"strict decoding error: unknown field "dada""#),
        "{strict}"
    );
    let warned = k.run("create --validate=warn -f -", manifest);
    assert_eq!(warned.code, Some(0), "{warned:?}");
    assert!(
        warned.stderr.contains(r#"Warning: unknown field "dada""#),
        "{warned:?}"
    );
    k.ok("delete cm a");
    let ignored = k.run("create --validate=ignore -f -", manifest);
    assert_eq!(
        (ignored.code, ignored.stderr.as_str()),
        (Some(0), ""),
        "{ignored:?}"
    );
    assert_eq!(k.field("cm/a", ".dada"), "");
    let unknown = k.fails_with_input(
        "create -f -",
        r#"{"apiVersion":"v9","kind":"Nothing","metadata":{"name":"a"}}"#,
    );
    assert!(
        unknown.contains(r#"no matches for kind "Nothing" in version "v9""#),
        "{unknown}"
    );
}
