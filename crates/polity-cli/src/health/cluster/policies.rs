//! Policies: is each in force, or on its way?

use jiff::Timestamp;
use polity_api::policies::v1::Phase;

use super::servers::count;
use super::{List, ObservedCluster, STUCK, is_recent};
use crate::health::Finding;
use crate::output::age;
use crate::policy::lifecycle::Policy;

const CHECK: &str = "policies";

pub(super) fn findings(observed: &ObservedCluster, now: Timestamp) -> Vec<Finding> {
    let may_exist = |name: &str| {
        !observed.has_read(List::PolicyServers)
            || observed.servers.iter().any(|server| server.name == name)
    };
    let mut findings = Vec::new();
    let (mut n_protect, mut n_monitor) = (0, 0);
    // A missing server is one finding, not one for each of its policies.
    for policy in observed
        .policies
        .iter()
        .filter(|policy| !policy.is_being_deleted && may_exist(&policy.policy_server))
    {
        match of_policy(observed, policy, now) {
            Some(finding) => findings.push(finding.about(policy.to_string())),
            None if policy.mode == "monitor" => n_monitor += 1,
            None => n_protect += 1,
        }
    }
    let n_active = n_protect + n_monitor;
    let is_empty = observed.policies.is_empty() && observed.has_read(List::Policies);
    if n_active > 0 {
        let of_all = match observed.policies.len() {
            n_all if n_all == n_active => count(n_active),
            n_all => format!("{n_active} of {}", count(n_all)),
        };
        let message =
            format!("{of_all} active ({n_protect} in protect mode, {n_monitor} in monitor mode)");
        findings.push(Finding::ok(CHECK, message));
    } else if is_empty {
        findings.push(Finding::ok(CHECK, "there are no policies"));
    }
    findings
}

fn of_policy(observed: &ObservedCluster, policy: &Policy, now: Timestamp) -> Option<Finding> {
    let since = since(policy);
    let is_stuck = !is_recent(since, STUCK, now) && !observed.is_starting(now);
    match policy.phase() {
        Some(Phase::Failed) => {
            let message = format!("failed: {}", policy.message());
            Some(Finding::problem(CHECK, message).fix(status_command(policy)))
        }
        Some(Phase::Active) => called(observed, policy),
        phase => {
            let phase = match phase {
                Some(Phase::Updating) => "updating",
                Some(Phase::Pending) => "pending",
                Some(Phase::Active | Phase::Failed) | None => "not looked at by a controller",
            };
            let message = format!("{phase} for {}: {}", age(since, now), policy.message());
            Some(if is_stuck {
                Finding::problem(CHECK, message).fix(status_command(policy))
            } else {
                Finding::note(CHECK, message)
            })
        }
    }
}

/// A policy that is active needs a webhook that calls the generation it says is served.
fn called(observed: &ObservedCluster, policy: &Policy) -> Option<Finding> {
    if observed.changing.contains(&policy.uid) {
        return None;
    }
    let mut webhooks = observed.webhooks.iter();
    let fix = "restart the controller: it writes webhooks again at its start";
    match webhooks.find(|webhook| webhook.policy_uid == policy.uid) {
        None if !observed.has_read(List::Webhooks) => None,
        None => {
            let message = "its status is active, but no webhook calls it: it is not enforced";
            Some(Finding::problem(CHECK, message).fix(fix))
        }
        Some(webhook) if webhook.generation != policy.serving() => {
            let shown = |generation: Option<i64>| {
                generation.map_or_else(|| "no generation".to_owned(), |g| format!("generation {g}"))
            };
            let message = format!(
                "its webhook {} calls {}, its status says {}",
                webhook.name,
                shown(webhook.generation),
                shown(policy.serving())
            );
            Some(Finding::problem(CHECK, message).fix(fix))
        }
        Some(_) => None,
    }
}

/// When the policy last moved.
fn since(policy: &Policy) -> Option<Timestamp> {
    let conditions = policy.status.iter().flat_map(|status| &status.conditions);
    let moved = conditions
        .filter_map(|condition| condition.last_transition_time.as_ref())
        .map(|time| time.0)
        .max();
    moved.max(policy.created)
}

fn status_command(policy: &Policy) -> String {
    let namespace = policy
        .namespace
        .as_ref()
        .map_or_else(String::new, |namespace| format!(" -n {namespace}"));
    format!(
        "polity policy status {}{namespace} --kind {}",
        policy.name,
        policy.kind.short()
    )
}
