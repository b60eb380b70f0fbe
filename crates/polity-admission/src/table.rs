//! The policies that are served, by id. The table is immutable and swapped as a whole.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use polity_eval::{InitError, Mode, Policy, PolicyConfig};

/// One policy, or one member of a group, as requests find it.
#[derive(Debug)]
pub struct Served {
    /// Its id in metrics and logs; for a member of a group `group/member`.
    pub id: Arc<str>,
    /// The queue that its requests wait in: its id, or for a member the id of the group.
    pub lane: Arc<str>,
    /// Whether its verdict is enforced or only recorded.
    pub mode: Mode,
    /// The policy, or the message that callers get instead of a verdict.
    pub policy: Result<Policy, String>,
}

/// Which generation of a policy a request asks for.
///
/// A table made from a file has one generation of each policy; a table made from revisions may have several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// The generation that serves.
    Serving,
    /// This generation and no other.
    Exactly(u64),
}

/// Why a lookup found no policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotServed {
    /// No policy has this id.
    Unknown,
    /// No policy can have this id: members have no members.
    Malformed,
}

/// All policies that are served at a time.
#[derive(Debug, Default)]
pub struct PolicyTable {
    by_id: HashMap<Arc<str>, Generations>,
    n_policies: usize,
    n_failed: usize,
}

/// The generations of the policy with one id.
#[derive(Debug, Default)]
struct Generations {
    serving: Option<Arc<Served>>,
    by_generation: BTreeMap<u64, Arc<Served>>,
}

/// A policy with the members of its group, ready to be put into a table.
#[derive(Debug, Clone)]
pub(crate) struct PolicyEntry {
    policy: Arc<Served>,
    members: Vec<(String, Arc<Served>)>,
}

/// A generation of a policy, and the ids that lead to it.
#[derive(Debug)]
pub(crate) struct RoutedPolicy<'a> {
    /// The spellings of its id.
    pub(crate) ids: Vec<Arc<str>>,
    pub(crate) generation: u64,
    /// Whether requests that name no generation get this one.
    pub(crate) is_serving: bool,
    pub(crate) entry: &'a PolicyEntry,
}

impl PolicyTable {
    /// A table of prepared policies, including those that failed. Members of groups are also found under `group/member`.
    pub fn new(prepared: impl IntoIterator<Item = Prepared>) -> Self {
        let mut table = Self::default();
        for Prepared { id, config, policy } in prepared {
            table.n_policies += 1;
            table.n_failed += usize::from(policy.is_err());
            let id: Arc<str> = id.into();
            let policy = policy.map_err(|error| error.to_string());
            let entry = PolicyEntry::new(id.clone(), &config, policy);
            for (id, served) in entry.under(&id) {
                table.by_id.entry(id).or_default().serving = Some(served);
            }
        }
        table
    }

    /// A table that may have several generations of each policy.
    pub(crate) fn of_generations<'a>(policies: impl IntoIterator<Item = RoutedPolicy<'a>>) -> Self {
        let mut table = Self::default();
        for policy in policies {
            table.n_policies += 1;
            for (id, served) in policy.ids.iter().flat_map(|id| policy.entry.under(id)) {
                let generations = table.by_id.entry(id).or_default();
                if policy.is_serving {
                    generations.serving = Some(served.clone());
                }
                generations.by_generation.insert(policy.generation, served);
            }
        }
        table
    }

    /// The policy with an id, `policy` or `group/member`.
    pub fn find(&self, id: &str, generation: Generation) -> Result<Arc<Served>, NotServed> {
        if id.bytes().filter(|byte| *byte == b'/').count() > 1 {
            return Err(NotServed::Malformed);
        }
        let generations = self.by_id.get(id).ok_or(NotServed::Unknown)?;
        let found = match generation {
            Generation::Serving => generations.serving.as_ref(),
            Generation::Exactly(generation) => generations.by_generation.get(&generation),
        };
        found.cloned().ok_or(NotServed::Unknown)
    }

    /// The number of policies; a group counts as one.
    pub fn n_policies(&self) -> usize {
        self.n_policies
    }

    /// The number of policies that are not ready.
    pub fn n_failed(&self) -> usize {
        self.n_failed
    }

    /// All policies and members.
    pub fn served(&self) -> impl Iterator<Item = &Served> {
        self.by_id.values().flat_map(|generations| {
            let by_generation = generations.by_generation.values();
            // Among generations, the one that serves is counted already.
            let serving = generations
                .serving
                .iter()
                .filter(|_| generations.by_generation.is_empty());
            by_generation.chain(serving).map(|served| &**served)
        })
    }
}

