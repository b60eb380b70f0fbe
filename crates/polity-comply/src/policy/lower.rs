//! From the JSON of a ConfigurationPolicy to the types of the engine; every mistake with its place.

use polity_core::{FieldError, FieldPath};
use serde_json::{Map, Value};

use super::{
    ComplianceType, ConfigurationPolicy, CustomMessage, DISABLE_TEMPLATES, EvaluationInterval,
    Interval, ObjectTemplate, ObjectTemplates, PruneBehavior, RecordDiff, RecreateOption,
    Remediation,
};
use crate::namespaces::{NamespaceSelector, TerminatingInclusion};

const SPEC_FIELDS: &[&str] = &[
    "remediationAction",
    "severity",
    "namespaceSelector",
    "evaluationInterval",
    "pruneObjectBehavior",
    "customMessage",
    "object-templates",
    "object-templates-raw",
    "hubTemplateOptions",
];
const TEMPLATE_FIELDS: &[&str] = &[
    "complianceType",
    "metadataComplianceType",
    "objectDefinition",
    "objectSelector",
    "recordDiff",
    "recreateOption",
];

/// The fields of a policy that nobody reads: most likely misspelt.
pub fn unknown_fields(policy: &Value) -> Vec<String> {
    let mut unknown = Vec::new();
    let mut check = |value: &Value, path: &str, known: &[&str]| {
        for key in value.as_object().into_iter().flat_map(Map::keys) {
            if !known.contains(&key.as_str()) {
                let dot = if path.is_empty() { "" } else { "." };
                unknown.push(format!("{path}{dot}{key}"));
            }
        }
    };
    check(
        policy,
        "",
        &["apiVersion", "kind", "metadata", "spec", "status"],
    );
    let spec = &policy["spec"];
    check(spec, "spec", SPEC_FIELDS);
    check(
        &spec["namespaceSelector"],
        "spec.namespaceSelector",
        &[
            "include",
            "exclude",
            "matchLabels",
            "matchExpressions",
            "terminatingInclusion",
        ],
    );
    for field in ["evaluationInterval", "customMessage"] {
        let path = format!("spec.{field}");
        check(&spec[field], &path, &["compliant", "noncompliant"]);
    }
    let templates = spec["object-templates"].as_array();
    for (index, template) in templates.into_iter().flatten().enumerate() {
        let path = format!("spec.object-templates[{index}]");
        check(template, &path, TEMPLATE_FIELDS);
    }
    unknown
}

impl ConfigurationPolicy {
    /// Reads a ConfigurationPolicy object; all its mistakes are reported at once.
    pub fn from_json(policy: &Value) -> Result<Self, Vec<FieldError>> {
        let mut reader = Reader::default();
        let metadata = &policy["metadata"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let spec_path = FieldPath::of("spec");
        let spec = &policy["spec"];
        if !spec.is_object() {
            return Err(vec![FieldError::required(&spec_path, "")]);
        }
        let annotation = metadata["annotations"][DISABLE_TEMPLATES].as_str();
        let interval_path = spec_path.child("evaluationInterval");
        let mut interval = |field: &str| {
            reader.interval(
                &spec["evaluationInterval"][field],
                &interval_path.child(field),
            )
        };
        let evaluation_interval = EvaluationInterval {
            compliant: interval("compliant"),
            noncompliant: interval("noncompliant"),
        };
        let lowered = Self {
            name: text(&metadata["name"]),
            namespace: text(&metadata["namespace"]),
            generation: metadata["generation"].as_i64().unwrap_or_default(),
            deleting: metadata["deletionTimestamp"].is_string(),
            templates_disabled: annotation.is_some_and(is_true),
            remediation: reader.choice(
                &spec["remediationAction"],
                &spec_path.child("remediationAction"),
                &[
                    ("inform", Remediation::Inform),
                    ("enforce", Remediation::Enforce),
                ],
            ),
            namespace_selector: reader.namespace_selector(
                &spec["namespaceSelector"],
                &spec_path.child("namespaceSelector"),
            ),
            evaluation_interval,
            prune: reader.choice(
                &spec["pruneObjectBehavior"],
                &spec_path.child("pruneObjectBehavior"),
                &[
                    ("None", PruneBehavior::None),
                    ("DeleteAll", PruneBehavior::DeleteAll),
                    ("DeleteIfCreated", PruneBehavior::DeleteIfCreated),
                ],
            ),
            custom_message: CustomMessage {
                compliant: non_empty(&spec["customMessage"]["compliant"]),
                noncompliant: non_empty(&spec["customMessage"]["noncompliant"]),
            },
            objects: reader.objects(spec, &spec_path),
            document: policy.clone(),
        };
        reader.finish(lowered)
    }
}

impl ObjectTemplates {
    /// Reads a list of object templates, as `object-templates-raw` makes one.
    pub fn from_json(templates: &Value) -> Result<Vec<ObjectTemplate>, Vec<FieldError>> {
        let mut reader = Reader::default();
        let lowered = reader.templates(templates, &FieldPath::of("object-templates-raw"));
        reader.finish(lowered)
    }
}

/// Reads fields and gathers what is wrong with them.
#[derive(Default)]
struct Reader {
    errors: Vec<FieldError>,
}

impl Reader {
    fn finish<T>(self, lowered: T) -> Result<T, Vec<FieldError>> {
        if self.errors.is_empty() {
            Ok(lowered)
        } else {
            Err(self.errors)
        }
    }

