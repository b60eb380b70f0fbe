//! Which shard handles which namespace, and when an object is evaluated again. See docs/spec/reports.md#7-5.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// How many buckets there are. Fixed: another number of replicas moves buckets, and rewrites no object.
pub const BUCKETS: u64 = 64;

/// Label on every resource report: the bucket of its namespace.
pub const BUCKET_LABEL: &str = "reports.polity.dev/bucket";

/// FNV-1a, 64 bits.
pub fn fnv1a64(bytes: &[u8]) -> u64 {
    fnv1a64_from(0xcbf2_9ce4_8422_2325, bytes)
}

/// FNV-1a continued from an earlier state, for a text that comes in parts.
pub fn fnv1a64_from(state: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(state, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The bucket of a namespace; `""` stands for cluster-scoped objects.
pub fn bucket(namespace: &str) -> u8 {
    (fnv1a64(namespace.as_bytes()) % BUCKETS) as u8
}

/// The member that a bucket belongs to: number `bucket mod n` of the live ones in the order of their names.
pub fn owner<'a>(live_members: &[&'a str], bucket: u8) -> Option<&'a str> {
    let mut members = live_members.to_vec();
    members.sort_unstable();
    members.dedup();
    let index = usize::from(bucket).checked_rem(members.len())?;
    members.get(index).copied()
}

/// When an object would have been looked at last, had the process run before: passes are spread evenly over the
/// interval by uid, and no object remembers them.
pub fn presumed_last_pass(uid: &str, started: Timestamp, interval: Duration) -> Timestamp {
    let whole = interval.as_millis().clamp(1, i64::MAX as u128) as u64;
    let early = whole - fnv1a64(uid.as_bytes()) % whole;
    started
        .checked_sub(SignedDuration::from_millis(early as i64))
        .unwrap_or(Timestamp::MIN)
}

/// The id that Policy Reporter gives a result in a report without scope, unless it carries `resultID`.
pub fn reader_result_id(entry: &crate::PublicEntry) -> u64 {
    let resource = entry.resources.first();
    let parts = [
        resource.map_or("", |resource| &resource.name),
        resource.map_or("", |resource| &resource.uid),
        &entry.policy,
        &entry.rule,
        entry.result.map_or("", crate::Outcome::as_str),
        &entry.category,
        &entry.message,
    ];
    parts.iter().fold(fnv1a64(b""), |hash, part| {
        fnv1a64_from(hash, part.as_bytes())
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn buckets_of_namespaces_agree_with_the_test_vectors() {
        assert_eq!([bucket(""), bucket("shop"), bucket("default")], [37, 9, 62]);
    }

    #[test]
    fn the_vector_of_12() {
        let entry = |name: &str| crate::PublicEntry {
            policy: String::new(),
            rule: String::new(),
            source: String::new(),
            category: String::new(),
            severity: None,
            result: None,
            scored: false,
            message: String::new(),
            resources: vec![crate::ResourceRef {
                name: name.to_owned(),
                ..crate::ResourceRef::default()
            }],
            timestamp: None,
            properties: std::collections::BTreeMap::new(),
        };
        assert_eq!(reader_result_id(&entry("test")), 18_007_334_074_686_647_077);
        assert_ne!(
            reader_result_id(&entry("other")),
            reader_result_id(&entry("test"))
        );
    }

    #[test]
    fn every_bucket_has_one_owner_and_no_member_is_idle() {
        assert_eq!(owner(&[], 3), None);
        for members in [&["a"][..], &["b", "a"], &["c", "a", "b", "a"]] {
            let owners: BTreeSet<_> = (0..64)
                .map(|bucket| owner(members, bucket).unwrap())
                .collect();
            assert_eq!(owners, members.iter().copied().collect());
        }
        assert_eq!(owner(&["b", "a"], 0), Some("a"));
        assert_eq!(owner(&["a", "b"], 1), Some("b"));
    }

    #[test]
    fn passes_are_spread_over_the_interval() {
        let started: Timestamp = "2026-11-16T00:00:00Z".parse().unwrap();
        let interval = Duration::from_hours(1);
        let mut by_quarter = [0; 4];
        for n in 0..400 {
            let last = presumed_last_pass(&format!("uid-{n}"), started, interval);
            let ago = started.duration_since(last).as_secs();
            assert!((0..=3600).contains(&ago), "{ago}");
            by_quarter[(ago.min(3599) / 900) as usize] += 1;
        }
        assert!(by_quarter.iter().all(|n| *n > 50), "{by_quarter:?}");
        assert_eq!(
            presumed_last_pass("u", Timestamp::MIN, interval),
            Timestamp::MIN
        );
        let _ = presumed_last_pass("u", started, Duration::ZERO);
        let _ = presumed_last_pass("u", started, Duration::MAX);
    }
}
