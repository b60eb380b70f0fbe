//! Rules in schemas, as a 1.37 API server reads, runs and reports them.

use polity_core::{FieldError, FieldPath};
use serde_json::{Value, json};

use super::Rules;

fn rules(schema: &Value) -> Rules {
    match Rules::compile(schema, &FieldPath::root()) {
        Ok(rules) => rules,
        Err(errors) => panic!("{errors:#?}"),
    }
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// A schema whose `spec` is `spec`.
fn with_spec(spec: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": spec}})
}

fn failures(spec: &Value, new: &Value, old: Option<&Value>) -> Vec<String> {
    let old = old.map(|old| json!({"spec": old}));
    texts(&rules(&with_spec(spec)).validate(&json!({"spec": new}), old.as_ref()))
}

/// An object schema with one rule.
fn ruled(rule: &Value, properties: &Value) -> Value {
    json!({"type": "object", "properties": properties, "x-kubernetes-validations": [rule]})
}

#[test]
fn rules_see_fields_by_type_and_format() {
    let properties = json!({
        "replicas": {"type": "integer"}, "ratio": {"type": "number"}, "name": {"type": "string"},
        "since": {"type": "string", "format": "date-time"}, "day": {"type": "string", "format": "date"},
        "wait": {"type": "string", "format": "duration"}, "data": {"type": "string", "format": "byte"},
        "port": {"x-kubernetes-int-or-string": true}, "a-b": {"type": "string"}, "namespace": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "list": {"type": "array", "items": {"type": "integer"}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "nested": {"type": "object", "properties": {"deep": {"type": "boolean"}}},
    });
    let value = json!({
        "replicas": 2, "ratio": 1, "name": "x", "since": "2024-01-01T00:00:00Z", "day": "2024-02-03",
        "wait": "1h", "data": "aGk=", "port": "10%", "a-b": "dash", "namespace": "ns",
        "labels": {"x-y": "v"}, "list": [1, 2], "any": {"k": 1}, "nested": {"deep": true},
    });
    let truths = [
        "self.replicas == 2",
        "self.ratio == 1.0",
        "self.name == 'x'",
        "self.since < timestamp('2025-01-01T00:00:00Z')",
        "self.day.getDayOfMonth() == 2 || self.day.getDate() == 3",
        "self.wait == duration('60m')",
        "self.data == b'hi' && size(self.data) == 2",
        "type(self.port) == string && self.port.endsWith('%')",
        "self.a__dash__b == 'dash'",
        "self.__namespace__ == 'ns'",
        "self.labels['x-y'] == 'v' && self.labels.all(k, self.labels[k] == 'v')",
        "self.list.sum() == 3",
        "has(self.any)",
        "self.nested.deep",
        "!has(self.nested.deep) || self.nested.deep",
    ];
    for rule in truths {
        let schema = ruled(&json!({"rule": rule}), &properties);
        assert_eq!(
            failures(&schema, &value, None),
            Vec::<String>::new(),
            "{rule}"
        );
    }
}

#[test]
fn failures_read_as_the_server_prints_them() {
    let properties = json!({"n": {"type": "integer"}, "m": {"type": "integer"}, "l": {"type": "object", "additionalProperties": {"type": "string"}}});
    let new = json!({"n": 1, "l": {"a": "b"}});
    let cases = [
        (
            json!({"rule": "self.n > 5"}),
            "spec: Invalid value: failed rule: self.n > 5",
        ),
        (
            json!({"rule": "self.n > 5", "message": " too small "}),
            "spec: Invalid value: too small",
        ),
        (
            json!({"rule": "self.n > 5", "message": "m", "messageExpression": "'n is ' + string(self.n)"}),
            "spec: Invalid value: n is 1",
        ),
        (
            json!({"rule": "self.n > 5", "message": "m", "messageExpression": "'a\\nb'"}),
            "spec: Invalid value: m",
        ),
        (
            json!({"rule": "self.n > 5", "message": "m", "messageExpression": "string(self.m)"}),
            "spec: Invalid value: m",
        ),
        (
            json!({"rule": "self.n > 5", "reason": "FieldValueForbidden"}),
            "spec: Forbidden: failed rule: self.n > 5",
        ),
        (
            json!({"rule": "has(self.m)", "reason": "FieldValueRequired", "fieldPath": ".m"}),
            "spec.m: Required value: failed rule: has(self.m)",
        ),
        (
            json!({"rule": "self.n > 5", "reason": "FieldValueDuplicate"}),
            "spec: Duplicate value",
        ),
        (
            json!({"rule": "self.n > 5", "fieldPath": ".l['x.y']"}),
            "spec.l[x.y]: Invalid value: failed rule: self.n > 5",
        ),
        (
            json!({"rule": "self.m > 5"}),
            "spec: Invalid value: \"object\": no such key: m evaluating rule: self.m > 5",
        ),
        (
            json!({"rule": "self.n / 0 == 1", "message": "why"}),
            "spec: Invalid value: \"object\": division by zero evaluating rule: why",
        ),
        (
            json!({"rule": "dyn(self.n) + 'x' == ''"}),
            "spec: Invalid value: \"object\": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: dyn(self.n) + 'x' == ''",
        ),
    ];
    for (rule, expected) in cases {
        assert_eq!(
            failures(&ruled(&rule, &properties), &new, None),
            [expected],
            "{rule}"
        );
    }
}

#[test]
fn rules_stand_at_any_node() {
    let small = json!([{"rule": "self < 3"}]);
    let spec = json!({"type": "object", "properties": {
        "n": {"type": "integer", "x-kubernetes-validations": small},
        "list": {"type": "array", "items": {"type": "integer", "x-kubernetes-validations": small}},
        "map": {"type": "object", "additionalProperties": {"type": "integer", "x-kubernetes-validations": small}},
        "s": {"type": "string", "x-kubernetes-validations": [{"rule": "self != 'bad'"}]},
        "p": {"x-kubernetes-int-or-string": true, "x-kubernetes-validations": [{"rule": "type(self) == int ? self < 3 : self == '5%'"}]},
        "nil": {"type": "integer", "nullable": true, "x-kubernetes-validations": small},
        "all": {"type": "object", "properties": {"x": {"type": "integer"}}, "allOf": [
            {"properties": {"x": {"x-kubernetes-validations": small}}}, {"x-kubernetes-validations": [{"rule": "self.x < 4"}]},
        ]},
    }});
    let new = json!({"n": 3, "list": [1, 4], "map": {"a": 1, "b.c": 5}, "s": "bad", "p": "6%", "nil": null, "all": {"x": 9}});
    let expected = [
        "spec.all.x: Invalid value: 9: failed rule: self < 3",
        "spec.all: Invalid value: failed rule: self.x < 4",
        "spec.list[1]: Invalid value: 4: failed rule: self < 3",
        "spec.map[b.c]: Invalid value: 5: failed rule: self < 3",
        "spec.n: Invalid value: 3: failed rule: self < 3",
        "spec.p: Invalid value: \"6%\": failed rule: type(self) == int ? self < 3 : self == '5%'",
        "spec.s: Invalid value: \"bad\": failed rule: self != 'bad'",
    ];
    assert_eq!(failures(&spec, &new, None), expected);
}

#[test]
fn the_root_sees_type_and_name() {
    let schema = json!({"type": "object", "x-kubernetes-validations": [
        {"rule": "self.metadata.name.startsWith('a') && self.kind == 'K' && self.apiVersion == 'g/v1'"},
    ]});
    let object = |name: &str| json!({"apiVersion": "g/v1", "kind": "K", "metadata": {"name": name, "labels": {"x": "y"}}});
    assert_eq!(
        texts(&rules(&schema).validate(&object("abc"), None)),
        Vec::<String>::new()
    );
    assert_eq!(rules(&schema).validate(&object("xyz"), None).len(), 1);
    let refused = json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.metadata.labels.size() == 0"}]});
    assert!(
        Rules::compile(&refused, &FieldPath::root()).is_err(),
        "labels are not visible"
    );
}

#[test]
fn transition_rules_run_only_where_an_old_value_is_known() {
    let rule = json!([{"rule": "self == oldSelf", "message": "immutable"}]);
    let spec = json!({"type": "object", "properties": {
        "n": {"type": "integer", "x-kubernetes-validations": rule},
        "map": {"type": "object", "additionalProperties": {"type": "integer", "x-kubernetes-validations": rule}},
        "list": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "proto"],
            "items": {"type": "object", "properties": {
                "name": {"type": "string"}, "proto": {"type": "string", "default": "TCP"},
                "port": {"type": "integer", "x-kubernetes-validations": rule},
            }},
        },
    }});
    let old = json!({"n": 1, "map": {"a": 1}, "list": [{"name": "x", "port": 1}, {"name": "y", "proto": "UDP", "port": 2}]});
    let new = json!({
        "n": 2, "map": {"a": 2, "b": 3},
        "list": [{"name": "y", "proto": "UDP", "port": 2}, {"name": "x", "proto": "TCP", "port": 9}, {"name": "y", "proto": "TCP", "port": 3}],
    });
    let expected = [
        "spec.list[1].port: Invalid value: 9: immutable",
        "spec.map[a]: Invalid value: 2: immutable",
        "spec.n: Invalid value: 2: immutable",
    ];
    assert_eq!(failures(&spec, &new, Some(&old)), expected);
    assert_eq!(
        failures(&spec, &new, None),
        Vec::<String>::new(),
        "nothing to compare with on create"
    );
}

