//! The policies that write reports, and the names of their reports, labels and entries.
//!
//! Every policy kind has its own prefix, so that policies of different kinds with the same name never share an
//! object, a label or an entry. See docs/spec/reports.md#5.

use std::fmt;
use std::str::FromStr;

use polity_core::PolicyKind;
use polity_core::policy::{PolicyKeyError, ReportingKind, unique_name};

use crate::sha256_hex;

/// The longest name part of a label key.
const LABEL_NAME_MAX: usize = 63;
/// The longest name of an object.
const OBJECT_NAME_MAX: usize = 253;
/// How much of a name that is too long for a label is kept; a dash and ten digits of its hash follow.
const LABEL_NAME_KEPT: usize = 52;
const NAME_HASH_DIGITS: usize = 10;

/// A policy that writes reports.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReportingPolicy {
    kind: ReportingKind,
    namespace: Option<String>,
    name: String,
}

impl ReportingPolicy {
    /// The policy, if the namespace fits the scope of its kind. An empty namespace counts as none.
    pub fn new(
        kind: impl Into<ReportingKind>,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Self, PolicyKeyError> {
        let kind = kind.into();
        let namespace = PolicyKeyError::check(kind.is_namespaced(), kind, namespace, name)?;
        Ok(Self {
            kind,
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        })
    }

    pub fn kind(&self) -> ReportingKind {
        self.kind
    }

    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key of the policy in every report of its namespace.
    pub fn key(&self) -> ReportKey {
        let name = match (self.kind, &self.namespace) {
            // It looks into other namespaces, and two of one name may meet there.
            (ReportingKind::Configuration, Some(namespace)) => {
                format!("{namespace}.{}", self.name)
            }
            _ => self.name.clone(),
        };
        ReportKey {
            kind: self.kind,
            name,
        }
    }

    /// The `policy` field of an entry: `name`, or `namespace/name` of a namespaced kind.
    pub fn field(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }

    /// The name by which policy servers know an admission policy. A ConfigurationPolicy, which no policy server knows,
    /// is named in the same form as an AdmissionPolicy.
    pub fn unique_name(&self) -> String {
        let kind = match self.kind {
            ReportingKind::Admission(kind) => kind,
            ReportingKind::Configuration => PolicyKind::AdmissionPolicy,
        };
        unique_name(kind, self.namespace.as_deref(), &self.name)
    }
}

impl fmt::Display for ReportingPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.field())
    }
}

/// A policy as reports of one namespace name it: `cpol/no-privileged`, `cfgpol/ops.quotas`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReportKey {
    kind: ReportingKind,
    name: String,
}

/// A text that names no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names no policy")]
pub struct ReportKeyError(pub String);

impl ReportKey {
    pub fn kind(&self) -> ReportingKind {
        self.kind
    }

    /// The name part of every name: the policy's name, with its namespace before it where the kind needs that.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The policy, seen from a report in a namespace (none for cluster-scoped objects).
    pub fn policy_in(&self, namespace: Option<&str>) -> Result<ReportingPolicy, PolicyKeyError> {
        match self.kind {
            ReportingKind::Configuration => {
                let (namespace, name) = self.name.split_once('.').unwrap_or(("", &self.name));
                ReportingPolicy::new(self.kind, Some(namespace), name)
            }
            kind @ ReportingKind::Admission(_) if kind.is_namespaced() => {
                ReportingPolicy::new(kind, namespace, &self.name)
            }
            kind @ ReportingKind::Admission(_) => ReportingPolicy::new(kind, None, &self.name),
        }
    }

    /// The label that holds the version an object was evaluated by.
    pub fn label_key(&self) -> String {
        format!(
            "{}.kyverno.io/{}",
            self.kind.report_prefix(),
            label_name(&self.name)
        )
    }

    /// The annotation that holds the hash of the object that was evaluated.
    pub fn hash_key(&self) -> String {
        format!(
            "{}.hash.polity.dev/{}",
            self.kind.report_prefix(),
            label_name(&self.name)
        )
    }

    /// The annotation with the whole name, for a name that had to be cut.
    pub fn full_name(&self) -> Option<(String, String)> {
        (self.name.len() > LABEL_NAME_MAX).then(|| {
            let key = full_name_key(self.kind, &label_name(&self.name));
            (key, self.name.clone())
        })
    }

