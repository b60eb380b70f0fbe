//! Lowering of configuration policies: what the declared fields become, and which mistakes are reported.

use serde_json::{Value, json};

use super::*;

/// Reads a policy with this specification.
fn read(spec: Value) -> Result<ConfigurationPolicy, String> {
    ConfigurationPolicy::from_json(&json!({"metadata": {"name": "p"}, "spec": spec}))
        .map_err(|errors| polity_core::field::join(&errors))
}

/// The object template with these fields besides the required ones.
fn read_template(fields: &Value) -> Result<ObjectTemplate, String> {
    let mut template = json!({"complianceType": "musthave", "objectDefinition": {"kind": "Pod"}});
    for (name, value) in fields.as_object().unwrap() {
        template[name] = value.clone();
    }
    match read(json!({"object-templates": [template]}))?.objects {
        ObjectTemplates::Listed(mut templates) => Ok(templates.remove(0)),
        ObjectTemplates::Raw(text) => Err(text),
    }
}

#[test]
fn absent_null_and_empty_fields_have_their_defaults() {
    for spec in [
        json!({"object-templates": []}),
        json!({"object-templates": [], "object-templates-raw": null, "remediationAction": null, "severity": null,
               "namespaceSelector": null, "evaluationInterval": null, "pruneObjectBehavior": null,
               "customMessage": null}),
        json!({"object-templates": [], "object-templates-raw": "", "remediationAction": "",
               "namespaceSelector": {"include": null, "exclude": null, "matchLabels": null,
                                     "matchExpressions": null, "terminatingInclusion": ""},
               "evaluationInterval": {"compliant": "", "noncompliant": null}, "pruneObjectBehavior": "",
               "customMessage": {"compliant": "", "noncompliant": null}, "unknown": 1}),
    ] {
        let policy = read(spec).unwrap();
        assert_eq!(policy.remediation, Remediation::Inform);
        assert_eq!(policy.prune, PruneBehavior::None);
        assert_eq!(policy.evaluation_interval, EvaluationInterval::default());
        assert_eq!(policy.custom_message, CustomMessage::default());
        assert_eq!(policy.namespace_selector, NamespaceSelector::default());
        assert_eq!(policy.objects, ObjectTemplates::Listed(Vec::new()));
    }
    let template = read_template(&json!({
        "metadataComplianceType": "", "objectSelector": null, "recordDiff": "", "recreateOption": null,
    }));
    assert_eq!(
        template.unwrap(),
        ObjectTemplate {
            compliance: ComplianceType::MustHave,
            metadata_compliance: None,
            definition: json!({"kind": "Pod"}),
            object_selector: None,
            record_diff: None,
            recreate: RecreateOption::None,
        }
    );
}

#[test]
fn words_are_read_in_any_case() {
    for action in ["Enforce", "enforce", "ENFORCE"] {
        let policy = read(json!({"object-templates": [], "remediationAction": action})).unwrap();
        assert!(policy.enforces(), "{action}");
    }
    for (text, expected) in [
        ("musthave", ComplianceType::MustHave),
        ("Musthave", ComplianceType::MustHave),
        ("MustOnlyHave", ComplianceType::MustOnlyHave),
        ("mustNotHave", ComplianceType::MustNotHave),
    ] {
        let template = read_template(&json!({"complianceType": text}));
        assert_eq!(template.unwrap().compliance, expected, "{text}");
    }
    let template = read_template(&json!({
        "metadataComplianceType": "MustOnlyHave", "recordDiff": "log", "recreateOption": "ifrequired",
    }));
    let template = template.unwrap();
    assert_eq!(
        template.metadata_compliance,
        Some(ComplianceType::MustOnlyHave)
    );
    assert_eq!(template.record_diff, Some(RecordDiff::Log));
    assert_eq!(template.recreate, RecreateOption::IfRequired);
}

