//! `rollback`, with the test in the controller's place.

use std::time::Duration;

use kube::api::{DynamicObject, PostParams};
use kube::{Api, ResourceExt as _};
use polity_api::policies::names;
use polity_api::policies::v1::PolicyRevision;
use polity_runtime::Clock;
use serde_json::json;

use super::super::events;
use super::super::find::Found;
use super::super::kind::PolicyKind;
use super::super::preflight::refusal;
use super::super::rollback::{Following, Request, ask};
use super::super::target::choose;
use super::super::wait::Waited;
use super::{LONG, Setup, active, failed, owner_of_policies};

/// A policy whose second generation is broken, found as its owner.
async fn broken(setup: &Setup, user: &str) -> Found {
    setup
        .create(PolicyKind::AdmissionPolicy, "shop", "team-label")
        .await;
    setup
        .patch(
            "team-label",
            json!({"spec": {"module": "registry://r.example/team-label:v2"}}),
        )
        .await;
    setup.status("team-label", failed(2, 1)).await;
    let events = json!({"apiGroups": [""], "resources": ["events"], "verbs": ["list"]});
    let owner = setup
        .account(user, json!([owner_of_policies(), events]))
        .await;
    setup
        .find_as(owner, &["team-label", "-n", "shop"])
        .await
        .unwrap()
}

