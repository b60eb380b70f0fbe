//! What is served: policies by id, immutable and swapped whole.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use polity_eval::{InitError, Mode, Policy, PolicyConfig};

/// A policy under its id, ready or not.
#[derive(Debug)]
pub struct Served {
    /// What metrics and logs call it: for a member of a group `group/member`.
    pub id: Arc<str>,
    /// Whose turn it is when many wait: for a member, its group's.
    pub lane: Arc<str>,
    /// What happens with its verdict.
    pub mode: Mode,
    /// The policy, or what its callers read instead of a verdict.
    pub policy: Result<Policy, String>,
}

/// Which of the policies under an id is asked for.
///
/// A table of files has one under each id; one of revisions has several, told apart by their generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// The one that serves.
    Serving,
    /// This one and no other.
    Exactly(u64),
}

/// Why there is no such policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotServed {
    /// Nothing is called so.
    Unknown,
    /// No policy can be called so: members have no members.
    Malformed,
}

/// Everything that is served at a time.
#[derive(Debug, Default)]
pub struct PolicyTable {
    by_id: HashMap<Arc<str>, Shelf>,
    n_policies: usize,
    n_failed: usize,
}

/// All that is found under one id.
#[derive(Debug, Default)]
struct Shelf {
    serving: Option<Arc<Served>>,
    by_generation: BTreeMap<u64, Arc<Served>>,
}

/// A policy as it is served, with its members.
#[derive(Debug, Clone)]
pub(crate) struct Whole {
    policy: Arc<Served>,
    members: Vec<(String, Arc<Served>)>,
}

/// Where a generation of a policy is found.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    /// The spellings of its id.
    pub(crate) ids: Vec<Arc<str>>,
    pub(crate) generation: u64,
    /// Whether it is the one that is meant where no generation is named.
    pub(crate) is_serving: bool,
    pub(crate) whole: &'a Whole,
}

impl PolicyTable {
    /// A table of prepared policies, those that failed among them. Members of groups are found under
    /// `group/member` too.
    pub fn new(prepared: impl IntoIterator<Item = Prepared>) -> Self {
        let mut table = Self::default();
        for Prepared { id, config, policy } in prepared {
            table.n_policies += 1;
            table.n_failed += usize::from(policy.is_err());
            let id: Arc<str> = id.into();
            let policy = policy.map_err(|error| error.to_string());
            let whole = Whole::new(id.clone(), &config, policy);
            for (id, served) in whole.under(&id) {
                table.by_id.entry(id).or_default().serving = Some(served);
            }
        }
        table
    }

    /// A table of generations.
    pub(crate) fn of_generations<'a>(places: impl IntoIterator<Item = Place<'a>>) -> Self {
        let mut table = Self::default();
        for place in places {
            table.n_policies += 1;
            for (id, served) in place.ids.iter().flat_map(|id| place.whole.under(id)) {
                let shelf = table.by_id.entry(id).or_default();
                if place.is_serving {
                    shelf.serving = Some(served.clone());
                }
                shelf.by_generation.insert(place.generation, served);
            }
        }
        table
    }

    /// The policy with an id, `policy` or `group/member`.
    pub fn find(&self, id: &str, generation: Generation) -> Result<Arc<Served>, NotServed> {
        if id.bytes().filter(|byte| *byte == b'/').count() > 1 {
            return Err(NotServed::Malformed);
        }
        let shelf = self.by_id.get(id).ok_or(NotServed::Unknown)?;
        let found = match generation {
            Generation::Serving => shelf.serving.as_ref(),
            Generation::Exactly(generation) => shelf.by_generation.get(&generation),
        };
        found.cloned().ok_or(NotServed::Unknown)
    }

    /// How many policies there are, groups counted as one.
    pub fn n_policies(&self) -> usize {
        self.n_policies
    }

    /// How many of them are not ready.
    pub fn n_failed(&self) -> usize {
        self.n_failed
    }

    /// Every policy and member.
    pub fn served(&self) -> impl Iterator<Item = &Served> {
        self.by_id.values().flat_map(|shelf| {
            let by_generation = shelf.by_generation.values();
            // What serves among generations is one of them.
            let serving = shelf
                .serving
                .iter()
                .filter(|_| shelf.by_generation.is_empty());
            by_generation.chain(serving).map(|served| &**served)
        })
    }
}

impl Whole {
    /// A policy with an id, or what its callers read instead of a verdict.
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

    /// It and its members, each with the name it has under an id.
    fn under(&self, id: &Arc<str>) -> impl Iterator<Item = (Arc<str>, Arc<Served>)> {
        let members = self.members.iter().map(move |(name, served)| {
            let id: Arc<str> = format!("{id}/{name}").into();
            (id, served.clone())
        });
        std::iter::once((id.clone(), self.policy.clone())).chain(members)
    }
}

/// A policy with what it was made from.
#[derive(Debug)]
pub struct Prepared {
    /// Its id.
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
        let whole = |reason: &str| Whole::new("g".into(), config, Err(reason.to_owned()));
        let (old, new) = (whole("old"), whole("new"));
        let place = |generation, whole, is_serving| Place {
            ids: vec!["g".into(), "kw.g".into()],
            generation,
            is_serving,
            whole,
        };
        let table = PolicyTable::of_generations([place(1, &old, true), place(2, &new, false)]);
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

        let table = PolicyTable::of_generations([place(1, &old, false)]);
        let found = table.find("g", Generation::Serving);
        assert_eq!(found.unwrap_err(), NotServed::Unknown, "nothing serves yet");
    }

    #[test]
    fn a_table_of_files_has_no_generations() {
        let found = failed_table().find("p", Generation::Exactly(1));
        assert_eq!(found.unwrap_err(), NotServed::Unknown);
    }
}
