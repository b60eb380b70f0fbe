//! Structural schemas: rules, pruning, defaults, validation.

#![expect(
    clippy::needless_pass_by_value,
    reason = "cases read better as literals"
)]

use proptest::prelude::*;
use serde_json::json;

use super::*;
use polity_core::{FieldError, FieldErrorKind};

fn crd(schema: Value) -> Schema {
    match Schema::parse_crd(&schema) {
        Ok(schema) => schema,
        Err(errors) => panic!("{}", texts(&errors).join("\n")),
    }
}

/// A custom resource schema whose `spec` has these fields.
fn with_spec(fields: Value) -> Schema {
    crd(json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}))
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn structural_rules_are_enforced() {
    let cases = [
        (
            json!({}),
            vec!["type: Required value: must not be empty at the root"],
        ),
        (
            json!({"type": "array", "items": {"type": "string"}}),
            vec!["type: Invalid value: \"array\": must be object at the root"],
        ),
        (
            json!({"type": "object", "properties": {"a": {}}}),
            vec![
                "properties[a].type: Required value: must not be empty for specified object fields",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array"}}}),
            vec!["properties[a].items: Required value: must be specified"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "items": {}}}}),
            vec![
                "properties[a].items.type: Required value: must not be empty for specified array items",
            ],
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
            vec!["additionalProperties: Forbidden: must not be used at the root"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "anyOf": [{"type": "string"}]}}}),
            vec!["properties[a].anyOf[0].type: Forbidden: must be empty to be structural"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "not": {"required": ["b"],
                "properties": {"b": {"description": "no", "default": 1, "nullable": true}}}}}}),
            vec![
                "properties[a].not.properties[b].default: Forbidden: must be undefined to be structural",
                "properties[a].not.properties[b].description: Forbidden: must be empty to be structural",
                "properties[a].not.properties[b].nullable: Forbidden: must be false to be structural",
            ],
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}),
            vec![
                "properties[metadata]: Forbidden: must not specify anything other than name and generateName, but \
             metadata is implicitly specified",
            ],
        ),
        (
            json!({"type": "object", "properties": {"kind": {"type": "integer"}}}),
            vec!["properties[kind].type: Invalid value: \"integer\": must be string"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}},
            "additionalProperties": {"type": "string"}}}}),
            vec![
                "properties[a].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
            vec![
                "properties[a].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: error \
             parsing regexp: unclosed group",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "array", "uniqueItems": true,
            "items": {"type": "string"}}}}),
            vec![
                "properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity \
             becomes quadratic",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"$ref": "#/x"}}}),
            vec!["properties[a].$ref: Forbidden: $ref is not supported"],
        ),
        (
            json!({"type": "object", "not": {"properties": {"b": {"minimum": 1}}}}),
            vec!["properties[b]: Required value: because it is defined in not.properties[b]"],
        ),
        (
            json!({"type": "object", "nullable": true}),
            vec!["nullable: Forbidden: nullable cannot be true at the root"],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "money"}}}),
            vec![
                "properties[a].type: Unsupported value: \"money\": supported values: \"array\", \"boolean\", \"integer\", \
             \"number\", \"object\", \"string\"",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "object", "x-kubernetes-preserve-unknown-fields": false}}}),
            vec![
                "properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true or undefined",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": 1}}),
            vec!["properties[a]: Invalid value: 1: must be a schema object"],
        ),
        (
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name":
            {"type": "string", "default": "x"}}}}}),
            vec![
                "properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata",
            ],
        ),
    ];
    for (schema, expected) in cases {
        let found = Schema::parse_crd(&schema).expect_err(&schema.to_string());
        assert_eq!(texts(&found), expected, "{schema}");
    }
}

