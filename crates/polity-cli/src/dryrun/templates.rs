//! What templates see in a dry run: the objects a policy is held against, and this machine's clock.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use polity_comply::{Cluster, Kind, ReadError};
use polity_core::selector::LabelSelector;
use polity_core::{GroupVersion, GroupVersionKind, ObjectKey};
use polity_template::{CertificatePair, CertificateRequest, Host, KeyKind, LookupError, Query};
use serde_json::Value;

use crate::template::World;
use polity_source::Manifests;

/// The world of templates, over a cluster or over files in its place.
pub(super) struct DryrunHost<'c> {
    cluster: &'c dyn Cluster,
    now: Timestamp,
    /// For all that is not looked up: randomness, keys, names.
    machine: World,
}

impl<'c> DryrunHost<'c> {
    pub(super) fn new(cluster: &'c dyn Cluster, now: Timestamp) -> Self {
        Self {
            cluster,
            now,
            machine: World::of_manifests(&Manifests::default()),
        }
    }

    fn kind(&self, api_version: &str, kind: &str) -> Result<Option<Kind>, LookupError> {
        let GroupVersion { group, version } = api_version
            .parse()
            .map_err(|error| LookupError::Final(format!("{error}")))?;
        let gvk = GroupVersionKind::new(group, version, kind);
        self.cluster.kind(&gvk).map_err(unread)
    }

    fn served(&self, query: &Query<'_>) -> Result<Kind, LookupError> {
        self.kind(query.api_version, query.kind)?
            .ok_or(LookupError::MissingKind)
    }
}

fn unread(error: ReadError) -> LookupError {
    LookupError::Retryable(error.to_string())
}

impl Host for DryrunHost<'_> {
    fn now(&self) -> Zoned {
        self.now.to_zoned(TimeZone::system())
    }

    fn random(&self, buffer: &mut [u8]) {
        self.machine.random(buffer);
    }

    fn get(&self, query: &Query<'_>, name: &str) -> Result<Option<Value>, LookupError> {
        let kind = self.served(query)?;
        let key = ObjectKey {
            namespace: kind.namespaced.then(|| query.namespace.to_owned()),
            name: name.to_owned(),
        };
        let found = self.cluster.get(&kind, &key).map_err(unread)?;
        Ok(found.map(|object| Value::clone(&object)))
    }

    fn list(&self, query: &Query<'_>) -> Result<Vec<Value>, LookupError> {
        let kind = self.served(query)?;
        let selector: LabelSelector = query
            .selector
            .parse()
            .map_err(|error| LookupError::Final(format!("{error}")))?;
        let namespace = Some(query.namespace).filter(|it| !it.is_empty() && kind.namespaced);
        let found = self
            .cluster
            .list(&kind, namespace, &selector)
            .map_err(unread)?;
        Ok(found.iter().map(|object| Value::clone(object)).collect())
    }

    fn is_namespaced(&self, api_version: &str, kind: &str) -> Result<Option<bool>, LookupError> {
        Ok(self.kind(api_version, kind)?.map(|kind| kind.namespaced))
    }

    fn zone(&self, name: &str) -> Option<TimeZone> {
        self.machine.zone(name)
    }

    fn addresses(&self, host_name: &str) -> Vec<String> {
        self.machine.addresses(host_name)
    }

    fn private_key(&self, kind: KeyKind) -> Result<String, String> {
        self.machine.private_key(kind)
    }

    fn check_certificate(&self, pem: &str) -> Result<(), String> {
        self.machine.check_certificate(pem)
    }

    fn check_private_key(&self, pem: &str) -> Result<(), String> {
        self.machine.check_private_key(pem)
    }

    fn certificate(&self, request: &CertificateRequest<'_>) -> Result<CertificatePair, String> {
        self.machine.certificate(request)
    }
}
