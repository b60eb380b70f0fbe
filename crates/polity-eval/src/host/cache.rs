//! Caches between requests: responses of services, and the values that guests keep.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use moka::{Expiry, sync::Cache};
use polity_wasm::Deadline;

use super::{CapabilityRequest, Services};

/// How long responses of registries and results of signature checks are kept.
const REGISTRY_ANSWERS: Duration = Duration::from_mins(1);
/// How long responses of the cluster are kept.
const CLUSTER_ANSWERS: Duration = Duration::from_secs(5);

/// The size limit of one cache in bytes, including keys.
const MAX_BYTES: u64 = 64 << 20;

/// An entry with its lifetime.
#[derive(Clone)]
struct Entry {
    bytes: Arc<[u8]>,
    ttl: Duration,
}

struct OwnTtl;

impl<K> Expiry<K, Entry> for OwnTtl {
    fn expire_after_create(&self, _: &K, entry: &Entry, _: Instant) -> Option<Duration> {
        Some(entry.ttl)
    }

    fn expire_after_update(
        &self,
        _: &K,
        entry: &Entry,
        _: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        Some(entry.ttl)
    }
}

fn bounded<K>(size: fn(&K) -> usize) -> Cache<K, Entry>
where
    K: std::hash::Hash + Eq + Send + Sync + 'static,
{
    Cache::builder()
        .max_capacity(MAX_BYTES)
        // An entry takes memory even if it is empty.
        .weigher(move |key: &K, entry: &Entry| {
            u32::try_from(size(key) + entry.bytes.len() + 128).unwrap_or(u32::MAX)
        })
        .expire_after(OwnTtl)
        .build()
}

/// The values that guests keep between requests, separate for each policy.
pub struct GuestCache(Cache<(Arc<str>, String), Entry>);

impl GuestCache {
    pub(crate) fn set(&self, policy: &Arc<str>, key: &str, value: Vec<u8>, ttl_seconds: u64) {
        let entry = Entry {
            bytes: value.into(),
            // The arithmetic of the cache overflows beyond about a year.
            ttl: Duration::from_secs(ttl_seconds.min(365 * 24 * 3600)),
        };
        self.0.insert((policy.clone(), key.to_owned()), entry);
    }

    pub(crate) fn get(&self, policy: &Arc<str>, key: &str) -> Option<Arc<[u8]>> {
        self.0
            .get(&(policy.clone(), key.to_owned()))
            .map(|entry| entry.bytes)
    }
}

impl Default for GuestCache {
    fn default() -> Self {
        Self(bounded(|(policy, key)| policy.len() + key.len()))
    }
}

/// Services with a cache of their responses. Errors are not cached.
pub struct CachedServices<S> {
    services: S,
    answers: Cache<String, Entry>,
}

impl<S: Services> CachedServices<S> {
    /// Caches the responses of `services`.
    pub fn new(services: S) -> Self {
        Self {
            services,
            answers: bounded(String::len),
        }
    }
}

impl<S: Services> Services for CachedServices<S> {
    fn call(&self, request: &CapabilityRequest, deadline: Deadline) -> Result<Vec<u8>, String> {
        let Some(ttl) = lifetime(request) else {
            return self.services.call(request, deadline);
        };
        let key = format!("{} {}", request.tag(), request.arguments());
        if let Some(entry) = self.answers.get(&key) {
            return Ok(entry.bytes.to_vec());
        }
        let answer = self.services.call(request, deadline)?;
        let entry = Entry {
            bytes: answer.as_slice().into(),
            ttl,
        };
        self.answers.insert(key, entry);
        Ok(answer)
    }
}