#[test]
fn int_or_string_may_repeat_itself_in_any_of() {
    let twice = json!([{"type": "integer"}, {"type": "string"}]);
    with_spec(json!({
        "a": {"x-kubernetes-int-or-string": true, "anyOf": twice},
        "b": {"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": twice}, {"pattern": "x"}]},
        "c": {"x-kubernetes-preserve-unknown-fields": true},
    }));
}

#[test]
fn list_and_map_types_are_checked() {
    let array = |extra: Value| {
        let mut list = json!({"type": "array"});
        list.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        json!({"type": "object", "properties": {"a": list}})
    };
    let element = json!({"type": "object", "properties": {"k": {"type": "string"}}});
    let cases = [
        (
            array(json!({"items": element, "x-kubernetes-list-type": "map"})),
            vec![
                "properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map",
            ],
        ),
        (
            array(
                json!({"items": element, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["z"]}),
            ),
            vec![
                "properties[a].x-kubernetes-list-map-keys: Invalid value: [\"z\"]: entries must all be names of item properties",
            ],
        ),
        (
            array(
                json!({"items": element, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}),
            ),
            vec![
                "properties[a].items.properties[k].default: Required value: this property is in \
             x-kubernetes-list-map-keys, so it must have a default or be a required property",
            ],
        ),
        (
            array(
                json!({"items": {"type": "string", "nullable": true}, "x-kubernetes-list-type": "set"}),
            ),
            vec![
                "properties[a].items.nullable: Forbidden: cannot be nullable when x-kubernetes-list-type is set",
            ],
        ),
        (
            array(json!({"items": element, "x-kubernetes-list-type": "set"})),
            vec![
                "properties[a].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with \
             x-kubernetes-list-type=set",
            ],
        ),
        (
            array(json!({"items": {"type": "string"}, "x-kubernetes-list-type": "bag"})),
            vec![
                "properties[a].x-kubernetes-list-type: Unsupported value: \"bag\": supported values: \"atomic\", \"set\", \"map\"",
            ],
        ),
        (
            json!({"type": "object", "properties": {"a": {"type": "string", "x-kubernetes-map-type": "atomic"}}}),
            vec![
                "properties[a].type: Invalid value: \"string\": must be object if x-kubernetes-map-type is specified",
            ],
        ),
    ];
    for (schema, expected) in cases {
        let found = Schema::parse_crd(&schema).expect_err(&schema.to_string());
        assert_eq!(texts(&found), expected, "{schema}");
    }
}

#[test]
fn defaults_must_be_valid_and_known() {
    let cases = [
        (
            json!({"type": "integer", "default": "x"}),
            vec![
                "properties[a].default: Invalid value: \"string\":  in body must be of type integer: \"string\"",
            ],
        ),
        (
            json!({"type": "object", "properties": {"b": {"type": "integer", "maximum": 3}}, "default": {"b": 4}}),
            vec![
                "properties[a].default.b: Invalid value: 4: b in body should be less than or equal to 3",
            ],
        ),
        (
            json!({"type": "object", "properties": {"b": {"type": "integer"}}, "default": {"c": 4}}),
            vec!["properties[a].default: Invalid value: {\"c\":4}: must not have unknown fields"],
        ),
    ];
    for (property, expected) in cases {
        let schema = json!({"type": "object", "properties": {"a": property}});
        assert_eq!(
            texts(&Schema::parse_crd(&schema).unwrap_err()),
            expected,
            "{schema}"
        );
    }
}

