//! JSON, merge and strategic merge patches.

#![expect(
    clippy::needless_pass_by_value,
    reason = "cases read better as literals"
)]

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::schema::{Schema, SchemaSet};

#[test]
fn merge_patch_follows_the_examples_of_rfc_7386() {
    let cases = [
        (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
        (
            json!({"a": "b"}),
            json!({"b": "c"}),
            json!({"a": "b", "b": "c"}),
        ),
        (json!({"a": "b"}), json!({"a": null}), json!({})),
        (
            json!({"a": "b", "b": "c"}),
            json!({"a": null}),
            json!({"b": "c"}),
        ),
        (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
        (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
        (
            json!({"a": {"b": "c"}}),
            json!({"a": {"b": "d", "c": null}}),
            json!({"a": {"b": "d"}}),
        ),
        (
            json!({"a": [{"b": "c"}]}),
            json!({"a": [1]}),
            json!({"a": [1]}),
        ),
        (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
        (json!({"a": "b"}), json!(["c"]), json!(["c"])),
        (json!({"a": "foo"}), json!(null), json!(null)),
        (json!({"a": "foo"}), json!("bar"), json!("bar")),
        (
            json!({"e": null}),
            json!({"a": 1}),
            json!({"e": null, "a": 1}),
        ),
        (
            json!([1, 2]),
            json!({"a": "b", "c": null}),
            json!({"a": "b"}),
        ),
        (
            json!({}),
            json!({"a": {"bb": {"ccc": null}}}),
            json!({"a": {"bb": {}}}),
        ),
    ];
    for (mut document, patch, expected) in cases {
        merge_patch(&mut document, &patch);
        assert_eq!(document, expected, "{patch}");
    }
}

#[test]
fn json_patch_follows_the_examples_of_rfc_6902() {
    let cases = [
        (
            json!({"foo": "bar"}),
            json!([{"op": "add", "path": "/baz", "value": "qux"}]),
            Some(json!({"baz": "qux", "foo": "bar"})),
        ),
        (
            json!({"foo": ["bar", "baz"]}),
            json!([{"op": "add", "path": "/foo/1", "value": "qux"}]),
            Some(json!({"foo": ["bar", "qux", "baz"]})),
        ),
        (
            json!({"baz": "qux", "foo": "bar"}),
            json!([{"op": "remove", "path": "/baz"}]),
            Some(json!({"foo": "bar"})),
        ),
        (
            json!({"foo": ["bar", "qux", "baz"]}),
            json!([{"op": "remove", "path": "/foo/1"}]),
            Some(json!({"foo": ["bar", "baz"]})),
        ),
        (
            json!({"baz": "qux"}),
            json!([{"op": "replace", "path": "/baz", "value": "boo"}]),
            Some(json!({"baz": "boo"})),
        ),
        (
            json!({"foo": {"bar": 1, "w": 2}, "qux": {}}),
            json!([{"op": "move", "from": "/foo/w", "path": "/qux/t"}]),
            Some(json!({"foo": {"bar": 1}, "qux": {"t": 2}})),
        ),
        (
            json!({"foo": ["all", "grass", "cows", "eat"]}),
            json!([{"op": "move", "from": "/foo/1", "path": "/foo/3"}]),
            Some(json!({"foo": ["all", "cows", "eat", "grass"]})),
        ),
        (
            json!({"baz": "qux", "foo": ["a", 2, "c"]}),
            json!([{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2}]),
            Some(json!({"baz": "qux", "foo": ["a", 2, "c"]})),
        ),
        (
            json!({"baz": "qux"}),
            json!([{"op": "test", "path": "/baz", "value": "bar"}]),
            None,
        ),
        (
            json!({"foo": "bar"}),
            json!([{"op": "add", "path": "/child", "value": {"grandchild": {}}}]),
            Some(json!({"foo": "bar", "child": {"grandchild": {}}})),
        ),
        (
            json!({"foo": "bar"}),
            json!([{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}]),
            Some(json!({"foo": "bar", "baz": "qux"})),
        ),
        (
            json!({"foo": "bar"}),
            json!([{"op": "add", "path": "/baz/bat", "value": "qux"}]),
            None,
        ),
        (
            json!({"/": 9, "~1": 10}),
            json!([{"op": "test", "path": "/~01", "value": 10}]),
            Some(json!({"/": 9, "~1": 10})),
        ),
        (
            json!({"/": 9, "~1": 10}),
            json!([{"op": "test", "path": "/~01", "value": "10"}]),
            None,
        ),
        (
            json!({"foo": ["bar"]}),
            json!([{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}]),
            Some(json!({"foo": ["bar", ["abc", "def"]]})),
        ),
        (
            json!({"a": {"b": 1}}),
            json!([{"op": "copy", "from": "/a", "path": "/c"}]),
            Some(json!({"a": {"b": 1}, "c": {"b": 1}})),
        ),
    ];
    for (mut document, patch, expected) in cases {
        match (json_patch(&mut document, &patch), expected) {
            (Ok(()), Some(expected)) => assert_eq!(document, expected, "{patch}"),
            (Err(_), None) => {}
            (outcome, _) => panic!("{patch}: {outcome:?}"),
        }
    }
}

#[test]
fn a_missing_member_passes_a_test_for_null() {
    let document = json!({"a": {"null": null, "list": [1]}, "b~/": 1});
    for (path, passes) in [
        ("/c", true),
        ("/a/c", true),
        ("/a/null", true),
        ("/a/list", false),
        ("/c/d", false),
        ("/a/list/1", false),
        ("/b~0~1", false),
        ("/b~1~0", true),
        ("", false),
    ] {
        let patch = json!([{"op": "test", "path": path, "value": null}]);
        let outcome = json_patch(&mut document.clone(), &patch);
        assert_eq!(outcome.is_ok(), passes, "{path}: {outcome:?}");
    }
}

#[test]
fn json_patches_are_refused_for_a_reason() {
    let refuse = |patch: Value| json_patch(&mut json!({"a": [1]}), &patch).unwrap_err();
    assert!(matches!(refuse(json!({})), JsonPatchError::Malformed(_)));
    assert!(matches!(
        refuse(json!([{"op": "steal", "path": "/a"}])),
        JsonPatchError::Malformed(_)
    ));
    assert!(matches!(
        refuse(json!([{"op": "remove", "path": "/b"}])),
        JsonPatchError::Inapplicable { operation: 0, .. }
    ));
    assert!(matches!(
        refuse(json!([{"op": "test", "path": "/a/0", "value": 2}])),
        JsonPatchError::TestFailed { .. }
    ));
    let many = Value::Array(vec![
        json!({"op": "test", "path": "/a/0", "value": 1});
        MAX_OPERATIONS + 1
    ]);
    assert_eq!(refuse(many), JsonPatchError::TooManyOperations(10_001));
    let doubling = Value::Array(vec![
        json!({"op": "copy", "from": "/a", "path": "/a/-"});
        100
    ]);
    assert_eq!(refuse(doubling), JsonPatchError::CopiesTooLarge);
}

fn pod() -> std::sync::Arc<Schema> {
    let text = json!({"type": "string"});
    let definitions = BTreeMap::from([
        (
            "Container".to_owned(),
            json!({"type": "object", "properties": {
                "name": text, "image": text,
                "env": {"type": "array", "items": {"type": "object", "properties": {"name": text, "value": text}},
                    "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"},
                "args": {"type": "array", "items": text, "x-kubernetes-list-type": "atomic"},
            }}),
        ),
        (
            "Pod".to_owned(),
            json!({"type": "object", "properties": {
                "metadata": {"type": "object", "properties": {
                    "labels": {"type": "object", "additionalProperties": text},
                    "finalizers": {"type": "array", "items": text, "x-kubernetes-patch-strategy": "merge"},
                }},
                "spec": {"type": "object", "properties": {
                    "containers": {"type": "array", "items": {"$ref": "#/definitions/Container"},
                        "x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"},
                    "volumes": {"type": "array", "items": {"type": "object", "properties": {"name": text, "emptyDir": {"type": "object"}, "hostPath": {"type": "object", "properties": {"path": text}}}},
                        "x-kubernetes-patch-strategy": "merge,retainKeys", "x-kubernetes-patch-merge-key": "name"},
                    "tolerations": {"type": "array", "items": {"type": "object", "properties": {"key": text}}},
                    "strategy": {"type": "object", "properties": {"type": text, "rollingUpdate": {"type": "object", "properties": {"x": {"type": "integer"}}}},
                        "x-kubernetes-patch-strategy": "retainKeys"},
                    "selector": {"type": "object", "properties": {"a": text, "b": text}, "x-kubernetes-patch-strategy": "replace"},
                }},
            }}),
        ),
    ]);
    SchemaSet::from_definitions(&definitions)
        .get("Pod")
        .unwrap()
}

/// Patches the `spec` of a pod.
fn patched(live: Value, patch: Value) -> Result<Value, StrategicError> {
    let merged = strategic(&pod(), &json!({"spec": live}), &json!({"spec": patch}))?;
    Ok(merged["spec"].clone())
}

#[test]
fn lists_merge_by_key() {
    let live = || json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2", "env": [{"name": "X", "value": "1"}]}]});
    let cases = [
        (
            "an element is merged, its place kept",
            json!({"containers": [{"name": "b", "image": "3"}]}),
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "3", "env": [{"name": "X", "value": "1"}]}]}),
        ),
        (
            "lists inside merge too",
            json!({"containers": [{"name": "b", "env": [{"name": "Y", "value": "2"}]}]}),
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "2", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "1"}]}]}),
        ),
        (
            "a new element comes first, as the real server puts it",
            json!({"containers": [{"name": "c", "image": "9"}]}),
            json!({"containers": [{"name": "c", "image": "9"}, {"name": "a", "image": "1"}, {"name": "b", "image": "2", "env": [{"name": "X", "value": "1"}]}]}),
        ),
        (
            "$patch delete removes an element",
            json!({"containers": [{"name": "a", "$patch": "delete"}]}),
            json!({"containers": [{"name": "b", "image": "2", "env": [{"name": "X", "value": "1"}]}]}),
        ),
        (
            "$patch replace replaces the list",
            json!({"containers": [{"$patch": "replace"}, {"name": "z"}]}),
            json!({"containers": [{"name": "z"}]}),
        ),
        (
            "$setElementOrder orders",
            json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
            json!({"containers": [{"name": "b", "image": "2", "env": [{"name": "X", "value": "1"}]}, {"name": "a", "image": "1"}]}),
        ),
        (
            "$setElementOrder with a new element",
            json!({"$setElementOrder/containers": [{"name": "a"}, {"name": "c"}], "containers": [{"name": "c"}]}),
            json!({"containers": [{"name": "a", "image": "1"}, {"name": "c"}, {"name": "b", "image": "2", "env": [{"name": "X", "value": "1"}]}]}),
        ),
        (
            "null removes the list",
            json!({"containers": null}),
            json!({}),
        ),
    ];
    for (name, patch, expected) in cases {
        assert_eq!(patched(live(), patch).unwrap(), expected, "{name}");
    }
}

