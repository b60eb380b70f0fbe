//! What things are called: the id of a policy, the names of its revisions and webhooks, and of the objects of a policy
//! server.
//!
//! The classic id joins with dashes what may hold dashes itself, so two policies can come to the same one; the dotted
//! id cannot. [`choose_id`] settles who gets which.

use jiff::Timestamp;
use polity_reconcile::name_hash;

/// How many characters tell the revisions of one policy apart.
const SUFFIX: usize = 10;
/// The longest name of an object.
const NAME_MAX: usize = 253;
/// The longest name of a StatefulSet whose pods can carry `<name>-<hash>` as a label.
const STATEFUL_SET_MAX: usize = 52;
/// The longest value of a label.
const LABEL_MAX: usize = 63;

/// How ids are spelled for policies that have none yet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UniqueNames {
    /// `clusterwide-<name>`, unless another policy has it.
    #[default]
    Classic,
    /// `kw.cap.<name>`.
    Dotted,
}

/// Whose policy it is that wants an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The UID of the policy.
    pub uid: String,
    /// When it was created.
    pub created: Timestamp,
    /// The id on its revisions, if it has any.
    pub recorded: Option<String>,
    /// The id it would have in the classic form.
    pub classic: String,
}

impl Claim {
    /// Older policies come first; of one age, the smaller UID.
    fn is_before(&self, other: &Self) -> bool {
        (self.created, &self.uid) < (other.created, &other.uid)
    }
}

/// The id a policy gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenId {
    /// The id.
    pub id: String,
    /// The UID of the policy that has the classic id instead, if that is why.
    pub taken_by: Option<String>,
}

/// Which id a policy has, or gets with its next revision. An id is for life, but for one case: two policies that claim
/// the same one, where the older keeps it.
///
/// `others` are the other live policies with the same classic id.
pub fn choose_id(claim: &Claim, dotted: String, form: UniqueNames, others: &[Claim]) -> ChosenId {
    let rival = |classic: &str| {
        others
            .iter()
            .filter(|other| other.uid != claim.uid)
            .find(|other| match (&other.recorded, &claim.recorded) {
                // Both have it, or neither has anything yet: the older one keeps it.
                (Some(theirs), Some(_)) => theirs == classic && other.is_before(claim),
                (None, None) => other.classic == classic && other.is_before(claim),
                (Some(theirs), None) => theirs == classic,
                (None, Some(_)) => false,
            })
            .map(|other| other.uid.clone())
    };
    match &claim.recorded {
        Some(recorded) if *recorded != claim.classic => ChosenId {
            id: recorded.clone(),
            taken_by: None,
        },
        None if form == UniqueNames::Dotted => ChosenId {
            id: dotted,
            taken_by: None,
        },
        _ => match rival(&claim.classic) {
            taken_by @ Some(_) => ChosenId {
                id: dotted,
                taken_by,
            },
            None => ChosenId {
                id: claim.classic.clone(),
                taken_by: None,
            },
        },
    }
}

/// The name of a revision: the policy's id and a suffix that follows from UID and generation, so that creating it twice
/// is noticed.
pub fn revision_name(id: &str, policy_uid: &str, generation: i64) -> String {
    let suffix = name_hash(&format!("{policy_uid}/{generation}"), SUFFIX);
    format!("{}-{suffix}", cut(id, NAME_MAX - SUFFIX - 1))
}

/// The name of the one webhook in a policy's configuration.
pub fn webhook_name(id: &str) -> String {
    format!("{id}.kubewarden.admission")
}

/// The path at which a policy server answers for one generation of a policy.
pub fn validate_path(id: &str, generation: i64) -> String {
    format!("/validate/{id}/{generation}")
}

/// The name of the Service, the Secret, the ConfigMap, the Lease and the ServiceAccount of a policy server, and of the
/// Role and RoleBinding of that account.
pub fn policy_server(server: &str) -> String {
    polity_api::policies::names::policy_server(server)
}

/// The name of the ClusterRoleBinding that lets a policy server's own account read the cluster for its policies.
pub fn context_binding(server: &str) -> String {
    format!("kubewarden-context-watcher-{server}")
}

/// The name of the headless Service of a policy server: one that no other server's Service can have.
pub fn peers(server: &str) -> String {
    format!("peers-{server}")
}

/// The name of the Secret with which a policy server signs its cache.
pub fn cache_signer(server: &str) -> String {
    format!("cache-signer-{server}")
}

/// The name of the claim that the replicas of a policy server share.
pub fn cache_claim(server: &str) -> String {
    format!("{}-cache", policy_server(server))
}

/// The name of the StatefulSet of a policy server, cut so that its pods can carry it in a label.
pub fn stateful_set(server: &str) -> String {
    shortened(&policy_server(server), STATEFUL_SET_MAX)
}

/// The value of the label `app` that scripts select pods by.
pub fn app_label(server: &str) -> String {
    shortened(&format!("kubewarden-policy-server-{server}"), LABEL_MAX)
}

/// A name of at most `max` characters: as it is, or cut and with a hash of the whole.
fn shortened(name: &str, max: usize) -> String {
    const HASH: usize = 8;
    if name.len() <= max {
        return name.to_owned();
    }
    format!("{}-{}", cut(name, max - HASH - 1), name_hash(name, HASH))
}

