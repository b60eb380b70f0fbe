//! Watches what concerns policies: the policies, their revisions and webhooks, and the servers they run on.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use polity_api::policies::v1::{PolicyRevision, PolicyServer};
use polity_api::policies::{api_resource, names};
use polity_core::policy::{dotted_name, unique_name};
use polity_reconcile::{Controller, Queue, SharedCache, Watch};
use serde_json::Value;

use super::observe::configuration_resource;
use super::{Lifecycle, PolicyKey};
use crate::lifecycle::{PolicyKind, WebhookKind};

/// The policies of the cluster, found by everything that leads to them.
pub(super) type PolicyCache = SharedCache<PolicyKey, CachedPolicy, IndexEntry>;

/// What the controller needs of a policy that it does not read again for a plan.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CachedPolicy {
    uid: String,
    server: String,
    // What a plan depends on besides the status, which only the controller writes.
    generation: Option<i64>,
    annotations: Option<BTreeMap<String, String>>,
    finalizers: Option<Vec<String>>,
    is_deleting: bool,
}

/// What leads to a policy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum IndexEntry {
    /// The UID of the policy.
    Uid(String),
    /// The policy server that it asks for.
    Server(String),
    /// Its id in the classic form, which several policies can have.
    ClassicId(String),
    /// Its id in the dotted form.
    DottedId(String),
}

impl IndexEntry {
    /// The entry of a policy and of all that have the same classic id.
    pub(super) fn classic_id(key: &PolicyKey) -> Self {
        Self::ClassicId(unique_name(key.kind, key.namespace.as_deref(), &key.name))
    }
}

pub(super) fn index_entries(key: &PolicyKey, policy: &CachedPolicy) -> Vec<IndexEntry> {
    let dotted = dotted_name(key.kind, key.namespace.as_deref(), &key.name);
    vec![
        IndexEntry::Uid(policy.uid.clone()),
        IndexEntry::Server(policy.server.clone()),
        IndexEntry::classic_id(key),
        IndexEntry::DottedId(dotted),
    ]
}

impl CachedPolicy {
    fn of(object: &DynamicObject) -> Self {
        let spec = object.data.get("spec");
        let server = spec.and_then(|spec| spec.get("policyServer"));
        let metadata = &object.metadata;
        Self {
            uid: object.uid().unwrap_or_default(),
            server: server
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
            generation: metadata.generation,
            annotations: metadata.annotations.clone(),
            finalizers: metadata.finalizers.clone(),
            is_deleting: metadata.deletion_timestamp.is_some(),
        }
    }
}

impl Lifecycle {
    /// Watches everything that concerns policies.
    pub(super) fn watch(&self, controller: &mut Controller<PolicyKey>) {
        for kind in PolicyKind::ALL {
            self.watch_policies(controller, kind);
        }
        let client = &self.client;
        let namespace = &self.settings.namespace;
        let policies = self.policies.clone();
        controller.watch(
            Watch::<PolicyRevision>::namespaced(client, namespace),
            |revision| {
                let uid = revision.labels().get(names::POLICY_UID)?;
                Some(IndexEntry::Uid(uid.clone()))
            },
            move |queue, entry, _| wake(queue, &policies, [entry]),
        );
        let part_of = format!("{}={}", names::PART_OF, names::PART_OF_VALUE);
        for kind in [WebhookKind::Validating, WebhookKind::Mutating] {
            let policies = self.policies.clone();
            let resource = configuration_resource(kind);
            controller.watch(
                Watch::<DynamicObject>::all_with(client, &resource).labels(&part_of),
                |webhook| Some(entries_of_webhook(webhook)),
                move |queue, entries, _| wake(queue, &policies, entries),
            );
        }
        let policies = self.policies.clone();
        controller.watch(
            Watch::<PolicyServer>::all(client),
            |server| Some(IndexEntry::Server(server.name_any())),
            move |queue, entry, _| wake(queue, &policies, [entry]),
        );
        let policies = self.policies.clone();
        controller.watch(
            Watch::<StatefulSet>::namespaced(client, namespace)
                .labels(names::WORKLOAD_POLICY_SERVER),
            |workload| server_of(workload.labels()),
            move |queue, entry, _| wake(queue, &policies, [entry]),
        );
        let policies = self.policies.clone();
        controller.watch(
            Watch::<Pod>::namespaced(client, namespace).labels(names::WORKLOAD_POLICY_SERVER),
            |pod| server_of(pod.labels()),
            move |queue, entry, _| wake(queue, &policies, [entry]),
        );
    }

    fn watch_policies(&self, controller: &mut Controller<PolicyKey>, kind: PolicyKind) {
        let lifecycle = self.clone();
        controller.keep(
            Watch::<DynamicObject>::all_with(&self.client, &api_resource(kind)),
            &self.policies,
            move |metadata| key_of(kind, metadata),
            |object| Some(CachedPolicy::of(object)),
            move |queue, change| {
                if change.now.is_some() {
                    queue.add(change.key);
                    return;
                }
                // A policy that took another id because of this one is planned again.
                for rival in lifecycle.rivals(&change.key) {
                    queue.add(rival);
                }
            },
        );
    }
}

/// The policies that a webhook configuration belongs to, by its annotation or by its name: an edit can take the
/// annotation away.
fn entries_of_webhook(webhook: &DynamicObject) -> Vec<IndexEntry> {
    let name = webhook.name_any();
    let uid = webhook.annotations().get(names::POLICY_UID).cloned();
    let uid = uid.map(IndexEntry::Uid);
    let names = [
        IndexEntry::ClassicId(name.clone()),
        IndexEntry::DottedId(name),
    ];
    names.into_iter().chain(uid).collect()
}

fn server_of(labels: &BTreeMap<String, String>) -> Option<IndexEntry> {
    let server = labels.get(names::WORKLOAD_POLICY_SERVER)?;
    Some(IndexEntry::Server(server.clone()))
}

/// Queues the policies that these entries lead to.
fn wake<'a>(
    queue: &Queue<PolicyKey>,
    policies: &PolicyCache,
    entries: impl IntoIterator<Item = &'a IndexEntry>,
) {
    policies.read(|policies| {
        let keys = entries.into_iter().flat_map(|entry| policies.find(entry));
        for key in keys {
            queue.add(key.clone());
        }
    });
}

fn key_of(kind: PolicyKind, metadata: &ObjectMeta) -> PolicyKey {
    PolicyKey {
        kind,
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone().unwrap_or_default(),
    }
}
