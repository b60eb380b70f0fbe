//! A CustomResourceDefinition, and everything that kubectl does to its resources.

use e2e::{Kubectl, eventually};
use serde_json::{Value, json};

e2e::scenarios![
    a_definition_is_created_and_deleted,
    custom_resources_are_objects_like_others,
    custom_resources_are_validated,
    custom_resources_have_columns_status_and_scale,
    cluster_scoped_custom_resources,
];

/// CRDs are cluster-scoped, so each scenario has its own group.
fn group(k: &Kubectl) -> String {
    format!("{}.example.com", k.namespace())
}

fn definition(k: &Kubectl, scope: &str) -> Value {
    let properties = json!({
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 10, "description": "How large it is."},
            "colour": {"type": "string", "enum": ["red", "green"], "default": "red"},
            "replicas": {"type": "integer", "default": 1},
            "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}}},
        }, "x-kubernetes-validations": [{"rule": "self.size < 9 || self.colour == 'green'", "message": "large ones are green"}]},
        "status": {"type": "object", "properties": {
            "replicas": {"type": "integer"},
            "conditions": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        }},
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{}", group(k))},
        "spec": {
            "group": group(k), "scope": scope,
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wdg"], "categories": ["gadgets"]},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "description": "A thing of some size.", "properties": properties}},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "priority": 1},
                ],
                "selectableFields": [{"jsonPath": ".spec.colour"}],
            }],
        },
    })
}

fn widget(k: &Kubectl, name: &str, spec: &Value) -> String {
    json!({"apiVersion": format!("{}/v1", group(k)), "kind": "Widget", "metadata": {"name": name}, "spec": spec}).to_string()
}

/// Applies the CRD and waits until it is established. Returns the full name of the resource, because other scenarios
/// have widgets too.
fn establish(k: &Kubectl, scope: &str) -> String {
    k.apply(&definition(k, scope).to_string());
    let name = format!("widgets.{}", group(k));
    k.ok(&format!(
        "wait crd/{name} --for=condition=Established --timeout=60s"
    ));
    name
}

