//! What to write next for one policy, and when to look again.
//!
//! The order of the stages makes a crash after any write harmless (docs/spec/admission.md#19-11). Each looks at what is there and not at what was done: a controller
//! that dies after any write, and starts again, finds the stage it was in. The shell carries out the steps in order,
//! stops at the first that fails, reads again and plans again until nothing is left to write.

use std::time::Duration;

use jiff::Timestamp;
use kube::api::DynamicObject;
use polity_api::policies::names;
use polity_api::policies::v1::{ConditionStatus, ConditionType, PolicyRevision, PolicyStatus};

use super::events::{self, Event};
use super::history;
use super::observed::{Observed, Refusal, Revision};
use super::revision;
use super::rollback;
use super::standing::{self, Standing};
use super::status;
use super::webhook::{Owner, Webhook};

/// What to do now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// What to write, in this order.
    pub steps: Vec<Step>,
    /// When to look again even if nothing changes; `None` for the usual slow round.
    pub look_again_at: Option<Timestamp>,
}

/// One write, and what to tell once it has succeeded.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The write.
    pub write: Write,
    /// What it means to the owner of the policy.
    pub events: Vec<Event>,
}

/// One write. Updates and deletions are of the version that was read.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// Replace the policy (its metadata).
    UpdatePolicy(Box<DynamicObject>),
    /// Replace the policy with an earlier specification; if the API server refuses, only take the request away.
    RollBack {
        /// The policy as it was in the earlier generation.
        rolled_back: Box<DynamicObject>,
        /// The policy without the request.
        refused: Box<DynamicObject>,
    },
    /// Replace the status of the policy.
    UpdatePolicyStatus(Box<PolicyStatus>),
    /// Create a revision. If one of this name is there, [`super::meet`] says what to do.
    CreateRevision(Box<PolicyRevision>),
    /// Replace metadata and specification of a revision.
    UpdateRevision(Box<PolicyRevision>),
    /// Replace the status of a revision.
    UpdateRevisionStatus(Box<PolicyRevision>),
    /// Delete a revision.
    DeleteRevision(Box<PolicyRevision>),
    /// Create a webhook configuration.
    CreateWebhook(Box<Webhook>),
    /// Replace a webhook configuration.
    UpdateWebhook(Box<Webhook>),
    /// Delete a webhook configuration.
    DeleteWebhook(Box<Webhook>),
}

impl From<Write> for Step {
    fn from(write: Write) -> Self {
        Self {
            write,
            events: Vec::new(),
        }
    }
}

impl Plan {
    /// What is due for this policy at this time.
    pub fn of(observed: &Observed, now: Timestamp) -> Self {
        let standing = Standing::of(observed);
        if let Some(deleted_at) = observed.policy.deleted_at() {
            return deletion(observed, &standing, deleted_at, now);
        }
        let stages = [
            finalizer,
            rollback_stage,
            creation,
            unserved,
            bookkeeping,
            webhooks,
            policy_status,
        ];
        for stage in stages {
            let steps = stage(observed, &standing, now);
            if !steps.is_empty() {
                return Self {
                    steps,
                    look_again_at: None,
                };
            }
        }
        retirement(observed, &standing, now)
    }

    fn wait_until(when: Timestamp) -> Self {
        Self {
            steps: Vec::new(),
            look_again_at: Some(when),
        }
    }
}

fn one(write: Write) -> Vec<Step> {
    vec![write.into()]
}

/// Nothing is made for a policy that could go without being cleaned up after.
fn finalizer(observed: &Observed, _: &Standing<'_>, _: Timestamp) -> Vec<Step> {
    let policy = &observed.policy;
    if policy.has_finalizer(names::FINALIZER) && !policy.has_finalizer(names::OLD_FINALIZER) {
        return Vec::new();
    }
    let mut object = policy.object.clone();
    let finalizers = object.metadata.finalizers.get_or_insert_default();
    finalizers.retain(|one| one != names::OLD_FINALIZER && one != names::FINALIZER);
    finalizers.push(names::FINALIZER.to_owned());
    one(Write::UpdatePolicy(Box::new(object)))
}

/// A rollback that a user asked for.
fn rollback_stage(observed: &Observed, _: &Standing<'_>, _: Timestamp) -> Vec<Step> {
    rollback::step(observed).into_iter().collect()
}

/// The current generation has a revision, under the id that is the policy's.
fn creation(observed: &Observed, standing: &Standing<'_>, _: Timestamp) -> Vec<Step> {
    let server = &observed.policy.content.enforcement.policy_server;
    match observed.current() {
        Some(current) => {
            let id = revision::chosen_id(observed).id;
            let is_settled =
                current.id() == Some(&id) || standing.held == Some(current.generation());
            if is_settled {
                Vec::new()
            } else {
                one(Write::DeleteRevision(Box::new(current.clone())))
            }
        }
        None if matches!(observed.refusal, Some(Refusal::Revision(_))) => Vec::new(),
        None if !revision::can_be_a_server(server) => Vec::new(),
        None => one(Write::CreateRevision(Box::new(revision::made_for(
            observed, standing,
        )))),
    }
}

