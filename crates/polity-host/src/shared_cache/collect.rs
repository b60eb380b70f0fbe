//! What may go from the cache. The plan is a function of what lies there, of what is needed and of the time.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use polity_fetch::Digest;

use super::disk::{CacheError, Disk, Entry, What};
use super::layout::{self, Form};

/// What nobody refers to may be something that is about to be referred to.
const GRACE: SignedDuration = SignedDuration::from_hours(1);

/// What is needed of the cache, read from revisions that are known to be complete.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Demand {
    /// Every module of every revision of this server.
    pub references: Vec<Reference>,
    /// Whether every replica runs this version of the server: code of others is not needed any more.
    pub rollout_complete: bool,
}

/// A module that a revision refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The module.
    pub digest: Digest,
    /// Whether the revision is enabled. One that is not keeps only `original.wasm`, to return to.
    pub enabled: bool,
}

/// What was collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Collected {
    /// How many files went.
    pub files: usize,
    /// How many empty directories went.
    pub directories: usize,
    /// Whether everything went that was to go: false when the caller said stop.
    pub finished: bool,
}

/// What is to go, in this order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan<'a> {
    files: Vec<&'a Entry>,
    directories: Vec<&'a Entry>,
}

/// Decides what goes.
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

    // A directory with something below it stays, and so does one that was just made for something to come.
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

/// Carries a plan out. Before each step the caller is asked whether it may go on; what cannot be removed does not keep
/// the rest.
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
            // Not ours: somebody else's files on the volume are somebody else's business.
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
