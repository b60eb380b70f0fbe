//! The world of a template on this machine: objects from files or from a cluster, the system's clock and
//! randomness.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use jiff::Zoned;
use jiff::tz::TimeZone;
use polity_core::selector::LabelSelector;
use polity_runtime::args::ClientArgs;
use polity_runtime::client::describe;
use polity_runtime::clock::Clock;
use polity_template::{CertificatePair, CertificateRequest, Host, KeyKind, LookupError, Query};
use serde_json::Value;

use super::keys;
use crate::manifests::{load, print_problems};
use polity_source::Manifests;

/// Where objects come from, and what time it is.
pub struct World {
    source: Source,
    clock: Clock,
}

enum Source {
    Files(Files),
    Cluster(Cluster),
}

impl World {
    /// Objects from these files; none at all when there are no files.
    pub fn of_files(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let manifests = if paths.is_empty() {
            Manifests::default()
        } else {
            load(paths)?
        };
        print_problems(&manifests);
        Ok(Self::of_manifests(&manifests))
    }

    /// Objects that were read already.
    pub fn of_manifests(manifests: &Manifests) -> Self {
        Self {
            source: Source::Files(Files::of(manifests)),
            clock: Clock::system(),
        }
    }

    /// Objects from a cluster, as they are when they are asked for.
    pub async fn of_cluster(kubeconfig: PathBuf, context: Option<String>) -> anyhow::Result<Self> {
        let args = ClientArgs {
            kubeconfig: Some(kubeconfig),
            context,
            ..ClientArgs::default()
        };
        Ok(Self {
            source: Source::Cluster(Cluster {
                client: crate::connect(&args).await?,
                kinds: Mutex::default(),
            }),
            clock: Clock::system(),
        })
    }
}

impl Host for World {
    fn now(&self) -> Zoned {
        self.clock.now().to_zoned(TimeZone::system())
    }

    fn random(&self, buffer: &mut [u8]) {
        // The generator of the crypto library fails only where the system has none at all.
        aws_lc_rs::rand::fill(buffer).expect("the system gives random bytes");
    }

    fn get(&self, query: &Query<'_>, name: &str) -> Result<Option<Value>, LookupError> {
        match &self.source {
            Source::Files(files) => files.get(query, name),
            Source::Cluster(cluster) => cluster.get(query, name),
        }
    }

    fn list(&self, query: &Query<'_>) -> Result<Vec<Value>, LookupError> {
        match &self.source {
            Source::Files(files) => files.list(query),
            Source::Cluster(cluster) => cluster.list(query),
        }
    }

    fn is_namespaced(&self, api_version: &str, kind: &str) -> Result<Option<bool>, LookupError> {
        match &self.source {
            Source::Files(files) => Ok(files.is_namespaced(api_version, kind)),
            Source::Cluster(cluster) => {
                let resource = cluster.resource(api_version, kind)?;
                Ok(resource.map(|served| served.namespaced))
            }
        }
    }

    fn zone(&self, name: &str) -> Option<TimeZone> {
        TimeZone::get(name).ok()
    }

    fn addresses(&self, host_name: &str) -> Vec<String> {
        use std::net::ToSocketAddrs as _;
        let found = (host_name, 0).to_socket_addrs();
        let found = found.into_iter().flatten();
        found.map(|address| address.ip().to_string()).collect()
    }

    fn private_key(&self, kind: KeyKind) -> Result<String, String> {
        keys::private_key(kind)
    }

    fn check_certificate(&self, pem: &str) -> Result<(), String> {
        keys::check_certificate(pem)
    }

    fn check_private_key(&self, pem: &str) -> Result<(), String> {
        keys::check_private_key(pem)
    }

    fn certificate(&self, request: &CertificateRequest<'_>) -> Result<CertificatePair, String> {
        keys::certificate(request, self.clock.now())
    }
}

/// Objects in memory, by kind.
struct Files {
    objects: Vec<Value>,
    /// Whether a kind is namespaced, by API version and kind.
    scopes: BTreeMap<(String, String), bool>,
}

impl Files {
    fn of(manifests: &Manifests) -> Self {
        let mut scopes = BTreeMap::new();
        for document in &manifests.documents {
            let namespaced = document.namespace().is_some();
            let key = (
                document.kind.group_version().to_string(),
                document.kind.kind.clone(),
            );
            let known = scopes.entry(key).or_insert(false);
            *known |= namespaced;
        }
        for known in polity_kinds::known() {
            let key = (
                known.gvk.group_version().to_string(),
                known.gvk.kind.clone(),
            );
            scopes.insert(key, known.namespaced);
        }
        for (gvk, definition) in &manifests.definitions {
            let key = (gvk.group_version().to_string(), gvk.kind.clone());
            scopes.insert(key, definition.namespaced);
        }
        Self {
            objects: manifests
                .documents
                .iter()
                .map(|document| document.object.clone())
                .collect(),
            scopes,
        }
    }

    fn is_namespaced(&self, api_version: &str, kind: &str) -> Option<bool> {
        let key = (api_version.to_owned(), kind.to_owned());
        self.scopes.get(&key).copied()
    }

