//! Groups: expressions, causes, and members (docs/spec/admission.md#18).

use polity_eval::{Environment, InitError, Module, Policy, parse_policies};

use crate::support::{
    POD, answering, audit, environment, review, shown, validate, validate_raw, wapc,
};

/// A group over the members `yes`, `no`, `mutates` and `trapped`.
fn group(expression: &str, more: &str) -> Policy {
    let member = |name: &str| format!("{name}: {{module: '{name}'}}");
    let members = ["yes", "no", "mutates", "trapped"].map(member).join(", ");
    let text = format!(
        "g: {{expression: '{expression}', message: not good enough, policies: {{{members}}}, {more}}}"
    );
    prepare(&text, &environment()).unwrap()
}

fn prepare(text: &str, environment: &Environment) -> Result<Policy, InitError> {
    let config = parse_policies(text).unwrap().remove("g").unwrap();
    Policy::prepare("g", &config, environment, |_, guest| module(&guest.module))
}

fn module(name: &str) -> Result<Module, InitError> {
    Ok(match name {
        "yes" => answering(r#"{"accepted":true,"warnings":["w"]}"#),
        "no" => answering(r#"{"accepted":false,"message":"because","code":418}"#),
        "mutates" => answering(r#"{"accepted":true,"mutated_object":{}}"#),
        "trapped" => wapc("(func $validate unreachable)"),
        _ => {
            return Err(InitError::Download {
                name: name.to_owned(),
                uri: format!("file:///{name}"),
                reason: "no such file".to_owned(),
            });
        }
    })
}

/// `allowed`, then the members that are named as causes.
fn outcome(expression: &str) -> String {
    let evaluation = validate(&group(expression, ""), &review("Pod", POD));
    let response = &evaluation.response;
    assert_eq!(evaluation.accepted, response.allowed);
    assert!(
        response.patch.is_none()
            && response.warnings.is_none()
            && response.audit_annotations.is_none()
    );
    let mut words = vec![response.allowed.to_string()];
    if let Some(status) = &response.status {
        assert_eq!(status.message.as_deref(), Some("not good enough"));
        assert_eq!(status.code, None);
        let causes = &status.details.as_ref().unwrap().causes;
        words.extend(
            causes
                .iter()
                .map(|cause| cause.field.clone().unwrap().replace("spec.policies.", "")),
        );
    }
    words.join(" ")
}

#[test]
fn expressions_decide_and_only_evaluated_members_are_causes() {
    for (expression, expected) in [
        ("yes()", "true"),
        ("no()", "false no"),
        ("yes() || no()", "true"),
        ("no() || yes()", "true"),
        ("yes() && no()", "false no"),
        ("no() && trapped()", "false no"),
        ("no() || trapped()", "false no trapped"),
        ("trapped() || no()", "false no trapped"),
        ("!no()", "true"),
        ("!yes()", "false"),
        ("mutates()", "false mutates"),
        ("no() == trapped()", "true"),
        ("no() || no()", "false no"),
        ("false", "false"),
        ("true", "true"),
    ] {
        assert_eq!(outcome(expression), expected, "{expression}");
    }
}

#[test]
fn the_rejection_in_full() {
    let body = review("Pod", POD);
    let policy = group("no() || mutates()", "");
    let expected = r#"{"allowed":false,"status":{"details":{"causes":[{"field":"spec.policies.mutates","message":"mutation is not allowed inside of policy group","reason":null},{"field":"spec.policies.no","message":"because","reason":null}]},"message":"not good enough"},"uid":"u-1"}"#;
    assert_eq!(shown(&validate(&policy, &body)), expected);
    assert_eq!(shown(&audit(&policy, &body)), expected);
    assert_eq!(shown(&validate_raw(&policy, r#"{"uid":"u-1"}"#)), expected);
    assert_eq!(
        shown(&validate(&group("yes()", ""), &body)),
        r#"{"allowed":true,"uid":"u-1"}"#
    );
}

#[test]
fn a_group_in_monitor_mode_lets_everything_pass() {
    let policy = group("no()", "policyMode: monitor");
    let evaluation = validate(&policy, &review("Pod", POD));
    assert_eq!(shown(&evaluation), r#"{"allowed":true,"uid":"u-1"}"#);
    assert!(!evaluation.accepted);
}

#[test]
fn members_can_be_asked_alone() {
    let body = review("Pod", POD);
    let policy = group("yes()", "policyMode: monitor");
    let no = policy.member("no").unwrap();
    assert_eq!(no.id(), "g/no");
    assert_eq!(
        shown(&validate(&no, &body)),
        r#"{"allowed":false,"status":{"code":418,"message":"because"},"uid":"u-1"}"#
    );
    let mutates = policy.member("mutates").unwrap();
    assert!(!validate(&mutates, &body).response.allowed);
    assert!(policy.member("nobody").is_none());
    assert!(no.member("no").is_none());
    assert_eq!(policy.modules().count(), 4);
}

#[test]
fn every_member_that_fails_is_named() {
    let text = "g: {expression: 'a() && b() && yes()', message: m, policies: {b: {module: b}, a: {module: a}, yes: {module: 'yes'}}}";
    let error = prepare(text, &environment()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "g/a: Error while downloading policy 'a' from file:///a: no such file, \
         g/b: Error while downloading policy 'b' from file:///b: no such file"
    );
}

#[test]
fn expressions_that_make_no_sense_fail_the_group() {
    for (expression, why) in [
        ("yes() && nobody()", "there is no member nobody"),
        (
            "yes(",
            "expected `)`: members take no arguments, found the end at character 5",
        ),
    ] {
        let text = format!(
            "g: {{expression: '{expression}', message: m, policies: {{yes: {{module: 'yes'}}}}}}"
        );
        let error = prepare(&text, &environment()).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("error evaluating policy group expression: {why}")
        );
    }
}