#[test]
fn unknown_fields_are_pruned_and_named() {
    let schema = crd(json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "known": {"type": "string"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "string"}}}},
            "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"closed": {"type": "object", "properties": {"x": {"type": "string"}}}}},
            "inner": {"type": "object", "x-kubernetes-embedded-resource": true,
                "properties": {"spec": {"type": "object", "properties": {"x": {"type": "string"}}}}},
        }},
    }}));
    let mut value = json!({
        "apiVersion": "a/v1", "kind": "A", "metadata": {"name": "n", "color": "red", "labels": {"a": "b"}},
        "extra": 1,
        "spec": {
            "known": "k", "unknown": 1,
            "list": [{"x": "1", "y": "2"}],
            "map": {"k": {"x": "1", "y": "2"}},
            "open": {"any": {"thing": 1}, "closed": {"x": "1", "y": "2"}},
            "inner": {"apiVersion": "v1", "kind": "B", "metadata": {"name": "m", "color": "blue"}, "spec": {"x": "1", "y": 2}},
        },
    });
    let removed = prune(&schema, &mut value);
    assert_eq!(
        removed,
        [
            "metadata.color",
            "extra",
            "spec.inner.spec.y",
            "spec.list[0].y",
            "spec.map.k.y",
            "spec.open.closed.y",
            "spec.unknown",
            "spec.inner.metadata.color",
        ]
    );
    assert_eq!(
        value,
        json!({
            "apiVersion": "a/v1", "kind": "A", "metadata": {"name": "n", "labels": {"a": "b"}},
            "spec": {
                "known": "k",
                "list": [{"x": "1"}],
                "map": {"k": {"x": "1"}},
                "open": {"any": {"thing": 1}, "closed": {"x": "1"}},
                "inner": {"apiVersion": "v1", "kind": "B", "metadata": {"name": "m"}, "spec": {"x": "1"}},
            },
        })
    );
}