#[test]
fn metadata_and_selectors_are_lowered() {
    let policy = ConfigurationPolicy::from_json(&json!({
        "metadata": {
            "name": "p", "namespace": "n", "generation": 3, "deletionTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {DISABLE_TEMPLATES: "true"},
        },
        "spec": {
            "namespaceSelector": {
                "include": ["a*"], "exclude": ["ab"], "matchLabels": {"team": "shop"},
                "matchExpressions": [{"key": "tier", "operator": "Exists"}],
                "terminatingInclusion": "Never",
            },
            "object-templates-raw": "- complianceType: musthave",
        },
    }))
    .unwrap();
    assert_eq!(
        (
            policy.name.as_str(),
            policy.namespace.as_str(),
            policy.generation
        ),
        ("p", "n", 3)
    );
    assert!(policy.deleting && policy.templates_disabled);
    let selector = policy.namespace_selector;
    assert_eq!(
        (selector.include, selector.exclude),
        (vec!["a*".to_owned()], vec!["ab".to_owned()])
    );
    assert_eq!(selector.terminating, TerminatingInclusion::Never);
    assert_eq!(
        selector.labels,
        Some(json!({
            "matchLabels": {"team": "shop"},
            "matchExpressions": [{"key": "tier", "operator": "Exists"}],
        }))
    );
    let template = read_template(&json!({"objectSelector": {"matchLabels": {"app": "web"}}}));
    assert_eq!(
        template.unwrap().object_selector,
        Some(json!({"matchLabels": {"app": "web"}}))
    );
}

#[test]
fn every_mistake_is_reported_with_its_field() {
    for (spec, expected) in [
        (
            json!({}),
            "spec.object-templates: Required value: exactly one of object-templates and object-templates-raw must \
             be given",
        ),
        (
            json!({"object-templates": [], "object-templates-raw": "a"}),
            "spec.object-templates-raw: Forbidden: exactly one of object-templates and object-templates-raw must be \
             given",
        ),
        (
            json!({"object-templates": 1}),
            "[spec.object-templates: Invalid value: 1: must be a list, spec.object-templates: Required value: \
             exactly one of object-templates and object-templates-raw must be given]",
        ),
        (
            json!({"object-templates": [{"complianceType": "maybehave"}, {"objectDefinition": {}}]}),
            "[spec.object-templates[0].complianceType: Unsupported value: \"maybehave\": supported values: \
             \"musthave\", \"mustonlyhave\", \"mustnothave\", spec.object-templates[0].objectDefinition: \
             Required value, spec.object-templates[1].complianceType: Required value]",
        ),
        (
            json!({"object-templates": [{"complianceType": "musthave", "objectDefinition": {},
                                         "metadataComplianceType": "mustnothave"}]}),
            "spec.object-templates[0].metadataComplianceType: Unsupported value: \"mustnothave\": supported \
             values: \"musthave\", \"mustonlyhave\"",
        ),
        (
            json!({"object-templates": [], "remediationAction": "mend", "evaluationInterval": {"compliant": "soon"},
                   "pruneObjectBehavior": ["None"]}),
            "[spec.pruneObjectBehavior: Invalid value: [\"None\"]: must be a string, spec.remediationAction: \
             Unsupported value: \"mend\": supported values: \"inform\", \"enforce\", \
             spec.evaluationInterval.compliant: Invalid value: \"soon\": must be a duration such as 10m, 1h30m or \
             500ms, or \"watch\" or \"never\"]",
        ),
    ] {
        assert_eq!(read(spec).unwrap_err(), expected);
    }
    let errors = ConfigurationPolicy::from_json(&json!({"metadata": {"generation": "3"}}));
    assert_eq!(
        polity_core::field::join(&errors.unwrap_err()),
        "spec: Required value"
    );
}

#[test]
fn hub_template_options_belong_to_policies_and_are_unknown_here() {
    let policy = json!({"spec": {"hubTemplateOptions": {}, "object-templates": []}});
    assert_eq!(unknown_fields(&policy), ["spec.hubTemplateOptions"]);
    ConfigurationPolicy::from_json(&policy).unwrap();
}

#[test]
fn raw_templates_are_a_list_or_nothing() {
    assert_eq!(ObjectTemplates::from_json(&Value::Null), Ok(Vec::new()));
    let errors = ObjectTemplates::from_json(&json!([{"complianceType": "musthave"}]));
    assert_eq!(
        polity_core::field::join(&errors.unwrap_err()),
        "object-templates-raw[0].objectDefinition: Required value"
    );
    let errors = ObjectTemplates::from_json(&json!("text"));
    assert_eq!(
        polity_core::field::join(&errors.unwrap_err()),
        "object-templates-raw: Invalid value: \"text\": must be a list"
    );
}