/// Without a policy server the webhooks are deleted first: no webhook may call a server that cannot answer. Revisions
/// keep their marks.
fn unserved(observed: &Observed, standing: &Standing<'_>, _: Timestamp) -> Vec<Step> {
    let held = standing.held.and_then(|held| observed.revision(held));
    let server = match held {
        Some(held) => held.server(),
        None => &observed.policy.content.enforcement.policy_server,
    };
    match observed.live_server(server) {
        Some(_) => Vec::new(),
        None => without_webhooks(observed),
    }
}

/// The status entries of the controller in each revision. One write for each revision, and the serving one last: new
/// ordinals are known by their absence there.
fn bookkeeping(observed: &Observed, standing: &Standing<'_>, now: Timestamp) -> Vec<Step> {
    let mut revisions = observed.newest_first();
    revisions.sort_by_key(|revision| standing.held == Some(revision.generation()));
    let write = |revision: &PolicyRevision| {
        if !revision.spec.enabled {
            return None;
        }
        if is_superseded(observed, standing, revision) {
            let disabled = revision::disabled(revision);
            return Some(Write::UpdateRevision(Box::new(disabled)));
        }
        if let Some(relabelled) = revision::relabelled(revision) {
            return Some(Write::UpdateRevision(Box::new(relabelled)));
        }
        let reported = revision::reported(observed, standing, revision, now)?;
        Some(Write::UpdateRevisionStatus(Box::new(reported)))
    };
    revisions
        .into_iter()
        .filter_map(write)
        .map(Step::from)
        .collect()
}

/// Whether a revision is newer than the one that serves, and no longer wanted.
fn is_superseded(observed: &Observed, standing: &Standing<'_>, revision: &PolicyRevision) -> bool {
    let generation = revision.generation();
    generation != observed.policy.generation && standing.held.is_none_or(|held| generation > held)
}

/// The webhook points at the revision that should serve.
fn webhooks(observed: &Observed, standing: &Standing<'_>, now: Timestamp) -> Vec<Step> {
    if matches!(observed.refusal, Some(Refusal::Webhook(_))) {
        return Vec::new();
    }
    let held = standing.held.and_then(|held| observed.revision(held));
    let current = observed.current().filter(|current| {
        Some(current.generation()) != standing.serving && standing::may_be_served(observed, current)
    });
    if let Some(current) = current {
        return switch(observed, standing, current, now);
    }
    match (standing.webhook, held) {
        (Some(_), Some(held)) => {
            let mut steps = taken_back(observed, held);
            steps.extend(switch(observed, standing, held, now));
            steps
        }
        (None, Some(held)) if standing::can_be_restored(observed, held) => {
            switch(observed, standing, held, now)
        }
        _ => Vec::new(),
    }
}

/// Marks the revision, then moves the webhook to it, in one write with all its fields. Nothing when that is so already.
fn switch(
    observed: &Observed,
    standing: &Standing<'_>,
    revision: &PolicyRevision,
    now: Timestamp,
) -> Vec<Step> {
    let Ok(desired) = Webhook::desired(
        &observed.policy,
        revision,
        &observed.settings,
        standing.webhook,
        now,
    ) else {
        return Vec::new();
    };
    let mut steps = Vec::new();
    if !revision.is_serving() {
        let marked = revision::marked(revision, true);
        steps.push(Write::UpdateRevision(Box::new(marked)).into());
    }
    let there = observed
        .webhooks
        .iter()
        .find(|webhook| webhook.kind == desired.kind && webhook.name == desired.name);
    let write = match there {
        None => Write::CreateWebhook(Box::new(desired)),
        // Another policy's: the next revision takes another id, and this webhook is left alone.
        Some(there) if there.owner(&observed.policy) == Owner::Other => return Vec::new(),
        Some(there) if there.is_as(&desired) => return steps,
        Some(there) => Write::UpdateWebhook(Box::new(Webhook {
            uid: there.uid.clone(),
            resource_version: there.resource_version.clone(),
            ..desired
        })),
    };
    steps.push(write.into());
    steps
}

/// Marks of generations that were about to serve when a replica was lost.
fn taken_back(observed: &Observed, held: &PolicyRevision) -> Vec<Step> {
    let revisions = observed.revisions.iter();
    revisions
        .filter(|revision| revision.generation() > held.generation() && revision.is_serving())
        .map(|revision| Write::UpdateRevision(Box::new(revision::marked(revision, false))).into())
        .collect()
}

fn without_webhooks(observed: &Observed) -> Vec<Step> {
    let webhooks = observed.webhooks.iter();
    webhooks
        .filter(|webhook| webhook.owner(&observed.policy) != Owner::Other)
        .map(|webhook| Write::DeleteWebhook(Box::new(webhook.clone())).into())
        .collect()
}

