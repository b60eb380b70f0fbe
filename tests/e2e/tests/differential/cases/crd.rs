//! CustomResourceDefinitions and the objects they define: schemas, defaults, pruning, status, scale, columns.

use serde_json::{Value, json};

use crate::case::{
    Case, Step, Until, apply, case, delete, get, json_patch, merge, post, put, strategic,
};

const OLD_WIDGETS: &str = "/apis/{group}/v1beta1/namespaces/{ns}/widgets";
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const WIDGETS: &str = "/apis/{group}/v1/namespaces/{ns}/widgets";

/// A definition of Widgets in the case's own group.
pub(crate) fn definition(version: Value) -> Value {
    let mut full = json!({"name": "v1", "served": true, "storage": true});
    for (key, value) in version.as_object().into_iter().flatten() {
        full[key] = value.clone();
    }
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.{group}"},
        "spec": {"group": "{group}", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [full]}})
}

/// Creates a definition with this schema of `spec` and waits until its objects are served.
pub(crate) fn defined(spec: Value) -> Vec<Step> {
    defined_by(definition(
        json!({"schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}),
    ))
}

fn defined_by(definition: Value) -> Vec<Step> {
    vec![
        post(DEFINITIONS, definition).setup(),
        get(format!("{DEFINITIONS}/widgets.{{group}}"))
            .setup()
            .until(Until::Condition("Established", "True")),
        get(WIDGETS).setup().until(Until::Code(200)),
    ]
}

pub(crate) fn widget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "{group}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

fn at(name: &str) -> String {
    format!("{WIDGETS}/{name}")
}

fn simple() -> Value {
    json!({"type": "object", "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10, "default": 3},
        "color": {"type": "string", "enum": ["red", "green"]},
        "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
        "tags": {"type": "array", "maxItems": 2, "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "parts": {"type": "array", "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "count": {"type": "integer", "default": 1}}}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "when": {"type": "string", "format": "date-time"},
        "port": {"x-kubernetes-int-or-string": true},
        "maybe": {"type": "string", "nullable": true},
        "nested": {"type": "object", "default": {}, "properties": {"deep": {"type": "string", "default": "d"}}},
    }})
}

const PROTECTED: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{group}.k8s.io";

/// A CRD in a protected group of the Kubernetes project, with this approval annotation, or without it if empty.
fn protected(approval: &str) -> Value {
    let mut definition = definition(json!({"schema": {"openAPIV3Schema": {"type": "object"}}}));
    definition["metadata"]["name"] = json!("widgets.{group}.k8s.io");
    definition["spec"]["group"] = json!("{group}.k8s.io");
    if !approval.is_empty() {
        definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": approval});
    }
    definition
}

