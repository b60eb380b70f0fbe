//! What can be known about a rollback before it is requested: whether the API would refuse it.

use kube::Api;
use kube::api::{ListParams, PostParams};
use polity_api::policies::names;
use polity_api::policies::v1::{ObservedMode, PolicyRevision};
use serde_json::Value;

use super::find::Found;
use super::policy::Policy;
use super::target::Target;
use crate::exit::Hinted;

/// Why the rollback would fail, if that is known. Users who may not read PolicyRevisions learn it from the Event.
pub(super) async fn refusal(found: &Found, target: &Target) -> Option<Hinted> {
    let policy = &found.policy;
    if policy.serving() == Some(target.generation) {
        let served = policy.status.as_ref().and_then(|status| status.mode);
        if served == Some(ObservedMode::Monitor) && policy.mode == "protect" {
            return Some(back_to_monitor(policy, target));
        }
    }
    let spec = specification(found, target).await?;
    if spec["mode"] == "monitor" && policy.mode == "protect" {
        return Some(back_to_monitor(policy, target));
    }
    rejected(found, target, spec).await
}

/// The specification of the generation to return to.
async fn specification(found: &Found, target: &Target) -> Option<Value> {
    let revisions: Api<PolicyRevision> = Api::all(found.client.clone());
    let labels = format!(
        "{}={},{}={}",
        names::POLICY_UID,
        found.policy.uid,
        names::POLICY_GENERATION,
        target.generation
    );
    let listed = revisions.list(&ListParams::default().labels(&labels)).await;
    let mut revision = listed.ok()?.items.pop()?;
    revision.spec.data.remove("spec")
}

/// Asks the API server whether it accepts the specification, without storing it.
async fn rejected(found: &Found, target: &Target, spec: Value) -> Option<Hinted> {
    let policy = &found.policy;
    let mut object = found.api.get(&policy.name).await.ok()?;
    object.data["spec"] = spec;
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    match found.api.replace(&policy.name, &params, &object).await {
        Err(kube::Error::Api(status)) if status.code == 422 => Some(Hinted::new(
            format!(
                "{policy} cannot return to generation {}: {}",
                target.generation, status.message
            ),
            other_generation(),
        )),
        _ => None,
    }
}

fn back_to_monitor(policy: &Policy, target: &Target) -> Hinted {
    Hinted::new(
        format!(
            "{policy} is in protect mode and cannot return to generation {}, which is in monitor mode",
            target.generation
        ),
        format!(
            "{}; for monitor mode, delete the policy and create it again",
            other_generation()
        ),
    )
}

fn other_generation() -> &'static str {
    "choose another generation with --to (`polity policy history` lists them)"
}