/// The status of the policy, once everything above is settled.
fn policy_status(observed: &Observed, standing: &Standing<'_>, now: Timestamp) -> Vec<Step> {
    let status = status::of(observed, standing.serving, now);
    if observed.policy.status.as_ref() == Some(&status) {
        return Vec::new();
    }
    vec![Step {
        events: events::of_transition(observed, &status),
        write: Write::UpdatePolicyStatus(Box::new(status)),
    }]
}

/// An older generation is disabled when no request can still be on its way to it. Then revisions beyond the limit are
/// deleted.
fn retirement(observed: &Observed, standing: &Standing<'_>, now: Timestamp) -> Plan {
    let surplus = history::surplus(observed, standing.serving);
    let mut steps: Vec<Step> = surplus
        .iter()
        .filter(|revision| !revision.spec.enabled)
        .map(|revision| Write::DeleteRevision(Box::new((*revision).clone())).into())
        .collect();
    let disabled = observed.revisions.iter().filter(|one| !one.spec.enabled);
    steps.extend(
        disabled
            .filter(|revision| !surplus.contains(revision))
            .filter_map(revision::stripped)
            .map(|stripped| Write::UpdateRevisionStatus(Box::new(stripped)).into()),
    );
    let (Some(serving), Some(webhook)) = (standing.serving, standing.webhook) else {
        return Plan {
            steps,
            look_again_at: None,
        };
    };
    let older: Vec<_> = observed
        .revisions
        .iter()
        .filter(|revision| revision.spec.enabled && revision.generation() < serving)
        .collect();
    let others: Vec<_> = observed
        .webhooks
        .iter()
        .filter(|other| *other != webhook && other.owner(&observed.policy) != Owner::Other)
        .collect();
    if older.is_empty() && others.is_empty() {
        return Plan {
            steps,
            look_again_at: None,
        };
    }
    let over = after(
        webhook.switched_at().unwrap_or(now),
        observed.settings.drain,
    );
    if now < over {
        return Plan {
            steps,
            look_again_at: Some(over),
        };
    }
    steps.extend(
        others
            .into_iter()
            .map(|other| Write::DeleteWebhook(Box::new(other.clone())).into()),
    );
    steps.extend(
        older
            .into_iter()
            .map(|older| Write::UpdateRevision(Box::new(revision::disabled(older))).into()),
    );
    Plan {
        steps,
        look_again_at: None,
    }
}

/// Deletes the webhook, waits for the drain time, then deletes the revisions and removes the finalizer. Nothing new is
/// created meanwhile.
fn deletion(
    observed: &Observed,
    standing: &Standing<'_>,
    deleted_at: Timestamp,
    now: Timestamp,
) -> Plan {
    let policy = &observed.policy;
    let is_ours =
        policy.has_finalizer(names::FINALIZER) || policy.has_finalizer(names::OLD_FINALIZER);
    if !is_ours {
        return Plan::default();
    }
    let webhooks = without_webhooks(observed);
    if !webhooks.is_empty() {
        return Plan {
            steps: webhooks,
            look_again_at: None,
        };
    }
    let has_served = observed.revisions.iter().any(Revision::is_serving);
    if has_served {
        // The status keeps when the webhook went: whoever restarts here waits neither twice nor not at all.
        let status = policy_status(observed, standing, now);
        if !status.is_empty() && !is_inactive(policy.status.as_ref()) {
            return Plan {
                steps: status,
                look_again_at: None,
            };
        }
        let over = after(
            inactive_since(policy.status.as_ref()).unwrap_or(deleted_at),
            observed.settings.drain,
        );
        if now < over {
            return Plan::wait_until(over);
        }
    }
    let mut steps: Vec<Step> = observed
        .revisions
        .iter()
        .map(|revision| Write::DeleteRevision(Box::new(revision.clone())).into())
        .collect();
    if steps.is_empty() {
        let mut object = policy.object.clone();
        let finalizers = object.metadata.finalizers.get_or_insert_default();
        finalizers.retain(|one| one != names::FINALIZER && one != names::OLD_FINALIZER);
        steps.push(Write::UpdatePolicy(Box::new(object)).into());
    }
    Plan {
        steps,
        look_again_at: None,
    }
}

fn is_inactive(status: Option<&PolicyStatus>) -> bool {
    inactive_since(status).is_some()
}

/// Since when the policy has no webhook, by its own status.
fn inactive_since(status: Option<&PolicyStatus>) -> Option<Timestamp> {
    let conditions = status.iter().flat_map(|status| &status.conditions);
    let active = conditions
        .into_iter()
        .find(|condition| condition.type_ == ConditionType::PolicyActive.as_str())?;
    let when = active.last_transition_time.as_ref()?.0;
    (active.status == ConditionStatus::False).then_some(when)
}

fn after(when: Timestamp, duration: Duration) -> Timestamp {
    when.checked_add(duration).unwrap_or(Timestamp::MAX)
}
