//! The cluster as templates read it, with the time, randomness, names and keys of this machine.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use polity_comply::Kind;
use polity_core::selector::LabelSelector;
use polity_core::{GroupVersion, GroupVersionKind, ObjectKey};
use polity_template::{CertificatePair, CertificateRequest, Host, KeyKind, LookupError, Query};
use serde_json::Value;

use super::{ClusterModel, ReadError};
use crate::keys;

/// Adapts a model to the lookups of templates.
#[derive(Debug, Clone, Copy)]
pub struct TemplateHost<'a> {
    model: &'a ClusterModel,
    now: Timestamp,
}

impl<'a> TemplateHost<'a> {
    /// `now` is the time of the whole resolution.
    pub fn new(model: &'a ClusterModel, now: Timestamp) -> Self {
        Self { model, now }
    }

    fn kind(&self, api_version: &str, kind: &str) -> Result<Option<Kind>, LookupError> {
        let GroupVersion { group, version } = api_version
            .parse()
            .map_err(|error| LookupError::Final(format!("{error}")))?;
        let gvk = GroupVersionKind::new(group, version, kind);
        self.model.kind(&gvk).map_err(unread)
    }

    fn served(&self, query: &Query<'_>) -> Result<Kind, LookupError> {
        self.kind(query.api_version, query.kind)?
            .ok_or(LookupError::MissingKind)
    }
}

fn unread(error: ReadError) -> LookupError {
    match error {
        ReadError::Refused {
            code: 400 | 405 | 422,
            message,
            ..
        } => LookupError::Final(message),
        ReadError::InvalidName(_) => LookupError::Final(error.to_string()),
        ReadError::Refused { .. } | ReadError::NoAnswer(_) => {
            LookupError::Retryable(error.to_string())
        }
    }
}

impl Host for TemplateHost<'_> {
    fn now(&self) -> Zoned {
        self.now.to_zoned(TimeZone::system())
    }

    fn random(&self, buffer: &mut [u8]) {
        // The generator of the crypto library fails only where the system has none at all.
        aws_lc_rs::rand::fill(buffer).expect("the system gives random bytes");
    }

    fn get(&self, query: &Query<'_>, name: &str) -> Result<Option<Value>, LookupError> {
        let kind = self.served(query)?;
        let key = ObjectKey {
            namespace: kind.namespaced.then(|| query.namespace.to_owned()),
            name: name.to_owned(),
        };
        let found = self.model.get(&kind, &key).map_err(unread)?;
        Ok(found.map(|object| Value::clone(&object)))
    }

    fn list(&self, query: &Query<'_>) -> Result<Vec<Value>, LookupError> {
        let kind = self.served(query)?;
        let selector: LabelSelector = query
            .selector
            .parse()
            .map_err(|error| LookupError::Final(format!("{error}")))?;
        let namespace = Some(query.namespace).filter(|it| !it.is_empty() && kind.namespaced);
        let found = match self.model.list(&kind, namespace, &selector) {
            // The kind was removed since it was found.
            Err(ReadError::Refused { code: 404, .. }) => return Ok(Vec::new()),
            found => found.map_err(unread)?,
        };
        Ok(found.iter().map(|object| Value::clone(object)).collect())
    }

    fn is_namespaced(&self, api_version: &str, kind: &str) -> Result<Option<bool>, LookupError> {
        Ok(self.kind(api_version, kind)?.map(|kind| kind.namespaced))
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
        keys::certificate(request, self.now)
    }
}
