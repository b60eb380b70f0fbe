//! Policy kinds: what their CRDs declare, corrected by settings. See docs/spec/attachment.md#4-1.

use std::sync::Arc;

use polity_core::GroupKind;
use polity_merge::Schema;
use serde_json::Value;

use crate::finding::{Finding, Severity};
use crate::object::{ObjectRef, at, list, text};
use crate::settings::{
    Admission, Binding, Class, Contents, KindRef, KindSettings, Publish, Redaction, Strategy,
    TieBreak,
};

/// The label that makes a CRD a policy kind.
pub const POLICY_LABEL: &str = "gateway.networking.k8s.io/policy";
/// The annotation that makes Polity the controller of a policy kind.
pub const MANAGED_ANNOTATION: &str = "polity.dev/managed-policy";

/// What a CRD says, as far as it matters here.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    pub(crate) object: ObjectRef,
    pub(crate) kind: GroupKind,
    pub(crate) plural: String,
    pub(crate) namespaced: bool,
    pub(crate) label: Option<String>,
    pub(crate) managed: bool,
    /// The schema of the preferred served version, as written; what [`Self::schema`] was made from.
    pub(crate) raw: Option<Value>,
    pub(crate) schema: Option<Arc<Schema>>,
    pub(crate) problem: Option<String>,
}

impl PartialEq for Definition {
    fn eq(&self, other: &Self) -> bool {
        let plain = |it: &Self| {
            (
                it.kind.clone(),
                it.plural.clone(),
                it.namespaced,
                it.label.clone(),
                it.managed,
            )
        };
        plain(self) == plain(other) && self.raw == other.raw
    }
}

/// Where a kind keeps the verdicts on its policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusForm {
    /// `status.ancestors`, with the most entries its schema allows.
    Ancestors { max: usize },
    /// `status.conditions`.
    Flat,
    /// Neither: the kind does not conform.
    Absent,
}

/// The most ancestors where a CRD does not say (what every published one says).
pub(crate) const DEFAULT_MAX_ANCESTORS: usize = 16;

/// A policy kind with all its settings.
#[derive(Debug, Clone)]
pub struct PolicyKind {
    pub kind: GroupKind,
    /// The resource name, such as `timeoutpolicies`.
    pub plural: String,
    /// Whether policies of it live in namespaces; unknown without a CRD.
    pub namespaced: Option<bool>,
    pub class: Class,
    /// Polity is its controller and writes its status.
    pub managed: bool,
    pub strategy: Strategy,
    pub strategy_fields: Vec<String>,
    pub tie_break: TieBreak,
    /// Kinds with the same merge group meet in one merge.
    pub merge_group: String,
    pub hierarchy: String,
    pub effective_kind: Option<KindRef>,
    pub publish: Publish,
    pub admission: Admission,
    pub redaction: Redaction,
    pub contents: Contents,
    pub bindings: Vec<Binding>,
    pub status_form: StatusForm,
    pub(crate) schema: Option<Arc<Schema>>,
    pub(crate) raw: Option<Value>,
}

impl PartialEq for PolicyKind {
    /// Whether policies of both are read and merged alike; the parsed schema follows from the raw one.
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.namespaced == other.namespaced
            && self.class == other.class
            && self.managed == other.managed
            && self.strategy == other.strategy
            && self.strategy_fields == other.strategy_fields
            && self.tie_break == other.tie_break
            && self.merge_group == other.merge_group
            && self.hierarchy == other.hierarchy
            && self.effective_kind == other.effective_kind
            && self.publish == other.publish
            && self.admission == other.admission
            && self.redaction == other.redaction
            && self.contents == other.contents
            && self.bindings == other.bindings
            && self.raw == other.raw
    }
}

