//! Which clusters a selector means, found by label instead of by looking at every cluster.
//!
//! The labels of a large fleet lie scattered over far more memory than a cache holds, so that asking each cluster
//! waits for memory again and again. Here the clusters of each label stand together.

use std::collections::{BTreeMap, HashMap};

use polity_core::selector::{LabelOperator, LabelRequirement, LabelSelector, label::Labels};

/// The clusters by the labels they have, or by their claims.
#[derive(Debug, Clone, Default)]
pub(super) struct LabelIndex {
    n_clusters: usize,
    /// The numbers of the clusters, by key and value.
    by_key: HashMap<String, HashMap<String, Vec<u32>>>,
}

impl LabelIndex {
    /// Indexes the labels of clusters, which are numbered in this order.
    pub(super) fn new<'a>(clusters: impl Iterator<Item = &'a BTreeMap<String, String>>) -> Self {
        let mut index = Self::default();
        for (number, labels) in (0..).zip(clusters) {
            index.n_clusters += 1;
            for (key, value) in labels {
                index.add(key, value, number);
            }
        }
        index
    }

    /// Most labels are there already: only a new one is copied.
    fn add(&mut self, key: &str, value: &str, number: u32) {
        if !self.by_key.contains_key(key) {
            self.by_key.insert(key.to_owned(), HashMap::new());
        }
        let Some(by_value) = self.by_key.get_mut(key) else {
            return;
        };
        match by_value.get_mut(value) {
            Some(numbers) => numbers.push(number),
            None => {
                by_value.insert(value.to_owned(), vec![number]);
            }
        }
    }

    /// The clusters that a selector means; none when it means all of them.
    pub(super) fn matching(&self, selector: &LabelSelector) -> Option<ClusterNumbers> {
        let Some(requirements) = selector.requirements() else {
            return Some(ClusterNumbers::new(self.n_clusters, false));
        };
        let meet = |requirement| self.meeting(requirement);
        requirements.iter().map(meet).reduce(|mut all, more| {
            all.keep(&more);
            all
        })
    }

    fn meeting(&self, requirement: &LabelRequirement) -> ClusterNumbers {
        let without = requirement.matches(&One(None));
        let mut meeting = ClusterNumbers::new(self.n_clusters, without);
        let Some(by_value) = self.by_key.get(requirement.key()) else {
            return meeting;
        };
        match requirement.operator() {
            // These treat a label with one of their values differently from one that is not there.
            LabelOperator::Equals
            | LabelOperator::NotEquals
            | LabelOperator::In
            | LabelOperator::NotIn => {
                for numbers in requirement.values().filter_map(|value| by_value.get(value)) {
                    meeting.set(numbers, !without);
                }
            }
            LabelOperator::Exists
            | LabelOperator::DoesNotExist
            | LabelOperator::GreaterThan
            | LabelOperator::LessThan => {
                for (value, numbers) in by_value {
                    meeting.set(numbers, requirement.matches(&One(Some(value))));
                }
            }
        }
        meeting
    }
}

/// What a cluster has under the key that a requirement asks for.
struct One<'a>(Option<&'a str>);

impl Labels for One<'_> {
    fn label(&self, _: &str) -> Option<&str> {
        self.0
    }
}

/// A set of clusters, a bit each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClusterNumbers(Vec<u64>);

const BITS: u32 = u64::BITS;

impl ClusterNumbers {
    /// All of so many clusters, or none.
    fn new(n_clusters: usize, all: bool) -> Self {
        let word = if all { u64::MAX } else { 0 };
        Self(vec![word; n_clusters.div_ceil(BITS as usize)])
    }

    fn set(&mut self, numbers: &[u32], is_in: bool) {
        for number in numbers {
            let word = &mut self.0[(number / BITS) as usize];
            let bit = 1 << (number % BITS);
            if is_in {
                *word |= bit;
            } else {
                *word &= !bit;
            }
        }
    }

    /// Keeps the clusters that are in the other set too.
    pub(super) fn keep(&mut self, other: &Self) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= other;
        }
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.0[(number / BITS) as usize] & (1 << (number % BITS)) != 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;

    use super::*;

    fn requirement() -> impl Strategy<Value = LabelRequirement> {
        let operator = prop_oneof![
            Just(LabelOperator::Equals),
            Just(LabelOperator::NotEquals),
            Just(LabelOperator::In),
            Just(LabelOperator::NotIn),
            Just(LabelOperator::Exists),
            Just(LabelOperator::DoesNotExist),
            Just(LabelOperator::GreaterThan),
            Just(LabelOperator::LessThan),
        ];
        let number = (0..4).prop_map(|number: i32| number.to_string());
        ("[abc]", operator, vec(number, 0..3))
            .prop_filter_map("values fit the operator", |(key, operator, values)| {
                LabelRequirement::new(key, operator, values).ok()
            })
    }

    proptest! {
        #[test]
        fn an_index_finds_whom_a_selector_matches(
            fleet in vec(btree_map("[abc]", "[0-4x]", 0..4), 0..140),
            requirements in vec(requirement(), 0..4),
        ) {
            let index = LabelIndex::new(fleet.iter());
            for selector in [LabelSelector::of(requirements), LabelSelector::Nothing] {
                let found = index.matching(&selector);
                for (number, labels) in (0..).zip(&fleet) {
                    let is_found = found.as_ref().is_none_or(|found| found.contains(number));
                    prop_assert_eq!(is_found, selector.matches(labels), "{} {:?}", selector, labels);
                }
            }
        }
    }
}
