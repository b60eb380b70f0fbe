//! The version of a policy: it changes when, and only when, an evaluation can change.
//! See docs/spec/reports.md#5-3.
//!
//! `metadata.resourceVersion` moves with every status write and would force every object to be evaluated again;
//! `metadata.generation` starts anew when a policy is created again. So the version is a digest of what matters.

use serde_json::{Map, Value, json};

use crate::sha256_hex;

/// How many hexadecimal digits a version has.
const DIGITS: usize = 16;

/// The fields of a policy or group that decide what it applies to and its verdicts.
const OF_POLICY: [&str; 9] = [
    "contextAwareResources",
    "expression",
    "matchConditions",
    "matchPolicy",
    "mutating",
    "namespaceSelector",
    "objectSelector",
    "rules",
    "settings",
];

/// The same fields of a member of a group. Its module counts by its digest.
const OF_MEMBER: [&str; 2] = ["contextAwareResources", "settings"];

/// A module of the revision that serves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ModuleDigest {
    /// The member of the group it belongs to; empty for a policy.
    pub member: String,
    pub digest: String,
}

/// The version of an admission policy or group: of the revision that *serves*, not of the newest specification.
pub fn of_admission_policy(uid: &str, served_spec: &Value, modules: &[ModuleDigest]) -> String {
    let mut digests: Vec<_> = modules.iter().collect();
    digests.sort();
    let digests: Vec<_> = digests
        .iter()
        .map(|module| [&module.member, &module.digest])
        .collect();
    let members: Map<String, Value> = served_spec
        .get("policies")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, member)| (name.clone(), picked(member, &OF_MEMBER)))
        .collect();
    digest(&json!({
        "uid": uid,
        "spec": picked(served_spec, &OF_POLICY),
        "members": members,
        "modules": digests,
    }))
}

/// The version of a configuration policy: its agent evaluates all of its specification.
pub fn of_configuration_policy(uid: &str, spec: &Value) -> String {
    digest(&json!({"uid": uid, "spec": spec}))
}

fn picked(value: &Value, fields: &[&str]) -> Value {
    let found = fields.iter().filter_map(|field| {
        let value = value.get(*field).filter(|value| !value.is_null())?;
        Some(((*field).to_owned(), value.clone()))
    });
    Value::Object(found.collect())
}

/// Maps are sorted, so the text of a value is canonical.
fn digest(value: &Value) -> String {
    sha256_hex(value.to_string().as_bytes(), DIGITS)
}

#[cfg(test)]
mod tests {
    use polity_core::name;

    use super::*;

    fn spec() -> Value {
        json!({
            "module": "registry://example.test/p:v1", "mutating": false, "mode": "protect",
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
            "settings": {"a": 1},
        })
    }

    fn version(uid: &str, spec: &Value, digest: &str) -> String {
        let module = ModuleDigest {
            member: String::new(),
            digest: digest.to_owned(),
        };
        of_admission_policy(uid, spec, &[module])
    }

    #[test]
    fn what_cannot_change_a_verdict_does_not_change_the_version() {
        let base = version("u", &spec(), "d");
        assert_eq!(base.len(), 16);
        assert_eq!(name::label_value(&base), Ok(()));
        for (field, value) in [
            ("mode", json!("monitor")),
            ("message", json!("no")),
            ("timeoutSeconds", json!(3)),
            ("timeoutEvalSeconds", json!(2)),
            ("failurePolicy", json!("Ignore")),
            ("policyServer", json!("other")),
            ("backgroundAudit", json!(false)),
            ("module", json!("registry://example.test/p:v2")),
            ("matchConditions", json!(null)),
        ] {
            let mut other = spec();
            other[field] = value;
            assert_eq!(version("u", &other, "d"), base, "{field}");
        }
    }

    #[test]
    fn what_can_change_a_verdict_changes_the_version() {
        let base = version("u", &spec(), "d");
        assert_ne!(version("other", &spec(), "d"), base, "created again");
        assert_ne!(version("u", &spec(), "e"), base, "another module");
        for (field, value) in [
            ("settings", json!({"a": 2})),
            ("mutating", json!(true)),
            ("rules", json!([])),
            ("matchPolicy", json!("Exact")),
            (
                "matchConditions",
                json!([{"name": "c", "expression": "true"}]),
            ),
            ("namespaceSelector", json!({"matchLabels": {"a": "b"}})),
            ("objectSelector", json!({"matchLabels": {"a": "b"}})),
            (
                "contextAwareResources",
                json!([{"apiVersion": "v1", "kind": "Pod"}]),
            ),
            ("expression", json!("a()")),
            ("policies", json!({"a": {"module": "m"}})),
        ] {
            let mut other = spec();
            other[field] = value;
            assert_ne!(version("u", &other, "d"), base, "{field}");
        }
    }

    #[test]
    fn members_count_by_settings_and_digest() {
        let group = |settings: Value, module: &str| json!({"expression": "a()", "policies": {"a": {"module": module, "settings": settings}}});
        let modules = |digest: &str| {
            [ModuleDigest {
                member: "a".into(),
                digest: digest.into(),
            }]
        };
        let base = of_admission_policy("u", &group(json!({}), "m"), &modules("d"));
        assert_eq!(
            of_admission_policy("u", &group(json!({}), "n"), &modules("d")),
            base
        );
        assert_ne!(
            of_admission_policy("u", &group(json!({"x": 1}), "m"), &modules("d")),
            base
        );
        assert_ne!(
            of_admission_policy("u", &group(json!({}), "m"), &modules("e")),
            base
        );
    }

    #[test]
    fn all_of_a_configuration_policy_counts() {
        let base = of_configuration_policy("u", &json!({"severity": "low"}));
        assert_ne!(
            of_configuration_policy("u", &json!({"severity": "high"})),
            base
        );
        assert_ne!(
            of_configuration_policy("v", &json!({"severity": "low"})),
            base
        );
    }
}
