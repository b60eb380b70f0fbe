//! Plans which files of the cache are removed. The plan is a function of the files, the demand and the time.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use polity_fetch::Digest;

use super::disk::{CacheError, Disk, Entry, What};
use super::layout::{self, Form};

/// The minimum age of a file before it is removed: a new file may belong to a revision that is not recorded yet.
const GRACE: SignedDuration = SignedDuration::from_hours(1);

/// The modules that are needed, from a complete list of revisions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Demand {
    /// The modules of all revisions of this server.
    pub references: Vec<Reference>,
    /// Whether every replica runs this version: then code of other versions is not needed.
    pub rollout_complete: bool,
}

/// A module that a revision refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The module.
    pub digest: Digest,
    /// Whether the revision is enabled. A disabled one keeps only `original.wasm`, for a rollback.
    pub enabled: bool,
}

/// The outcome of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collected {
    /// How many files were removed.
    pub files: usize,
    /// How many empty directories were removed.
    pub directories: usize,
    /// Whether the plan was completed; false if the caller stopped it.
    pub finished: bool,
}

/// The entries to remove, in this order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan<'a> {
    files: Vec<&'a Entry>,
    directories: Vec<&'a Entry>,
}

/// Plans which entries are removed.
pub(super) fn plan<'a>(
    listing: &'a [Entry],
    demand: &Demand,
    server_version: &str,
    now: Timestamp,
) -> Plan<'a> {
    let needs = Needs::of(demand, server_version);
    let is_old = |entry: &Entry| now.duration_since(entry.modified) > GRACE;
    let (files, kept): (Vec<&Entry>, Vec<&Entry>) = listing
        .iter()
        .filter(|entry| entry.what != What::Directory)
        .partition(|entry| match needs.verdict(entry) {
            Verdict::Keep => false,
            Verdict::GoWhenOld => is_old(entry),
            Verdict::Go => true,
        });

    // A directory with entries stays, and so does a new one, which a writer may be about to use.
    let fresh = listing
        .iter()
        .filter(|entry| entry.what == What::Directory && !is_old(entry));
    let mut needed: BTreeSet<&[String]> = BTreeSet::new();
    for entry in kept.into_iter().chain(fresh) {
        needed.extend((0..=entry.path.len()).map(|depth| &entry.path[..depth]));
    }
    let mut directories: Vec<&Entry> = listing
        .iter()
        .filter(|entry| entry.what == What::Directory && !needed.contains(&entry.path[..]))
        .collect();
    directories.sort_by_key(|entry| std::cmp::Reverse(entry.path.len()));
    Plan { files, directories }
}

/// Executes a plan. Before each step the caller may stop it. An entry that cannot be removed does not stop the rest.
pub(super) fn carry_out(
    plan: &Plan<'_>,
    disk: &Disk,
    mut may_go_on: impl FnMut() -> bool,
) -> Result<Collected, CacheError> {
    let mut collected = Collected::default();
    let mut first_error = None;
    for entry in plan.files.iter().chain(&plan.directories) {
        if !may_go_on() {
            return first_error.map_or(Ok(collected), Err);
        }
        match disk.remove(entry) {
            Ok(false) => {}
            Ok(true) if entry.what == What::Directory => collected.directories += 1,
            Ok(true) => collected.files += 1,
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    collected.finished = true;
    first_error.map_or(Ok(collected), Err)
}

enum Verdict {
    Keep,
    GoWhenOld,
    Go,
}

/// The demand, by the names of directories.
struct Needs<'a> {
    /// Whether native code is needed too, by the directory of the digest.
    modules: BTreeMap<String, bool>,
    /// The only version whose code is needed; none while versions run side by side.
    only_version: Option<&'a str>,
}

impl<'a> Needs<'a> {
    fn of(demand: &Demand, server_version: &'a str) -> Self {
        let mut modules = BTreeMap::new();
        for reference in &demand.references {
            let directory = layout::digest_directory(&reference.digest);
            *modules.entry(directory).or_default() |= reference.enabled;
        }
        Self {
            modules,
            only_version: demand.rollout_complete.then_some(server_version),
        }
    }

    fn verdict(&self, entry: &Entry) -> Verdict {
        if entry.what == What::Foreign {
            return Verdict::Keep;
        }
        if entry.path.iter().any(|name| layout::is_temporary(name)) {
            return Verdict::GoWhenOld;
        }
        let [.., directory, name] = &entry.path[..] else {
            return Verdict::Keep;
        };
        let form = Form::of_name(layout::without_signature(name));
        match (form, self.modules.get(directory)) {
            // Not a file of the cache: files of other programs on the volume stay.
            (None, _) => Verdict::Keep,
            (Some(_), _) if !layout::is_digest_directory(directory) => Verdict::Keep,
            (Some(_), None) => Verdict::GoWhenOld,
            (Some(Form::Original), Some(_)) => Verdict::Keep,
            (Some(Form::Optimized { .. }), Some(false)) => Verdict::Go,
            (Some(Form::Optimized { server_version, .. }), Some(true)) => match self.only_version {
                Some(ours) if ours != server_version => Verdict::Go,
                _ => Verdict::Keep,
            },
        }
    }
}

#[cfg(test)]
mod tests;