fn asked_for(object: &DynamicObject) -> Option<&str> {
    object
        .annotations()
        .get(names::ROLLBACK_TO_GENERATION)
        .map(String::as_str)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_is_an_annotation_and_makes_no_generation() {
    let setup = Setup::start().await;
    let mut found = broken(&setup, "ann").await;
    let target = choose(&found.policy, None).unwrap();
    // A status that was written after the policy was read is no hindrance.
    setup
        .status(
            "team-label",
            json!({"message": "Generation 2 still cannot be served."}),
        )
        .await;
    let request = ask(&mut found, &target).await.unwrap();
    let uid = found.policy.uid.clone();
    assert_eq!(
        request,
        Request {
            uid,
            from: 2,
            to: 1
        }
    );
    let object = setup
        .api(PolicyKind::AdmissionPolicy, "shop")
        .get("team-label")
        .await
        .unwrap();
    assert_eq!(
        (asked_for(&object), object.metadata.generation),
        (Some("1"), Some(2))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_of_a_policy_that_was_changed_meanwhile_is_not_asked_for() {
    let setup = Setup::start().await;
    let mut found = broken(&setup, "ann").await;
    let target = choose(&found.policy, None).unwrap();
    let fixed = setup
        .patch(
            "team-label",
            json!({"spec": {"module": "registry://r.example/team-label:v3"}}),
        )
        .await;
    let error = ask(&mut found, &target).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "AdmissionPolicy shop/team-label was changed meanwhile; nothing was asked for"
    );
    let object = setup
        .api(PolicyKind::AdmissionPolicy, "shop")
        .get("team-label")
        .await
        .unwrap();
    assert_eq!(
        (asked_for(&object), object.resource_version()),
        (None, fixed.resource_version())
    );
}

/// Stores the specification of generation 1, as the controller does.
async fn keep_generation_1(setup: &Setup, found: &Found, spec: serde_json::Value) {
    let uid = &found.policy.uid;
    let revision = json!({
        "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyRevision",
        "metadata": {"generateName": "revision-", "labels": {names::POLICY_UID: uid, names::POLICY_GENERATION: "1"}},
        "spec": {
            "objectReference": {"apiVersion": "policies.kubewarden.io/v1", "kind": "AdmissionPolicy",
                                "namespace": "shop", "name": "team-label", "uid": uid},
            "policyGeneration": 1, "enabled": false, "data": {"spec": spec},
        },
    });
    let revision: PolicyRevision = serde_json::from_value(revision).unwrap();
    let api: Api<PolicyRevision> = Api::namespaced(setup.admin.clone(), "other");
    api.create(&PostParams::default(), &revision).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_that_the_api_would_refuse_is_not_asked_for() {
    let refused = async |change: serde_json::Value| {
        let setup = Setup::start().await;
        drop(broken(&setup, "ann").await);
        let found = setup.find(&["team-label", "-n", "shop"]).await;
        let object = found.api.get("team-label").await.unwrap();
        let mut spec = object.data["spec"].clone();
        for (field, value) in change.as_object().unwrap() {
            spec[field] = value.clone();
        }
        keep_generation_1(&setup, &found, spec).await;
        let target = choose(&found.policy, None).unwrap();
        refusal(&found, &target)
            .await
            .map(|hinted| (hinted.message, hinted.hint))
    };
    let (message, hint) = refused(json!({"mode": "monitor"})).await.unwrap();
    assert_eq!(
        message,
        "AdmissionPolicy shop/team-label is in protect mode and cannot return to generation 1, which is in monitor mode"
    );
    assert!(
        hint.contains("--to") && hint.contains("create it again"),
        "{hint}"
    );
    let (message, _) = refused(json!({"policyServer": "other"})).await.unwrap();
    assert!(
        message.starts_with("AdmissionPolicy shop/team-label cannot return to generation 1: ")
            && message.contains("policyServer"),
        "{message}"
    );
    let module = json!({"module": "registry://r.example/team-label:v1"});
    assert_eq!(refused(module).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_alone_shows_that_the_serving_generation_is_in_monitor_mode() {
    let setup = Setup::start().await;
    drop(broken(&setup, "ann").await);
    setup.status("team-label", json!({"mode": "monitor"})).await;
    let owner = setup.account("bob", json!([owner_of_policies()])).await;
    let found = setup
        .find_as(owner, &["team-label", "-n", "shop"])
        .await
        .unwrap();
    let target = choose(&found.policy, None).unwrap();
    let refused = refusal(&found, &target).await.unwrap();
    assert!(refused.message.contains("in monitor mode"), "{refused}");
}

/// Waits for a rollback while `controller` does what a controller does.
async fn follow_rollback(
    found: &mut Found,
    timeout: Duration,
    controller: impl Future<Output = ()>,
) -> Waited {
    let target = choose(&found.policy, None).unwrap();
    let before = events::about(&found.client, &found.policy).await;
    let request = ask(found, &target).await.unwrap();
    let clock = Clock::system();
    let following = Following {
        found,
        request,
        before: before.told(),
        clock: &clock,
        deadline: clock.moment() + timeout,
    };
    let (waited, ()) = tokio::join!(following.run(), controller);
    waited.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_is_followed_until_it_is_enforced() {
    let setup = Setup::start().await;
    let mut found = broken(&setup, "ann").await;
    let controller = async {
        let rolled_back = json!({
            "metadata": {"annotations": {names::ROLLBACK_TO_GENERATION: null, names::ROLLED_BACK: "3=1"}},
            "spec": {"module": "registry://r.example/team-label:v1"},
        });
        let object = setup.patch("team-label", rolled_back).await;
        assert_eq!(object.metadata.generation, Some(3));
        setup
            .status(
                "team-label",
                json!({"phase": "Updating", "observedGeneration": 3}),
            )
            .await;
        setup.status("team-label", active(3)).await;
    };
    let waited = follow_rollback(&mut found, LONG, controller).await;
    assert_eq!(
        waited,
        Waited::Reached("generation 3 is enforced".to_owned())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_that_is_refused_says_why() {
    let setup = Setup::start().await;
    let mut found = broken(&setup, "ann").await;
    let policy = setup
        .api(PolicyKind::AdmissionPolicy, "shop")
        .get("team-label")
        .await
        .unwrap();
    setup.tell("earlier", &policy, "RollbackFailed").await;
    let without = json!({"metadata": {"annotations": {names::ROLLBACK_TO_GENERATION: null}}});
    let controller = async {
        setup.patch("team-label", without.clone()).await;
        setup.tell("now", &policy, "RollbackFailed").await;
    };
    let waited = follow_rollback(&mut found, LONG, controller).await;
    assert_eq!(
        waited,
        Waited::Missed("RollbackFailed: RollbackFailed, told.".to_owned())
    );

    // Without the right to list Events the end is the same, with fewer words.
    let owner = setup.account("bob", json!([owner_of_policies()])).await;
    let mut found = setup
        .find_as(owner, &["team-label", "-n", "shop"])
        .await
        .unwrap();
    let controller = async { drop(setup.patch("team-label", without.clone()).await) };
    let waited = follow_rollback(&mut found, LONG, controller).await;
    assert!(
        matches!(waited, Waited::Missed(why) if why.contains("Events, which say why, cannot be read"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_that_changes_nothing_waits_for_what_is_there() {
    let setup = Setup::start().await;
    let mut found = broken(&setup, "ann").await;
    let policy = setup
        .api(PolicyKind::AdmissionPolicy, "shop")
        .get("team-label")
        .await
        .unwrap();
    let controller = async {
        setup.status("team-label", active(2)).await;
        let without = json!({"metadata": {"annotations": {names::ROLLBACK_TO_GENERATION: null}}});
        setup.patch("team-label", without).await;
        setup.tell("now", &policy, "PolicyRolledBack").await;
    };
    let waited = follow_rollback(&mut found, LONG, controller).await;
    assert_eq!(
        waited,
        Waited::Reached("generation 2 is enforced".to_owned())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rollback_without_a_controller_takes_too_long() {
    let setup = Setup::start().await;
    let mut found = broken(&setup, "ann").await;
    let waited = follow_rollback(&mut found, Duration::ZERO, async {}).await;
    let why = "no controller has taken up the rollback in time; it stays asked for";
    assert_eq!(waited, Waited::Missed(why.to_owned()));
}
