//! The permissions of a policy: patterns over the host capabilities, and the kinds that it may read.

use std::{collections::BTreeSet, fmt};

use polity_core::capability::HOST_CAPABILITIES;
use polity_wasm::ResourceKind;

/// A pattern that matches no capability.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown host capability {pattern:?}: nothing matches it")]
pub struct UnknownCapability {
    /// The pattern as it was written.
    pub pattern: String,
}

/// The host calls that a policy may make, as patterns: `*`, `oci/*`, `oci/v1/*`, `oci/v1/verify`.
#[derive(Clone, PartialEq, Eq)]
pub struct CapabilitySet(Vec<Pattern>);

#[derive(Clone, PartialEq, Eq)]
enum Pattern {
    All,
    /// Every capability with this prefix, which ends with a slash.
    Under(String),
    Exactly(String),
}

impl CapabilitySet {
    /// A set that allows every host call.
    pub fn all() -> Self {
        Self(vec![Pattern::All])
    }

    /// A set that allows no host call but logging.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Parses a list of patterns.
    pub fn parse<S: AsRef<str>>(
        patterns: impl IntoIterator<Item = S>,
    ) -> Result<Self, UnknownCapability> {
        patterns
            .into_iter()
            .map(|pattern| Pattern::parse(pattern.as_ref()))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether one of the patterns matches.
    pub fn allows(&self, namespace: &str, operation: &str) -> bool {
        self.0.iter().any(|pattern| match pattern {
            Pattern::All => true,
            Pattern::Under(prefix) => {
                format!("{namespace}/{operation}").starts_with(prefix.as_str())
            }
            Pattern::Exactly(name) => {
                name.strip_prefix(namespace)
                    .and_then(|rest| rest.strip_prefix('/'))
                    == Some(operation)
            }
        })
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, UnknownCapability> {
        if text == "*" {
            return Ok(Self::All);
        }
        let found = match text.strip_suffix('*') {
            Some(prefix) if prefix.ends_with('/') => HOST_CAPABILITIES
                .iter()
                .any(|name| name.starts_with(prefix))
                .then(|| Self::Under(prefix.to_owned())),
            Some(_) => None,
            None => HOST_CAPABILITIES
                .contains(&text)
                .then(|| Self::Exactly(text.to_owned())),
        };
        found.ok_or_else(|| UnknownCapability {
            pattern: text.to_owned(),
        })
    }
}

impl fmt::Debug for CapabilitySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let texts = self.0.iter().map(|pattern| match pattern {
            Pattern::All => "*".to_owned(),
            Pattern::Under(prefix) => format!("{prefix}*"),
            Pattern::Exactly(name) => name.clone(),
        });
        f.debug_list().entries(texts).finish()
    }
}

/// The permissions of a policy. Every host call is checked against both lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grants {
    /// The host calls that it may make.
    pub capabilities: CapabilitySet,
    /// The kinds that it may read from the cluster.
    pub resources: BTreeSet<ResourceKind>,
}

impl Grants {
    /// No permissions: only logging is allowed.
    pub fn none() -> Self {
        Self {
            capabilities: CapabilitySet::none(),
            resources: BTreeSet::new(),
        }
    }

    /// Whether the policy may read objects of this kind.
    pub fn may_read(&self, api_version: &str, kind: &str) -> bool {
        self.resources
            .iter()
            .any(|granted| granted.api_version == api_version && granted.kind == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_grants_everything_below_its_prefix() {
        for (patterns, call, allowed) in [
            (&["*"][..], "oci/v1/verify", true),
            (&["*"], "made/up", true),
            (&["oci/*"], "oci/v1/verify", true),
            (&["oci/*"], "oci/v2/verify", true),
            (&["oci/*"], "net/v1/dns_lookup_host", false),
            (&["oci/*"], "ocix/v1/verify", false),
            (&["oci/v1/*"], "oci/v1/oci_manifest", true),
            (&["oci/v1/*"], "oci/v2/verify", false),
            (&["oci/v1/verify"], "oci/v1/verify", true),
            (&["oci/v1/verify"], "oci/v1/manifest_digest", false),
            (&["kubernetes/can_i", "cache/*"], "cache/get", true),
            (&["kubernetes/can_i"], "kubernetes/get_resource", false),
            (&[], "cache/get", false),
        ] {
            let set = CapabilitySet::parse(patterns).unwrap();
            let (namespace, operation) = call.split_once('/').unwrap();
            assert_eq!(set.allows(namespace, operation), allowed, "{set:?} {call}");
        }
    }

    #[test]
    fn patterns_that_name_nothing_are_errors() {
        for pattern in [
            "",
            "oci",
            "oci/",
            "oci/v3/*",
            "oci/v1/veri*",
            "**",
            "/*",
            "tracing/log",
            "oci/*/verify",
            "kubernetes/*/x",
        ] {
            assert_eq!(
                CapabilitySet::parse([pattern]),
                Err(UnknownCapability {
                    pattern: pattern.to_owned()
                }),
                "{pattern}"
            );
        }
    }

    #[test]
    fn kinds_are_compared_exactly() {
        let grants = Grants {
            capabilities: CapabilitySet::all(),
            resources: BTreeSet::from([ResourceKind {
                api_version: "v1".to_owned(),
                kind: "Pod".to_owned(),
            }]),
        };
        assert!(grants.may_read("v1", "Pod"));
        for (api_version, kind) in [("v1", "pod"), ("/v1", "Pod"), ("v1", "Pods"), ("", "")] {
            assert!(!grants.may_read(api_version, kind));
        }
    }
}