#[test]
fn under_preserve_only_metadata_can_be_unknown() {
    let schema = crd(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    let mut value =
        json!({"apiVersion": "a/v1", "kind": "A", "metadata": {"x": 1}, "spec": {"y": [{"z": 1}]}});
    assert_eq!(prune(&schema, &mut value), ["metadata.x"]);
    assert_eq!(value["spec"], json!({"y": [{"z": 1}]}));
}

#[test]
fn defaults_fill_in_and_nulls_go() {
    let schema = with_spec(json!({
        "a": {"type": "integer", "default": 1},
        "b": {"type": "object", "default": {}, "properties": {"c": {"type": "string", "default": "x"}}},
        "d": {"type": "object", "properties": {"e": {"type": "string", "default": "y"}}},
        "n": {"type": "string", "nullable": true, "default": "z"},
        "p": {"type": "string"},
        "l": {"type": "array", "items": {"type": "object", "properties": {"q": {"type": "integer", "default": 7}}}},
    }));
    let cases = [
        (json!({}), json!({"a": 1, "b": {"c": "x"}, "n": "z"})),
        (
            json!({"a": null, "n": null, "p": null}),
            json!({"a": 1, "b": {"c": "x"}, "n": null}),
        ),
        (
            json!({"a": 2, "d": {}, "n": "n"}),
            json!({"a": 2, "b": {"c": "x"}, "d": {"e": "y"}, "n": "n"}),
        ),
        (
            json!({"l": [{}, {"q": null}], "n": ""}),
            json!({"a": 1, "b": {"c": "x"}, "l": [{"q": 7}, {"q": 7}], "n": ""}),
        ),
    ];
    for (spec, expected) in cases {
        let mut value = json!({"spec": spec});
        default(&schema, &mut value);
        assert_eq!(value["spec"], expected);
    }
}

#[test]
fn values_are_checked_in_the_servers_words() {
    let schema = with_spec(json!({
        "i": {"type": "integer", "minimum": 1, "maximum": 10},
        "i32": {"type": "integer", "format": "int32"},
        "n": {"type": "number", "exclusiveMaximum": true, "maximum": 2.5},
        "m": {"type": "integer", "multipleOf": 3},
        "s": {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^a"},
        "e": {"type": "string", "enum": ["A", "B"]},
        "ie": {"type": "integer", "enum": [1, 2]},
        "t": {"type": "string", "format": "date-time"},
        "l": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
        "o": {"type": "object", "additionalProperties": {"type": "boolean"}, "minProperties": 1, "maxProperties": 1},
        "r": {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]},
        "ios": {"x-kubernetes-int-or-string": true},
        "nil": {"type": "string", "nullable": true},
    }));
    let cases = [
        (
            json!({"i": 1, "n": 2.4, "s": "aé", "e": "A", "ie": 2, "l": ["x"], "o": {"k": true}, "ios": "a", "nil": null}),
            vec![],
        ),
        (json!({"i": 5.0, "n": 1, "ios": 3}), vec![]),
        (
            json!({"i": "x"}),
            vec![
                "spec.i: Invalid value: \"string\": spec.i in body must be of type integer: \"string\"",
            ],
        ),
        (
            json!({"i": 11}),
            vec!["spec.i: Invalid value: 11: spec.i in body should be less than or equal to 10"],
        ),
        (
            json!({"i": 0}),
            vec!["spec.i: Invalid value: 0: spec.i in body should be greater than or equal to 1"],
        ),
        (
            json!({"i": 1.5}),
            vec![
                "spec.i: Invalid value: \"number\": spec.i in body must be of type integer: \"number\"",
                "<nil>: Invalid value: \"\": Checked value must be of type integer (default format) in spec.i",
            ],
        ),
        (
            json!({"i32": 2_147_483_648_i64}),
            vec![
                "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.i32",
            ],
        ),
        (
            json!({"n": 2.5}),
            vec!["spec.n: Invalid value: 2.5: spec.n in body should be less than 2.5"],
        ),
        (
            json!({"m": 4}),
            vec!["spec.m: Invalid value: 4: spec.m in body should be a multiple of 3"],
        ),
        (
            json!({"s": "abcde"}),
            vec!["spec.s: Too long: may not be more than 4 bytes"],
        ),
        (
            json!({"s": "a"}),
            vec!["spec.s: Invalid value: \"a\": spec.s in body should be at least 2 chars long"],
        ),
        (
            json!({"s": "bb"}),
            vec!["spec.s: Invalid value: \"bb\": spec.s in body should match '^a'"],
        ),
        (
            json!({"e": "C"}),
            vec!["spec.e: Unsupported value: \"C\": supported values: \"A\", \"B\""],
        ),
        (
            json!({"ie": 3}),
            vec!["spec.ie: Unsupported value: 3: supported values: \"1\", \"2\""],
        ),
        (
            json!({"t": "x"}),
            vec!["spec.t: Invalid value: \"x\": spec.t in body must be of type date-time: \"x\""],
        ),
        (
            json!({"l": []}),
            vec!["spec.l: Invalid value: 0: spec.l in body should have at least 1 items"],
        ),
        (
            json!({"l": ["a", "b", "c"]}),
            vec!["spec.l: Too many: 3: must have at most 2 items"],
        ),
        (
            json!({"l": ["a", 1]}),
            vec![
                "spec.l[1]: Invalid value: \"integer\": spec.l[1] in body must be of type string: \"integer\"",
            ],
        ),
        (
            json!({"o": {"a": true, "b": 1}}),
            vec![
                "spec.o: Too many: 2: must have at most 1 item",
                "spec.o.b: Invalid value: \"integer\": spec.o.b in body must be of type boolean: \"integer\"",
            ],
        ),
        (
            json!({"o": {}}),
            vec!["spec.o: Invalid value: 0: spec.o in body should have at least 1 properties"],
        ),
        (json!({"r": {}}), vec!["spec.r.x: Required value"]),
        (
            json!({"ios": true}),
            vec![
                "spec.ios: Invalid value: \"boolean\": spec.ios in body must be of type integer,string: \"boolean\"",
            ],
        ),
        (
            json!({"s": null}),
            vec![
                "spec.s: Invalid value: \"null\": spec.s in body must be of type string: \"null\"",
            ],
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(
            texts(&validate(&schema, &json!({"spec": spec}))),
            expected,
            "{spec}"
        );
    }
    let required = crd(
        json!({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object"}}}),
    );
    assert_eq!(
        texts(&validate(&required, &json!({}))),
        ["spec: Required value"]
    );
    let at_status = validate_at(
        &with_spec(json!({"i": {"type": "integer"}})),
        &json!({"spec": {"i": ""}}),
        &polity_core::FieldPath::of("status"),
    );
    assert_eq!(
        texts(&at_status),
        [
            "status.spec.i: Invalid value: \"string\": spec.i in body must be of type integer: \"string\"",
        ]
    );
}

#[test]
fn error_kinds_are_the_causes_reasons() {
    let schema = with_spec(json!({
        "a": {"type": "string", "maxLength": 1, "enum": ["b"]},
        "l": {"type": "array", "items": {"type": "string"}, "maxItems": 0},
        "r": {"type": "object", "required": ["x"], "properties": {"x": {"type": "string"}}},
    }));
    let found = validate(&schema, &json!({"spec": {"a": "cc", "l": ["x"], "r": {}}}));
    let kinds: Vec<_> = found.iter().map(|error| error.kind).collect();
    assert_eq!(
        kinds,
        [
            FieldErrorKind::TooLong,
            FieldErrorKind::NotSupported,
            FieldErrorKind::TooMany,
            FieldErrorKind::Required,
        ]
    );
}

#[test]
fn junctors_report_the_branch_that_came_closest() {
    let schema = with_spec(json!({
        "any": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "one": {"type": "integer", "oneOf": [{"minimum": 5}, {"maximum": 7}]},
        "all": {"type": "integer", "allOf": [{"minimum": 5}, {"maximum": 7}]},
        "not": {"type": "integer", "not": {"minimum": 5}},
    }));
    let cases = [
        (
            json!({"any": {"b": ""}, "one": 8, "all": 6, "not": 4}),
            vec![],
        ),
        (
            json!({"any": {}}),
            vec![
                "<nil>: Invalid value: \"\": \"spec.any\" must validate at least one schema (anyOf)",
                "spec.any.a: Required value",
            ],
        ),
        (
            json!({"one": 6}),
            vec![
                "<nil>: Invalid value: \"\": \"spec.one\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
            ],
        ),
        (
            json!({"all": 8}),
            vec![
                "spec.all: Invalid value: 8: spec.all in body should be less than or equal to 7",
                "<nil>: Invalid value: \"\": \"spec.all\" must validate all the schemas (allOf)",
            ],
        ),
        (
            json!({"not": 6}),
            vec!["<nil>: Invalid value: \"\": \"spec.not\" must not validate the schema (not)"],
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(
            texts(&validate(&schema, &json!({"spec": spec}))),
            expected,
            "{spec}"
        );
    }
}

fn map_list() -> Value {
    json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 5}}}})
}