#[test]
fn maps_scalars_and_other_lists() {
    let cases = [
        (
            "lists without a key are replaced",
            json!({"tolerations": [{"key": "a"}]}),
            json!({"tolerations": [{"key": "b"}]}),
            json!({"tolerations": [{"key": "b"}]}),
        ),
        (
            "maps merge",
            json!({"strategy": {"type": "A"}}),
            json!({"strategy": {"rollingUpdate": {"x": 1}}}),
            json!({"strategy": {"type": "A", "rollingUpdate": {"x": 1}}}),
        ),
        (
            "$retainKeys drops what is not listed",
            json!({"strategy": {"type": "A", "rollingUpdate": {"x": 1}}}),
            json!({"strategy": {"$retainKeys": ["type"], "type": "B"}}),
            json!({"strategy": {"type": "B"}}),
        ),
        (
            "$retainKeys works in list elements",
            json!({"volumes": [{"name": "v", "emptyDir": {}}]}),
            json!({"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}),
            json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}),
        ),
        (
            "strategy replace replaces a map",
            json!({"selector": {"a": "1"}}),
            json!({"selector": {"b": "2"}}),
            json!({"selector": {"b": "2"}}),
        ),
        (
            "$patch replace replaces a map",
            json!({"strategy": {"type": "A", "rollingUpdate": {}}}),
            json!({"strategy": {"$patch": "replace", "type": "B"}}),
            json!({"strategy": {"type": "B"}}),
        ),
        (
            "$patch delete empties a map",
            json!({"strategy": {"type": "A"}}),
            json!({"strategy": {"$patch": "delete"}}),
            json!({"strategy": {}}),
        ),
        (
            "directives do not survive in new values",
            json!({}),
            json!({"containers": [{"name": "a", "$patch": "delete"}, {"name": "b", "image": null}]}),
            json!({"containers": [{"name": "b"}]}),
        ),
    ];
    for (name, live, patch, expected) in cases {
        assert_eq!(patched(live, patch).unwrap(), expected, "{name}");
    }
    let live = json!({"metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x", "y", "z"]}});
    let cases = [
        (
            json!({"metadata": {"labels": {"a": null, "c": "3"}}}),
            json!({"labels": {"b": "2", "c": "3"}, "finalizers": ["x", "y", "z"]}),
        ),
        (
            json!({"metadata": {"finalizers": ["w", "y"]}}),
            json!({"labels": {"a": "1", "b": "2"}, "finalizers": ["w", "x", "y", "z"]}),
        ),
        (
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["y"]}}),
            json!({"labels": {"a": "1", "b": "2"}, "finalizers": ["x", "z"]}),
        ),
    ];
    for (patch, expected) in cases {
        assert_eq!(
            strategic(&pod(), &live, &patch).unwrap()["metadata"],
            expected,
            "{patch}"
        );
    }
}