/// How long a response is cached, or `None`. Lists come from a store that watches keep current.
fn lifetime(request: &CapabilityRequest) -> Option<Duration> {
    match request {
        CapabilityRequest::OciManifestDigest { .. }
        | CapabilityRequest::OciManifest { .. }
        | CapabilityRequest::OciManifestAndConfig { .. }
        | CapabilityRequest::Verify { .. } => Some(REGISTRY_ANSWERS),
        CapabilityRequest::GetResource(get) => (!get.disable_cache).then_some(CLUSTER_ANSWERS),
        CapabilityRequest::CanI(query) => (!query.disable_cache).then_some(CLUSTER_ANSWERS),
        CapabilityRequest::ListResources(_)
        | CapabilityRequest::DnsLookupHost { .. }
        | CapabilityRequest::IsCertificateTrusted(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Services for &Counting {
        fn call(&self, request: &CapabilityRequest, _: Deadline) -> Result<Vec<u8>, String> {
            let n = self.0.fetch_add(1, Ordering::Relaxed);
            match request {
                CapabilityRequest::DnsLookupHost { .. } => Err("no".to_owned()),
                _ => Ok(n.to_string().into_bytes()),
            }
        }
    }

    fn get(disable_cache: bool) -> CapabilityRequest {
        let payload = format!(
            r#"{{"api_version":"v1","kind":"Pod","name":"n","disable_cache":{disable_cache}}}"#
        );
        CapabilityRequest::parse("kubernetes", "get_resource", payload.as_bytes()).unwrap()
    }

    #[test]
    fn answers_are_remembered_unless_they_must_be_fresh() {
        let counting = Counting::default();
        let cached = CachedServices::new(&counting);
        let ask = |request: &CapabilityRequest| cached.call(request, Deadline::NEVER).unwrap();
        assert_eq!(ask(&get(false)), b"0");
        assert_eq!(ask(&get(false)), b"0");
        assert_eq!(ask(&get(true)), b"1");
        assert_eq!(ask(&get(true)), b"2");
        let image = CapabilityRequest::OciManifest {
            image: "i".to_owned(),
        };
        let digest = CapabilityRequest::OciManifestDigest {
            image: "i".to_owned(),
        };
        assert_eq!(ask(&image), b"3");
        assert_eq!(ask(&digest), b"4");
        assert_eq!(ask(&image), b"3");
    }

    #[test]
    fn responses_are_kept_for_as_long_as_their_call_allows() {
        let image = CapabilityRequest::OciManifest {
            image: "i".to_owned(),
        };
        assert_eq!(lifetime(&image), Some(Duration::from_mins(1)));
        assert_eq!(lifetime(&get(false)), Some(Duration::from_secs(5)));
        assert_eq!(lifetime(&get(true)), None);
        let entry = Entry {
            bytes: Arc::default(),
            ttl: Duration::from_secs(7),
        };
        #[expect(clippy::disallowed_methods, reason = "the cache hands its clock over")]
        let now = Instant::now();
        assert_eq!(
            OwnTtl.expire_after_create(&(), &entry, now),
            Some(entry.ttl)
        );
        assert_eq!(
            OwnTtl.expire_after_update(&(), &entry, now, None),
            Some(entry.ttl)
        );
    }

    #[test]
    fn guests_keep_things_for_themselves() {
        let cache = GuestCache::default();
        let (mine, theirs): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        cache.set(&mine, "key", b"value".to_vec(), 60);
        assert_eq!(cache.get(&mine, "key").as_deref(), Some(&b"value"[..]));
        assert_eq!(cache.get(&theirs, "key"), None);
        cache.set(&mine, "gone", b"value".to_vec(), 0);
        assert_eq!(cache.get(&mine, "gone"), None);
        cache.set(&mine, "long", b"value".to_vec(), u64::MAX);
        assert!(cache.get(&mine, "long").is_some());
    }

    #[test]
    fn the_cache_is_bounded() {
        let cache = GuestCache::default();
        let policy: Arc<str> = "p".into();
        for n in 0..200 {
            cache.set(&policy, &n.to_string(), vec![0; 1 << 20], 60);
        }
        cache.0.run_pending_tasks();
        assert!(cache.0.weighted_size() <= MAX_BYTES);
    }
}
