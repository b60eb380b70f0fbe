//! Sets of fields, and how they are written.

#![expect(
    clippy::needless_pass_by_value,
    reason = "cases read better as literals"
)]

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn set(fields: Value) -> FieldSet {
    FieldSet::parse(&fields).unwrap()
}

fn printed(set: &FieldSet) -> Vec<String> {
    set.paths().iter().map(ToString::to_string).collect()
}

fn pod() -> Schema {
    let text = json!({"type": "string"});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "replicas": {"type": "integer"},
        "containers": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": text, "image": text, "port": {"type": "integer", "default": 80}}}},
        "names": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
        "args": {"type": "array", "items": text},
        "selector": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": text},
        "labels": {"type": "object", "additionalProperties": text},
        "empty": {"type": "object", "properties": {"x": text}},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }}}});
    Schema::parse_crd(&schema).unwrap()
}

#[test]
fn a_body_owns_its_leaves() {
    let body = json!({
        "apiVersion": "a/v1", "metadata": {"name": "x", "labels": {"a": "b"}, "finalizers": ["f"]},
        "spec": {
            "replicas": 1,
            "containers": [{"name": "c", "image": "i"}],
            "names": ["n", "m"],
            "args": ["a"],
            "selector": {"a": "b"},
            "labels": {"l": "m"},
            "empty": {},
            "open": {"deep": {"list": [1], "er": 2}},
        },
    });
    assert_eq!(
        printed(&FieldSet::of(&pod(), &body)),
        [
            ".apiVersion",
            ".metadata.name",
            ".metadata.finalizers[=\"f\"]",
            ".metadata.labels.a",
            ".spec.args",
            ".spec.empty",
            ".spec.replicas",
            ".spec.selector",
            ".spec.containers[name=\"c\",port=80]",
            ".spec.containers[name=\"c\",port=80].image",
            ".spec.containers[name=\"c\",port=80].name",
            ".spec.labels.l",
            ".spec.names[=\"m\"]",
            ".spec.names[=\"n\"]",
            ".spec.open.deep",
            ".spec.open.deep.er",
            ".spec.open.deep.list",
        ]
    );
}

#[test]
fn fields_v1_reads_and_writes() {
    let cases = [
        json!({}),
        json!({"f:spec": {"f:replicas": {}}}),
        json!({"f:spec": {".": {}, "f:replicas": {}}}),
        json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\",\"port\":80}": {".": {}, "f:image": {}}}}}),
        json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"x\"": {}}}}),
        json!({"f:list": {"i:0": {}}}),
        json!({"f:a": {"v:1": {}, "v:true": {}}}),
    ];
    for fields in cases {
        assert_eq!(set(fields.clone()).to_fields_v1(), fields);
    }
    assert_eq!(
        set(json!({"k:{\"b\":1,\"a\":2}": {}})).to_fields_v1(),
        json!({"k:{\"a\":2,\"b\":1}": {}})
    );
    assert_eq!(
        set(json!({"f:a": {}, "z:new": {"f:x": {}}})).to_fields_v1(),
        json!({"f:a": {}})
    );
    assert_eq!(
        set(json!({"v:\"<\"": {}})).to_fields_v1(),
        json!({"v:\"\\u003c\"": {}})
    );
    let keys = ["f:z", "k:{\"a\":1}", "v:\"a\""].map(|key| (key.to_owned(), json!({})));
    let written = set(
        json!({"f:s": Value::Object(keys.into_iter().chain([(".".to_owned(), json!({}))]).collect())}),
    );
    assert_eq!(
        written.to_fields_v1().to_string(),
        r#"{"f:s":{".":{},"f:z":{},"k:{\"a\":1}":{},"v:\"a\"":{}}}"#
    );
}

#[test]
fn nonsense_is_refused() {
    for fields in [
        json!([]),
        json!({"spec": {}}),
        json!({"f:a": 1}),
        json!({"k:{": {}}),
        json!({"i:x": {}}),
        json!({"": {}}),
        json!({"é:": {}}),
    ] {
        assert!(FieldSet::parse(&fields).is_err(), "{fields}");
    }
}

#[test]
fn paths_print_as_the_server_prints_them() {
    let all = set(
        json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {"f:image": {}}}, "f:set": {"v:\"x\"": {}}, "f:list": {"i:3": {}}}}),
    );
    assert_eq!(
        printed(&all),
        [
            ".spec.containers[name=\"c\"].image",
            ".spec.list[3]",
            ".spec.set[=\"x\"]",
        ]
    );
}

#[test]
fn sets_combine() {
    let a = set(json!({"f:x": {".": {}, "f:y": {}, "f:z": {}}, "f:w": {}}));
    let b = set(json!({"f:x": {"f:y": {}}, "f:v": {}}));
    assert_eq!(printed(&a.union(&b)), [".v", ".w", ".x", ".x.y", ".x.z"]);
    assert_eq!(printed(&a.intersection(&b)), [".x.y"]);
    assert_eq!(printed(&a.difference(&b)), [".w", ".x", ".x.z"]);
    assert_eq!(
        printed(&a.difference(&set(json!({"f:x": {}})))),
        [".w", ".x.y", ".x.z"]
    );
    assert_eq!(
        printed(&a.difference_below(&set(json!({"f:x": {}})))),
        [".w"]
    );
    assert!(a.contains(&[
        PathElement::Field("x".into()),
        PathElement::Field("z".into())
    ]));
    assert!(!b.contains(&[PathElement::Field("x".into())]));
    assert_eq!(set(json!({"v:1": {}})), set(json!({"v:1.0": {}})));
}

fn any_fields() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        "f:[a-c]",
        Just("k:{\"n\":\"a\"}".to_owned()),
        Just("k:{\"n\":1,\"p\":true}".to_owned()),
        Just("v:\"x\"".to_owned()),
        Just("i:1".to_owned()),
    ];
    let leaf = Just(json!({}));
    leaf.prop_recursive(4, 24, 4, move |inner| {
        (
            prop::collection::btree_map(key.clone(), inner, 1..4),
            any::<bool>(),
        )
            .prop_map(|(map, own)| {
                let mut map: serde_json::Map<_, _> = map.into_iter().collect();
                if own {
                    map.insert(".".to_owned(), json!({}));
                }
                Value::Object(map)
            })
    })
}

proptest! {
    #[test]
    fn fields_v1_round_trips(fields in any_fields()) {
        let parsed = set(fields);
        prop_assert_eq!(&set(parsed.to_fields_v1()), &parsed);
    }

    #[test]
    fn set_laws_hold(a in any_fields(), b in any_fields()) {
        let (a, b) = (set(a), set(b));
        prop_assert_eq!(a.union(&b), b.union(&a));
        prop_assert_eq!(a.intersection(&b), b.intersection(&a));
        prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
        prop_assert!(a.difference(&a).is_empty());
        prop_assert!(a.difference(&b).intersection(&b).is_empty());
        let (mut paths, again) = (a.paths(), a.union(&a).paths());
        paths.dedup();
        prop_assert_eq!(paths, again);
    }
}
