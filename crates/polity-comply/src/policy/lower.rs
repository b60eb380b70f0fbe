//! From the declared fields of a ConfigurationPolicy to the types of the engine. Every mistake is reported with its
//! field, and all of them at once.

use polity_api::LabelSelector;
use polity_api::policy::v1;
use polity_api::{decode_fields, decode_metadata};
use polity_core::governance::names::DISABLE_TEMPLATES;
use polity_core::{FieldError, FieldPath};
use serde_json::{Value, json};

use super::{
    ComplianceType, ConfigurationPolicy, CustomMessage, EvaluationInterval, Interval,
    ObjectTemplate, ObjectTemplates, PruneBehavior, RecordDiff, RecreateOption, Remediation,
};
use crate::namespaces::{NamespaceSelector, TerminatingInclusion};

/// The fields of a policy that have no effect because its kind does not declare them: most likely misspelt.
pub fn unknown_fields(policy: &Value) -> Vec<String> {
    polity_api::unknown_fields::<v1::ConfigurationPolicy>(policy)
}

impl ConfigurationPolicy {
    /// Reads a ConfigurationPolicy object; all its mistakes are reported at once.
    pub fn from_json(policy: &Value) -> Result<Self, Vec<FieldError>> {
        let path = FieldPath::of("spec");
        let spec = policy.get("spec").filter(|spec| spec.is_object());
        let spec = spec.ok_or_else(|| vec![FieldError::required(&path, "")])?;
        let (metadata, mut errors) = decode_metadata(policy);
        let (spec, spec_errors) = decode_fields::<v1::ConfigurationPolicySpec>(spec, &path);
        errors.extend(spec_errors);
        let Some(spec) = spec else {
            return Err(errors);
        };
        let mut lowering = Lowering { errors };
        let annotations = metadata.annotations.unwrap_or_default();
        let custom_message = spec.custom_message.unwrap_or_default();
        let lowered = Self {
            name: metadata.name.unwrap_or_default(),
            namespace: metadata.namespace.unwrap_or_default(),
            generation: metadata.generation.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some(),
            templates_disabled: annotations
                .get(DISABLE_TEMPLATES)
                .is_some_and(|text| is_true(text)),
            remediation: lowering
                .word(
                    Some(&spec.remediation_action),
                    &path.child("remediationAction"),
                    REMEDIATION_ACTIONS,
                )
                .unwrap_or_default(),
            namespace_selector: lowering.namespaces(
                spec.namespace_selector.unwrap_or_default(),
                &path.child("namespaceSelector"),
            ),
            evaluation_interval: lowering.intervals(
                &spec.evaluation_interval.unwrap_or_default(),
                &path.child("evaluationInterval"),
            ),
            prune: lowering
                .word(
                    Some(&spec.prune_object_behavior),
                    &path.child("pruneObjectBehavior"),
                    PRUNE_BEHAVIORS,
                )
                .unwrap_or_default(),
            custom_message: CustomMessage {
                compliant: custom_message.compliant.filter(|text| !text.is_empty()),
                noncompliant: custom_message.noncompliant.filter(|text| !text.is_empty()),
            },
            objects: lowering.objects(spec.object_templates, spec.object_templates_raw, &path),
            document: policy.clone(),
        };
        lowering.finish(lowered)
    }
}

impl ObjectTemplates {
    /// Reads a list of object templates, as the text of `object-templates-raw` produces it.
    pub fn from_json(templates: &Value) -> Result<Vec<ObjectTemplate>, Vec<FieldError>> {
        let path = FieldPath::of("object-templates-raw");
        let (templates, errors) = decode_fields::<Option<Vec<_>>>(templates, &path);
        let Some(templates) = templates else {
            return Err(errors);
        };
        let mut lowering = Lowering { errors };
        let lowered = lowering.templates(templates.unwrap_or_default(), &path);
        lowering.finish(lowered)
    }
}

const REMEDIATION_ACTIONS: &[(&str, Remediation)] = &[
    ("inform", Remediation::Inform),
    ("enforce", Remediation::Enforce),
];
const PRUNE_BEHAVIORS: &[(&str, PruneBehavior)] = &[
    ("None", PruneBehavior::None),
    ("DeleteAll", PruneBehavior::DeleteAll),
    ("DeleteIfCreated", PruneBehavior::DeleteIfCreated),
];
const TERMINATING_INCLUSIONS: &[(&str, TerminatingInclusion)] = &[
    ("IfMatch", TerminatingInclusion::IfMatch),
    ("Never", TerminatingInclusion::Never),
    ("Default", TerminatingInclusion::Default),
];
const COMPLIANCE_TYPES: &[(&str, ComplianceType)] = &[
    ("musthave", ComplianceType::MustHave),
    ("mustonlyhave", ComplianceType::MustOnlyHave),
    ("mustnothave", ComplianceType::MustNotHave),
];
/// Labels and annotations can be required in part or as a whole; they cannot be forbidden.
const METADATA_COMPLIANCE_TYPES: &[(&str, ComplianceType)] = &[
    ("musthave", ComplianceType::MustHave),
    ("mustonlyhave", ComplianceType::MustOnlyHave),
];
const RECORD_DIFFS: &[(&str, RecordDiff)] = &[
    ("Log", RecordDiff::Log),
    ("InStatus", RecordDiff::InStatus),
    ("None", RecordDiff::None),
];
const RECREATE_OPTIONS: &[(&str, RecreateOption)] = &[
    ("None", RecreateOption::None),
    ("IfRequired", RecreateOption::IfRequired),
    ("Always", RecreateOption::Always),
];