impl Definition {
    /// Reads a CustomResourceDefinition; `None` when it does not say which kind it defines.
    pub(crate) fn of(crd: &Value) -> Option<Self> {
        let object = ObjectRef::of(crd)?;
        let kind = GroupKind::new(
            text(crd, &["spec", "group"])?,
            text(crd, &["spec", "names", "kind"])?,
        );
        let raw = preferred_schema(crd).cloned();
        let (schema, problem) = match &raw {
            None => (None, Some("has no schema".to_owned())),
            Some(raw) => match Schema::parse_crd(raw) {
                Ok(schema) => (Some(Arc::new(schema)), None),
                Err(errors) => {
                    let first = errors.first().map_or_else(String::new, ToString::to_string);
                    (
                        None,
                        Some(format!("has a schema that is not structural: {first}")),
                    )
                }
            },
        };
        let metadata = |map: &str, key: &str| at(crd, &["metadata", map])?.get(key)?.as_str();
        Some(Self {
            object,
            kind,
            plural: text(crd, &["spec", "names", "plural"])
                .unwrap_or("")
                .to_owned(),
            namespaced: text(crd, &["spec", "scope"]) != Some("Cluster"),
            label: metadata("labels", POLICY_LABEL).map(str::to_owned),
            managed: metadata("annotations", MANAGED_ANNOTATION) == Some("true"),
            raw,
            schema,
            problem,
        })
    }

    fn spec(&self) -> Option<&Arc<Schema>> {
        self.schema.as_ref()?.property("spec")
    }

    /// Whether the schema knows a target reference; unknown without one.
    pub(crate) fn has_target_reference(&self) -> Option<bool> {
        self.schema.as_ref()?;
        let knows = |name: &str| {
            self.spec()
                .is_some_and(|spec| spec.property(name).is_some())
        };
        Some(knows("targetRef") || knows("targetRefs"))
    }

    /// The class the label claims, with what is wrong about the label; `None` without a label.
    pub(crate) fn claimed(&self) -> Option<Result<Class, String>> {
        let label = self.label.as_deref()?;
        Some(match label.to_ascii_lowercase().as_str() {
            "inherited" => Ok(Class::Inherited),
            "direct" | "true" => Ok(Class::Direct),
            _ => Err(format!(
                "label {POLICY_LABEL} has value {label:?}; it must be inherited or direct, so the kind is not evaluated"
            )),
        })
    }

    /// What does not conform to Gateway API or could be better, for a policy kind.
    pub(crate) fn lint(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut say = |severity, code, message: String| {
            findings.push(Finding::new(severity, code, self.object.clone(), message));
        };
        let name = &self.kind.kind;
        if let Some(problem) = &self.problem {
            say(
                Severity::Warn,
                "NonConforming",
                format!(
                    "{} {problem}: objects are merged field by field and lists as a whole",
                    self.kind
                ),
            );
        }
        if let Some(schema) = &self.schema {
            for part in ["spec", "status"] {
                if schema.property(part).is_none() {
                    say(
                        Severity::Warn,
                        "NonConforming",
                        format!("{} has no {part} in its schema", self.kind),
                    );
                }
            }
            if schema.property("status").is_some() && self.status_form() == StatusForm::Absent {
                say(
                    Severity::Warn,
                    "NonConforming",
                    format!(
                        "{} has neither status.conditions nor status.ancestors[].conditions",
                        self.kind
                    ),
                );
            }
        }
        if !name.contains("Policy") {
            say(
                Severity::Warn,
                "KindName",
                format!(
                    "{} does not say in its name that it is a policy; its owner must document that it is one",
                    self.kind
                ),
            );
        } else if !name.ends_with("Policy") {
            say(
                Severity::Info,
                "KindName",
                format!("{} should end in Policy", self.kind),
            );
        }
        if self
            .label
            .as_deref()
            .is_some_and(|label| label.eq_ignore_ascii_case("true"))
        {
            say(
                Severity::Info,
                "OldLabel",
                format!(
                    "{} has the old label value \"true\"; it is treated as direct",
                    self.kind
                ),
            );
        }
        findings
    }

    pub(crate) fn status_form(&self) -> StatusForm {
        let status = self
            .schema
            .as_ref()
            .and_then(|schema| schema.property("status"));
        let Some(status) = status else {
            return StatusForm::Absent;
        };
        let has_conditions = |schema: &Schema| schema.property("conditions").is_some();
        if let Some(ancestors) = status.property("ancestors")
            && ancestors.items().is_some_and(|item| has_conditions(item))
        {
            let max = ancestors
                .max_size()
                .and_then(|max| usize::try_from(max).ok());
            return StatusForm::Ancestors {
                max: max.unwrap_or(DEFAULT_MAX_ANCESTORS),
            };
        }
        if has_conditions(status) {
            StatusForm::Flat
        } else {
            StatusForm::Absent
        }
    }

