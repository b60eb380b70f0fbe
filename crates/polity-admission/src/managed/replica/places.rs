//! Where what is loaded is found: which ids and generations lead to it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::managed::revision::{Revision, Revisions, Uid};

/// Where one revision is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spot {
    /// The spellings of the policy's id.
    pub(crate) ids: Vec<Arc<str>>,
    pub(crate) generation: u64,
    /// Whether it is meant where no generation is named.
    pub(crate) is_serving: bool,
}

/// Where the loaded ones among these revisions are found.
pub(crate) fn spots(revisions: &Revisions, loaded: &BTreeSet<Uid>) -> BTreeMap<Uid, Spot> {
    let here: Vec<&Revision> = loaded
        .iter()
        .filter_map(|uid| revisions.get(uid))
        .map(|revision| &**revision)
        .collect();
    let claims = claims(revisions);
    let serving = serving(&here);
    here.iter()
        .map(|revision| {
            let other = revision.other_id.iter().filter(|other| {
                // Two policies that can be spelled so: nobody can tell who is meant.
                claims
                    .get(&***other)
                    .is_none_or(|claimants| claimants.len() == 1)
            });
            let spot = Spot {
                ids: std::iter::once(&revision.id)
                    .chain(other)
                    .cloned()
                    .collect(),
                generation: revision.generation,
                is_serving: serving.get(&*revision.id) == Some(&&revision.uid),
            };
            (revision.uid.clone(), spot)
        })
        .collect()
}

/// The policies that can be spelled so, by spelling. A policy lives as long as one of its revisions is enabled.
fn claims(revisions: &Revisions) -> HashMap<&str, BTreeSet<&str>> {
    let mut claims: HashMap<&str, BTreeSet<&str>> = HashMap::new();
    for revision in revisions.values().filter(|revision| revision.is_enabled) {
        for id in std::iter::once(&revision.id).chain(&revision.other_id) {
            claims.entry(id).or_default().insert(&revision.policy_uid);
        }
    }
    claims
}

/// For each id the revision that is meant where no generation is named: the newest that serves, else the newest that
/// takes over.
fn serving<'a>(here: &[&'a Revision]) -> HashMap<&'a str, &'a Uid> {
    let rank = |revision: &Revision| (revision.is_serving, revision.created, revision.generation);
    let mut best: HashMap<&str, &Revision> = HashMap::new();
    let candidates = here
        .iter()
        .filter(|revision| revision.is_serving || revision.is_takeover);
    for revision in candidates {
        let before = best.get(&*revision.id);
        if before.is_none_or(|before| rank(before) < rank(revision)) {
            best.insert(&revision.id, revision);
        }
    }
    best.into_iter()
        .map(|(id, revision)| (id, &revision.uid))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::managed::revision::samples::Sample;

    /// `uid: ids @ generation`, with a star for the one that serves.
    fn told(samples: impl IntoIterator<Item = Sample>) -> String {
        let read = samples.into_iter().map(|sample| Arc::new(sample.read()));
        let revisions: Revisions = read
            .map(|revision| (revision.uid.clone(), revision))
            .collect();
        let loaded = revisions.keys().cloned().collect();
        let told = spots(&revisions, &loaded).into_iter().map(|(uid, spot)| {
            let star = if spot.is_serving { "*" } else { "" };
            format!("{uid}: {}@{}{star}", spot.ids.join("|"), spot.generation)
        });
        told.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn without_a_generation_the_highest_that_serves_is_meant() {
        for (case, samples, expected) in [
            (
                "8.1: nothing serves yet",
                vec![Sample::new(1)],
                "r1: clusterwide-p|kw.cap.p@1",
            ),
            (
                "8.1: the highest one marked serving",
                vec![
                    Sample::new(1).serving(),
                    Sample::new(2).serving(),
                    Sample::new(3),
                ],
                "r1: clusterwide-p|kw.cap.p@1, r2: clusterwide-p|kw.cap.p@2*, r3: clusterwide-p|kw.cap.p@3",
            ),
            (
                "4.3: else the highest one that takes over",
                vec![Sample::new(1).takeover(), Sample::new(2).takeover()],
                "r1: clusterwide-p|kw.cap.p@1, r2: clusterwide-p|kw.cap.p@2*",
            ),
            (
                "19.11: a policy created again",
                vec![
                    Sample::new(5).serving(),
                    Sample::new(1)
                        .uid("r9")
                        .of_policy("policy-2")
                        .created(9)
                        .serving(),
                ],
                "r5: clusterwide-p@5, r9: clusterwide-p@1*",
            ),
        ] {
            assert_eq!(told(samples), expected, "{case}");
        }
    }

    #[test]
    fn a_spelling_that_two_policies_can_claim_leads_nowhere() {
        // 2.1: namespace a-b, name c and namespace a, name b-c have one classic id.
        let first = Sample::new(1)
            .of_kind("AdmissionPolicy", Some("a-b"))
            .id("namespaced-a-b-p");
        let second = Sample::new(2)
            .of_kind("ClusterAdmissionPolicy", None)
            .of_policy("policy-2")
            .id("kw.ap.a-b.p");
        assert_eq!(
            told([first.clone()]),
            "r1: namespaced-a-b-p|kw.ap.a-b.p@1",
            "alone it has both"
        );
        assert_eq!(
            told([first.clone(), second.clone()]),
            "r1: namespaced-a-b-p@1, r2: kw.ap.a-b.p|clusterwide-p@2"
        );
        let revisions = [first, second.disabled()].map(|sample| Arc::new(sample.read()));
        let revisions: Revisions = revisions
            .map(|revision| (revision.uid.clone(), revision))
            .into();
        let spots = spots(&revisions, &[Uid::from("r1")].into());
        assert_eq!(spots[&Uid::from("r1")].ids.len(), 2, "the other is gone");
    }
}
