//! The hash of an object, which changes when a policy could have another result for it. See docs/spec/reports.md#8-2.
//!
//! It covers labels, annotations and everything outside `metadata` and `status`, in the JSON that Go's encoder writes,
//! since others compute the same hash. Status changes, scheduling and managed fields therefore cause no work.

use md5::{Digest as _, Md5};
use polity_core::go_text::{self, JsonEscapes};
use serde_json::{Map, Value};

/// How much of the hash stands in the annotation of each policy.
pub const SHORT: usize = 16;

/// Fields that are no part of what a policy judges.
const LEFT_OUT: [&str; 3] = ["metadata", "status", "scale"];

/// Which annotations do not count, since they are written again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashOptions {
    /// Whole keys, and prefixes that end in a slash.
    pub ignored_annotations: Vec<String>,
}

impl Default for HashOptions {
    fn default() -> Self {
        let ignored = [
            "kubectl.kubernetes.io/last-applied-configuration",
            "deployment.kubernetes.io/revision",
            "control-plane.alpha.kubernetes.io/leader",
            // Marks of our own on objects of others.
            "polity.dev/",
        ];
        Self {
            ignored_annotations: ignored.map(str::to_owned).to_vec(),
        }
    }
}

impl HashOptions {
    fn ignores(&self, key: &str) -> bool {
        self.ignored_annotations.iter().any(|ignored| {
            if ignored.ends_with('/') {
                key.starts_with(ignored.as_str())
            } else {
                key == ignored
            }
        })
    }
}

/// The hash of an object, 32 hexadecimal digits.
pub fn resource_hash(object: &Value, options: &HashOptions) -> String {
    let mut text = String::with_capacity(1024);
    write_hashed(&mut text, object, options);
    crate::hex(&Md5::digest(text.as_bytes()))
}

/// The part of a hash that annotations carry.
pub fn short(hash: &str) -> &str {
    crate::source::prefix_of(hash, SHORT)
}

fn write_hashed(out: &mut String, object: &Value, options: &HashOptions) {
    let metadata = object.get("metadata");
    let of = |field: &str| metadata?.get(field)?.as_object();
    out.push('[');
    write_labels(out, of("labels"), |_| true);
    out.push(',');
    write_labels(out, of("annotations"), |key| !options.ignores(key));
    out.push(',');
    match object.as_object() {
        Some(fields) => write_rest(out, fields),
        None => write_value(out, object),
    }
    out.push(']');
}

/// A map of which some keys count; without any it is `null`, as if it were absent.
fn write_labels(out: &mut String, map: Option<&Map<String, Value>>, counts: impl Fn(&str) -> bool) {
    let counted = map
        .into_iter()
        .flatten()
        .filter(|(key, _)| counts(key))
        .collect::<Vec<_>>();
    if counted.is_empty() {
        out.push_str("null");
    } else {
        write_fields(out, counted);
    }
}

fn write_rest(out: &mut String, fields: &Map<String, Value>) {
    out.push('{');
    let mut is_first = true;
    for (key, value) in fields {
        if LEFT_OUT.contains(&key.as_str()) {
            continue;
        }
        write_key(out, key, &mut is_first);
        match value {
            Value::Object(spec) if key == "spec" => {
                write_fields(out, spec.iter().filter(|(key, _)| *key != "nodeName"));
            }
            _ => write_value(out, value),
        }
    }
    out.push('}');
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => out.push_str(&go_text::json_float(float)),
            _ => out.push_str(&number.to_string()),
        },
        Value::String(text) => go_text::write_json_text(text, JsonEscapes::Html, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => write_fields(out, fields),
    }
}

fn write_fields<'a>(out: &mut String, fields: impl IntoIterator<Item = (&'a String, &'a Value)>) {
    out.push('{');
    let mut is_first = true;
    for (key, value) in fields {
        write_key(out, key, &mut is_first);
        write_value(out, value);
    }
    out.push('}');
}

fn write_key(out: &mut String, key: &str, is_first: &mut bool) {
    if !*is_first {
        out.push(',');
    }
    *is_first = false;
    go_text::write_json_text(key, JsonEscapes::Html, out);
    out.push(':');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn hashed(object: &Value) -> String {
        let mut text = String::new();
        write_hashed(&mut text, object, &HashOptions::default());
        text
    }

    fn hash(object: &Value) -> String {
        resource_hash(object, &HashOptions::default())
    }

    #[test]
    fn the_hash_agrees_with_the_test_vector() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "c", "labels": {"a": "b"}},
            "data": {"k": "v"}
        });
        assert_eq!(
            hashed(&object),
            r#"[{"a":"b"},null,{"apiVersion":"v1","data":{"k":"v"},"kind":"ConfigMap"}]"#
        );
        assert_eq!(hash(&object), "5bd17c64f6929451ef3791c99e680efb");
        assert_eq!(short(&hash(&object)), "5bd17c64f6929451");
    }

    #[test]
    fn what_no_policy_judges_does_not_count() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "labels": {"a": "b"}},
            "spec": {"containers": []}
        });
        let mut same = pod.clone();
        same["metadata"]["managedFields"] = json!([{"manager": "kubelet"}]);
        same["metadata"]["resourceVersion"] = json!("7");
        same["metadata"]["annotations"] = json!({
            "polity.dev/PolicyAffected": "true",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        });
        same["status"] = json!({"phase": "Running"});
        same["spec"]["nodeName"] = json!("node-1");
        assert_eq!(hash(&same), hash(&pod));
        for (pointer, value) in [
            ("/metadata/labels/a", json!("c")),
            ("/metadata/annotations", json!({"team": "x"})),
            ("/spec/containers", json!([{}])),
        ] {
            let mut other = same.clone();
            *other.pointer_mut(pointer).unwrap() = value;
            assert_ne!(hash(&other), hash(&pod), "{pointer}");
        }
    }

    #[test]
    fn texts_and_numbers_are_written_as_go_writes_them() {
        for (value, expected) in [
            (
                json!("<a>&\u{2028}\u{1}\u{8}\"\\é"),
                r#""\u003ca\u003e\u0026\u2028\u0001\b\"\\é""#,
            ),
            (json!(1.0), "1"),
            (json!(0.5), "0.5"),
            (json!(-0.000_000_5), "-5e-7"),
            (json!(1e21), "1e+21"),
            (json!(1.5e300), "1.5e+300"),
            (
                json!(100_000_000_000_000_000_000.0),
                "100000000000000000000",
            ),
            (json!(u64::MAX), "18446744073709551615"),
            (json!([null, true, {}]), "[null,true,{}]"),
        ] {
            let mut text = String::new();
            write_value(&mut text, &value);
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn objects_of_any_shape_have_a_hash() {
        for object in [
            json!(null),
            json!([]),
            json!({"metadata": 3, "spec": []}),
            json!("x"),
        ] {
            assert_eq!(hash(&object).len(), 32);
        }
    }
}
