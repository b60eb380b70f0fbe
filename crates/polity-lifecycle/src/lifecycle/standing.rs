//! Which generation the webhook of a policy points at, and which one could take its place.

use polity_api::policies::v1::{ConditionStatus, ConditionType, PolicyRevision};

use super::observed::{Observed, Revision, Server};
use super::webhook::{Owner, Webhook};

/// The generation that is served, according to the webhook.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Standing<'a> {
    /// S: the generation that is served, 0 for a webhook of an older installation.
    pub(super) serving: Option<i64>,
    /// The webhook that points at it.
    pub(super) webhook: Option<&'a Webhook>,
    /// The generation that is never disabled: S, or without a webhook the one at which it will be restored.
    pub(super) held: Option<i64>,
}

impl<'a> Standing<'a> {
    /// Reads it from the webhook, or without one from the marks on the revisions.
    pub(super) fn of(observed: &'a Observed) -> Self {
        let ours = |owner| {
            let webhooks = observed.webhooks.iter();
            webhooks.filter(move |webhook| webhook.owner(&observed.policy) == owner)
        };
        let is_enabled = |webhook: &&Webhook| {
            let revision = webhook
                .generation()
                .and_then(|generation| observed.revision(generation));
            revision.is_some_and(|revision| revision.spec.enabled)
        };
        let is_marked = |webhook: &&Webhook| {
            let revision = webhook
                .generation()
                .and_then(|generation| observed.revision(generation));
            revision.is_some_and(Revision::is_serving)
        };
        let by_generation = |webhook: &&Webhook| webhook.generation();
        let marked = highest_marked(observed);

        let pointing = ours(Owner::This)
            .filter(is_enabled)
            .filter(is_marked)
            .max_by_key(by_generation);
        if let Some(webhook) = pointing {
            let serving = webhook.generation();
            return Self {
                serving,
                webhook: Some(webhook),
                held: serving,
            };
        }
        // A revision is marked before the webhook points at it, so a path to an unmarked one was edited, unless no
        // revision is marked.
        if let Some(webhook) = ours(Owner::This).max_by_key(by_generation) {
            let unmarked = ours(Owner::This)
                .filter(is_enabled)
                .max_by_key(by_generation);
            let serving = marked.or(unmarked.and_then(Webhook::generation));
            return Self {
                serving,
                webhook: Some(webhook),
                held: serving,
            };
        }
        let inherited = ours(Owner::Inherited).next();
        Self {
            serving: inherited.map(|_| 0),
            webhook: inherited,
            held: inherited.map(|_| 0).or(marked),
        }
    }
}

/// The highest generation that is marked as serving.
fn highest_marked(observed: &Observed) -> Option<i64> {
    let revisions = observed.revisions.iter();
    revisions
        .filter(|revision| revision.spec.enabled && revision.is_serving())
        .map(Revision::generation)
        .max()
}

/// Whether a replica can serve the revision: it says so, and its pod takes requests.
pub(super) fn is_ready(observed: &Observed, revision: &PolicyRevision, replica: i32) -> bool {
    let server = observed.live_server(revision.server());
    says(revision, replica) == Some(ConditionStatus::True)
        && server.is_some_and(|server| server.is_ready(replica))
}

/// Whether every expected replica can serve the revision, and no pod of an older Deployment is left.
pub(super) fn is_ready_everywhere(observed: &Observed, revision: &PolicyRevision) -> bool {
    let Some(server) = observed.live_server(revision.server()) else {
        return false;
    };
    let mut expected = server.ordinals();
    revision.spec.enabled
        && server.n_deployment_pods == 0
        && !expected.is_empty()
        && expected.all(|replica| is_ready(observed, revision, replica))
}

/// Whether the webhook may move to it: a policy server that asks for signatures serves nothing new, since they cannot be
/// verified.
pub(super) fn may_be_served(observed: &Observed, revision: &PolicyRevision) -> bool {
    let server = observed.live_server(revision.server());
    server.is_some_and(|server| !server.asks_for_signatures)
        && is_ready_everywhere(observed, revision)
}

/// Whether a missing webhook may be restored at this revision: at least one replica serves it, and no replica that takes
/// requests lacks it.
pub(super) fn can_be_restored(observed: &Observed, revision: &PolicyRevision) -> bool {
    let Some(server) = observed.live_server(revision.server()) else {
        return false;
    };
    let mut ready = server
        .ordinals()
        .filter(|replica| server.is_ready(*replica));
    let mut n_ready = 0;
    let all = ready.all(|replica| {
        n_ready += 1;
        says(revision, replica) == Some(ConditionStatus::True)
    });
    all && n_ready > 0
}

/// The expected replicas that cannot serve the revision yet.
pub(super) fn awaited(observed: &Observed, revision: &PolicyRevision) -> Vec<i32> {
    let server = observed.live_server(revision.server());
    let expected = server.map_or(0..0, Server::ordinals);
    expected
        .filter(|replica| !is_ready(observed, revision, *replica))
        .collect()
}

fn says(revision: &PolicyRevision, replica: i32) -> Option<ConditionStatus> {
    let ready = revision.condition(ConditionType::Ready, Some(replica));
    ready.map(|ready| ready.status)
}