    /// The body of a policy as the schema has it, without help texts and target references.
    pub(crate) fn body_schema(&self) -> Option<Value> {
        let mut spec = at(self.raw.as_ref()?, &["properties", "spec"])?.clone();
        if let Some(properties) = spec.get_mut("properties").and_then(Value::as_object_mut) {
            for name in ["targetRef", "targetRefs", "targetSelectors"] {
                properties.remove(name);
            }
        }
        if let Some(fields) = spec.as_object_mut() {
            fields.remove("required");
            fields.remove("x-kubernetes-validations");
        }
        strip_descriptions(&mut spec, 0);
        Some(spec)
    }
}

impl PolicyKind {
    /// A kind by its CRD, where there is one, and what is set for it.
    pub(crate) fn of(
        kind: &GroupKind,
        definition: Option<&Definition>,
        class: Class,
        set: &KindSettings,
    ) -> Self {
        Self {
            kind: kind.clone(),
            plural: definition.map_or_else(String::new, |crd| crd.plural.clone()),
            namespaced: definition.map(|crd| crd.namespaced),
            class,
            managed: set
                .managed
                .unwrap_or_else(|| definition.is_some_and(|crd| crd.managed)),
            strategy: set.strategy.unwrap_or_default(),
            strategy_fields: set.strategy_fields.clone().unwrap_or_default(),
            tie_break: set.tie_break.unwrap_or_default(),
            merge_group: kind.to_string(),
            hierarchy: set
                .hierarchy
                .clone()
                .unwrap_or_else(|| "gateway".to_owned()),
            effective_kind: set.effective_kind.clone(),
            publish: set.publish.unwrap_or_default(),
            admission: set.admission.unwrap_or_default(),
            redaction: set.redaction.unwrap_or_default(),
            contents: set.contents.clone().unwrap_or_default(),
            bindings: set.bindings.clone().unwrap_or_default(),
            status_form: definition.map_or(StatusForm::Absent, Definition::status_form),
            schema: definition.and_then(|crd| crd.schema.clone()),
            raw: definition.and_then(|crd| crd.raw.clone()),
        }
    }

    pub(crate) fn spec_schema(&self) -> Option<&Arc<Schema>> {
        self.schema.as_ref()?.property("spec")
    }

    /// `timeoutPolicy` for TimeoutPolicy: the key of its resultant.
    pub fn lower_camel(&self) -> String {
        lower_camel(&self.kind.kind)
    }
}

/// A kind's name as a field name.
pub(crate) fn lower_camel(kind: &str) -> String {
    let mut letters = kind.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// The schema of the version a client would be given: the best of those served.
fn preferred_schema(crd: &Value) -> Option<&Value> {
    let served = list(crd, &["spec", "versions"])
        .iter()
        .filter(|version| version.get("served").and_then(Value::as_bool) != Some(false));
    let best = served.max_by_key(|version| {
        priority(version.get("name").and_then(Value::as_str).unwrap_or(""))
    })?;
    at(best, &["schema", "openAPIV3Schema"]).filter(|schema| schema.is_object())
}

/// Where a version stands: `v2` before `v1` before `v1beta1` before `v1alpha1` before any other name.
fn priority(version: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let other = (0, 0, 0, std::cmp::Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else {
        return other;
    };
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (major, stage) = rest.split_at(digits);
    let Ok(major) = major.parse::<u64>() else {
        return other;
    };
    let (stage, minor) = match stage {
        "" => (3, Ok(0)),
        beta if beta.starts_with("beta") => (2, beta[4..].parse()),
        alpha if alpha.starts_with("alpha") => (1, alpha[5..].parse()),
        _ => return other,
    };
    match minor {
        Ok(minor) => (stage, major, minor, std::cmp::Reverse(String::new())),
        Err(_) => other,
    }
}

fn strip_descriptions(schema: &mut Value, depth: usize) {
    if depth > 128 {
        return;
    }
    match schema {
        Value::Object(fields) => {
            if fields.get("description").is_some_and(Value::is_string) {
                fields.remove("description");
            }
            fields
                .values_mut()
                .for_each(|value| strip_descriptions(value, depth + 1));
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|value| strip_descriptions(value, depth + 1)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_preferred_as_a_server_prefers_them() {
        let mut versions = [
            "v1alpha1", "v2", "foo", "v1", "v10beta3", "v1beta2", "v1beta10",
        ];
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        assert_eq!(
            versions,
            [
                "v2", "v1", "v10beta3", "v1beta10", "v1beta2", "v1alpha1", "foo"
            ]
        );
    }
}