    fn wrong_type(&mut self, path: &FieldPath, value: &Value, expected: &str) {
        let detail = format!("must be {expected}");
        self.errors
            .push(FieldError::type_invalid(path, value, &detail));
    }

    /// One of several words, in any case of its letters; the default when absent.
    fn choice<T: Copy + Default>(
        &mut self,
        value: &Value,
        path: &FieldPath,
        choices: &[(&str, T)],
    ) -> T {
        self.optional_choice(value, path, choices)
            .unwrap_or_default()
    }

    fn optional_choice<T: Copy>(
        &mut self,
        value: &Value,
        path: &FieldPath,
        choices: &[(&str, T)],
    ) -> Option<T> {
        match value.as_str() {
            None if value.is_null() => None,
            None => {
                self.wrong_type(path, value, "a string");
                None
            }
            Some("") => None,
            Some(text) => {
                let found = choices
                    .iter()
                    .find(|(name, _)| name.eq_ignore_ascii_case(text));
                if found.is_none() {
                    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                    self.errors
                        .push(FieldError::not_supported(path, value, &names));
                }
                found.map(|(_, choice)| *choice)
            }
        }
    }

    fn interval(&mut self, value: &Value, path: &FieldPath) -> Interval {
        match value.as_str() {
            None if value.is_null() => Interval::default(),
            None => {
                self.wrong_type(path, value, "a string");
                Interval::default()
            }
            Some(text) => text.parse().unwrap_or_else(|error: super::IntervalError| {
                self.errors
                    .push(FieldError::invalid(path, value, &error.to_string()));
                Interval::default()
            }),
        }
    }

