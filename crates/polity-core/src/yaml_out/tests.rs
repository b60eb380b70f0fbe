//! YAML as the Kubernetes tools of Go write it, case by case.

use serde_json::json;

use super::*;

fn check(value: serde_json::Value, expected: &str) {
    assert_eq!(to_yaml(&value), expected, "{value}");
}

#[test]
fn scalars_are_quoted_where_they_would_be_read_as_something_else() {
    check(json!("plain"), "plain\n");
    check(json!(""), "\"\"\n");
    check(json!("true"), "\"true\"\n");
    check(json!("y"), "\"y\"\n");
    check(json!("null"), "\"null\"\n");
    check(json!("12"), "\"12\"\n");
    check(json!("1_000"), "\"1_000\"\n");
    check(json!("0x1f"), "\"0x1f\"\n");
    check(json!("1e3"), "\"1e3\"\n");
    check(json!("1e999"), "1e999\n");
    check(json!("12:30"), "\"12:30\"\n");
    check(json!("2001-02-03"), "\"2001-02-03\"\n");
    check(json!("2001-02-30"), "2001-02-30\n");
    check(json!("2001-02-03T04:05:06Z"), "\"2001-02-03T04:05:06Z\"\n");
    check(json!("{{ .x }}"), "'{{ .x }}'\n");
    check(json!("it's"), "it's\n");
    check(json!("'quoted'"), "'''quoted'''\n");
    check(json!("a: b"), "'a: b'\n");
    check(json!("a #b"), "'a #b'\n");
    check(json!("- a"), "'- a'\n");
    check(json!(" lead"), "' lead'\n");
    check(json!("tab\there"), "\"tab\\there\"\n");
    check(json!("\u{1f600}"), "\"\\U0001F600\"\n");
    check(json!("ü"), "ü\n");
}

#[test]
fn numbers_are_written_as_json_and_back_makes_them() {
    check(json!(1.0), "1\n");
    check(json!(0.5), "0.5\n");
    check(json!(1e21), "1e+21\n");
    check(json!(1_234_567.5), "1.2345675e+06\n");
    check(json!(0.00001), "1e-05\n");
    check(json!(u64::MAX), "18446744073709551615\n");
    check(json!(-0.0), "0\n");
}

#[test]
fn texts_of_several_lines_are_literal() {
    check(json!({"a": "x\ny\n"}), "a: |\n  x\n  y\n");
    check(json!({"a": "x\ny"}), "a: |-\n  x\n  y\n");
    check(json!({"a": "x\n\n"}), "a: |+\n  x\n\n");
    check(json!({"a": " x\ny"}), "a: |2-\n   x\n  y\n");
    check(json!({"a": "x \ny"}), "a: \"x \\ny\"\n");
    check(json!(["x\ny\n", 1]), "- |\n  x\n  y\n- 1\n");
    check(json!({"a\nb": 1}), "? |-\n  a\n  b\n: 1\n");
}

#[test]
fn lists_and_maps_nest_as_kubectl_writes_them() {
    check(
        json!({"b": [{"x": 1, "y": [1, [2, 3]]}, []], "a": {}, "c": {"d": null}}),
        "a: {}\nb:\n- x: 1\n  \"y\":\n  - 1\n  - - 2\n    - 3\n- []\nc:\n  d: null\n",
    );
    assert_eq!(
        to_yaml_in(&json!({"b": [{"x": [1]}]}), Layout::Indented),
        "b:\n  - x:\n      - 1\n"
    );
}

#[test]
fn keys_are_in_natural_order() {
    check(
        json!({"a10": 1, "a9": 2, "a": 3, "B": 4, "_": 5, "a01": 6}),
        "_: 5\nB: 4\na: 3\na01: 6\na9: 2\na10: 1\n",
    );
}

mod properties {
    use proptest::prelude::*;
    use serde_json::Value;

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[ -~\n\u{e9}]{0,12}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z0-9 :'\n-]{0,6}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_line_is_text_and_the_last_one_ends(value in any_value()) {
            let text = super::to_yaml(&value);
            prop_assert!(text.ends_with('\n'));
            prop_assert_eq!(text.clone(), super::to_yaml(&value));
        }
    }
}

#[test]
fn long_texts_are_broken_at_spaces() {
    let words = "word ".repeat(30);
    let text = to_yaml(&json!({ "k": words.trim_end() }));
    assert!(text.lines().all(|line| line.len() < 90), "{text}");
    assert!(
        text.lines().skip(1).all(|line| line.starts_with("  word")),
        "{text}"
    );
    let whole = to_yaml_in(&json!({ "k": words.trim_end() }), Layout::Indented);
    assert_eq!(whole.lines().count(), 1);
}
