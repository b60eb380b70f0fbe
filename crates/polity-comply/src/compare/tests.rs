//! The rules of 11.4 about whole objects.

use serde_json::json;

use super::*;
use ComplianceType::{MustHave, MustOnlyHave};

fn ask(definition: &Value, object: &Value, compliance: ComplianceType) -> Comparison {
    compare(question(definition, object, compliance)).unwrap()
}

fn question<'a>(
    definition: &'a Value,
    object: &'a Value,
    compliance: ComplianceType,
) -> Question<'a> {
    Question {
        definition,
        object,
        compliance,
        metadata_compliance: compliance,
    }
}

fn error(definition: &Value, object: &Value) -> String {
    compare(question(definition, object, MustHave))
        .unwrap_err()
        .to_string()
}

#[test]
fn kind_and_api_version_are_skipped() {
    let comparison = ask(
        &json!({"apiVersion": "apps/v1", "kind": "X", "spec": {"a": 1}}),
        &json!({"apiVersion": "apps/v1beta1", "kind": "Y", "spec": {"a": 1, "b": 2}}),
        MustHave,
    );
    assert!(comparison.matches() && !comparison.missing);
}

#[test]
fn metadata_is_labels_and_annotations() {
    let object = json!({"metadata": {"name": "x", "labels": {"a": "1", "b": "2"}, "annotations": {
        "c": "3", LAST_APPLIED: "{}"}}});
    let definition = |metadata: Value| json!({"metadata": metadata});
    // Names, finalizers and the like are no business of a policy.
    let other = definition(json!({"name": "y", "finalizers": ["f"]}));
    assert!(ask(&other, &object, MustHave).matches());
    // A part that is not wanted is not compared.
    let labels = definition(json!({"labels": {"a": "1"}}));
    assert!(ask(&labels, &object, MustHave).matches());
    let only = ask(&labels, &object, MustOnlyHave);
    assert!(only.mismatch);
    assert_eq!(
        only.updated["metadata"],
        json!({"name": "x", "labels": {"a": "1"}, "annotations": {"c": "3", LAST_APPLIED: "{}"}})
    );
    // kubectl's annotation is ignored on both sides, and stays.
    let annotations = definition(json!({"annotations": {"c": "3", LAST_APPLIED: "other"}}));
    assert!(ask(&annotations, &object, MustOnlyHave).matches());
    let changed = definition(json!({"annotations": {"c": "4"}}));
    assert_eq!(
        ask(&changed, &object, MustOnlyHave).updated["metadata"]["annotations"],
        json!({"c": "4", LAST_APPLIED: "{}"})
    );
}

#[test]
fn metadata_may_have_its_own_compliance_type() {
    let definition = json!({"metadata": {"labels": {"a": "1"}}, "data": {"k": "v"}});
    let object = json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "data": {"k": "v"}});
    let comparison = compare(Question {
        metadata_compliance: MustHave,
        ..question(&definition, &object, MustOnlyHave)
    });
    assert!(comparison.unwrap().matches());
}

#[test]
fn namespaces_keep_the_annotations_of_their_platform() {
    let definition = json!({"metadata": {"annotations": {"a": "1"}}});
    let scc = "openshift.io/sa.scc.uid-range";
    let mut object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"annotations": {
        "a": "1", scc: "1000/10000"}}});
    assert!(ask(&definition, &object, MustOnlyHave).matches());
    object["kind"] = json!("Pod");
    assert!(!ask(&definition, &object, MustOnlyHave).matches());
}

#[test]
fn labels_are_text() {
    let object = json!({"metadata": {}});
    for (metadata, expected) in [
        (
            json!({"labels": {"k": 1}}),
            r#"invalid label, error: contains non-string value in the map under key "k": 1 is of the type int64, expected string"#,
        ),
        (
            json!({"annotations": {"k": [true]}}),
            r#"invalid annotation, error: contains non-string value in the map under key "k": [true] is of the type []interface {}, expected string"#,
        ),
        (
            json!({"annotations": "x"}),
            "invalid annotation, error: x is of the type string, expected map[string]interface {}",
        ),
    ] {
        assert_eq!(error(&json!({"metadata": metadata}), &object), expected);
    }
}

