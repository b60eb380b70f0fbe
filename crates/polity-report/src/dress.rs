//! From an entry of a resource report to a public one: what the policy's metadata and mode add.
//! See docs/spec/reports.md#10.

use crate::ReportingKind;
use crate::entry::{Entry, Outcome, PublicEntry, ResourceRef, Severity, TEXT_MAX, cut};
use crate::policy_set::PolicyMeta;
use crate::sha256_hex;
use crate::verdict::Mode;

/// The longest category; it comes from an annotation, which may be a book.
const CATEGORY_MAX: usize = 256;
/// The most that one entry may weigh; what lies beyond is cut from its properties.
pub const ENTRY_MAX_BYTES: usize = 16 * 1024;

/// An entry as it is published.
pub fn dress(entry: Entry, meta: &PolicyMeta, resource: ResourceRef, source: &str) -> PublicEntry {
    let Entry {
        policy,
        rule,
        result,
        message,
        timestamp,
        mut properties,
    } = entry;
    let result = match result {
        Outcome::Fail if !meta.scored => Outcome::Warn,
        other => other,
    };
    let severity = match (meta.mode, meta.severity) {
        (Mode::Protect, severity) => severity,
        // Readers know a policy that only watches by this severity; its own one stays readable.
        (Mode::Monitor, own) => {
            if let Some(own) = own {
                properties.insert("policy-severity".to_owned(), own.as_str().to_owned());
            }
            Some(Severity::Info)
        }
    };
    // Readers hash `policy` without its kind: kinds that share names need an id of their own.
    match policy.kind() {
        ReportingKind::Admission(kind) if !kind.is_group() => {}
        ReportingKind::Admission(_) | ReportingKind::Configuration => {
            let identity = format!("{policy}/{rule}/{}/{}", resource.uid, result.as_str());
            properties.insert("resultID".to_owned(), sha256_hex(identity.as_bytes(), 16));
        }
    }
    bounded(PublicEntry {
        policy: meta.policy.field(),
        rule,
        source: source.to_owned(),
        category: cut(meta.category.clone(), CATEGORY_MAX),
        severity,
        result: Some(result),
        scored: meta.scored,
        message: cut(message, TEXT_MAX),
        resources: vec![resource],
        timestamp: Some(timestamp),
        properties,
    })
}

/// Keeps one entry from being too large for any report: long values are cut, then what readers need least goes.
fn bounded(mut entry: PublicEntry) -> PublicEntry {
    for value in entry.properties.values_mut() {
        if value.len() > TEXT_MAX {
            *value = cut(std::mem::take(value), TEXT_MAX);
        }
    }
    let rough = entry.message.len()
        + entry
            .properties
            .iter()
            .map(|(name, value)| name.len() + value.len() + 8)
            .sum::<usize>();
    // One byte of text is at most six of JSON; most entries are far from the limit and need not be weighed.
    if rough * 6 > ENTRY_MAX_BYTES && weight(&entry) > ENTRY_MAX_BYTES {
        entry.properties.retain(|name, _| is_needed(name));
        entry
            .properties
            .insert("truncated".to_owned(), "true".to_owned());
    }
    entry
}

fn is_needed(property: &str) -> bool {
    property.starts_with("policy-") || matches!(property, "process" | "resultID" | "mutated")
}

/// The bytes of an entry as JSON.
pub(crate) fn weight<T: serde::Serialize + ?Sized>(value: &T) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).expect("entries are plain data");
    count.0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::PolicyKind;
    use crate::entry::Stamp;
    use crate::source::ReportingPolicy;

    fn meta(kind: impl Into<ReportingKind>) -> PolicyMeta {
        let kind = kind.into();
        let namespace = kind.is_namespaced().then_some("n");
        PolicyMeta {
            policy: ReportingPolicy::new(kind, namespace, "p").unwrap(),
            mode: Mode::Protect,
            severity: Some(Severity::High),
            category: "Pods".to_owned(),
            scored: true,
            n_templates: 0,
            is_disabled: false,
        }
    }

    fn entry(meta: &PolicyMeta, result: Outcome) -> Entry {
        Entry {
            policy: meta.policy.key(),
            rule: String::new(),
            result,
            message: "m".to_owned(),
            timestamp: Stamp {
                seconds: 1,
                nanos: 0,
            },
            properties: BTreeMap::new(),
        }
    }

    fn dressed(meta: &PolicyMeta, result: Outcome) -> PublicEntry {
        let resource = ResourceRef {
            uid: "u".to_owned(),
            ..ResourceRef::default()
        };
        dress(entry(meta, result), meta, resource, "polity")
    }

    #[test]
    fn a_fail_of_a_policy_that_is_not_scored_is_a_warning() {
        let scored = meta(PolicyKind::ClusterAdmissionPolicy);
        let unscored = PolicyMeta {
            scored: false,
            ..scored.clone()
        };
        for outcome in Outcome::ALL {
            assert_eq!(dressed(&scored, outcome).result, Some(outcome));
            let expected = if outcome == Outcome::Fail {
                Outcome::Warn
            } else {
                outcome
            };
            let public = dressed(&unscored, outcome);
            assert_eq!((public.result, public.scored), (Some(expected), false));
        }
    }

    #[test]
    fn monitor_mode_is_reported_with_severity_info() {
        let monitor = PolicyMeta {
            mode: Mode::Monitor,
            ..meta(PolicyKind::ClusterAdmissionPolicy)
        };
        let public = dressed(&monitor, Outcome::Fail);
        assert_eq!(public.severity, Some(Severity::Info));
        assert_eq!(public.properties["policy-severity"], "high");
        let unrated = PolicyMeta {
            severity: None,
            ..monitor
        };
        let public = dressed(&unrated, Outcome::Fail);
        assert_eq!(public.severity, Some(Severity::Info));
        assert!(!public.properties.contains_key("policy-severity"));
    }

    #[test]
    fn kinds_that_share_names_carry_ids() {
        let ids: Vec<_> = ReportingKind::ALL
            .into_iter()
            .map(|kind| {
                dressed(&meta(kind), Outcome::Pass)
                    .properties
                    .get("resultID")
                    .cloned()
            })
            .collect();
        assert_eq!(ids[..2], [None, None]);
        assert!(
            ids[2..]
                .iter()
                .all(|id| id.as_ref().is_some_and(|id| id.len() == 16))
        );
        assert!(ids[2] != ids[3] && ids[3] != ids[4] && ids[2] != ids[4]);
        let other = dressed(&meta(ReportingKind::Configuration), Outcome::Fail);
        assert_ne!(other.properties.get("resultID"), ids[4].as_ref());
    }

    #[test]
    fn no_entry_is_too_large_for_a_report() {
        let meta = PolicyMeta {
            category: "\u{1}".repeat(1 << 20),
            ..meta(PolicyKind::ClusterAdmissionPolicyGroup)
        };
        let mut entry = entry(&meta, Outcome::Fail);
        entry.message = "\u{1}".repeat(1 << 20);
        for n in 0..10_000 {
            entry
                .properties
                .insert(format!("member.{n}"), "denied".to_owned());
        }
        entry
            .properties
            .insert("policy-uid".to_owned(), "\u{1}".repeat(5000));
        let public = dress(entry, &meta, ResourceRef::default(), "polity");
        assert_eq!(public.properties["truncated"], "true");
        assert!(weight(&public) < 2 * ENTRY_MAX_BYTES, "{}", weight(&public));
    }
}