#[test]
fn optional_old_self_runs_on_create_too() {
    let rule = json!({"rule": "oldSelf.hasValue() || self.n == 1", "optionalOldSelf": true});
    let spec = ruled(&rule, &json!({"n": {"type": "integer"}}));
    assert_eq!(failures(&spec, &json!({"n": 2}), None).len(), 1);
    assert_eq!(failures(&spec, &json!({"n": 1}), None).len(), 0);
    assert_eq!(
        failures(&spec, &json!({"n": 2}), Some(&json!({"n": 3}))).len(),
        0
    );
}

#[test]
fn unchanged_values_are_not_held_to_newer_rules() {
    let spec = json!({"type": "object", "properties": {
        "n": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 3"}]}, "m": {"type": "integer"},
        "list": {"type": "array", "items": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 3"}]}},
    }});
    let old = json!({"n": 5, "m": 1, "list": [7]});
    assert_eq!(
        failures(&spec, &json!({"n": 5, "m": 2, "list": [7]}), Some(&old)).len(),
        0
    );
    assert_eq!(
        failures(&spec, &json!({"n": 6, "m": 1, "list": [7]}), Some(&old)).len(),
        1
    );
    assert_eq!(
        failures(&spec, &json!({"n": 5, "m": 1, "list": [7, 1]}), Some(&old)).len(),
        1
    );
    assert_eq!(failures(&spec, &old, None).len(), 2);
}

#[test]
fn bad_rules_make_the_schema_invalid() {
    let properties = json!({"n": {"type": "integer"}, "s": {"type": "string"}, "u": {"x-kubernetes-preserve-unknown-fields": true}});
    let at = "properties[spec].x-kubernetes-validations[0]";
    let shown = |rule: &str| {
        format!(r#"{{"Rule":{},"Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}}"#, json!(rule)).replace('>', "\\u003e")
    };
    let compiled =
        |rule: &str, why: &str| format!("{at}.rule: Invalid value: {}: {why}", shown(rule));
    let cases = [
        (
            json!({"rule": " "}),
            format!("{at}.rule: Required value: rule is not specified"),
        ),
        (
            json!({"rule": "true", "message": " "}),
            format!("{at}.message: Invalid value: \" \": must be non-empty if specified"),
        ),
        (
            json!({"rule": "true", "message": "a\nb"}),
            format!("{at}.message: Invalid value: \"a\\nb\": must not contain line breaks"),
        ),
        (
            json!({"rule": "true &&\ntrue"}),
            format!(
                "{at}.message: Required value: message must be specified if rule contains line breaks"
            ),
        ),
        (
            json!({"rule": "true", "reason": "Nope"}),
            format!(
                "{at}.reason: Unsupported value: \"Nope\": supported values: \"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", \"FieldValueRequired\""
            ),
        ),
        (
            json!({"rule": "true", "fieldPath": ".x"}),
            format!("{at}.fieldPath: Invalid value: \".x\": must be a valid path"),
        ),
        (
            json!({"rule": "true", "optionalOldSelf": true}),
            format!(
                "{at}.optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"
            ),
        ),
        (
            json!({"rule": "self.n"}),
            compiled("self.n", "cel expression must evaluate to a bool"),
        ),
        (
            json!({"rule": "self.x == 1"}),
            compiled(
                "self.x == 1",
                "compilation failed: ERROR: <input>:1:5: undefined field 'x'\n | self.x == 1\n | ....^",
            ),
        ),
        (
            json!({"rule": "self.u == 1"}),
            compiled(
                "self.u == 1",
                "compilation failed: ERROR: <input>:1:5: undefined field 'u'\n | self.u == 1\n | ....^",
            ),
        ),
        (
            json!({"rule": "self.s > 1"}),
            compiled(
                "self.s > 1",
                "compilation failed: ERROR: <input>:1:8: found no matching overload for '_>_' applied to '(string, int)'\n | self.s > 1\n | .......^",
            ),
        ),
        (
            json!({"rule": "self.s == null"}),
            compiled(
                "self.s == null",
                "compilation failed: ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(string, null)'\n | self.s == null\n | .......^",
            ),
        ),
    ];
    for (rule, expected) in cases {
        let errors =
            Rules::compile(&with_spec(&ruled(&rule, &properties)), &FieldPath::root()).unwrap_err();
        assert_eq!(texts(&errors), [expected], "{rule}");
    }
    let atomic = json!({"type": "object", "properties": {"l": {"type": "array", "items": {
        "type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf"}],
    }}}});
    let errors = Rules::compile(&atomic, &FieldPath::of("schema")).unwrap_err();
    assert_eq!(
        texts(&errors),
        [
            "schema.properties[l].items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within schema.properties[l]"
        ]
    );
}