impl PolicyEntry {
    /// An entry for a policy, or for the message that callers get instead of a verdict.
    pub(crate) fn new(id: Arc<str>, config: &PolicyConfig, policy: Result<Policy, String>) -> Self {
        let (mode, names) = match config {
            PolicyConfig::Single(single) => (single.mode, Vec::new()),
            PolicyConfig::Group(group) => (group.mode, group.members.keys().collect()),
        };
        let members = names.into_iter().map(|name| {
            let member = match &policy {
                // A group that is ready has all its members.
                Ok(group) => group.member(name).ok_or_else(String::new),
                Err(error) => Err(error.clone()),
            };
            let served = Served {
                id: format!("{id}/{name}").into(),
                lane: id.clone(),
                mode: Mode::Protect,
                policy: member,
            };
            (name.clone(), Arc::new(served))
        });
        Self {
            members: members.collect(),
            policy: Arc::new(Served {
                lane: id.clone(),
                id,
                mode,
                policy,
            }),
        }
    }

    /// The policy itself, if it is ready.
    pub(crate) fn policy(&self) -> Option<&Policy> {
        self.policy.policy.as_ref().ok()
    }

    /// The policy and its members, each with its full id.
    fn under(&self, id: &Arc<str>) -> impl Iterator<Item = (Arc<str>, Arc<Served>)> {
        let members = self.members.iter().map(move |(name, served)| {
            let id: Arc<str> = format!("{id}/{name}").into();
            (id, served.clone())
        });
        std::iter::once((id.clone(), self.policy.clone())).chain(members)
    }
}

/// A policy and the configuration that it was made from.
#[derive(Debug)]
pub struct Prepared {
    /// The id of the policy.
    pub id: String,
    /// Its entry in the file.
    pub config: PolicyConfig,
    /// The policy, or why it is not ready.
    pub policy: Result<Policy, InitError>,
}

#[cfg(test)]
mod tests {
    use polity_eval::parse_policies;

    use super::*;

    fn failed_table() -> PolicyTable {
        let file = "p: {module: x, policyMode: monitor}
g: {expression: 'm()', message: refused, policies: {m: {module: x}}}";
        let prepared = parse_policies(file)
            .unwrap()
            .into_iter()
            .map(|(id, config)| {
                let policy = Err(InitError::Settings(format!("{id} is bad")));
                Prepared { id, config, policy }
            });
        PolicyTable::new(prepared)
    }

    #[test]
    fn ids_and_members_are_found() {
        let table = failed_table();
        for (id, expected) in [
            ("p", Ok(("p", "p", Mode::Monitor))),
            ("g", Ok(("g", "g", Mode::Protect))),
            ("g/m", Ok(("g/m", "g", Mode::Protect))),
            ("g/x", Err(NotServed::Unknown)),
            ("p/m", Err(NotServed::Unknown)),
            ("", Err(NotServed::Unknown)),
            ("a/b/c", Err(NotServed::Malformed)),
        ] {
            let found = table.find(id, Generation::Serving);
            let found = found
                .as_ref()
                .map(|served| (&*served.id, &*served.lane, served.mode))
                .map_err(|error| *error);
            assert_eq!(found, expected, "{id}");
        }
        assert_eq!((table.n_policies(), table.n_failed()), (2, 2));
        assert_eq!(table.served().count(), 3);
    }

    #[test]
    fn generations_are_told_apart() {
        let config =
            &parse_policies("g: {expression: 'm()', message: refused, policies: {m: {module: x}}}")
                .unwrap()["g"];
        let entry = |reason: &str| PolicyEntry::new("g".into(), config, Err(reason.to_owned()));
        let (old, new) = (entry("old"), entry("new"));
        let routed = |generation, entry, is_serving| RoutedPolicy {
            ids: vec!["g".into(), "kw.g".into()],
            generation,
            is_serving,
            entry,
        };
        let table = PolicyTable::of_generations([routed(1, &old, true), routed(2, &new, false)]);
        for (id, generation, expected) in [
            ("g", Generation::Serving, Ok("g old")),
            ("g", Generation::Exactly(1), Ok("g old")),
            ("g", Generation::Exactly(2), Ok("g new")),
            ("g", Generation::Exactly(3), Err(NotServed::Unknown)),
            ("g/m", Generation::Exactly(2), Ok("g/m new")),
            ("kw.g/m", Generation::Exactly(2), Ok("g/m new")),
            ("kw.g", Generation::Serving, Ok("g old")),
            ("x", Generation::Exactly(1), Err(NotServed::Unknown)),
        ] {
            let found = table.find(id, generation).map(|served| {
                let reason = served.policy.as_ref().unwrap_err();
                format!("{} {reason}", served.id)
            });
            assert_eq!(found.as_deref().map_err(|error| *error), expected, "{id}");
        }
        assert_eq!(table.n_policies(), 2);

        let table = PolicyTable::of_generations([routed(1, &old, false)]);
        let found = table.find("g", Generation::Serving);
        assert_eq!(found.unwrap_err(), NotServed::Unknown, "nothing serves yet");
    }

    #[test]
    fn a_table_of_files_has_no_generations() {
        let found = failed_table().find("p", Generation::Exactly(1));
        assert_eq!(found.unwrap_err(), NotServed::Unknown);
    }
}
