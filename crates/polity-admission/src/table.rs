//! What is served: policies by id, immutable and swapped whole.

use std::collections::HashMap;
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
/// A table of files has one under each id; one of revisions will have several, told apart by their
/// generation.
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
    by_id: HashMap<Arc<str>, Arc<Served>>,
    n_policies: usize,
    n_failed: usize,
}

impl PolicyTable {
    /// A table of prepared policies, those that failed among them. Members of groups are found under
    /// `group/member` too.
    pub fn new(prepared: impl IntoIterator<Item = Prepared>) -> Self {
        let mut table = Self::default();
        for entry in prepared {
            table.add(entry);
        }
        table
    }

    fn add(&mut self, Prepared { id, config, policy }: Prepared) {
        self.n_policies += 1;
        self.n_failed += usize::from(policy.is_err());
        let id: Arc<str> = id.into();
        let (mode, members) = match &config {
            PolicyConfig::Single(single) => (single.mode, None),
            PolicyConfig::Group(group) => (group.mode, Some(&group.members)),
        };
        for name in members.into_iter().flat_map(|members| members.keys()) {
            let member = match &policy {
                // A group that is ready has all its members.
                Ok(group) => group.member(name).ok_or_else(String::new),
                Err(error) => Err(error.to_string()),
            };
            self.insert(Served {
                id: format!("{id}/{name}").into(),
                lane: id.clone(),
                mode: Mode::Protect,
                policy: member,
            });
        }
        self.insert(Served {
            lane: id.clone(),
            id,
            mode,
            policy: policy.map_err(|error| error.to_string()),
        });
    }

    fn insert(&mut self, served: Served) {
        self.by_id.insert(served.id.clone(), Arc::new(served));
    }

    /// The policy with an id, `policy` or `group/member`.
    pub fn find(&self, id: &str, generation: Generation) -> Result<Arc<Served>, NotServed> {
        if id.bytes().filter(|byte| *byte == b'/').count() > 1 {
            return Err(NotServed::Malformed);
        }
        match generation {
            Generation::Serving => self.by_id.get(id).cloned().ok_or(NotServed::Unknown),
            // Files have no generations.
            Generation::Exactly(_) => Err(NotServed::Unknown),
        }
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
        self.by_id.values().map(|served| &**served)
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
    fn a_table_of_files_has_no_generations() {
        let found = failed_table().find("p", Generation::Exactly(1));
        assert_eq!(found.unwrap_err(), NotServed::Unknown);
    }
}
