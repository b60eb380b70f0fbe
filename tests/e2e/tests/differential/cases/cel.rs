//! CEL rules in schemas.

use serde_json::{Value, json};

use super::crd::{DEFINITIONS, WIDGETS, defined, definition, widget};
use crate::case::{Case, case, merge, post, put};

fn rules(rules: Value, properties: Value) -> Value {
    json!({"type": "object", "properties": properties, "x-kubernetes-validations": rules})
}

pub(crate) fn cases() -> Vec<Case> {
    let numbers = json!({"min": {"type": "integer"}, "max": {"type": "integer"}, "name": {"type": "string", "maxLength": 20}, "kind": {"type": "string"}});
    let broken = |rule: Value| {
        post(
            DEFINITIONS,
            definition(
                json!({"schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": rules(json!([rule]), json!({"a": {"type": "string"}}))}}}}),
            ),
        )
    };
    vec![
        case(
            "cel: rules on create and update",
            defined(rules(
                json!([
                    {"rule": "!has(self.min) || !has(self.max) || self.min <= self.max", "message": "min must not be above max"},
                    {"rule": "!has(self.name) || self.name.startsWith('w-')", "messageExpression": "'name ' + self.name + ' must start with w-'", "fieldPath": ".name"},
                    {"rule": "!has(self.kind) || self.kind == oldSelf.kind", "reason": "FieldValueForbidden"},
                ]),
                numbers,
            ))
            .into_iter()
            .chain([
                post(WIDGETS, widget("a", json!({"min": 2, "max": 1}))),
                post(WIDGETS, widget("a", json!({"name": "x"}))),
                post(WIDGETS, widget("a", json!({"min": 3, "max": 1, "name": "x"}))),
                post(WIDGETS, widget("a", json!({"min": "x", "max": 1, "name": "x"}))),
                post(WIDGETS, widget("a", json!({"kind": "k"}))),
                merge(format!("{WIDGETS}/a"), json!({"spec": {"kind": "l"}})),
                merge(format!("{WIDGETS}/a"), json!({"spec": {"min": 1}})),
                merge(format!("{WIDGETS}/a"), json!({"spec": {"kind": null}})),
                merge(format!("{WIDGETS}/a"), json!({"spec": {"kind": "m"}})),
            ]),
        ),
        case(
            "cel: broken rules",
            [
                broken(json!({"rule": "self.b == 'x'"})),
                broken(json!({"rule": "self.a + 1 == 2"})),
                broken(json!({"rule": "self.a == "})),
                broken(json!({"rule": "self.a"})),
                broken(json!({"rule": ""})),
                broken(json!({"rule": "self.a == 'x'", "message": "two\nlines"})),
                broken(json!({"rule": "self.a == 'x'", "messageExpression": "1"})),
                broken(json!({"rule": "self.a == 'x'", "fieldPath": ".nope"})),
                broken(json!({"rule": "self.a == 'x'", "reason": "Because"})),
            ],
        ),
        case(
            "cel: libraries and odd names",
            defined(json!({"type": "object", "properties": {
                "list": {"type": "array", "maxItems": 5, "items": {"type": "integer"}, "x-kubernetes-validations": [{"rule": "self.all(x, x > 0)"}, {"rule": "self.isSorted()", "message": "must be sorted"}]},
                "url": {"type": "string", "maxLength": 40, "x-kubernetes-validations": [{"rule": "isURL(self) && url(self).getScheme() == 'https'"}]},
                "cpu": {"x-kubernetes-int-or-string": true, "x-kubernetes-validations": [{"rule": "quantity(string(self)).isLessThan(quantity('2'))"}]},
                "map": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "string", "maxLength": 9}, "x-kubernetes-validations": [{"rule": "self.all(k, self[k] != k)"}]},
                "odd-name": {"type": "string", "maxLength": 9},
                "namespace": {"type": "string", "maxLength": 9},
            }, "x-kubernetes-validations": [
                {"rule": "!has(self.odd__dash__name) || self.odd__dash__name != self.__namespace__"},
            ]}))
            .into_iter()
            .chain([
                post(WIDGETS, widget("a", json!({"list": [1, -1]}))),
                post(WIDGETS, widget("a", json!({"list": [2, 1]}))),
                post(WIDGETS, widget("a", json!({"url": "http://x"}))),
                post(WIDGETS, widget("a", json!({"url": "::"}))),
                post(WIDGETS, widget("a", json!({"cpu": "2500m"}))),
                post(WIDGETS, widget("a", json!({"cpu": "many"}))),
                post(WIDGETS, widget("a", json!({"map": {"a": "a"}}))),
                post(WIDGETS, widget("a", json!({"odd-name": "x", "namespace": "x"}))),
                post(WIDGETS, widget("a", json!({"odd-name": "x"}))),
                post(WIDGETS, widget("a", json!({"list": [1, 2], "url": "https://x", "cpu": 1, "map": {"a": "b"}, "odd-name": "x", "namespace": "y"}))),
                put(format!("{WIDGETS}/a"), widget("a", json!({"list": [0]}))),
            ]),
        ),
    ]
}