#[test]
fn duplicates_are_found() {
    let two_keys = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"],
        "items": {"type": "object", "required": ["a", "b"], "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}});
    let schema = with_spec(json!({
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
        "map": map_list(),
        "two": two_keys,
        "maps": {"type": "object", "additionalProperties": map_list()},
    }));
    let cases = [
        (
            json!({"set": ["a", "b"], "map": [{"k": "a"}, {"k": "b"}], "two": [{"a": "x", "b": 1}, {"a": "x", "b": 2}]}),
            vec![],
        ),
        (
            json!({"set": ["a", "b", "a", "a"]}),
            vec!["spec.set[2]: Duplicate value: \"a\""],
        ),
        (
            json!({"map": [{"k": "a"}, {"k": "a"}]}),
            vec!["spec.map[1]: Duplicate value: {\"k\":\"a\"}"],
        ),
        (
            json!({"two": [{"a": "x", "b": 1}, {"a": "x", "b": 1}]}),
            vec!["spec.two[1]: Duplicate value: {\"a\":\"x\",\"b\":1}"],
        ),
        (
            json!({"maps": {"z": [{"k": "a"}, {"k": "a"}]}}),
            vec!["spec.maps[z][1]: Duplicate value: {\"k\":\"a\"}"],
        ),
    ];
    for (spec, expected) in cases {
        assert_eq!(
            texts(&validate(&schema, &json!({"spec": spec}))),
            expected,
            "{spec}"
        );
    }
}

#[test]
fn unchanged_parts_are_tolerated() {
    let schema = with_spec(json!({
        "a": {"type": "integer", "maximum": 5},
        "b": {"type": "string"},
        "l": map_list(),
        "s": {"type": "array", "items": {"type": "integer", "maximum": 5}},
        "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    }));
    let cases = [
        (json!({"a": 9, "b": "x"}), json!({"a": 9, "b": "y"}), vec![]),
        (
            json!({"a": 9}),
            json!({"a": 8}),
            vec!["spec.a: Invalid value: 8: spec.a in body should be less than or equal to 5"],
        ),
        (
            json!({"l": [{"k": "p", "v": 9}]}),
            json!({"l": [{"k": "q"}, {"k": "p", "v": 9}]}),
            vec![],
        ),
        (
            json!({"l": [{"k": "p", "v": 9}]}),
            json!({"l": [{"k": "q", "v": 9}]}),
            vec![
                "spec.l[0].v: Invalid value: 9: spec.l[0].v in body should be less than or equal to 5",
            ],
        ),
        (
            json!({"s": [9], "b": "x"}),
            json!({"s": [9], "b": "y"}),
            vec![],
        ),
        (
            json!({"s": [9]}),
            json!({"s": [9, 1]}),
            vec![
                "spec.s[0]: Invalid value: 9: spec.s[0] in body should be less than or equal to 5",
            ],
        ),
        (
            json!({"set": ["a", "a"]}),
            json!({"set": ["b", "b"]}),
            vec![],
        ),
    ];
    for (old, new, expected) in cases {
        let (old, new) = (json!({"spec": old}), json!({"spec": new}));
        assert_eq!(
            texts(&validate_update(&schema, &new, &old)),
            expected,
            "{old} -> {new}"
        );
    }
}

#[test]
fn embedded_resources_are_resources() {
    let schema = with_spec(json!({
        "r": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
    }));
    let cases = [
        (
            json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "x", "labels": {"a": "b"}}}),
            vec![],
        ),
        (
            json!({}),
            vec![
                "spec.r.apiVersion: Required value",
                "spec.r.kind: Required value",
            ],
        ),
        (
            json!({"apiVersion": "", "kind": "A"}),
            vec!["spec.r.apiVersion: Invalid value: \"\": must not be empty"],
        ),
        (
            json!({"apiVersion": "a/b/c", "kind": "A"}),
            vec![
                "spec.r.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c",
            ],
        ),
        (
            json!({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a/b"}}),
            vec!["spec.r.metadata.name: Invalid value: \"a/b\": may not contain '/'"],
        ),
    ];
    for (value, expected) in cases {
        assert_eq!(
            texts(&validate(&schema, &json!({"spec": {"r": value}}))),
            expected,
            "{value}"
        );
    }
}

#[test]
fn rules_are_kept_as_data() {
    let rules = json!([{"rule": "self.a == 1"}]);
    let schema = crd(
        json!({"type": "object", "x-kubernetes-validations": rules, "properties": {"a": {"type": "integer"}}}),
    );
    assert_eq!(schema.validations(), Some(&rules));
}

#[test]
fn unknown_formats_are_listed_and_ignored() {
    let schema = with_spec(
        json!({"a": {"type": "string", "format": "colour"}, "b": {"type": "integer", "format": "uri"}}),
    );
    assert_eq!(schema.unknown_formats(), ["colour", "uri"]);
    assert_eq!(validate(&schema, &json!({"spec": {"a": "x", "b": 1}})), []);
}

#[test]
fn definitions_share_nodes_and_override_at_the_reference() {
    let definitions = BTreeMap::from([
        (
            "Leaf".to_owned(),
            json!({"type": "object", "properties": {"x": {"type": "string"}}}),
        ),
        (
            "Loop".to_owned(),
            json!({"type": "object", "properties": {"again": {"$ref": "#/definitions/Loop"}}}),
        ),
        (
            "Root".to_owned(),
            json!({"type": "object", "properties": {
                "a": {"$ref": "#/definitions/Leaf"},
                "b": {"$ref": "#/definitions/Leaf"},
                "c": {"allOf": [{"$ref": "#/definitions/Leaf"}], "description": "mine", "default": {}, "x-kubernetes-map-type": "atomic"},
                "d": {"type": "array", "items": {"$ref": "#/definitions/Leaf"},
                    "x-kubernetes-patch-strategy": "merge,retainKeys", "x-kubernetes-patch-merge-key": "x"},
            }}),
        ),
    ]);
    let set = SchemaSet::from_definitions(&definitions);
    let root = set.get("Root").unwrap();
    assert!(Arc::ptr_eq(
        root.property("a").unwrap(),
        root.property("b").unwrap()
    ));
    let c = root.property("c").unwrap();
    assert_eq!(
        (c.description(), c.map_type(), c.default_value()),
        (Some("mine"), MapType::Atomic, Some(&json!({})))
    );
    assert!(c.property("x").is_some());
    let d = root.property("d").unwrap();
    assert_eq!(
        (d.list_type(), d.list_keys(), d.patch_merge_key()),
        (ListType::Map, &["x".to_owned()][..], Some("x"))
    );
    assert!(d.patch_strategy().merge && d.patch_strategy().retain_keys);
    assert!(
        set.get("Loop")
            .unwrap()
            .property("again")
            .unwrap()
            .preserve_unknown()
    );
    assert!(set.get("Missing").is_none());

    let mut value = json!({"a": {"x": "1", "y": 2}, "d": [{"z": 1}], "e": 1});
    assert_eq!(prune(&root, &mut value), ["a.y", "d[0].z", "e"]);
}

prop_compose! {
    fn scalar()(choice in 0..5, number in -20i64..20, text in "[a-c]{0,3}") -> Value {
        match choice {
            0 => Value::Null,
            1 => json!(number % 2 == 0),
            2 => json!(number),
            3 => json!(number as f64 / 2.0),
            _ => json!(text),
        }
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map("[a-d]|spec|metadata|kind", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn rich() -> Schema {
    with_spec(json!({
        "a": {"type": "object", "properties": {"b": {"type": "string", "default": "x"}, "c": map_list()}, "default": {}},
        "b": {"type": "array", "items": {"type": "integer", "maximum": 3}, "x-kubernetes-list-type": "set"},
        "c": {"x-kubernetes-int-or-string": true, "pattern": "^a"},
        "d": {"type": "object", "additionalProperties": {"type": "string", "nullable": true}},
    }))
}

proptest! {
    #[test]
    fn pruning_and_defaulting_settle(mut value in any_value()) {
        let schema = rich();
        prune(&schema, &mut value);
        default(&schema, &mut value);
        let once = value.clone();
        prop_assert!(prune(&schema, &mut value).is_empty());
        default(&schema, &mut value);
        prop_assert_eq!(&once, &value);
        let _ = validate(&schema, &value);
    }

    #[test]
    fn an_unchanged_object_passes_the_schema(value in any_value()) {
        let schema = rich();
        let mut value = json!({"spec": value});
        prune(&schema, &mut value);
        let found = validate_update(&schema, &value, &value);
        prop_assert!(found.iter().all(|error| error.kind == FieldErrorKind::Duplicate
            || error.message.contains("must be an object for an array")), "{:?}", found);
    }

    #[test]
    fn any_json_is_a_schema_or_a_list_of_errors(value in any_value()) {
        let _ = Schema::parse_crd(&value);
    }
}
