//! What is read, what is said about the rest, and which line it is said to stand on.

use std::fs;
use std::path::PathBuf;

use polity_core::FieldPath;
use serde_json::json;

use super::{Document, Manifests};

/// `kind name @ file:line` for each document, then `! problem` for each problem.
fn shown(manifests: &Manifests) -> Vec<String> {
    let documents = manifests.documents.iter().map(|document| {
        format!(
            "{} {} @ {}",
            document.kind.kind,
            document.name(),
            document.origin
        )
    });
    let problems = manifests
        .problems
        .iter()
        .map(|problem| format!("! {problem}"));
    documents.chain(problems).collect()
}

fn check(text: &str, expected: &[&str]) {
    assert_eq!(shown(&Manifests::from_text("f", text)), expected, "{text}");
}

fn config_map(name: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n")
}

#[test]
fn documents_are_counted_from_their_first_line() {
    let (a, b) = (config_map("a"), config_map("b"));
    check(&a, &["ConfigMap a @ f:1"]);
    check(
        &format!("# remark\n\n---\n# remark\n{a}---\n---\n{b}...\n# end\n"),
        &["ConfigMap a @ f:5", "ConfigMap b @ f:11"],
    );
    check(&format!("--- # first\n{a}"), &["ConfigMap a @ f:2"]);
    check("", &[]);
    check("---\n---\n", &[]);
}

#[test]
fn marks_inside_a_text_are_not_marks() {
    let text =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: |\n    ---\n    y\n";
    check(text, &["ConfigMap a @ f:1"]);
}

#[test]
fn json_values_follow_each_other() {
    check(
        "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Secret\", \"metadata\": {\"name\": \"a\"}}\n{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}",
        &["Secret a @ f:1", "Pod  @ f:4"],
    );
}

#[test]
fn lists_are_their_items() {
    check(
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n- kind: Pod\n",
        &[
            "Pod a @ f:4",
            "! f:7: not a Kubernetes object: it has no apiVersion",
        ],
    );
    check(
        "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: a}\n",
        &["Pod a @ f:4"],
    );
}

#[test]
fn what_cannot_be_used_is_said_with_its_line() {
    let good = config_map("a");
    for (bad, expected) in [
        (
            "just text\n",
            "! f:1: not an object: a manifest has apiVersion, kind and metadata",
        ),
        (
            "- 1\n",
            "! f:1: not an object: a manifest has apiVersion, kind and metadata",
        ),
        (
            "kind: Pod\n",
            "! f:1: not a Kubernetes object: it has no apiVersion",
        ),
        (
            "apiVersion: v1\nkind: 3\n",
            "! f:1: not a Kubernetes object: it has no kind",
        ),
        (
            "apiVersion: a/b/c\nkind: Pod\n",
            "! f:1: apiVersion \"a/b/c\" is not a group and a version",
        ),
    ] {
        let line = 1 + bad.lines().count() + 1;
        check(
            &format!("{bad}---\n{good}"),
            &[&format!("ConfigMap a @ f:{line}"), expected],
        );
    }
}

#[test]
fn broken_yaml_names_its_line_and_the_rest_goes_on() {
    let broken = "apiVersion: v1\nkind: Pod\nmetadata: {name: [\n";
    let text = format!("{}---\n{broken}---\n{}", config_map("a"), config_map("b"));
    let manifests = Manifests::from_text("f", &text);
    assert_eq!(manifests.documents.len(), 2);
    let [problem] = &manifests.problems[..] else {
        panic!("{:?}", manifests.problems)
    };
    assert!((6..=9).contains(&problem.origin.line), "{problem}");
    assert!(problem.message.starts_with("not YAML: "), "{problem}");
    // The parser counts lines from the start of the document: its number would mislead.
    assert!(!problem.message.contains("line"), "{problem}");
}

#[test]
fn the_second_of_two_is_left_out_and_said() {
    let a = config_map("a");
    check(
        &format!("{a}---\n{a}"),
        &[
            "ConfigMap a @ f:1",
            "! f:6: ConfigMap a is there already, at f:1; this one is left out",
        ],
    );
}

#[test]
fn numbers_and_words_are_read_as_kubernetes_does() {
    let manifests = Manifests::from_text("f", "apiVersion: v1\nkind: X\nmode: 0644\nflag: yes\n");
    assert_eq!(manifests.documents[0].object["mode"], json!(420));
    assert_eq!(manifests.documents[0].object["flag"], json!(true));
}

const CRD: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com, labels: {a: b}}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, default: 3}
";