#[test]
fn senseless_patches_are_refused() {
    let live = || json!({"containers": [{"name": "a"}], "strategy": {"type": "A"}});
    let no_key = patched(live(), json!({"containers": [{"image": "x"}]})).unwrap_err();
    assert_eq!(
        no_key.to_string(),
        "map: map[image:x] does not contain declared merge key: name"
    );
    assert!(matches!(no_key, StrategicError::MissingMergeKey { .. }));
    let cases = [
        json!({"containers": [{"$patch": "delete"}]}),
        json!({"containers": [{"name": "a", "$patch": "steal"}]}),
        json!({"containers": ["a"]}),
        json!({"strategy": {"$patch": "steal"}}),
        json!({"strategy": {"$retainKeys": ["x"], "type": "B"}}),
        json!({"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]}),
        json!({"$setElementOrder": []}),
    ];
    for patch in cases {
        assert!(patched(live(), patch.clone()).is_err(), "{patch}");
    }
}

fn any_spec() -> impl Strategy<Value = Value> {
    let container = (0..4u8, 0..3u8)
        .prop_map(|(name, image)| json!({"name": format!("c{name}"), "image": format!("{image}")}));
    let unique = prop::collection::btree_map(0..4u8, container, 0..4).prop_map(|all| {
        Value::Array(
            all.into_iter()
                .map(|(name, mut c)| {
                    c["name"] = json!(format!("c{name}"));
                    c
                })
                .collect(),
        )
    });
    (unique, 0..3u8).prop_map(|(containers, kind)| json!({"containers": containers, "strategy": {"type": format!("{kind}")}}))
}

proptest! {
    #[test]
    fn a_patch_applied_twice_is_applied_once(live in any_spec(), patch in any_spec()) {
        let once = patched(live, patch.clone()).unwrap();
        let twice = patched(once.clone(), patch).unwrap();
        prop_assert_eq!(once, twice);
    }
}

/// Each of these scanned a list for each element of another.
#[test]
fn large_lists_are_merged_by_their_keys() {
    let n = 100_000;
    let items = |directive: Option<&str>| -> Vec<Value> {
        let item = |number: usize| match directive {
            Some(directive) => json!({"name": number.to_string(), "$patch": directive}),
            None => json!({"name": number.to_string(), "image": "i"}),
        };
        (0..n).rev().map(item).collect()
    };
    let live = || json!({"containers": items(None)});
    let order: Vec<Value> = (0..n)
        .rev()
        .map(|number| json!({"name": number.to_string()}))
        .collect();
    let ordered = json!({"containers": items(None), "$setElementOrder/containers": order});
    let merged = patched(live(), ordered).unwrap();
    assert_eq!(merged["containers"].as_array().unwrap().len(), n);
    let merged = patched(live(), json!({"containers": items(Some("delete"))})).unwrap();
    assert_eq!(merged["containers"], json!([]));
    let names: Vec<String> = (0..n).rev().map(|number| number.to_string()).collect();
    let live = json!({"gone": names});
    let merged = patched(live, json!({"$deleteFromPrimitiveList/gone": names})).unwrap();
    assert_eq!(merged["gone"], json!([]));
}

#[test]
fn a_patch_that_shifts_too_much_is_refused() {
    let mut document = json!({"list": vec![0; 50_000]});
    let patch: Vec<Value> = (0..MAX_OPERATIONS)
        .map(|_| json!({"op": "add", "path": "/list/0", "value": 1}))
        .collect();
    assert_eq!(
        json_patch(&mut document, &Value::Array(patch)),
        Err(JsonPatchError::TooManyShifts)
    );
    let appended: Vec<Value> = (0..MAX_OPERATIONS)
        .map(|_| json!({"op": "add", "path": "/list/-", "value": 1}))
        .collect();
    let mut document = json!({"list": vec![0; 50_000]});
    json_patch(&mut document, &Value::Array(appended)).unwrap();
    assert_eq!(
        document["list"].as_array().unwrap().len(),
        50_000 + MAX_OPERATIONS
    );
}