    fn texts(&mut self, value: &Value, path: &FieldPath) -> Vec<String> {
        let Some(items) = value.as_array() else {
            if !value.is_null() {
                self.wrong_type(path, value, "a list");
            }
            return Vec::new();
        };
        let mut texts = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            match item.as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => self.wrong_type(&path.index(index), item, "a string"),
            }
        }
        texts
    }

    fn namespace_selector(&mut self, value: &Value, path: &FieldPath) -> NamespaceSelector {
        if !value.is_object() && !value.is_null() {
            self.wrong_type(path, value, "an object");
        }
        let mut labels = Map::new();
        for field in ["matchLabels", "matchExpressions"] {
            if let Some(given) = value.get(field).filter(|given| !given.is_null()) {
                labels.insert(field.to_owned(), given.clone());
            }
        }
        NamespaceSelector {
            include: self.texts(&value["include"], &path.child("include")),
            exclude: self.texts(&value["exclude"], &path.child("exclude")),
            labels: (!labels.is_empty()).then_some(Value::Object(labels)),
            terminating: self.choice(
                &value["terminatingInclusion"],
                &path.child("terminatingInclusion"),
                &[
                    ("IfMatch", TerminatingInclusion::IfMatch),
                    ("Never", TerminatingInclusion::Never),
                    ("Default", TerminatingInclusion::Default),
                ],
            ),
        }
    }

    fn objects(&mut self, spec: &Value, path: &FieldPath) -> ObjectTemplates {
        let listed = spec.get("object-templates").filter(|it| !it.is_null());
        let raw = spec
            .get("object-templates-raw")
            .filter(|raw| !raw.is_null() && raw.as_str() != Some(""));
        match (listed, raw) {
            (Some(_), Some(_)) => self.errors.push(FieldError::forbidden(
                &path.child("object-templates-raw"),
                "exactly one of object-templates and object-templates-raw must be given",
            )),
            (None, Some(Value::String(text))) => return ObjectTemplates::Raw(text.clone()),
            (None, Some(other)) => {
                self.wrong_type(&path.child("object-templates-raw"), other, "a string");
            }
            (Some(listed), None) => {
                let templates = self.templates(listed, &path.child("object-templates"));
                return ObjectTemplates::Listed(templates);
            }
            (None, None) => self.errors.push(FieldError::required(
                &path.child("object-templates"),
                "exactly one of object-templates and object-templates-raw must be given",
            )),
        }
        ObjectTemplates::Listed(Vec::new())
    }

    fn templates(&mut self, value: &Value, path: &FieldPath) -> Vec<ObjectTemplate> {
        let Some(items) = value.as_array() else {
            if !value.is_null() {
                self.wrong_type(path, value, "a list");
            }
            return Vec::new();
        };
        items
            .iter()
            .enumerate()
            .filter_map(|(index, item)| self.template(item, &path.index(index)))
            .collect()
    }

    fn template(&mut self, value: &Value, path: &FieldPath) -> Option<ObjectTemplate> {
        const TYPES: &[(&str, ComplianceType)] = &[
            ("musthave", ComplianceType::MustHave),
            ("mustonlyhave", ComplianceType::MustOnlyHave),
            ("mustnothave", ComplianceType::MustNotHave),
        ];
        if !value.is_object() {
            self.wrong_type(path, value, "an object");
            return None;
        }
        let compliance_path = path.child("complianceType");
        let compliance = self.optional_choice(&value["complianceType"], &compliance_path, TYPES);
        if value["complianceType"]
            .as_str()
            .unwrap_or_default()
            .is_empty()
        {
            self.errors.push(FieldError::required(&compliance_path, ""));
        }
        let definition = &value["objectDefinition"];
        if !definition.is_object() {
            self.errors
                .push(FieldError::required(&path.child("objectDefinition"), ""));
        }
        let template = ObjectTemplate {
            compliance: compliance?,
            metadata_compliance: self.optional_choice(
                &value["metadataComplianceType"],
                &path.child("metadataComplianceType"),
                &TYPES[..2],
            ),
            definition: definition.clone(),
            object_selector: value
                .get("objectSelector")
                .filter(|selector| !selector.is_null())
                .cloned(),
            record_diff: self.optional_choice(
                &value["recordDiff"],
                &path.child("recordDiff"),
                &[
                    ("Log", RecordDiff::Log),
                    ("InStatus", RecordDiff::InStatus),
                    ("None", RecordDiff::None),
                ],
            ),
            recreate: self.choice(
                &value["recreateOption"],
                &path.child("recreateOption"),
                &[
                    ("None", RecreateOption::None),
                    ("IfRequired", RecreateOption::IfRequired),
                    ("Always", RecreateOption::Always),
                ],
            ),
        };
        Some(template)
    }
}

fn non_empty(value: &Value) -> Option<String> {
    value
        .as_str()
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

/// A boolean text as Go reads it.
fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}