    /// The policy of a version label; `annotation` looks up the whole name of one that was cut.
    pub fn from_label<'a>(
        label: &str,
        annotation: impl Fn(&str) -> Option<&'a str>,
    ) -> Option<Self> {
        let (domain, name) = label.split_once('/')?;
        let kind = ReportingKind::from_report_prefix(domain.strip_suffix(".kyverno.io")?)?;
        // An annotation with the name of another policy is ignored.
        let name = annotation(&full_name_key(kind, name))
            .filter(|full| label_name(full) == name)
            .unwrap_or(name);
        (!name.is_empty()).then(|| Self {
            kind,
            name: name.to_owned(),
        })
    }

    /// The key of an entry in a resource report.
    pub fn entry_key(&self, rule: &str) -> String {
        format!("{self}/{rule}")
    }

    /// The policy and the rule of an entry in a resource report.
    pub fn from_entry_key(key: &str) -> Option<(Self, &str)> {
        let mut parts = key.splitn(3, '/');
        let (prefix, name, rule) = (parts.next()?, parts.next()?, parts.next()?);
        let kind = ReportingKind::from_report_prefix(prefix)?;
        let name = name.to_owned();
        (!name.is_empty()).then_some((Self { kind, name }, rule))
    }

    /// The name of a public report, as long as no other object needs it: `cpol-<name>`, the further chunks with
    /// their number behind it.
    pub fn plain_object_name(&self, chunk: u32) -> String {
        let base = format!("{}-{}", self.kind.report_prefix(), self.name);
        let suffix = match chunk {
            0 => String::new(),
            chunk => format!("-{chunk}"),
        };
        if base.len() + suffix.len() <= OBJECT_NAME_MAX {
            return base + &suffix;
        }
        let hash = sha256_hex(base.as_bytes(), NAME_HASH_DIGITS);
        let kept = prefix_of(&base, OBJECT_NAME_MAX - suffix.len() - hash.len() - 1);
        // A name part must not end in a dot before the dash.
        let kept = kept.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        format!("{kept}-{hash}{suffix}")
    }

    /// The name of a public report, where some are taken: by first chunks of other policies, and by objects of other
    /// producers.
    ///
    /// `cpol-foo-1` is the second chunk of `foo` and the first of `foo-1`. Who comes second gets a hash behind its
    /// name; it begins with a letter, so that it is no number of a chunk.
    pub fn object_name(&self, chunk: u32, is_taken: impl Fn(&str) -> bool) -> String {
        let plain = self.plain_object_name(chunk);
        if !is_taken(&plain) {
            return plain;
        }
        let mut attempt = 0_u32;
        loop {
            let hash = sha256_hex(format!("{self}/{chunk}/{attempt}").as_bytes(), 8);
            let kept = prefix_of(&plain, OBJECT_NAME_MAX - hash.len() - 2);
            let kept = kept.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
            let name = format!("{kept}-h{hash}");
            if !is_taken(&name) {
                return name;
            }
            attempt += 1;
        }
    }
}

impl fmt::Display for ReportKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.report_prefix(), self.name)
    }
}

impl FromStr for ReportKey {
    type Err = ReportKeyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((prefix, name)) if !name.is_empty() && !name.contains('/') => {
                ReportingKind::from_report_prefix(prefix).map(|kind| Self {
                    kind,
                    name: name.to_owned(),
                })
            }
            _ => None,
        }
        .ok_or_else(|| ReportKeyError(text.to_owned()))
    }
}

/// Whether a label or annotation belongs to what Polity says about policies, so that it may be replaced and removed.
pub fn is_own_key(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else {
        return false;
    };
    ReportingKind::ALL.iter().any(|kind| {
        domain
            .strip_prefix(kind.report_prefix())
            .is_some_and(|rest| {
                matches!(
                    rest,
                    ".kyverno.io" | ".hash.polity.dev" | ".name.polity.dev"
                )
            })
    })
}

fn full_name_key(kind: ReportingKind, label_name: &str) -> String {
    format!("{}.name.polity.dev/{label_name}", kind.report_prefix())
}

/// A name as the name part of a label key; without this a long name costs the whole report.
fn label_name(name: &str) -> String {
    if name.len() <= LABEL_NAME_MAX {
        return name.to_owned();
    }
    let hash = sha256_hex(name.as_bytes(), NAME_HASH_DIGITS);
    format!("{}-{hash}", prefix_of(name, LABEL_NAME_KEPT))
}

