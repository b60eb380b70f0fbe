//! The plan: the writes after which the public reports of a namespace contain the folded entries.
//! See docs/spec/reports.md#7-4.
//!
//! Equal but for times and the way things were found: no request at all, since every write costs each reader a read
//! and a rewrite of its tables. Objects of other producers share the kinds and are never touched.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;

use crate::dress::weight;
use crate::entry::{Outcome, PublicEntry, ResourceRef, Stamp, Summary};
use crate::fold::Folded;
use crate::policy_set::PolicySet;
use crate::public::{PublicReport, ReportGroup};
use crate::read::Metadata;
use crate::source::{ReportKey, is_own_key};
use crate::split::{Chunks, Limits, split};

/// Annotation on every chunk: how many the entries are spread over. Absent when it is one.
pub const CHUNKS_ANNOTATION: &str = "reports.polity.dev/chunks";
/// The label value of a chunk whose entries come from several versions of a policy.
pub const MIXED_VERSIONS: &str = "mixed";

/// Room in an object for the digits of its summary and the number of its chunk.
const SPARE_BYTES: usize = 256;

/// How public reports are laid out; one way at a time, since readers take ids to be unique over all reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Layout {
    /// One report for each namespace and policy.
    #[default]
    Policy,
    /// One report for each object, named by its uid and owned by it, as some dashboards need it.
    Resource,
}

/// How reports are published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The value of the managed-by label; what carries another is not ours.
    pub managed_by: String,
    /// The `source` of every entry.
    pub source: String,
    pub group: ReportGroup,
    pub layout: Layout,
    pub limits: Limits,
    /// Only these outcomes are published.
    pub kept: BTreeSet<Outcome>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            managed_by: "polity".to_owned(),
            source: "polity".to_owned(),
            group: ReportGroup::default(),
            layout: Layout::default(),
            limits: Limits::default(),
            kept: Outcome::ALL.into(),
        }
    }
}

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    Create(PublicReport),
    /// A replacement that carries the resourceVersion of what it replaces.
    Put(PublicReport),
    Delete(Doomed),
}

/// An object to delete, if it is still the one that was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Doomed {
    pub group: ReportGroup,
    pub namespace: Option<String>,
    pub name: String,
    pub resource_version: Option<String>,
}

/// What to write in a namespace (none: cluster-scoped objects), given what is stored there in both groups.
/// Deletions come last.
pub fn plan(
    namespace: Option<&str>,
    folded: Folded,
    policies: &PolicySet,
    stored: &[PublicReport],
    settings: &Settings,
    now: Timestamp,
) -> Vec<Write> {
    let wanted = Wanted {
        namespace,
        policies,
        stored,
        settings,
    };
    let folded = kept(folded, &settings.kept);
    let reports = match settings.layout {
        Layout::Policy => wanted.by_policy(folded),
        Layout::Resource => wanted.by_resource(folded),
    };
    wanted.difference(reports, now)
}

/// The entries that are published at all.
fn kept(folded: Folded, outcomes: &BTreeSet<Outcome>) -> Folded {
    if outcomes.len() == Outcome::ALL.len() {
        return folded;
    }
    let is_kept = |entry: &PublicEntry| {
        entry
            .result
            .is_some_and(|result| outcomes.contains(&result))
    };
    folded
        .into_iter()
        .map(|(key, mut entries)| {
            entries.retain(is_kept);
            (key, entries)
        })
        .collect()
}

struct Wanted<'a> {
    namespace: Option<&'a str>,
    policies: &'a PolicySet,
    stored: &'a [PublicReport],
    settings: &'a Settings,
}