/// At most `max` bytes from the front that still end like a name.
fn cut(name: &str, max: usize) -> &str {
    let mut end = name.len().min(max);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].trim_end_matches(['-', '.'])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claim(uid: &str, at: i64, recorded: Option<&str>) -> Claim {
        Claim {
            uid: uid.into(),
            created: Timestamp::from_second(at).unwrap(),
            recorded: recorded.map(Into::into),
            classic: "clusterwide-x".into(),
        }
    }

    #[test]
    fn who_gets_the_classic_id() {
        const C: &str = "clusterwide-x";
        const D: &str = "kw.cap.x";
        for (case, mine, form, others, expected) in [
            (
                "alone",
                claim("a", 1, None),
                UniqueNames::Classic,
                vec![],
                C,
            ),
            (
                "dotted by flag",
                claim("a", 1, None),
                UniqueNames::Dotted,
                vec![],
                D,
            ),
            (
                "the flag changes no id",
                claim("a", 1, Some(C)),
                UniqueNames::Dotted,
                vec![],
                C,
            ),
            (
                "nor back",
                claim("a", 1, Some(D)),
                UniqueNames::Classic,
                vec![],
                D,
            ),
            (
                "another has it",
                claim("a", 1, None),
                UniqueNames::Classic,
                vec![claim("b", 2, Some(C))],
                D,
            ),
            (
                "another took the dotted one",
                claim("a", 1, None),
                UniqueNames::Classic,
                vec![claim("b", 0, Some(D))],
                C,
            ),
            (
                "created together, older",
                claim("a", 1, None),
                UniqueNames::Classic,
                vec![claim("b", 2, None)],
                C,
            ),
            (
                "created together, younger",
                claim("b", 2, None),
                UniqueNames::Classic,
                vec![claim("a", 1, None)],
                D,
            ),
            (
                "same second, smaller UID",
                claim("a", 1, None),
                UniqueNames::Classic,
                vec![claim("b", 1, None)],
                C,
            ),
            (
                "same second, larger UID",
                claim("b", 1, None),
                UniqueNames::Classic,
                vec![claim("a", 1, None)],
                D,
            ),
            (
                "claimed twice, older",
                claim("a", 1, Some(C)),
                UniqueNames::Classic,
                vec![claim("b", 2, Some(C))],
                C,
            ),
            (
                "claimed twice, younger",
                claim("b", 2, Some(C)),
                UniqueNames::Classic,
                vec![claim("a", 1, Some(C))],
                D,
            ),
            (
                "an older one without revisions comes too late",
                claim("b", 2, Some(C)),
                UniqueNames::Classic,
                vec![claim("a", 1, None)],
                C,
            ),
            (
                "oneself is no rival",
                claim("a", 1, None),
                UniqueNames::Classic,
                vec![claim("a", 1, Some(C))],
                C,
            ),
        ] {
            let chosen = choose_id(&mine, D.into(), form, &others);
            assert_eq!(chosen.id, expected, "{case}");
            let is_collision = expected == D
                && mine.recorded.as_deref() != Some(D)
                && form == UniqueNames::Classic;
            assert_eq!(chosen.taken_by.is_some(), is_collision, "{case}");
        }
    }

    #[test]
    fn a_revision_is_named_by_policy_uid_and_generation() {
        let name = revision_name("clusterwide-privileged-pods", "uid", 1);
        let suffix = name.strip_prefix("clusterwide-privileged-pods-").unwrap();
        assert_eq!(suffix.len(), 10);
        assert!(
            suffix
                .bytes()
                .all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte)),
            "{name}"
        );
        assert_eq!(name, revision_name("clusterwide-privileged-pods", "uid", 1));
        assert_ne!(name, revision_name("clusterwide-privileged-pods", "uid", 2));
        assert_ne!(
            name,
            revision_name("clusterwide-privileged-pods", "other", 1)
        );
        let long = revision_name(&"x".repeat(260), "uid", 1);
        assert_eq!(long.len(), 253);
        assert!(long.ends_with(suffix));
    }

    #[test]
    fn names_of_a_server_fit_where_they_go() {
        for length in [1, 38, 39, 49] {
            let server = "s".repeat(length);
            assert!(policy_server(&server).len() <= 63);
            assert!(stateful_set(&server).len() <= 52, "{length}");
            assert!(app_label(&server).len() <= 63, "{length}");
            assert_eq!(
                stateful_set(&server) == policy_server(&server),
                length <= 38
            );
        }
        let (a, b) = ("s".repeat(48) + "a", "s".repeat(48) + "b");
        assert_ne!(stateful_set(&a), stateful_set(&b));
    }

    proptest! {
        #[test]
        fn of_any_number_of_policies_at_most_one_gets_the_classic_id(
            policies in prop::collection::vec((0..4i64, prop::option::of(prop::bool::ANY)), 1..6),
        ) {
            let claims: Vec<_> = policies.iter().enumerate().map(|(at, (created, recorded))| {
                let recorded = recorded.map(|classic| if classic { "clusterwide-x" } else { "kw.cap.x" });
                claim(&format!("u{at}"), *created, recorded)
            }).collect();
            let n_classic = claims.iter().filter(|mine| {
                choose_id(mine, format!("dotted-{}", mine.uid), UniqueNames::Classic, &claims).id == "clusterwide-x"
            }).count();
            prop_assert!(n_classic <= 1);
            let is_wanted = claims.iter().any(|claim| claim.recorded.as_deref() != Some("kw.cap.x"));
            prop_assert_eq!(n_classic == 1, is_wanted);
        }

        #[test]
        fn names_never_panic(id in ".{0,300}", uid in ".{0,50}", generation: i64) {
            prop_assert!(revision_name(&id, &uid, generation).len() <= NAME_MAX);
            let _ = (stateful_set(&id), app_label(&id));
        }
    }
}