/// Lowers declared fields and collects what is wrong with them.
struct Lowering {
    errors: Vec<FieldError>,
}

impl Lowering {
    fn finish<T>(self, lowered: T) -> Result<T, Vec<FieldError>> {
        if self.errors.is_empty() {
            Ok(lowered)
        } else {
            Err(self.errors)
        }
    }

    /// One of several words, in any case of its letters. The empty word counts as absent.
    fn word<T: Copy>(
        &mut self,
        text: Option<&String>,
        path: &FieldPath,
        words: &[(&str, T)],
    ) -> Option<T> {
        let text = text.filter(|text| !text.is_empty())?;
        let mut known = words.iter();
        let found = known.find(|(word, _)| word.eq_ignore_ascii_case(text));
        if found.is_none() {
            let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let error = FieldError::not_supported(path, &json!(text), &words);
            self.errors.push(error);
        }
        found.map(|(_, meaning)| *meaning)
    }

    fn intervals(
        &mut self,
        intervals: &v1::EvaluationInterval,
        path: &FieldPath,
    ) -> EvaluationInterval {
        EvaluationInterval {
            compliant: self.interval(intervals.compliant.as_ref(), &path.child("compliant")),
            noncompliant: self
                .interval(intervals.noncompliant.as_ref(), &path.child("noncompliant")),
        }
    }

    fn interval(&mut self, text: Option<&String>, path: &FieldPath) -> Interval {
        let Some(text) = text else {
            return Interval::default();
        };
        text.parse().unwrap_or_else(|error: super::IntervalError| {
            let error = FieldError::invalid(path, &json!(text), &error.to_string());
            self.errors.push(error);
            Interval::default()
        })
    }

    fn namespaces(&mut self, target: v1::NamespaceTarget, path: &FieldPath) -> NamespaceSelector {
        let has_labels = target.match_labels.is_some() || target.match_expressions.is_some();
        let labels = LabelSelector {
            match_labels: target.match_labels,
            match_expressions: target.match_expressions,
        };
        NamespaceSelector {
            include: target.include,
            exclude: target.exclude,
            labels: has_labels.then(|| json!(labels)),
            terminating: self
                .word(
                    Some(&target.terminating_inclusion),
                    &path.child("terminatingInclusion"),
                    TERMINATING_INCLUSIONS,
                )
                .unwrap_or_default(),
        }
    }

    fn objects(
        &mut self,
        listed: Option<Vec<v1::ObjectTemplate>>,
        raw: Option<String>,
        path: &FieldPath,
    ) -> ObjectTemplates {
        let detail = "exactly one of object-templates and object-templates-raw must be given";
        match (listed, raw.filter(|raw| !raw.is_empty())) {
            (Some(listed), None) => {
                let templates = self.templates(listed, &path.child("object-templates"));
                return ObjectTemplates::Listed(templates);
            }
            (None, Some(text)) => return ObjectTemplates::Raw(text),
            (Some(_), Some(_)) => {
                let raw = path.child("object-templates-raw");
                self.errors.push(FieldError::forbidden(&raw, detail));
            }
            (None, None) => {
                let listed = path.child("object-templates");
                self.errors.push(FieldError::required(&listed, detail));
            }
        }
        ObjectTemplates::Listed(Vec::new())
    }

    fn templates(
        &mut self,
        templates: Vec<v1::ObjectTemplate>,
        path: &FieldPath,
    ) -> Vec<ObjectTemplate> {
        let templates = templates.into_iter().enumerate();
        templates
            .filter_map(|(index, template)| self.template(template, &path.index(index)))
            .collect()
    }

    fn template(
        &mut self,
        template: v1::ObjectTemplate,
        path: &FieldPath,
    ) -> Option<ObjectTemplate> {
        let compliance_path = path.child("complianceType");
        let compliance = template.compliance_type.filter(|text| !text.is_empty());
        if compliance.is_none() {
            self.errors.push(FieldError::required(&compliance_path, ""));
        }
        let compliance = self.word(compliance.as_ref(), &compliance_path, COMPLIANCE_TYPES);
        if template.object_definition.is_none() {
            let definition = path.child("objectDefinition");
            self.errors.push(FieldError::required(&definition, ""));
        }
        let metadata_compliance = self.word(
            template.metadata_compliance_type.as_ref(),
            &path.child("metadataComplianceType"),
            METADATA_COMPLIANCE_TYPES,
        );
        let record_diff = self.word(
            template.record_diff.as_ref(),
            &path.child("recordDiff"),
            RECORD_DIFFS,
        );
        let recreate = self.word(
            Some(&template.recreate_option),
            &path.child("recreateOption"),
            RECREATE_OPTIONS,
        );
        Some(ObjectTemplate {
            compliance: compliance?,
            metadata_compliance,
            definition: Value::Object(template.object_definition?),
            object_selector: template.object_selector.map(|selector| json!(selector)),
            record_diff,
            recreate: recreate.unwrap_or_default(),
        })
    }
}

/// A boolean text as Go reads it.
fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

#[cfg(test)]
mod tests;