impl Wanted<'_> {
    fn by_policy(&self, folded: Folded) -> Vec<PublicReport> {
        let first_chunks: BTreeMap<String, &ReportKey> = self
            .policies
            .keys()
            .map(|key| (key.plain_object_name(0), key))
            .collect();
        let foreign: BTreeSet<&str> = self
            .stored
            .iter()
            .filter(|report| report.group == self.settings.group && !self.is_ours(report))
            .map(|report| report.metadata.name.as_str())
            .collect();
        let mut reports = Vec::new();
        for (key, entries) in folded {
            let is_taken = |name: &str| {
                foreign.contains(name) || first_chunks.get(name).is_some_and(|owner| **owner != key)
            };
            let envelope = self.empty(String::new(), &key, "", 2);
            let Chunks { n_chunks, chunks } = split(
                entries,
                &self.settings.limits,
                weight(&envelope) + key.plain_object_name(0).len() + SPARE_BYTES,
                self.stored_chunks(&key),
            );
            for (chunk, entries) in chunks {
                let name = key.object_name(chunk, is_taken);
                let mut report = self.empty(name, &key, version_of(&entries), n_chunks);
                report.summary = Summary::of(&entries);
                report.entries = entries;
                reports.push(report);
            }
        }
        reports
    }

    /// The form for dashboards that want a report about an object: `scope` in place of `resources`.
    fn by_resource(&self, folded: Folded) -> Vec<PublicReport> {
        let mut by_uid: BTreeMap<String, (ResourceRef, Vec<PublicEntry>)> = BTreeMap::new();
        for (key, entries) in folded {
            let unique_name = key
                .policy_in(self.namespace)
                .map_or_else(|_| key.to_string(), |policy| policy.unique_name());
            for mut entry in entries {
                let Some(resource) = entry.resources.pop() else {
                    continue;
                };
                entry.policy.clone_from(&unique_name);
                by_uid
                    .entry(resource.uid.clone())
                    .or_insert_with(|| (resource, Vec::new()))
                    .1
                    .push(entry);
            }
        }
        by_uid
            .into_iter()
            .filter(|(uid, _)| !uid.is_empty())
            .map(|(uid, (resource, mut entries))| {
                entries.sort_by(PublicEntry::report_order);
                let mut report = self.blank(uid);
                report.metadata.labels.insert(
                    "kubewarden.io/policyreport-version".to_owned(),
                    "v2".to_owned(),
                );
                report.metadata.owners = vec![ResourceRef {
                    namespace: String::new(),
                    ..resource.clone()
                }];
                report.scope = Some(resource);
                report.summary = Summary::of(&entries);
                report.entries = entries;
                self.shorten(&mut report);
                report
            })
            .collect()
    }

    /// An object's report cannot be split: if thousands of policies have much to say, they say it in fewer words.
    fn shorten(&self, report: &mut PublicReport) {
        let mut longest = crate::entry::TEXT_MAX;
        while weight(report) > self.settings.limits.max_bytes() && longest > 0 {
            longest /= 2;
            for entry in &mut report.entries {
                let message = std::mem::take(&mut entry.message);
                entry.message = match longest {
                    0..16 => String::new(),
                    _ => crate::entry::cut(message, longest),
                };
                if longest < 16 {
                    entry
                        .properties
                        .retain(|name, _| name == "policy-name" || name == "policy-kind");
                }
            }
        }
    }

    fn blank(&self, name: String) -> PublicReport {
        let settings = self.settings;
        let is_open = settings.group == ReportGroup::OpenReports;
        let is_filtered = settings.kept.len() < Outcome::ALL.len();
        PublicReport {
            group: settings.group,
            metadata: Metadata {
                namespace: self.namespace.map(str::to_owned),
                name,
                labels: BTreeMap::from([(
                    crate::MANAGED_BY.to_owned(),
                    settings.managed_by.clone(),
                )]),
                ..Metadata::default()
            },
            scope: None,
            has_scope_selector: false,
            source: if is_open {
                settings.source.clone()
            } else {
                String::new()
            },
            status_filter: if is_open && is_filtered {
                settings.kept.iter().copied().collect()
            } else {
                Vec::new()
            },
            summary: Summary::default(),
            entries: Vec::new(),
        }
    }

    fn empty(&self, name: String, key: &ReportKey, version: &str, n_chunks: u32) -> PublicReport {
        let mut report = self.blank(name);
        let metadata = &mut report.metadata;
        metadata.labels.insert(key.label_key(), version.to_owned());
        metadata.annotations.extend(key.full_name());
        if n_chunks > 1 {
            metadata
                .annotations
                .insert(CHUNKS_ANNOTATION.to_owned(), n_chunks.to_string());
        }
        report
    }

    fn is_ours(&self, report: &PublicReport) -> bool {
        report.metadata.labels.get(crate::MANAGED_BY) == Some(&self.settings.managed_by)
    }

    /// Over how many chunks a policy's entries are spread as things stand.
    fn stored_chunks(&self, key: &ReportKey) -> u32 {
        let label = key.label_key();
        let annotated = |report: &PublicReport| -> u32 {
            let count = report.metadata.annotations.get(CHUNKS_ANNOTATION);
            count.and_then(|count| count.parse().ok()).unwrap_or(1)
        };
        self.stored
            .iter()
            .filter(|report| self.is_ours(report) && report.metadata.labels.contains_key(&label))
            .map(annotated)
            .max()
            .unwrap_or(1)
    }

    fn difference(&self, reports: Vec<PublicReport>, now: Timestamp) -> Vec<Write> {
        let ours = || self.stored.iter().filter(|report| self.is_ours(report));
        let by_name: HashMap<&str, &PublicReport> = ours()
            .filter(|report| report.group == self.settings.group)
            .map(|report| (report.metadata.name.as_str(), report))
            .collect();
        let mut published = None;
        let mut expected = BTreeSet::new();
        let mut writes = Vec::new();
        for mut report in reports {
            expected.insert(report.metadata.name.clone());
            let stored = by_name.get(report.metadata.name.as_str()).copied();
            if let Some(stored) = stored {
                keep_foreign(&mut report.metadata, &stored.metadata);
                if is_equal(&report, stored) {
                    continue;
                }
            }
            let published = published.get_or_insert_with(|| Published::of(ours()));
            for entry in &mut report.entries {
                published.remember(entry, report.scope.as_ref(), now);
            }
            writes.push(match stored {
                Some(stored) => {
                    report
                        .metadata
                        .resource_version
                        .clone_from(&stored.metadata.resource_version);
                    Write::Put(report)
                }
                None => Write::Create(report),
            });
        }
        let doomed = ours().filter(|report| {
            report.group != self.settings.group || !expected.contains(&report.metadata.name)
        });
        writes.extend(doomed.map(|report| {
            Write::Delete(Doomed {
                group: report.group,
                namespace: report.metadata.namespace.clone(),
                name: report.metadata.name.clone(),
                resource_version: report.metadata.resource_version.clone(),
            })
        }));
        writes
    }
}

