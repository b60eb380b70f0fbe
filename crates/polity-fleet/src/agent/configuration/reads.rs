//! The managed cluster as a configuration policy reads it, with a record of everything that it read: a change of any of it
//! evaluates the policy again.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use jiff::Zoned;
use jiff::tz::TimeZone;
use polity_comply::namespaces::Namespace;
use polity_comply::{Cluster, DryRun, Kind, ReadError};
use polity_core::selector::LabelSelector;
use polity_core::{GroupVersion, GroupVersionKind, ObjectKey};
use polity_source::cluster::{ClusterModel, ConfigurationCluster, DryRunUpdates, TemplateHost};
use polity_template::{CertificatePair, CertificateRequest, Host, KeyKind, LookupError, Query};
use serde_json::Value;

use crate::agent::objects::{KindState, ObjectId};

/// What an evaluation has read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reads {
    pub(super) objects: BTreeSet<ObjectId>,
    /// Lists of a kind, in one namespace or in all.
    pub(super) lists: BTreeSet<(GroupVersionKind, Option<String>)>,
    /// Kinds that are not watched yet: the evaluation is repeated when they are.
    pub(super) unwatched: BTreeSet<GroupVersionKind>,
    /// Kinds that the cluster does not serve.
    pub(super) not_served: BTreeSet<GroupVersionKind>,
}

/// Reads the watched objects of a cluster for one evaluation, and records what it reads.
pub(super) struct RecordingCluster<'a> {
    model: &'a ClusterModel,
    objects: ConfigurationCluster<'a>,
    host: TemplateHost<'a>,
    state_of: &'a (dyn Fn(&GroupVersionKind) -> KindState + Sync),
    reads: Mutex<Reads>,
}

impl<'a> RecordingCluster<'a> {
    pub(super) fn new(
        model: &'a ClusterModel,
        updates: &'a dyn DryRunUpdates,
        state_of: &'a (dyn Fn(&GroupVersionKind) -> KindState + Sync),
        now: Timestamp,
    ) -> Self {
        Self {
            model,
            objects: ConfigurationCluster::new(model, updates),
            host: TemplateHost::new(model, now),
            state_of,
            reads: Mutex::default(),
        }
    }

    /// What was read so far.
    pub(super) fn take_reads(&self) -> Reads {
        std::mem::take(&mut *self.reads())
    }

    fn reads(&self) -> MutexGuard<'_, Reads> {
        // Every change is a single insertion.
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the kind, and returns whether its objects are known.
    fn is_known(&self, gvk: &GroupVersionKind) -> bool {
        match (self.state_of)(gvk) {
            KindState::Watched => true,
            KindState::NotServed => {
                self.reads().not_served.insert(gvk.clone());
                false
            }
            KindState::Unknown => {
                self.reads().unwatched.insert(gvk.clone());
                false
            }
        }
    }

    fn kind_of(&self, query: &Query<'_>) -> Option<Kind> {
        let GroupVersion { group, version } = query.api_version.parse().ok()?;
        let gvk = GroupVersionKind::new(group, version, query.kind);
        if !self.is_known(&gvk) {
            return None;
        }
        self.model.kind(&gvk).ok().flatten()
    }

    fn note_object(&self, kind: &Kind, key: &ObjectKey) {
        self.reads().objects.insert((kind.gvk.clone(), key.clone()));
    }

    fn note_list(&self, kind: &Kind, namespace: Option<&str>) {
        let list = (kind.gvk.clone(), namespace.map(str::to_owned));
        self.reads().lists.insert(list);
    }
}

impl Cluster for RecordingCluster<'_> {
    fn kind(&self, gvk: &GroupVersionKind) -> Result<Option<Kind>, ReadError> {
        match self.is_known(gvk) {
            true => self.objects.kind(gvk),
            false => Ok(None),
        }
    }

    fn namespaces(&self) -> Result<Vec<Namespace>, ReadError> {
        let gvk = GroupVersionKind::new("", "v1", "Namespace");
        if !self.is_known(&gvk) {
            return Ok(Vec::new());
        }
        self.reads().lists.insert((gvk, None));
        self.objects.namespaces()
    }

    fn get(&self, kind: &Kind, key: &ObjectKey) -> Result<Option<Arc<Value>>, ReadError> {
        self.note_object(kind, key);
        self.objects.get(kind, key)
    }

    fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &LabelSelector,
    ) -> Result<Vec<Arc<Value>>, ReadError> {
        self.note_list(kind, namespace);
        self.objects.list(kind, namespace, selector)
    }

    fn dry_run_update(&self, kind: &Kind, current: &Value, updated: &Value) -> DryRun {
        self.objects.dry_run_update(kind, current, updated)
    }
}

impl Host for RecordingCluster<'_> {
    fn now(&self) -> Zoned {
        self.host.now()
    }

    fn random(&self, buffer: &mut [u8]) {
        self.host.random(buffer);
    }

    fn get(&self, query: &Query<'_>, name: &str) -> Result<Option<Value>, LookupError> {
        if let Some(kind) = self.kind_of(query) {
            let namespace = kind.namespaced.then(|| query.namespace.to_owned());
            let name = name.to_owned();
            self.note_object(&kind, &ObjectKey { namespace, name });
        }
        self.host.get(query, name)
    }

    fn list(&self, query: &Query<'_>) -> Result<Vec<Value>, LookupError> {
        if let Some(kind) = self.kind_of(query) {
            let namespace = Some(query.namespace).filter(|it| !it.is_empty() && kind.namespaced);
            self.note_list(&kind, namespace);
        }
        self.host.list(query)
    }

    fn is_namespaced(&self, api_version: &str, kind: &str) -> Result<Option<bool>, LookupError> {
        let query = Query {
            api_version,
            kind,
            namespace: "",
            selector: "",
        };
        self.kind_of(&query);
        self.host.is_namespaced(api_version, kind)
    }

    fn zone(&self, name: &str) -> Option<TimeZone> {
        self.host.zone(name)
    }

    fn addresses(&self, host_name: &str) -> Vec<String> {
        self.host.addresses(host_name)
    }

    fn private_key(&self, kind: KeyKind) -> Result<String, String> {
        self.host.private_key(kind)
    }

    fn check_certificate(&self, pem: &str) -> Result<(), String> {
        self.host.check_certificate(pem)
    }

    fn check_private_key(&self, pem: &str) -> Result<(), String> {
        self.host.check_private_key(pem)
    }

    fn certificate(&self, request: &CertificateRequest<'_>) -> Result<CertificatePair, String> {
        self.host.certificate(request)
    }
}
