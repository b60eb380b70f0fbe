//! What is registered, and what is answered.

use super::*;

fn facts() -> Facts {
    Facts {
        unique_names: UniqueNames::Classic,
        references: References::default(),
        writer: StatusWriter::Other,
        served: None,
    }
}

fn policy(fields: &Value) -> Value {
    let mut spec = json!({
        "module": "m", "mutating": false,
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
    });
    spec.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy",
        "metadata": {"name": "p"}, "spec": spec,
    })
}

const POLICY: OwnKind = OwnKind::Policy(PolicyKind::ClusterAdmissionPolicy);

fn ask(verb: Verb, kind: OwnKind, request: Value) -> Value {
    let mut review = json!({ "request": request });
    review["request"]["uid"] = json!("u");
    let answer = answer(verb, kind, &review, &facts());
    assert_eq!(answer["response"]["uid"], "u");
    answer["response"].clone()
}

#[test]
fn names_and_paths_are_those_that_installations_have() {
    let (mutating, validating) = configurations("kubewarden", SERVICE, "CA");
    assert_eq!(
        mutating.metadata.name.as_deref(),
        Some("kubewarden-controller-mutating-webhook-configuration")
    );
    let hooks = mutating.webhooks.unwrap();
    let names: Vec<_> = hooks.iter().map(|hook| hook.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "madmissionpolicy.kb.io",
            "mclusteradmissionpolicy.kb.io",
            "madmissionpolicygroup.kb.io",
            "mclusteradmissionpolicygroup.kb.io",
            "mpolicyserver.kb.io",
        ]
    );
    let hooks = validating.webhooks.unwrap();
    let service = hooks[5].client_config.service.as_ref().unwrap();
    assert_eq!(
        service.path.as_deref(),
        Some("/validate-policies-kubewarden-io-v1-policyrevision")
    );
    let failure_policies: Vec<_> = hooks
        .iter()
        .map(|hook| (hook.name.as_str(), hook.failure_policy.as_deref().unwrap()))
        .collect();
    let (deletion, others) = failure_policies.split_last().unwrap();
    assert_eq!(*deletion, ("vpolicyserverdeletion.kb.io", "Ignore"));
    assert!(others.iter().all(|(_, policy)| *policy == "Fail"));
}

#[test]
fn the_deletion_of_a_policy_server_is_allowed_with_a_warning() {
    let ask = |served: Option<ServedPolicies>| {
        let facts = Facts { served, ..facts() };
        let request = json!({"uid": "u", "operation": "DELETE", "name": "a", "object": null});
        let answer = answer(
            Verb::Validate,
            OwnKind::Server,
            &json!({ "request": request }),
            &facts,
        );
        assert_eq!(answer["response"]["allowed"], true);
        answer["response"]["warnings"].clone()
    };
    let two = ServedPolicies {
        n_protecting: 2,
        ..ServedPolicies::default()
    };
    assert_eq!(
        ask(Some(two)),
        json!([
            "2 policies are no longer enforced without PolicyServer a (2 in protect mode, 0 in monitor mode)"
        ])
    );
    assert_eq!(ask(Some(ServedPolicies::default())), Value::Null);
    let uncounted = ask(None);
    assert!(
        uncounted[0]
            .as_str()
            .unwrap()
            .contains("could not be counted")
    );
}

#[test]
fn every_path_leads_back_to_its_kind() {
    for verb in [Verb::Mutate, Verb::Validate] {
        for kind in OwnKind::all() {
            assert_eq!(route(&path(verb, kind)), Some((verb, kind)));
        }
    }
    assert_eq!(route("/validate-policies-kubewarden-io-v1-pod"), None);
}

#[test]
fn the_finalizer_comes_as_a_patch_and_only_where_it_is_missing() {
    let answer = ask(Verb::Mutate, POLICY, json!({"object": policy(&json!({}))}));
    assert_eq!(answer["allowed"], true);
    let patch: ByteString = serde_json::from_value(answer["patch"].clone()).unwrap();
    let patch: Value = serde_json::from_slice(&patch.0).unwrap();
    assert_eq!(
        patch,
        json!([{"op": "add", "path": "/metadata/finalizers", "value": ["kubewarden.io/finalizer"]}])
    );
    let mut held = policy(&json!({}));
    held["metadata"]["finalizers"] = json!(["kubewarden.io/finalizer"]);
    let answer = ask(Verb::Mutate, POLICY, json!({ "object": held }));
    assert_eq!(answer.get("patch"), None);
}

#[test]
fn what_is_wrong_is_answered_with_its_causes() {
    let bad = policy(&json!({"timeoutEvalSeconds": 20, "rules": []}));
    let answer = ask(Verb::Validate, POLICY, json!({"name": "p", "object": bad}));
    assert_eq!(answer["allowed"], false);
    let status = &answer["status"];
    assert_eq!(
        (&status["code"], &status["reason"]),
        (&json!(422), &json!("Invalid"))
    );
    let fields: Vec<_> = status["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["field"].clone())
        .collect();
    assert_eq!(fields, ["spec.rules", "spec.timeoutEvalSeconds"]);
    let good = ask(
        Verb::Validate,
        POLICY,
        json!({"name": "p", "object": policy(&json!({}))}),
    );
    assert_eq!(good["allowed"], true);
}

#[test]
fn what_is_being_deleted_can_go_whatever_is_wrong_with_it() {
    let mut bad = policy(&json!({"rules": []}));
    bad["metadata"]["deletionTimestamp"] = json!("2026-11-16T12:00:00Z");
    let answer = ask(
        Verb::Validate,
        POLICY,
        json!({"object": bad, "oldObject": policy(&json!({}))}),
    );
    assert_eq!(answer["allowed"], true);
}

#[test]
fn nonsense_is_refused_and_does_not_panic() {
    for kind in OwnKind::all() {
        for request in [
            json!({}),
            json!({"object": 1}),
            json!({"object": {"spec": []}}),
            json!(null),
        ] {
            let review = json!({ "request": request });
            let answer = answer(Verb::Validate, kind, &review, &facts());
            assert_eq!(answer["response"]["allowed"], false, "{kind:?} {request}");
            super::answer(
                Verb::Mutate,
                kind,
                &json!({"request": {"object": {}}}),
                &facts(),
            );
        }
    }
}