#[test]
fn maps_and_lists_do_not_mix() {
    let expected = "Error merging changes into key \"spec\": object type of template and existing do not match";
    assert_eq!(error(&json!({"spec": {}}), &json!({"spec": []})), expected);
    assert_eq!(
        error(&json!({"spec": []}), &json!({"spec": {"a": 1}})),
        expected
    );
}

#[test]
fn must_only_have_removes_what_is_not_listed() {
    let definition = json!({"metadata": {"name": "x"}, "spec": {"a": [1, 2]}});
    let object = json!({
        "apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "labels": {"l": "1"}},
        "spec": {"a": [2, 1]}, "extra": 1, "status": {"s": 1}
    });
    let comparison = ask(&definition, &object, MustOnlyHave);
    assert!(comparison.mismatch);
    let updated = json!({
        "apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "labels": {"l": "1"}},
        "spec": {"a": [1, 2]}, "status": {"s": 1}
    });
    assert_eq!(comparison.updated, updated);
    assert!(ask(&definition, &updated, MustOnlyHave).matches());
    let more = json!({"spec": {"a": [1, 2], "b": 1}});
    assert!(ask(&json!({"spec": {"a": [1, 2]}}), &more, MustOnlyHave).mismatch);

    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "secrets": [{"name": "s"}],
        "imagePullSecrets": [{"name": "p"}]});
    assert!(ask(&json!({"metadata": {}}), &account, MustOnlyHave).matches());
}

#[test]
fn status_is_compared_and_never_written() {
    let definition = json!({"status": {"phase": "Running"}});
    let object = json!({"status": {"phase": "Pending", "ip": "1"}});
    let comparison = ask(&definition, &object, MustHave);
    assert!(comparison.status_mismatch && !comparison.mismatch);
    assert_eq!(comparison.updated, object);
    assert_eq!(
        comparison.wanted(),
        json!({"status": {"phase": "Running", "ip": "1"}})
    );
}

#[test]
fn string_data_is_compared_with_decoded_data() {
    let secret = |data: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data});
    let object = secret(json!({"user": "YWRtaW4=", "other": "eA=="}));
    let definition = json!({"stringData": {"user": "admin"}});
    assert!(ask(&definition, &object, MustHave).matches());
    let changed = ask(
        &json!({"stringData": {"user": "root", "new": "y"}}),
        &object,
        MustHave,
    );
    assert!(changed.mismatch);
    assert_eq!(
        changed.updated["data"],
        json!({"user": "cm9vdA==", "other": "eA==", "new": "eQ=="})
    );
    let only = ask(&definition, &object, MustOnlyHave);
    assert!(only.mismatch);
    assert_eq!(only.updated["data"], json!({"user": "YWRtaW4="}));
    assert!(ask(&definition, &only.updated, MustOnlyHave).matches());
    assert_eq!(
        error(&definition, &secret(json!({"user": "%%"}))),
        "Error decoding secret: s"
    );
    assert_eq!(
        error(&definition, &secret(json!({"user": 1}))),
        "Error accessing encoded data"
    );
}

#[test]
fn a_search_is_lenient_about_empty_maps() {
    let definition = json!({"spec": {"volumes": [{"emptyDir": {}}], "securityContext": {}}});
    let object = json!({"spec": {"volumes": [{"name": "v"}]}});
    assert!(matches_search(question(&definition, &object, MustHave)));
    assert!(!ask(&definition, &object, MustHave).matches());
    assert!(
        !matches_search(question(&json!({"spec": []}), &object, MustHave)),
        "a clash is no match"
    );
}

#[test]
fn a_missing_key_is_flagged() {
    let comparison = ask(&json!({"paused": false}), &json!({}), MustHave);
    assert!(comparison.matches() && comparison.missing);
}