#[test]
fn rules_of_one_object_share_a_budget() {
    let slow = json!({"rule": "self.l.all(a, self.l.all(b, a + b >= 0))"});
    let spec = json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "integer"}}},
        "x-kubernetes-validations": [slow, {"rule": "false"}]});
    let long: Vec<i64> = (0..3_000).collect();
    let failed = failures(&spec, &json!({"l": long}), None);
    assert_eq!(failed.len(), 1);
    assert!(
        failed[0].contains(
            "no further validation rules will be run due to call cost exceeds limit for rule"
        ),
        "{failed:?}"
    );

    let costly: Vec<Value> = (0..40)
        .map(|_| json!({"rule": "self.l.all(a, self.l.all(b, a + b >= 0))"}))
        .collect();
    let spec = json!({"type": "object", "properties": {"l": {"type": "array", "items": {"type": "integer"}}}, "x-kubernetes-validations": costly});
    let list: Vec<i64> = (0..300).collect();
    let failed = failures(&spec, &json!({"l": list}), None);
    assert_eq!(
        failed,
        [
            "spec: Invalid value: \"object\": validation failed due to running out of cost budget, no further validation rules will be run"
        ]
    );
}

#[test]
fn schemas_without_rules_cost_nothing() {
    let schema = with_spec(&json!({"type": "object", "properties": {"n": {"type": "integer"}}}));
    assert!(rules(&schema).is_empty());
}
