//! The fields of a webhook configuration.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::lifecycle::PolicyKind;
use crate::lifecycle::tests::simulation::Simulation;

/// The webhook of a policy of this kind whose specification also has these fields.
fn made(kind: PolicyKind, fields: Value) -> Webhook {
    let mut simulation = Simulation::of(kind, 1);
    simulation.edit(|spec| {
        let fields = fields.as_object().unwrap().clone();
        spec.as_object_mut().unwrap().extend(fields);
    });
    simulation.settle();
    simulation.load(2);
    simulation.observed.webhooks.remove(0)
}

#[test]
fn every_field_comes_from_the_specification() {
    let webhook = made(
        PolicyKind::ClusterAdmissionPolicy,
        json!({
            "failurePolicy": "Ignore", "matchPolicy": "Exact", "sideEffects": "NoneOnDryRun", "timeoutSeconds": 7,
            "objectSelector": {"matchLabels": {"a": "b"}},
            "matchConditions": [{"name": "n", "expression": "true"}],
        }),
    );
    assert_eq!(
        (webhook.kind, webhook.name.as_str()),
        (WebhookKind::Validating, "clusterwide-pods")
    );
    assert_eq!(webhook.labels["app.kubernetes.io/part-of"], "kubewarden");
    assert_eq!(webhook.annotations["kubewardenPolicyName"], "pods");
    assert_eq!(webhook.annotations["kubewardenPolicyNamespace"], "");
    assert_eq!(webhook.annotations["kubewarden.io/policy-uid"], "uid-1");
    assert_eq!(
        json!(webhook.hooks),
        json!([{
            "name": "clusterwide-pods.kubewarden.admission",
            "clientConfig": {
                "caBundle": "Q0E=",
                "service": {
                    "namespace": "kubewarden", "name": "policy-server-default", "port": 443,
                    "path": "/validate/clusterwide-pods/2",
                },
            },
            "admissionReviewVersions": ["v1"],
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"], "scope": "*",
            }],
            "failurePolicy": "Ignore", "matchPolicy": "Exact", "sideEffects": "NoneOnDryRun", "timeoutSeconds": 7,
            "namespaceSelector": {
                "matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kubewarden"]},
                ],
            },
            "objectSelector": {"matchLabels": {"a": "b"}},
            "matchConditions": [{"name": "n", "expression": "true"}],
        }])
    );
}

#[test]
fn namespace_selectors_by_the_table() {
    let own = json!({"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kubewarden"]});
    let user = json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]});
    let both = json!({
        "matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}, own],
    });
    use PolicyKind::{
        AdmissionPolicy, AdmissionPolicyGroup, ClusterAdmissionPolicy, ClusterAdmissionPolicyGroup,
    };
    for (kind, fields, selector, scope) in [
        (
            AdmissionPolicy,
            json!({}),
            json!({"matchLabels": {"kubernetes.io/metadata.name": "team"}}),
            "Namespaced",
        ),
        (
            AdmissionPolicyGroup,
            json!({}),
            json!({"matchLabels": {"kubernetes.io/metadata.name": "team"}}),
            "Namespaced",
        ),
        (
            ClusterAdmissionPolicy,
            json!({}),
            json!({"matchExpressions": [own]}),
            "*",
        ),
        (
            ClusterAdmissionPolicy,
            json!({"namespaceSelector": user}),
            both,
            "*",
        ),
        (
            ClusterAdmissionPolicyGroup,
            json!({"namespaceSelector": user, "allowInsideAdmissionControllerNamespace": true}),
            user.clone(),
            "*",
        ),
        (
            ClusterAdmissionPolicy,
            json!({"allowInsideKubewardenNamespace": true}),
            json!({}),
            "*",
        ),
    ] {
        let hook = &made(kind, fields).hooks[0];
        assert_eq!(hook["namespaceSelector"], selector, "{kind:?}");
        assert_eq!(hook["rules"][0]["scope"], scope, "{kind:?}");
    }
}

#[test]
fn a_policy_that_mutates_has_a_mutating_configuration() {
    let webhook = made(
        PolicyKind::ClusterAdmissionPolicy,
        json!({"mutating": true}),
    );
    assert_eq!(webhook.kind, WebhookKind::Mutating);
    assert_eq!(webhook.hooks[0]["reinvocationPolicy"], "Never");
    let group = made(PolicyKind::ClusterAdmissionPolicyGroup, json!({}));
    assert_eq!(group.kind, WebhookKind::Validating);
}

#[test]
fn the_generation_is_read_from_path_or_url() {
    let webhook = made(PolicyKind::ClusterAdmissionPolicy, json!({}));
    for (client, expected) in [
        (
            json!({"service": {"path": "/validate/clusterwide-x/12"}}),
            Some(12),
        ),
        (
            json!({"service": {"path": "/validate/clusterwide-x"}}),
            None,
        ),
        (
            json!({"service": {"path": "/validate/clusterwide-x/1/2"}}),
            None,
        ),
        (json!({"service": {"path": "/audit/clusterwide-x/1"}}), None),
        (json!({"service": {}}), None),
        (
            json!({"url": "https://127.0.0.1:8443/validate/kw.cap.x/3"}),
            Some(3),
        ),
        (json!({"url": "https://127.0.0.1:8443"}), None),
        (json!({"url": "nonsense"}), None),
    ] {
        let webhook = Webhook {
            hooks: vec![json!({"clientConfig": client})],
            ..webhook.clone()
        };
        assert_eq!(webhook.generation(), expected, "{client}");
    }
    assert_eq!(
        Webhook {
            hooks: vec![],
            ..webhook
        }
        .generation(),
        None
    );
}

#[test]
fn whose_it_is_is_told_by_uid_then_by_name() {
    let mine = made(PolicyKind::ClusterAdmissionPolicy, json!({}));
    let policy = Simulation::new(1).observed.policy;
    assert_eq!(mine.owner(&policy), Owner::This);
    let mut other = mine.clone();
    other
        .annotations
        .insert("kubewarden.io/policy-uid".into(), "uid-2".into());
    assert_eq!(other.owner(&policy), Owner::Other);
    let mut inherited = mine.clone();
    inherited.annotations.remove("kubewarden.io/policy-uid");
    assert_eq!(inherited.owner(&policy), Owner::Inherited);
    let mut dotted = inherited.clone();
    dotted.name = "kw.cap.pods".into();
    assert_eq!(dotted.owner(&policy), Owner::Inherited);
    let mut strange = inherited.clone();
    strange.name = "elsewhere".into();
    assert_eq!(strange.owner(&policy), Owner::Other);
}

#[test]
fn what_the_api_server_fills_in_is_no_edit() {
    let webhook = made(
        PolicyKind::ClusterAdmissionPolicy,
        json!({"allowInsideKubewardenNamespace": true}),
    );
    let mut stored = webhook.clone();
    stored.hooks[0]["matchConditions"] = json!([]);
    stored.hooks[0]["objectSelector"] = json!(null);
    stored.labels.insert("somebody".into(), "else".into());
    assert!(stored.is_as(&webhook));
    stored.hooks.push(json!({"name": "another"}));
    assert!(!stored.is_as(&webhook));
    let mut late = webhook.clone();
    late.annotations.insert(
        names::WEBHOOK_SWITCHED_AT.into(),
        Timestamp::UNIX_EPOCH.to_string(),
    );
    assert!(!late.is_as(&webhook));
}