    fn matching<'f>(
        &'f self,
        query: &'f Query<'f>,
    ) -> Result<impl Iterator<Item = &'f Value>, LookupError> {
        let namespaced = self
            .is_namespaced(query.api_version, query.kind)
            .ok_or(LookupError::MissingKind)?;
        Ok(self.objects.iter().filter(move |object| {
            // Without a namespace an object of these files is in `default`, as if it were applied.
            let namespace = object["metadata"]["namespace"]
                .as_str()
                .unwrap_or("default");
            object["apiVersion"] == query.api_version
                && object["kind"] == query.kind
                && (!namespaced || query.namespace.is_empty() || namespace == query.namespace)
        }))
    }

    fn get(&self, query: &Query<'_>, name: &str) -> Result<Option<Value>, LookupError> {
        let mut found = self.matching(query)?;
        Ok(found
            .find(|object| object["metadata"]["name"] == name)
            .cloned())
    }

    fn list(&self, query: &Query<'_>) -> Result<Vec<Value>, LookupError> {
        let selector: LabelSelector = query
            .selector
            .parse()
            .map_err(|error| LookupError::Final(format!("{error}")))?;
        let matches = |object: &&Value| selector.matches(&object["metadata"]["labels"]);
        Ok(self.matching(query)?.filter(matches).cloned().collect())
    }
}

/// A cluster, asked when something is looked up.
struct Cluster {
    client: kube::Client,
    /// What is served of each kind that was asked for, by API version and kind.
    kinds: Mutex<BTreeMap<(String, String), Option<Served>>>,
}

/// Where a kind is served.
#[derive(Debug, Clone)]
struct Served {
    /// The path of its API version.
    base: String,
    plural: String,
    namespaced: bool,
}

impl Cluster {
    /// Waits for an answer from where nothing can wait: the engine knows no futures.
    fn ask(&self, path: &str) -> Result<Option<Value>, LookupError> {
        let request = http::Request::get(path)
            .body(Vec::new())
            .map_err(|error| LookupError::Final(error.to_string()))?;
        let answer = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(self.client.request::<Value>(request))
        });
        match answer {
            Ok(value) => Ok(Some(value)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(kube::Error::Api(status)) if matches!(status.code, 400 | 405 | 422) => {
                Err(LookupError::Final(status.message.clone()))
            }
            Err(error) => Err(LookupError::Retryable(describe(&error).message)),
        }
    }

    fn resource(&self, api_version: &str, kind: &str) -> Result<Option<Served>, LookupError> {
        let key = (api_version.to_owned(), kind.to_owned());
        let known = self
            .kinds
            .lock()
            .ok()
            .and_then(|kinds| kinds.get(&key).cloned());
        if let Some(known) = known {
            return Ok(known);
        }
        for part in api_version.split('/') {
            check_segment(part)?;
        }
        let base = if api_version.contains('/') {
            format!("/apis/{api_version}")
        } else {
            format!("/api/{api_version}")
        };
        let served = self.ask(&base)?;
        let resources = served
            .as_ref()
            .and_then(|list| list["resources"].as_array());
        let found = resources.into_iter().flatten().find(|resource| {
            let name = resource["name"].as_str().unwrap_or_default();
            resource["kind"] == kind && !name.contains('/')
        });
        let found = found.map(|resource| Served {
            base: base.clone(),
            plural: resource["name"].as_str().unwrap_or_default().to_owned(),
            namespaced: resource["namespaced"].as_bool().unwrap_or(false),
        });
        if let Ok(mut kinds) = self.kinds.lock() {
            kinds.insert(key, found.clone());
        }
        Ok(found)
    }

    fn path(&self, query: &Query<'_>) -> Result<String, LookupError> {
        check_segment(query.namespace)?;
        let Served {
            base,
            plural,
            namespaced,
        } = self
            .resource(query.api_version, query.kind)?
            .ok_or(LookupError::MissingKind)?;
        Ok(if namespaced && !query.namespace.is_empty() {
            format!("{base}/namespaces/{}/{plural}", query.namespace)
        } else {
            format!("{base}/{plural}")
        })
    }

    fn get(&self, query: &Query<'_>, name: &str) -> Result<Option<Value>, LookupError> {
        check_segment(name)?;
        let path = self.path(query)?;
        self.ask(&format!("{path}/{name}"))
    }

    fn list(&self, query: &Query<'_>) -> Result<Vec<Value>, LookupError> {
        let path = self.path(query)?;
        let selector = percent_encoded(query.selector);
        let list = self.ask(&format!("{path}?labelSelector={selector}"))?;
        let items = list.and_then(|list| list["items"].as_array().cloned());
        let complete = |mut object: Value| {
            // Lists leave out what every item has in common.
            object["apiVersion"] = query.api_version.into();
            object["kind"] = query.kind.into();
            object
        };
        Ok(items.into_iter().flatten().map(complete).collect())
    }
}

/// A template chooses what it looks for, but not where: what would lead to another path is no name.
fn check_segment(text: &str) -> Result<(), LookupError> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b':');
    if matches!(text, "." | "..") || !text.bytes().all(plain) {
        return Err(LookupError::Final(format!("{text:?} is no name")));
    }
    Ok(())
}

/// A selector as part of a query.
fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_lead_elsewhere() {
        for fine in [
            "",
            "v1",
            "my-config.v2",
            "system:node",
            "cluster.example.com",
        ] {
            assert_eq!(check_segment(fine), Ok(()), "{fine}");
        }
        for refused in ["..", ".", "a/b", "a?b", "a#b", "a%2fb", "a b", "é"] {
            assert!(check_segment(refused).is_err(), "{refused}");
        }
        assert_eq!(percent_encoded("a=b,c"), "a%3Db%2Cc");
    }
}