pub(crate) fn cases() -> Vec<Case> {
    let with =
        |name, setup: Vec<Step>, steps: Vec<Step>| case(name, setup.into_iter().chain(steps));
    let schema = |schema: Value| definition(json!({"schema": {"openAPIV3Schema": schema}}));
    vec![
        case(
            "crd: from create to served",
            [
                post(DEFINITIONS, schema(json!({"type": "object"}))),
                get(format!("{DEFINITIONS}/widgets.{{group}}")).until(Until::Condition("Established", "True")),
                get(WIDGETS).until(Until::Code(200)),
                get("/apis/{group}").until(Until::Code(200)),
                get("/apis/{group}/v1").until(Until::Code(200)),
                post(WIDGETS, json!({"apiVersion": "{group}/v1", "kind": "Widget", "metadata": {"name": "w"}})),
                get(at("w")),
                get(DEFINITIONS.to_owned() + "/widgets.{group}").accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
                delete(format!("{DEFINITIONS}/widgets.{{group}}")),
                get(format!("{DEFINITIONS}/widgets.{{group}}")).until(Until::Code(404)),
                get(WIDGETS).until(Until::Code(404)),
            ],
        ),
        case(
            "crd: protected groups",
            [
                post(DEFINITIONS, protected("")),
                post(DEFINITIONS, protected("yes")),
                post(DEFINITIONS, protected("unapproved, a test")),
                merge(PROTECTED, json!({"metadata": {"annotations": {"api-approved.kubernetes.io": "no"}}})),
                merge(PROTECTED, json!({"metadata": {"annotations": null}})),
                delete(PROTECTED).setup(),
            ],
        ),
        case(
            "crd: groups that are none",
            ["", "apps", "batch", "Upper.example.com"].map(|group| {
                let mut definition = schema(json!({"type": "object"}));
                definition["metadata"]["name"] = json!(format!("widgets.{group}"));
                definition["spec"]["group"] = json!(group);
                post(DEFINITIONS, definition)
            }),
        ),
        with(
            "crd: defaults and pruning",
            defined(simple()),
            vec![
                post(WIDGETS, widget("a", json!({"free": {"any": [1, {"x": null}]}, "unknown": 1, "map": {"x": 1}, "maybe": null, "size": null}))),
                post(format!("{WIDGETS}?fieldValidation=Strict"), widget("b", json!({"unknown": 1, "nested": {"x": 1}}))),
                post(format!("{WIDGETS}?fieldValidation=Ignore"), widget("b", json!({"unknown": 1}))),
                post(WIDGETS, json!({"apiVersion": "{group}/v1", "kind": "Widget", "metadata": {"name": "c", "colour": "x"}, "extra": 1})),
                get(WIDGETS),
                get(WIDGETS).accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
                put(at("a"), widget("a", json!({}))),
                merge(at("a"), json!({"spec": {"parts": [{"name": "p"}], "size": 4}})),
                merge(format!("{}?fieldValidation=Strict", at("a")), json!({"spec": {"odd": 1}})),
                json_patch(at("a"), json!([{"op": "replace", "path": "/spec/size", "value": 5}])),
                strategic(at("a"), json!({"spec": {}})),
                get(at("a")),
            ],
        ),
        with(
            "crd: validation",
            defined(simple()),
            vec![
                post(WIDGETS, widget("a", json!({"size": 0}))),
                post(WIDGETS, widget("a", json!({"size": 11}))),
                post(WIDGETS, widget("a", json!({"size": "big"}))),
                post(WIDGETS, widget("a", json!({"size": 1.5}))),
                post(WIDGETS, widget("a", json!({"color": "blue"}))),
                post(WIDGETS, widget("a", json!({"name": "x"}))),
                post(WIDGETS, widget("a", json!({"name": "toolong"}))),
                post(WIDGETS, widget("a", json!({"name": "ABC"}))),
                post(WIDGETS, widget("a", json!({"tags": ["a", "b", "c"]}))),
                post(WIDGETS, widget("a", json!({"tags": ["a", "a"]}))),
                post(WIDGETS, widget("a", json!({"parts": [{"count": 1}]}))),
                post(WIDGETS, widget("a", json!({"parts": [{"name": "x"}, {"name": "x"}]}))),
                post(WIDGETS, widget("a", json!({"map": {"x": "y"}}))),
                post(WIDGETS, widget("a", json!({"when": "yesterday"}))),
                post(WIDGETS, widget("a", json!({"port": true}))),
                post(WIDGETS, widget("a", json!("text"))),
                post(WIDGETS, widget("Bad_Name", json!({}))),
                post(WIDGETS, json!({"metadata": {"name": "a"}})),
                post(WIDGETS, json!({"apiVersion": "{group}/v2", "kind": "Widget", "metadata": {"name": "a"}})),
                post(WIDGETS, json!({"apiVersion": "{group}/v1", "kind": "Gadget", "metadata": {"name": "a"}})),
                post(WIDGETS, widget("ok", json!({"size": 2.0, "port": "http"}))),
                put(at("ok"), widget("ok", json!({}))),
            ],
        ),
        with(
            "crd: finalizers without a domain",
            defined(json!({"type": "object"})),
            vec![
                post(WIDGETS, json!({"apiVersion": "{group}/v1", "kind": "Widget", "metadata": {"name": "a", "finalizers": ["plain", "with.dot"]}})),
                merge(at("a"), json!({"metadata": {"finalizers": ["plain", "more"]}})),
                merge(at("a"), json!({"metadata": {"finalizers": ["not valid"]}})),
                merge(at("a"), json!({"metadata": {"finalizers": null}})),
            ],
        ),
        with(
            "crd: apply",
            defined(simple()),
            vec![
                apply(at("a"), "one", widget("a", json!({"size": 1, "parts": [{"name": "x", "count": 2}], "tags": ["t"], "free": {"k": "v"}}))),
                apply(at("a"), "two", widget("a", json!({"size": 2}))),
                apply(at("a"), "two", widget("a", json!({"parts": [{"name": "y"}], "tags": ["u"], "free": {"l": "w"}}))),
                apply(at("a"), "one", widget("a", json!({"size": 1}))),
                apply(at("a"), "two", widget("a", json!({"unknown": 1}))),
                apply(at("a"), "two", widget("a", json!({"size": "big"}))),
                apply(at("a"), "two", widget("a", json!({"parts": [{"count": 1}]}))),
                get(at("a")),
            ],
        ),
        with(
            "crd: status, scale, generation",
            defined_by(definition(json!({
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"replicas": {"type": "integer", "default": 1}}},
                    "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}}}}},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}},
                "additionalPrinterColumns": [
                    {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "description": "How many"},
                    {"name": "Ready", "type": "integer", "jsonPath": ".status.replicas", "priority": 1},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "selectableFields": [{"jsonPath": ".spec.replicas"}],
            }))),
            vec![
                post(WIDGETS, json!({"apiVersion": "{group}/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"replicas": 2}, "status": {"replicas": 9}})),
                merge(at("a/status"), json!({"status": {"replicas": 1, "selector": "a=b"}, "spec": {"replicas": 8}, "metadata": {"labels": {"x": "y"}}})),
                merge(at("a"), json!({"spec": {"replicas": 3}, "status": {"replicas": 7}})),
                merge(at("a"), json!({"metadata": {"labels": {"x": "y"}}})),
                get(at("a/status")),
                get(at("a/scale")),
                merge(at("a/scale"), json!({"spec": {"replicas": 5}})),
                put(at("a/scale"), json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a", "namespace": "{ns}"}, "spec": {"replicas": 6}})),
                merge(at("a/scale"), json!({"spec": {"replicas": -1}})),
                merge(at("a/status"), json!({"status": {"replicas": "x"}})),
                apply(at("a/status"), "s", json!({"apiVersion": "{group}/v1", "kind": "Widget", "metadata": {"name": "a"}, "status": {"replicas": 4}})),
                get(WIDGETS).accept("application/json;as=Table;v=v1;g=meta.k8s.io"),
                get(format!("{WIDGETS}?fieldSelector=spec.replicas%3D6")),
                get(format!("{WIDGETS}?fieldSelector=spec.other%3D6")),
                get(at("a")),
                get("/apis/{group}/v1"),
            ],
        ),
        case(
            "crd: invalid definitions",
            [
                post(DEFINITIONS, json!({"metadata": {"name": "wrong"}, "spec": {"group": "{group}", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}})),
                post(DEFINITIONS, definition(json!({}))),
                post(DEFINITIONS, definition(json!({"storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}}))),
                post(DEFINITIONS, schema(json!({"type": "string"}))),
                post(DEFINITIONS, schema(json!({"properties": {"spec": {"type": "object"}}}))),
                post(DEFINITIONS, schema(json!({"type": "object", "properties": {"spec": {"type": "array"}}}))),
                post(DEFINITIONS, schema(json!({"type": "object", "properties": {"spec": {"properties": {"a": {"type": "text"}}}}}))),
                post(DEFINITIONS, schema(json!({"type": "object", "properties": {"spec": {"type": "integer", "default": "x"}}}))),
                post(DEFINITIONS, schema(json!({"type": "object", "properties": {"spec": {"type": "object", "anyOf": [{"type": "object"}]}}}))),
                post(DEFINITIONS, schema(json!({"type": "object", "properties": {"spec": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "map"}}}))),
                post(DEFINITIONS, schema(json!({"type": "object", "properties": {"spec": {"type": "string", "pattern": "["}}}))),
                post(DEFINITIONS, schema(json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "string"}}}}))),
                post(DEFINITIONS, schema(json!({"type": "object", "properties": {"a": {"type": "string", "uniqueItems": true}}}))),
                post(DEFINITIONS, definition(json!({"schema": {"openAPIV3Schema": {"type": "object"}}, "additionalPrinterColumns": [{"name": "", "type": "text", "jsonPath": "spec"}]}))),
                post(DEFINITIONS, json!({"metadata": {"name": "widgets.nodot"}, "spec": {"group": "nodot", "scope": "Somewhere", "names": {"plural": "Widgets", "kind": ""}, "versions": []}})),
                post(DEFINITIONS, json!({"metadata": {"name": "x.y.z"}, "spec": {}})),
            ],
        ),
        case(
            "crd: changes to definitions",
            [
                post(DEFINITIONS, schema(json!({"type": "object"}))).setup(),
                get(format!("{DEFINITIONS}/widgets.{{group}}")).setup().until(Until::Condition("Established", "True")),
                merge(format!("{DEFINITIONS}/widgets.{{group}}"), json!({"spec": {"scope": "Cluster"}})),
                merge(format!("{DEFINITIONS}/widgets.{{group}}"), json!({"spec": {"names": {"kind": "Gadget", "listKind": "GadgetList"}}})),
                merge(format!("{DEFINITIONS}/widgets.{{group}}"), json!({"spec": {"group": "other.example.com"}})),
                merge(format!("{DEFINITIONS}/widgets.{{group}}"), json!({"spec": {"versions": [{"name": "v2", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}})),
                merge(format!("{DEFINITIONS}/widgets.{{group}}"), json!({"metadata": {"labels": {"a": "b"}}})),
                put(format!("{DEFINITIONS}/widgets.{{group}}"), schema(json!({"type": "object"}))),
                post(DEFINITIONS, json!({"metadata": {"name": "things.{group}"}, "spec": {"group": "{group}", "scope": "Namespaced", "names": {"plural": "things", "kind": "Widget"}, "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}})).setup(),
                get(format!("{DEFINITIONS}/things.{{group}}")).until(Until::Condition("NamesAccepted", "False")),
            ],
        ),
        case(
            "crd: two versions, one old",
            [
                post(DEFINITIONS, json!({"metadata": {"name": "widgets.{group}"}, "spec": {"group": "{group}", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]}, "versions": [
                    {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
                    {"name": "v1beta1", "served": true, "storage": false, "deprecated": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
                ]}})),
                get(format!("{DEFINITIONS}/widgets.{{group}}")).setup().until(Until::Condition("Established", "True")),
                get(WIDGETS).setup().until(Until::Code(200)),
                post("/apis/{group}/v1beta1/namespaces/{ns}/widgets", json!({"apiVersion": "{group}/v1beta1", "kind": "Widget", "metadata": {"name": "a"}, "x": 1})),
                get(at("a")),
                get("/apis/{group}"),
                merge(at("a"), json!({"x": 2})),
                merge("/apis/{group}/v1beta1/namespaces/{ns}/widgets/a", json!({"x": 3})),
            ],
        ),
        case(
            "crd: two versions, one with less",
            [
                post(DEFINITIONS, json!({"metadata": {"name": "widgets.{group}"}, "spec": {"group": "{group}", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"}, "versions": [
                    {"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                        "size": {"type": "integer"}, "port": {"type": "integer", "default": 8443}, "colour": {"type": "string"}}}}}}},
                    {"name": "v1beta1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                        "size": {"type": "integer"}}}}}}},
                ]}})).setup(),
                get(format!("{DEFINITIONS}/widgets.{{group}}")).setup().until(Until::Condition("Established", "True")),
                get(WIDGETS).setup().until(Until::Code(200)),
                get(OLD_WIDGETS).setup().until(Until::Code(200)),
                post(WIDGETS, json!({"apiVersion": "{group}/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1, "colour": "red"}})),
                get(format!("{OLD_WIDGETS}/a")),
                get(OLD_WIDGETS),
                get(at("a")),
                merge(format!("{OLD_WIDGETS}/a?fieldValidation=Strict"), json!({"spec": {"size": 2}})),
                get(at("a")),
                merge(format!("{OLD_WIDGETS}/a?fieldValidation=Strict"), json!({"spec": {"colour": "blue"}})),
                merge(at("a"), json!({"spec": {"colour": "green"}})),
                merge(format!("{OLD_WIDGETS}/a?dryRun=All"), json!({"metadata": {"labels": {"a": "b"}}})),
                get(at("a")),
            ],
        ),
        with(
            "crd: objects keep a definition",
            defined(json!({"type": "object"})),
            vec![
                post(WIDGETS, json!({"apiVersion": "{group}/v1", "kind": "Widget", "metadata": {"name": "stuck", "finalizers": ["example.com/hold"]}})).setup(),
                delete(format!("{DEFINITIONS}/widgets.{{group}}")),
                get(at("stuck")).until(Until::Field("/metadata/deletionGracePeriodSeconds", json!(0))),
                post(WIDGETS, json!({"apiVersion": "{group}/v1", "kind": "Widget", "metadata": {"name": "late"}})).until(Until::Code(403)),
                apply(at("late"), "one", widget("late", json!({}))),
                get(format!("{DEFINITIONS}/widgets.{{group}}")),
                get("/apis/{group}/v1"),
                merge(at("stuck"), json!({"metadata": {"finalizers": null}})),
                get(format!("{DEFINITIONS}/widgets.{{group}}")).until(Until::Code(404)),
            ],
        ),
    ]
}
