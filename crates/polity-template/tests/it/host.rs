//! A host with fixed objects and a fixed time.

use std::cell::Cell;

use jiff::Zoned;
use jiff::tz::TimeZone;
use polity_template::{CertificatePair, CertificateRequest, Host, KeyKind, LookupError, Query};
use serde_json::Value;

#[derive(Debug, Default)]
pub(crate) struct TestHost {
    pub(crate) objects: Vec<Value>,
    counter: Cell<u8>,
}

impl TestHost {
    pub(crate) fn with(objects: Vec<Value>) -> Self {
        Self {
            objects,
            counter: Cell::new(0),
        }
    }

    fn matching(&self, query: &Query<'_>) -> Vec<Value> {
        let text = |object: &Value, path: &str| {
            object
                .pointer(path)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let fits = |object: &&Value| {
            let labels = object
                .pointer("/metadata/labels")
                .cloned()
                .unwrap_or_default();
            let namespace = text(object, "/metadata/namespace");
            text(object, "/apiVersion") == query.api_version
                && text(object, "/kind") == query.kind
                && (query.namespace.is_empty() || namespace == query.namespace)
                && query
                    .selector
                    .split(',')
                    .filter(|part| !part.is_empty())
                    .all(|part| match part.split_once('=') {
                        Some((key, value)) => labels[key] == value,
                        None => !labels[part].is_null(),
                    })
        };
        self.objects.iter().filter(fits).cloned().collect()
    }
}

impl Host for TestHost {
    fn now(&self) -> Zoned {
        jiff::civil::date(2026, 11, 16)
            .at(12, 0, 0, 0)
            .to_zoned(TimeZone::UTC)
            .expect("noon is in range")
    }

    fn random(&self, buffer: &mut [u8]) {
        for byte in buffer {
            self.counter
                .set(self.counter.get().wrapping_mul(5).wrapping_add(3));
            *byte = self.counter.get();
        }
    }

    fn get(&self, query: &Query<'_>, name: &str) -> Result<Option<Value>, LookupError> {
        self.is_namespaced(query.api_version, query.kind)?
            .ok_or(LookupError::MissingKind)?;
        let mut found = self.matching(query);
        found.retain(|object| {
            object
                .pointer("/metadata/name")
                .is_some_and(|found| found == name)
        });
        Ok(found.into_iter().next())
    }

    fn list(&self, query: &Query<'_>) -> Result<Vec<Value>, LookupError> {
        self.is_namespaced(query.api_version, query.kind)?
            .ok_or(LookupError::MissingKind)?;
        Ok(self.matching(query))
    }

    fn is_namespaced(&self, _: &str, kind: &str) -> Result<Option<bool>, LookupError> {
        Ok(match kind {
            "ConfigMap" | "Secret" | "Pod" => Some(true),
            "Node" | "Namespace" | "ClusterClaim" | "ManagedCluster" => Some(false),
            "Forbidden" => return Err(LookupError::Retryable("forbidden".to_owned())),
            _ => None,
        })
    }

    fn zone(&self, name: &str) -> Option<TimeZone> {
        TimeZone::get(name).ok()
    }

    fn addresses(&self, _: &str) -> Vec<String> {
        vec!["192.0.2.1".to_owned()]
    }

    fn private_key(&self, kind: KeyKind) -> Result<String, String> {
        Ok(format!("{kind:?}"))
    }

    fn check_certificate(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn check_private_key(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn certificate(&self, _: &CertificateRequest<'_>) -> Result<CertificatePair, String> {
        let pem = |label: &str| format!("-----BEGIN {label}-----\neA==\n-----END {label}-----\n");
        Ok(CertificatePair {
            certificate: pem("CERTIFICATE"),
            key: pem("RSA PRIVATE KEY"),
        })
    }
}
