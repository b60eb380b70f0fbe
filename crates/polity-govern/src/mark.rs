//! The state of a rollout: three annotations on each replica.

use std::collections::BTreeMap;
use std::fmt;

use crate::objects::PolicySpec;
use jiff::Timestamp;
use polity_core::governance::names;
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// Fields of a spec whose change makes no new version: they do not change what is enforced.
const NOT_VERSIONED: [&str; 3] = ["disabled", "copyPolicyMetadata", "rolloutStrategy"];
/// How many bytes of the digest a version shows.
const VERSION_BYTES: usize = 8;

/// Which text of which root policy: 16 hex characters.
///
/// Not the generation: a policy that is deleted and created again starts at 1, and an edit of the strategy raises it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(String);

impl Version {
    /// The version that a root policy has now.
    pub fn of(uid: &str, spec: &PolicySpec) -> Self {
        let mut versioned = json!(spec.wire());
        if let Some(fields) = versioned.as_object_mut() {
            fields.retain(|field, _| !NOT_VERSIONED.contains(&field.as_str()));
        }
        let text = versioned.to_string();
        let digest = Sha256::new()
            .chain_update(uid)
            .chain_update(text)
            .finalize();
        let mut hex = String::new();
        for byte in &digest[..VERSION_BYTES] {
            hex.push_str(&format!("{byte:02x}"));
        }
        Self(hex)
    }

    fn parse(text: &str) -> Option<Self> {
        let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        (text.len() == 2 * VERSION_BYTES && text.chars().all(hex)).then(|| Self(text.to_owned()))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which copy of a version a replica is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// The inform copy of a cluster that waits for its turn.
    Wait,
    /// The policy as its author wrote it.
    Final,
}

/// Version and stage: `<version>-wait` or `<version>-final`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Step {
    pub version: Version,
    pub stage: Stage,
}

impl Step {
    pub fn parse(text: &str) -> Option<Self> {
        let (version, stage) = text.split_once('-')?;
        Some(Self {
            version: Version::parse(version)?,
            stage: match stage {
                "wait" => Stage::Wait,
                "final" => Stage::Final,
                _ => return None,
            },
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match self.stage {
            Stage::Wait => "wait",
            Stage::Final => "final",
        };
        write!(f, "{}-{stage}", self.version)
    }
}

/// The phase of a replica in a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    ToApply,
    Progressing,
    Succeeded,
    TimeOut,
}

impl Phase {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ToApply => "ToApply",
            Self::Progressing => "Progressing",
            Self::Succeeded => "Succeeded",
            Self::TimeOut => "TimeOut",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [
            Self::ToApply,
            Self::Progressing,
            Self::Succeeded,
            Self::TimeOut,
        ]
        .into_iter()
        .find(|phase| phase.as_str() == text)
    }
}

/// The three annotations of one replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub step: Step,
    pub phase: Phase,
    /// When the phase began, by the clock of the hub. `TimeOut` keeps the time of `Progressing`.
    pub since: Timestamp,
}

impl Mark {
    /// The mark of a replica, if all three annotations can be read.
    pub fn read(annotations: &BTreeMap<String, String>) -> Option<Self> {
        let text = |name: &str| annotations.get(name).map(String::as_str);
        Some(Self {
            step: Step::parse(text(names::ROLLOUT_STEP)?)?,
            phase: Phase::parse(text(names::ROLLOUT_PHASE)?)?,
            since: text(names::ROLLOUT_SINCE)?.parse().ok()?,
        })
    }

    /// Sets the three annotations.
    pub fn write(&self, annotations: &mut BTreeMap<String, String>) {
        annotations.insert(names::ROLLOUT_STEP.to_owned(), self.step.to_string());
        annotations.insert(
            names::ROLLOUT_PHASE.to_owned(),
            self.phase.as_str().to_owned(),
        );
        annotations.insert(names::ROLLOUT_SINCE.to_owned(), self.since.to_string());
    }

    /// A replica that waits from now on.
    pub(crate) fn waiting(version: &Version, now: Timestamp) -> Self {
        Self::new(version, Stage::Wait, Phase::ToApply, now)
    }

    /// A replica that is as its author wrote it from now on.
    pub(crate) fn running(version: &Version, now: Timestamp) -> Self {
        Self::new(version, Stage::Final, Phase::Progressing, now)
    }

    fn new(version: &Version, stage: Stage, phase: Phase, since: Timestamp) -> Self {
        let version = version.clone();
        Self {
            step: Step { version, stage },
            phase,
            since,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::fixtures::policy;

    #[test]
    fn only_edits_of_what_is_enforced_make_a_new_version() {
        let base = policy(json!({"remediationAction": "enforce"}));
        let version = |spec: serde_json::Value| Version::of("uid", &policy(spec).spec);
        let same = version(json!({"remediationAction": "enforce"}));
        assert_eq!(same, Version::of("uid", &base.spec));
        assert_ne!(
            same,
            Version::of("another", &base.spec),
            "a policy created again"
        );
        assert_eq!(same.to_string().len(), 16);
        for (edit, is_new) in [
            (
                json!({"remediationAction": "enforce", "disabled": true}),
                false,
            ),
            (
                json!({"remediationAction": "enforce", "copyPolicyMetadata": false}),
                false,
            ),
            (
                json!({"remediationAction": "enforce", "rolloutStrategy": {"type": "Progressive"}}),
                false,
            ),
            (json!({"remediationAction": "inform"}), true),
            (
                json!({"remediationAction": "enforce", "policy-templates": []}),
                true,
            ),
        ] {
            assert_eq!(version(edit.clone()) != same, is_new, "{edit}");
        }
    }

    #[test]
    fn marks_read_back_and_broken_marks_are_ignored() {
        let mark = Mark {
            step: Step::parse("0123456789abcdef-wait").unwrap(),
            phase: Phase::TimeOut,
            since: "2026-11-15T10:00:00.25Z".parse().unwrap(),
        };
        let mut annotations = BTreeMap::new();
        mark.write(&mut annotations);
        assert_eq!(Mark::read(&annotations), Some(mark));
        for (name, value) in [
            (names::ROLLOUT_STEP, "0123456789abcdef-next"),
            (names::ROLLOUT_STEP, "0123456789ABCDEF-wait"),
            (names::ROLLOUT_STEP, "-wait"),
            (names::ROLLOUT_PHASE, "Failed"),
            (names::ROLLOUT_SINCE, "yesterday"),
        ] {
            let mut broken = annotations.clone();
            broken.insert(name.to_owned(), value.to_owned());
            assert_eq!(Mark::read(&broken), None, "{name}={value}");
            broken.remove(name);
            assert_eq!(Mark::read(&broken), None, "without {name}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,30}|[0-9a-f]{15,17}-(wait|final)") {
            let step = Step::parse(&text);
            if let Some(step) = step {
                prop_assert_eq!(step.to_string(), text);
            }
        }
    }
}
