//! The fold: resource reports of a namespace, page by page, become the entries of each policy.
//! See docs/spec/reports.md#7-4.
//!
//! The result depends on what was read, not on the order in which it was read.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap, hash_map};

use crate::dress::dress;
use crate::entry::{Entry, PublicEntry, ResourceRef};
use crate::policy_set::PolicySet;
use crate::public::PublicReport;
use crate::resource_report::{HASH_LABEL, ResourceReport, is_current};
use crate::source::ReportKey;

/// Entries of one namespace on their way into public reports.
#[derive(Debug)]
pub struct Fold<'a> {
    policies: &'a PolicySet,
    stored: &'a [PublicReport],
    by_policy: BTreeMap<ReportKey, OfPolicy>,
    n_ignored: usize,
}

/// What one policy says, by rule and uid of the object.
#[derive(Debug)]
struct OfPolicy {
    /// Its annotation, made once and not for every entry.
    hash_key: String,
    candidates: HashMap<(String, String), Candidate>,
}

/// An entry, the object it is about, and whether it was computed for that object as it is now.
#[derive(Debug)]
struct Candidate {
    entry: Entry,
    resource: ResourceRef,
    is_current: bool,
}

/// The public entries of each policy of a namespace, in the order of reports.
pub type Folded = BTreeMap<ReportKey, Vec<PublicEntry>>;

impl<'a> Fold<'a> {
    /// `stored` are the public reports as they stand; they decide between verdicts that are otherwise equal.
    pub fn new(policies: &'a PolicySet, stored: &'a [PublicReport]) -> Self {
        Self {
            policies,
            stored,
            by_policy: BTreeMap::new(),
            n_ignored: 0,
        }
    }

    /// Takes one report. One without exactly one owner is about nothing that can be named, and is ignored.
    pub fn add(&mut self, report: ResourceReport) {
        let ResourceReport { metadata, entries } = report;
        let Ok([owner]) = <[ResourceRef; 1]>::try_from(metadata.owners) else {
            self.n_ignored += 1;
            return;
        };
        let resource = ResourceRef {
            namespace: metadata.namespace.unwrap_or_default(),
            ..owner
        };
        let hash = metadata.labels.get(HASH_LABEL).map_or("", String::as_str);
        for entry in entries.into_values() {
            if self
                .policies
                .reporting(&entry.policy, &entry.rule)
                .is_none()
            {
                continue;
            }
            // The key of the map is cloned only for the first entry of a policy.
            if !self.by_policy.contains_key(&entry.policy) {
                let of_policy = OfPolicy {
                    hash_key: entry.policy.hash_key(),
                    candidates: HashMap::new(),
                };
                self.by_policy.insert(entry.policy.clone(), of_policy);
            }
            let Some(of_policy) = self.by_policy.get_mut(&entry.policy) else {
                continue;
            };
            let annotation = metadata.annotations.get(&of_policy.hash_key);
            let candidate = Candidate {
                is_current: is_current(annotation.map(String::as_str), hash),
                entry,
                resource: resource.clone(),
            };
            of_policy.insert(candidate, self.stored);
        }
    }

    /// Takes a page of reports.
    pub fn add_page(&mut self, page: impl IntoIterator<Item = ResourceReport>) {
        for report in page {
            self.add(report);
        }
    }

    /// How many reports were ignored for want of one owner.
    pub fn n_ignored(&self) -> usize {
        self.n_ignored
    }

    /// The entries of each policy, dressed and in order.
    pub fn finish(self, source: &str) -> Folded {
        let Self {
            policies,
            by_policy,
            ..
        } = self;
        let mut folded = Folded::new();
        for (key, of_policy) in by_policy {
            let Some(meta) = policies.get(&key) else {
                continue;
            };
            let mut entries: Vec<PublicEntry> = of_policy
                .candidates
                .into_values()
                .map(|candidate| dress(candidate.entry, meta, candidate.resource, source))
                .collect();
            entries.sort_unstable_by(PublicEntry::report_order);
            folded.insert(key, entries);
        }
        folded
    }
}

impl OfPolicy {
    fn insert(&mut self, candidate: Candidate, stored: &[PublicReport]) {
        let key = (candidate.entry.rule.clone(), candidate.resource.uid.clone());
        match self.candidates.entry(key) {
            hash_map::Entry::Vacant(vacant) => {
                vacant.insert(candidate);
            }
            hash_map::Entry::Occupied(mut occupied) => {
                if preference(stored, &candidate, occupied.get()) == Ordering::Greater {
                    occupied.insert(candidate);
                }
            }
        }
    }
}

/// Which of two entries under one key counts: the later; of one moment, the one computed for the object as it is,
/// then the one that is published; and if they are equal in all of this, always the same one.
fn preference(stored: &[PublicReport], a: &Candidate, b: &Candidate) -> Ordering {
    let content = |candidate: &Candidate| {
        let Candidate {
            entry, resource, ..
        } = candidate;
        (
            entry.result,
            entry.message.clone(),
            entry.properties.clone(),
            resource.clone(),
        )
    };
    (a.entry.timestamp, a.is_current)
        .cmp(&(b.entry.timestamp, b.is_current))
        .then_with(|| {
            if a.entry == b.entry {
                return Ordering::Equal;
            }
            is_published(stored, a).cmp(&is_published(stored, b))
        })
        .then_with(|| content(a).cmp(&content(b)))
}

fn is_published(stored: &[PublicReport], candidate: &Candidate) -> bool {
    let Candidate {
        entry, resource, ..
    } = candidate;
    let label = entry.policy.label_key();
    stored
        .iter()
        .filter(|report| report.metadata.labels.contains_key(&label))
        .flat_map(|report| &report.entries)
        .any(|public| {
            public.uid() == resource.uid
                && public.rule == entry.rule
                && public.result == Some(entry.result)
                && public.message == entry.message
        })
}
