//! Revisions and webhooks whose policy no longer exists, by UID. They are left only when a finalizer was removed by
//! force.

use std::collections::BTreeSet;

use polity_api::policies::names;
use polity_api::policies::v1::PolicyRevision;

use super::plan::Write;
use super::webhook::Webhook;

/// What to delete now. Webhooks go first, and their revisions with the next look: API servers may still be calling.
///
/// `live` must be read after the rest, or a policy that was just created would lose what it has.
pub fn orphans(
    live: &BTreeSet<String>,
    revisions: &[PolicyRevision],
    webhooks: &[Webhook],
) -> Vec<Write> {
    let owner_of = |webhook: &Webhook| webhook.annotations.get(names::POLICY_UID).cloned();
    let mut writes: Vec<_> = webhooks
        .iter()
        .filter(|webhook| owner_of(webhook).is_some_and(|uid| !live.contains(&uid)))
        .map(|webhook| Write::DeleteWebhook(Box::new(webhook.clone())))
        .collect();
    let called: BTreeSet<_> = webhooks.iter().filter_map(owner_of).collect();
    let is_orphan = |revision: &&PolicyRevision| {
        let uid = revision.spec.object_reference.uid.as_ref();
        uid.is_some_and(|uid| !live.contains(uid) && !called.contains(uid))
    };
    let orphans = revisions.iter().filter(is_orphan);
    writes.extend(orphans.map(|revision| Write::DeleteRevision(Box::new(revision.clone()))));
    writes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::tests::simulation::Simulation;

    #[test]
    fn what_has_no_policy_goes_webhook_first() {
        let simulation = Simulation::active(1);
        let (revisions, webhooks) = (
            &simulation.observed.revisions,
            &simulation.observed.webhooks,
        );
        let live = BTreeSet::from(["uid-1".to_owned()]);
        assert_eq!(orphans(&live, revisions, webhooks), []);
        let none = BTreeSet::new();
        let first = orphans(&none, revisions, webhooks);
        assert!(matches!(first[..], [Write::DeleteWebhook(_)]), "{first:?}");
        let then = orphans(&none, revisions, &[]);
        assert!(matches!(then[..], [Write::DeleteRevision(_)]), "{then:?}");
    }

    #[test]
    fn a_webhook_that_names_no_uid_is_somebody_elses() {
        let mut simulation = Simulation::active(1);
        simulation.observed.webhooks[0]
            .annotations
            .remove(names::POLICY_UID);
        assert_eq!(
            orphans(&BTreeSet::new(), &[], &simulation.observed.webhooks),
            []
        );
    }
}