#[test]
fn defaults_of_a_definition_among_the_files_are_applied() {
    let widget = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {}\n";
    let manifests = Manifests::from_text("f", &format!("{widget}---\n{CRD}"));
    assert_eq!(manifests.documents[0].object["spec"], json!({"size": 3}));
    let (kind, definition) = manifests.definitions.first_key_value().unwrap();
    assert_eq!(kind.api_version(), "example.com/v1");
    assert!(definition.namespaced);
    assert_eq!(definition.singular, "widget");
    assert_eq!(definition.short_names, ["wd"]);
    assert_eq!(definition.labels["a"], "b");
}

#[test]
fn a_broken_schema_is_said_where_it_stands() {
    let broken = CRD.replace("type: integer", "type: number of things");
    let manifests = Manifests::from_text("f", &broken);
    let [problem] = &manifests.problems[..] else {
        panic!("{:?}", manifests.problems)
    };
    assert_eq!(problem.origin.line, 12, "{problem}");
    assert!(problem.message.contains("widgets.example.com"), "{problem}");
}

#[test]
fn fields_are_located() {
    let text = "# remark\n---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  labels:\n    a.b/c: d\nspec:\n  containers:\n  - name: x\n    image: y\n  - name: z\n";
    let manifests = Manifests::from_text("f", text);
    let document: &Document = &manifests.documents[0];
    let spec = FieldPath::of("spec");
    let containers = spec.child("containers");
    for (path, line) in [
        (FieldPath::root(), 3),
        (FieldPath::of("metadata").child("labels").key("a.b/c"), 8),
        (spec.clone(), 9),
        (containers.index(0).child("image"), 12),
        (containers.index(1), 13),
        (containers.index(1).child("image"), 13),
        (containers.index(7).child("image"), 10),
        (FieldPath::of("status"), 3),
    ] {
        assert_eq!(document.locate(&path).line, line, "{path}");
    }
}

#[test]
fn directories_are_read_in_order_and_odd_files_are_said() {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    };
    write("b.yaml", config_map("b").as_bytes());
    write("a/z.yml", config_map("a").as_bytes());
    write("notes.txt", b"not a manifest");
    write(".hidden/x.yaml", config_map("hidden").as_bytes());
    write("c.json", b"\xff\xfe");
    std::os::unix::fs::symlink(root.path(), root.path().join("a/loop")).unwrap();

    let manifests = Manifests::load(&[root.path().to_owned()]).unwrap();
    let base = root.path().display();
    assert_eq!(
        shown(&manifests),
        [
            format!("ConfigMap a @ {base}/a/z.yml:1"),
            format!("ConfigMap b @ {base}/b.yaml:1"),
            format!("! {base}/c.json:1: not UTF-8 text"),
        ]
    );
}

#[test]
fn nothing_to_read_is_an_error() {
    let empty = tempfile::tempdir().unwrap();
    let error = Manifests::load(&[empty.path().to_owned()]).unwrap_err();
    assert!(
        error.to_string().ends_with("contains no manifests"),
        "{error}"
    );
    let error = Manifests::load(&[PathBuf::from("/no/such/place")]).unwrap_err();
    assert!(format!("{error:#}").contains("/no/such/place"), "{error:#}");
}

/// A list of all Pods of a cluster has more values than a parser would read of a text that it does not trust.
#[test]
fn a_document_may_hold_many_values() {
    let values = "1,".repeat(300_000);
    let text = format!("apiVersion: v1\nkind: X\nmetadata: {{name: x}}\na: [{values}]\n");
    let manifests = Manifests::from_text("f", &text);
    assert_eq!(manifests.problems, []);
    let [document] = &manifests.documents[..] else {
        panic!("one document");
    };
    assert_eq!(document.object["a"].as_array().unwrap().len(), 300_000);
    assert_eq!(document.locate(&FieldPath::of("a")).line, 4);
}

#[test]
fn hostile_texts_end_in_a_problem() {
    let deep = format!("apiVersion: v1\nkind: X\na: {}", "[".repeat(100_000));
    let bomb = "apiVersion: v1\nkind: X\na: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f]\n";
    for text in [
        deep.as_str(),
        bomb,
        "{\"a\": ",
        "\u{0}\u{1}",
        "? ? ?\n: [",
        "&a *a",
    ] {
        let manifests = Manifests::from_text("f", text);
        assert_eq!(manifests.documents.len(), 0, "{text:.40}");
        assert_eq!(manifests.problems.len(), 1, "{text:.40}");
    }
}