/// The version that all entries of a chunk come from.
fn version_of(entries: &[PublicEntry]) -> &str {
    let mut versions = entries.iter().map(|entry| {
        entry
            .properties
            .get("policy-resource-version")
            .map_or("", String::as_str)
    });
    let first = versions.next().unwrap_or_default();
    if versions.all(|version| version == first) {
        first
    } else {
        MIXED_VERSIONS
    }
}

/// Labels and annotations of others survive; ours are replaced as a whole.
fn keep_foreign(wanted: &mut Metadata, stored: &Metadata) {
    let is_foreign =
        |key: &str| !is_own_key(key) && key != crate::MANAGED_BY && key != CHUNKS_ANNOTATION;
    let maps = [
        (&mut wanted.labels, &stored.labels),
        (&mut wanted.annotations, &stored.annotations),
    ];
    for (wanted, stored) in maps {
        for (key, value) in stored {
            if is_foreign(key) && !wanted.contains_key(key) {
                wanted.insert(key.clone(), value.clone());
            }
        }
    }
}

fn is_equal(wanted: &PublicReport, stored: &PublicReport) -> bool {
    wanted.metadata.labels == stored.metadata.labels
        && wanted.metadata.annotations == stored.metadata.annotations
        && wanted.metadata.owners == stored.metadata.owners
        && wanted.scope == stored.scope
        && !stored.has_scope_selector
        && wanted.source == stored.source
        && wanted.status_filter == stored.status_filter
        && wanted.summary == stored.summary
        && wanted.entries.len() == stored.entries.len()
        && wanted
            .entries
            .iter()
            .zip(&stored.entries)
            .all(|(wanted, stored)| wanted.says_the_same(stored))
}

/// What is published now, by policy, rule and object, wherever it stands.
struct Published<'a> {
    entries: Vec<&'a PublicEntry>,
    by_identity: HashMap<[&'a str; 4], usize>,
}

impl<'a> Published<'a> {
    fn of(reports: impl Iterator<Item = &'a PublicReport>) -> Self {
        let mut entries = Vec::new();
        let mut by_identity = HashMap::new();
        for report in reports {
            for entry in &report.entries {
                by_identity.insert(identity(entry, report.scope.as_ref()), entries.len());
                entries.push(entry);
            }
        }
        Self {
            entries,
            by_identity,
        }
    }

    /// An entry that says what it said before keeps its time and the way it was found.
    fn remember(&self, entry: &mut PublicEntry, scope: Option<&ResourceRef>, now: Timestamp) {
        let found = self.by_identity.get(&identity(entry, scope)).copied();
        let stored = found.map(|index| self.entries[index]);
        if let Some(stored) = stored.filter(|stored| stored.says_the_same(entry)) {
            entry.timestamp = stored.timestamp;
            if let Some(process) = stored.properties.get("process") {
                entry
                    .properties
                    .insert("process".to_owned(), process.clone());
            }
        }
        // One that never had a time, or lost it, appears now.
        let is_timed = entry
            .timestamp
            .is_some_and(|stamp| stamp != Stamp::default());
        if !is_timed {
            entry.timestamp = Some(now.into());
        }
    }
}

fn identity<'a>(entry: &'a PublicEntry, scope: Option<&'a ResourceRef>) -> [&'a str; 4] {
    let uid = match scope {
        Some(scope) => &scope.uid,
        None => entry.uid(),
    };
    let kind = entry
        .properties
        .get("policy-kind")
        .map_or("", String::as_str);
    [kind, &entry.policy, &entry.rule, uid]
}