/// At most this many bytes of a text, whole characters only.
pub(crate) fn prefix_of(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len()))
        .rev()
        .find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use polity_core::name;
    use proptest::prelude::*;

    use super::*;

    fn policy(
        kind: impl Into<ReportingKind>,
        namespace: Option<&str>,
        name: &str,
    ) -> ReportingPolicy {
        ReportingPolicy::new(kind, namespace, name).unwrap()
    }

    #[test]
    fn every_kind_has_its_own_names_labels_and_keys() {
        use PolicyKind::*;
        for (kind, namespace, object, label, field, key) in [
            (
                ReportingKind::from(ClusterAdmissionPolicy),
                None,
                "cpol-a",
                "cpol.kyverno.io/a",
                "a",
                "cpol/a",
            ),
            (
                ReportingKind::from(AdmissionPolicy),
                Some("n"),
                "pol-a",
                "pol.kyverno.io/a",
                "n/a",
                "pol/a",
            ),
            (
                ReportingKind::from(ClusterAdmissionPolicyGroup),
                None,
                "cpolg-a",
                "cpolg.kyverno.io/a",
                "a",
                "cpolg/a",
            ),
            (
                ReportingKind::from(AdmissionPolicyGroup),
                Some("n"),
                "polg-a",
                "polg.kyverno.io/a",
                "n/a",
                "polg/a",
            ),
            (
                ReportingKind::Configuration,
                Some("n"),
                "cfgpol-n.a",
                "cfgpol.kyverno.io/n.a",
                "n/a",
                "cfgpol/n.a",
            ),
        ] {
            let policy = policy(kind, namespace, "a");
            let found = policy.key();
            assert_eq!(found.plain_object_name(0), object);
            assert_eq!(found.plain_object_name(2), format!("{object}-2"));
            assert_eq!(found.label_key(), label);
            assert_eq!(
                found.hash_key(),
                label.replace("kyverno.io", "hash.polity.dev")
            );
            assert_eq!(policy.field(), field);
            assert_eq!(found.to_string(), key);
            assert_eq!(key.parse(), Ok(found.clone()));
            assert_eq!(found.policy_in(Some("n")), Ok(policy));
            assert_eq!(ReportKey::from_label(label, |_| None), Some(found.clone()));
            assert_eq!(
                ReportKey::from_entry_key(&found.entry_key("r/x")),
                Some((found, "r/x"))
            );
        }
    }

    #[test]
    fn a_long_name_is_cut_and_kept_in_an_annotation() {
        let long = "p".repeat(120);
        let key = policy(PolicyKind::ClusterAdmissionPolicy, None, &long).key();
        let label = key.label_key();
        let name = label.strip_prefix("cpol.kyverno.io/").unwrap();
        assert_eq!(name.len(), 63);
        assert_eq!(name[..53], format!("{}-", "p".repeat(52)));
        assert_eq!(name::qualified_name(&label), Ok(()));
        let (annotation, full) = key.full_name().unwrap();
        assert_eq!(name::annotation_key(&annotation), Ok(()));
        assert_eq!(full, long);
        let back = ReportKey::from_label(&label, |asked| {
            (asked == annotation).then_some(full.as_str())
        });
        assert_eq!(back, Some(key));
    }

    #[test]
    fn a_name_that_an_object_cannot_have_is_cut_too() {
        let long = format!("{}.{}", "a".repeat(234), "b".repeat(60));
        let key = policy(PolicyKind::ClusterAdmissionPolicy, None, &long).key();
        for chunk in [0, 1, 77] {
            let name = key.plain_object_name(chunk);
            assert_eq!(name::dns_subdomain(&name), Ok(()), "{name}");
        }
        assert_ne!(key.plain_object_name(0), key.plain_object_name(1));
    }

    #[test]
    fn a_chunk_makes_room_for_the_first_chunk_of_another_policy() {
        let foo = policy(PolicyKind::ClusterAdmissionPolicy, None, "foo").key();
        assert_eq!(foo.object_name(1, |_| false), "cpol-foo-1");
        let mut taken = BTreeSet::from(["cpol-foo-1".to_owned()]);
        let other = foo.object_name(1, |name| taken.contains(name));
        assert!(other.starts_with("cpol-foo-1-h"), "{other}");
        taken.insert(other.clone());
        assert_ne!(foo.object_name(1, |name| taken.contains(name)), other);
    }

    #[test]
    fn kinds_and_namespaces_go_together() {
        assert_eq!(
            ReportingPolicy::new(PolicyKind::AdmissionPolicy, None, "a")
                .unwrap_err()
                .to_string(),
            "AdmissionPolicy a needs a namespace"
        );
        assert!(ReportingPolicy::new(PolicyKind::ClusterAdmissionPolicy, Some("n"), "a").is_err());
        for text in ["", "cpol", "cpol/", "x/a", "cpol/a/b"] {
            assert!(text.parse::<ReportKey>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn own_keys_are_known() {
        for key in [
            "cpol.kyverno.io/a",
            "cfgpol.hash.polity.dev/n.a",
            "pol.name.polity.dev/x",
        ] {
            assert!(is_own_key(key), "{key}");
        }
        for key in [
            "a",
            "kyverno.io/a",
            "policies.kyverno.io/severity",
            "xcpol.kyverno.io/a",
        ] {
            assert!(!is_own_key(key), "{key}");
        }
    }

    proptest! {
        #[test]
        fn every_name_is_one_the_api_server_takes(
            kind in proptest::sample::select(&ReportingKind::ALL[..]),
            name in "[a-z0-9]([-a-z0-9]{0,40}[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?){0,4}",
            chunk in 0_u32..200_000,
        ) {
            let namespace = kind.is_namespaced().then_some("some-namespace");
            let key = policy(kind, namespace, &name).key();
            prop_assert_eq!(name::dns_subdomain(&key.plain_object_name(chunk)), Ok(()));
            let plain = key.plain_object_name(chunk);
            let other = key.object_name(chunk, |name| name == plain);
            prop_assert_eq!(name::dns_subdomain(&other), Ok(()));
            prop_assert_eq!(name::qualified_name(&key.label_key()), Ok(()));
            prop_assert_eq!(name::annotation_key(&key.hash_key()), Ok(()));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = text.parse::<ReportKey>();
            let _ = ReportKey::from_entry_key(&text);
            let _ = ReportKey::from_label(&text, |_| None);
            let key = ReportKey { kind: PolicyKind::AdmissionPolicy.into(), name: text };
            let _ = (key.label_key(), key.plain_object_name(3), key.full_name());
        }
    }
}