/// A kind is served when its CRD is established, can be described and explained, and is removed together with its
/// objects.
fn a_definition_is_created_and_deleted(k: &Kubectl) {
    let name = format!("widgets.{}", group(k));
    let manifest = definition(k, "Namespaced").to_string();
    assert_eq!(
        k.apply(&manifest),
        format!("customresourcedefinition.apiextensions.k8s.io/{name} created")
    );
    k.ok(&format!(
        "wait crd/{name} --for=condition=Established --timeout=60s"
    ));
    assert_eq!(
        k.apply(&manifest),
        format!("customresourcedefinition.apiextensions.k8s.io/{name} unchanged")
    );
    let table = k.ok(&format!("get crd {name}"));
    assert!(table.contains("CREATED AT"), "{table}");
    assert!(
        k.describe(&format!("crd {name}"))
            .contains("Reason: InitialNamesAccepted")
    );
    let resources = k.ok(&format!(
        "api-resources --api-group={} --no-headers",
        group(k)
    ));
    assert_eq!(
        resources.split_whitespace().collect::<Vec<_>>(),
        [
            "widgets",
            "wdg",
            &format!("{}/v1", group(k)),
            "true",
            "Widget"
        ]
    );
    assert!(
        k.ok("api-versions")
            .lines()
            .any(|line| line == format!("{}/v1", group(k)))
    );
    // Real servers publish the schema shortly after the kind.
    let explained = eventually("the new kind is explained", || {
        let outcome = k.run(&format!("explain {name}.spec.size"), "");
        (outcome.code == Some(0)).then_some(outcome.stdout)
    });
    assert!(
        explained.contains("How large it is.") && explained.contains("<integer>"),
        "{explained}"
    );
    assert!(
        k.ok(&format!("explain {name} --recursive"))
            .contains("colour")
    );
    k.ok(&format!("label crd {name} a=b"));
    k.ok(&format!(r#"patch crd {name} --type=json -p '[{{"op":"add","path":"/spec/versions/0/additionalPrinterColumns/-","value":{{"name":"Parts","type":"string","jsonPath":".spec.parts"}}}}]'"#));
    let changed = k.fails_with_input("replace -f -", &definition(k, "Cluster").to_string());
    assert!(changed.contains("spec.scope: Invalid value"), "{changed}");

    k.apply(&widget(k, "a", &json!({"size": 1})));
    k.ok(&format!("delete crd {name}"));
    let gone = k.fails(&format!("get {name}"));
    assert!(
        gone.contains("the server doesn't have a resource type")
            || gone.contains("could not find the requested resource"),
        "{gone}"
    );
    k.apply(&manifest);
    k.ok(&format!(
        "wait crd/{name} --for=condition=Established --timeout=60s"
    ));
    assert_eq!(
        k.ok(&format!("get {name} -o name")),
        "",
        "resources do not come back with their kind"
    );
}

/// All commands on a custom resource: both kinds of apply, patches, labels, diff, replace, edit, wait, delete.
fn custom_resources_are_objects_like_others(k: &Kubectl) {
    let name = &establish(k, "Namespaced");
    let kind = format!("widget.{}", group(k));
    assert_eq!(
        k.apply(&widget(
            k,
            "a",
            &json!({"size": 1, "parts": [{"name": "p", "n": 1}]})
        )),
        format!("{kind}/a created")
    );
    assert_eq!(
        k.apply(&widget(
            k,
            "a",
            &json!({"size": 1, "parts": [{"name": "p", "n": 1}]})
        )),
        format!("{kind}/a unchanged")
    );
    assert_eq!(k.field(&format!("{name}/a"), ".spec.colour"), "red");
    assert_eq!(
        k.run("diff -f -", &widget(k, "a", &json!({"size": 2})))
            .code,
        Some(1)
    );
    assert_eq!(
        k.apply(&widget(k, "a", &json!({"size": 2}))),
        format!("{kind}/a configured")
    );
    assert_eq!(k.field(&format!("{name}/a"), ".spec.parts"), "");
    assert_eq!(k.field(&format!("{name}/a"), ".metadata.generation"), "2");

    let parts = |manager: &str, part: &str| {
        let body = widget(k, "b", &json!({"size": 3, "parts": [{"name": part}]}));
        k.ok_with_input(
            &format!("apply --server-side --field-manager={manager} -f -"),
            &body,
        )
    };
    assert_eq!(parts("one", "p"), format!("{kind}/b serverside-applied"));
    parts("two", "q");
    assert_eq!(k.field(&format!("{name}/b"), ".spec.parts[*].name"), "p q");
    let conflict = k.fails_with_input(
        "apply --server-side --field-manager=two -f -",
        &widget(k, "b", &json!({"size": 4})),
    );
    assert!(
        conflict.contains(r#"conflict with "one": .spec.size"#),
        "{conflict}"
    );

    assert_eq!(
        k.ok(&format!("label {name} a t=u")),
        format!("{kind}/a labeled")
    );
    assert_eq!(
        k.ok(&format!("annotate {name} a t=u")),
        format!("{kind}/a annotated")
    );
    assert_eq!(
        k.ok(&format!(
            r#"patch {name} a --type=merge -p '{{"spec":{{"size":5}}}}'"#
        )),
        format!("{kind}/a patched")
    );
    k.ok(&format!(r#"patch {name} a --type=json -p '[{{"op":"replace","path":"/spec/colour","value":"green"}}]'"#));
    let strategic = k.fails(&format!(
        r#"patch {name} a --type=strategic -p '{{"spec":{{"size":6}}}}'"#
    ));
    assert!(
        strategic.contains("application/strategic-merge-patch+json is not supported"),
        "{strategic}"
    );
    let object = k.json(&format!("get {name} a"));
    assert_eq!(
        k.ok_with_input("replace -f -", &object.to_string()),
        format!("{kind}/a replaced")
    );
    assert_eq!(
        k.ok(&format!("get {name} -l t=u -o name")),
        format!("{kind}/a")
    );
    assert_eq!(
        k.ok(&format!(
            "get {name} --field-selector=spec.colour=green -o name"
        )),
        format!("{kind}/a")
    );
    assert_eq!(
        k.ok(&format!("get {name} --sort-by=.spec.size -o name")),
        format!("{kind}/b\n{kind}/a")
    );
    k.ok(&format!("wait {name}/a --for=jsonpath={{.spec.size}}=5"));
    assert_eq!(k.ok(&format!("auth can-i delete {name}")), "yes");
    assert!(k.describe(&format!("{name} a")).contains("Colour: green"));
    k.ok(&format!("delete {name} --all"));
    assert_eq!(k.ok(&format!("get {name} -o name")), "");
}

/// Unknown fields, schema validation and CEL rules.
fn custom_resources_are_validated(k: &Kubectl) {
    let name = &establish(k, "Namespaced");
    let refusals = [
        (
            json!({"size": 0}),
            "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (json!({}), "spec.size: Required value"),
        (
            json!({"size": "x"}),
            "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\"",
        ),
        (
            json!({"size": 1, "colour": "blue"}),
            r#"spec.colour: Unsupported value: "blue": supported values: "red", "green""#,
        ),
        (json!({"size": 9}), "large ones are green"),
        (
            json!({"size": 1, "parts": [{"name": "p"}, {"name": "p"}]}),
            "spec.parts[1]: Duplicate value",
        ),
        (
            json!({"size": 1, "extra": true}),
            r#"strict decoding error: unknown field "spec.extra""#,
        ),
    ];
    for (spec, expected) in refusals {
        let output = k.fails_with_input("create -f -", &widget(k, "a", &spec));
        assert!(output.contains(expected), "{expected} in {output}");
    }
    let warned = k.run(
        "create --validate=warn -f -",
        &widget(
            k,
            "a",
            &json!({"size": 9, "colour": "green", "extra": true}),
        ),
    );
    assert_eq!(warned.code, Some(0), "{warned:?}");
    assert!(
        warned
            .stderr
            .contains(r#"Warning: unknown field "spec.extra""#),
        "{warned:?}"
    );
    assert_eq!(
        k.field(&format!("{name}/a"), ".spec"),
        r#"{"colour":"green","replicas":1,"size":9}"#
    );
}

/// Printer columns, `-o wide`, status and scale subresources, categories and short names.
fn custom_resources_have_columns_status_and_scale(k: &Kubectl) {
    let name = &establish(k, "Namespaced");
    k.apply(&widget(k, "a", &json!({"size": 4})));
    assert_eq!(k.ok(&format!("get {name} a")), "NAME   SIZE\na      4");
    assert_eq!(
        k.ok(&format!("get wdg.{} a -o wide", group(k))),
        "NAME   SIZE   COLOUR\na      4      red"
    );
    assert!(
        k.ok("get gadgets -o name")
            .contains(&format!("widget.{}/a", group(k)))
    );
    k.ok(&format!(r#"patch {name} a --subresource=status --type=merge -p '{{"spec":{{"size":9}},"status":{{"replicas":2,"conditions":[{{"type":"Ready","status":"True"}}]}}}}'"#));
    k.ok(&format!(
        "wait {name}/a --for=condition=Ready --timeout=60s"
    ));
    assert_eq!(
        k.field(
            &format!("{name}/a"),
            ".spec.size .metadata.generation .status.replicas"
        ),
        "4 1 2"
    );
    k.ok(&format!(
        r#"patch {name} a --type=merge -p '{{"status":{{"replicas":7}}}}'"#
    ));
    assert_eq!(k.field(&format!("{name}/a"), ".status.replicas"), "2");
    assert_eq!(
        k.ok(&format!("scale {name} a --replicas=6")),
        format!("widget.{}/a scaled", group(k))
    );
    assert_eq!(k.field(&format!("{name}/a"), ".spec.replicas"), "6");
    let scale = k.ok(&format!(
        "get --raw /apis/{}/v1/namespaces/{}/widgets/a/scale",
        group(k),
        k.namespace()
    ));
    let scale: Value = serde_json::from_str(&scale).unwrap();
    assert_eq!(
        (&scale["spec"]["replicas"], &scale["status"]["replicas"]),
        (&json!(6), &json!(2))
    );
}

/// The commands on a cluster-scoped custom resource.
fn cluster_scoped_custom_resources(k: &Kubectl) {
    let name = &establish(k, "Cluster");
    let kind = format!("widget.{}", group(k));
    assert_eq!(
        k.apply(&widget(k, "a", &json!({"size": 1}))),
        format!("{kind}/a created")
    );
    assert_eq!(
        k.ok_with_input(
            "apply --server-side --field-manager=m -f -",
            &widget(k, "b", &json!({"size": 2}))
        ),
        format!("{kind}/b serverside-applied")
    );
    assert_eq!(
        k.ok(&format!("get {name} -o name")),
        format!("{kind}/a\n{kind}/b")
    );
    assert_eq!(k.field(&format!("{name}/a"), ".metadata.namespace"), "");
    assert!(k.describe(&format!("{name} a")).contains("Namespace:\n"));
    assert!(
        k.ok(&format!("delete {name} a"))
            .starts_with(&format!("{kind} \"a\" deleted"))
    );
    assert_eq!(k.ok(&format!("get {name} -o name")), format!("{kind}/b"));
}
