//! Watches what concerns policies: the policies, their revisions and webhooks, and the servers they run on.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DynamicObject;
use kube::runtime::watcher;
use kube::{Api, ResourceExt as _};
use polity_api::policies::v1::{PolicyRevision, PolicyServer};
use polity_api::policies::{api_resource, names};
use polity_core::policy::{dotted_name, unique_name};
use serde_json::Value;

use super::observe::configurations;
use super::{Lifecycle, PolicyKey};
use crate::lifecycle::{PolicyKind, WebhookKind};

use crate::shell::watch;

/// The policies of the cluster, with the keys by which other objects lead to them.
#[derive(Debug, Default)]
pub(super) struct Index {
    policies: BTreeMap<PolicyKey, Entry>,
}

#[derive(Debug)]
struct Entry {
    uid: String,
    server: String,
    /// What a plan depends on besides the status, which only the controller writes.
    seen: Seen,
}

type Seen = (
    Option<i64>,
    Option<BTreeMap<String, String>>,
    Option<Vec<String>>,
    bool,
);

impl Index {
    /// The other policies that would have the same id.
    pub(super) fn rivals(&self, key: &PolicyKey) -> Vec<PolicyKey> {
        let id = PolicyKey::unique_name;
        let wanted = id(key);
        let policies = self.policies.keys();
        policies
            .filter(|other| *other != key && id(other) == wanted)
            .cloned()
            .collect()
    }

    /// All of them.
    pub(super) fn keys(&self) -> Vec<PolicyKey> {
        self.policies.keys().cloned().collect()
    }

    fn of_server(&self, server: &str) -> Vec<PolicyKey> {
        self.find(|entry| entry.server == server)
    }

    fn of_uid(&self, uid: &str) -> Vec<PolicyKey> {
        self.find(|entry| entry.uid == uid)
    }

    /// The policies that a webhook configuration belongs to, by its annotation or by its name: an edit can take the
    /// annotation away.
    fn of_webhook(&self, webhook: &DynamicObject) -> Vec<PolicyKey> {
        let uid = webhook.annotations().get(names::POLICY_UID);
        let name = webhook.name_any();
        let is_named = |key: &PolicyKey| {
            let ids = [unique_name, dotted_name];
            ids.iter()
                .any(|id| id(key.kind, key.namespace.as_deref(), &key.name) == name)
        };
        let policies = self.policies.iter();
        policies
            .filter(|(key, entry)| uid == Some(&entry.uid) || is_named(key))
            .map(|(key, _)| key.clone())
            .collect()
    }

    fn find(&self, is_it: impl Fn(&Entry) -> bool) -> Vec<PolicyKey> {
        let policies = self.policies.iter().filter(|(_, entry)| is_it(entry));
        policies.map(|(key, _)| key.clone()).collect()
    }
}

/// Watches everything that concerns policies. Never ends.
pub(super) async fn run(lifecycle: &Lifecycle) {
    let client = &lifecycle.client;
    let namespace = &lifecycle.settings().namespace;
    let policies = PolicyKind::ALL.map(|kind| {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &api_resource(kind));
        watch(
            api,
            api_resource(kind),
            watcher::Config::default(),
            move |event| {
                lifecycle.policy_changed(kind, event);
            },
        )
    });
    let revisions = watch(
        Api::<PolicyRevision>::namespaced(client.clone(), namespace),
        (),
        watcher::Config::default(),
        |event| {
            lifecycle.wake(event, |index, revision| {
                let uid = revision.labels().get(names::POLICY_UID);
                uid.map(|uid| index.of_uid(uid)).unwrap_or_default()
            });
        },
    );
    let part_of = format!("{}={}", names::PART_OF, names::PART_OF_VALUE);
    let webhooks = [WebhookKind::Validating, WebhookKind::Mutating].map(|kind| {
        watch(
            configurations(client, kind),
            super::observe::configuration_resource(kind),
            watcher::Config::default().labels(&part_of),
            |event| {
                lifecycle.wake(event, Index::of_webhook);
            },
        )
    });
    let servers = watch(
        Api::<PolicyServer>::all(client.clone()),
        (),
        watcher::Config::default(),
        |event| {
            lifecycle.wake(event, |index, server| index.of_server(&server.name_any()));
        },
    );
    let of_workload = |index: &Index, labels: &BTreeMap<String, String>| {
        let server = labels.get(names::WORKLOAD_POLICY_SERVER);
        server
            .map(|server| index.of_server(server))
            .unwrap_or_default()
    };
    let workloads = watch(
        Api::<StatefulSet>::namespaced(client.clone(), namespace),
        (),
        watcher::Config::default().labels(names::WORKLOAD_POLICY_SERVER),
        |event| {
            lifecycle.wake(event, |index, workload| {
                of_workload(index, workload.labels())
            });
        },
    );
    let pods = watch(
        Api::<Pod>::namespaced(client.clone(), namespace),
        (),
        watcher::Config::default().labels(names::WORKLOAD_POLICY_SERVER),
        |event| lifecycle.wake(event, |index, pod| of_workload(index, pod.labels())),
    );
    tokio::join!(
        futures::future::join_all(policies),
        futures::future::join_all(webhooks),
        revisions,
        servers,
        workloads,
        pods,
    );
}

impl Lifecycle {
    fn policy_changed(&self, kind: PolicyKind, event: &watcher::Event<DynamicObject>) {
        use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
        match event {
            Apply(object) | InitApply(object) => {
                let key = key_of(kind, object);
                let server = object
                    .data
                    .get("spec")
                    .and_then(|spec| spec.get("policyServer"));
                let metadata = &object.metadata;
                let entry = Entry {
                    uid: object.uid().unwrap_or_default(),
                    server: server
                        .and_then(Value::as_str)
                        .unwrap_or_default()
                        .to_owned(),
                    seen: (
                        metadata.generation,
                        metadata.annotations.clone(),
                        metadata.finalizers.clone(),
                        metadata.deletion_timestamp.is_some(),
                    ),
                };
                let is_news = self.index(|index| {
                    let before = index.policies.get(&key);
                    let is_news = before.is_none_or(|before| {
                        (&before.uid, &before.seen) != (&entry.uid, &entry.seen)
                    });
                    index.policies.insert(key.clone(), entry);
                    is_news
                });
                if is_news {
                    self.queue.add(key);
                }
            }
            Delete(object) => {
                let key = key_of(kind, object);
                let rivals = self.index(|index| {
                    index.policies.remove(&key);
                    index.rivals(&key)
                });
                // A policy that took another id because of this one is planned again.
                for rival in rivals {
                    self.queue.add(rival);
                }
            }
            // A policy that was deleted during a gap of the watch is found gone when it is reconciled.
            Init | InitDone => {}
        }
    }

    /// Asks for a reconcile of the policies that an object concerns.
    fn wake<K>(&self, event: &watcher::Event<K>, concerned: impl Fn(&Index, &K) -> Vec<PolicyKey>) {
        use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
        match event {
            Apply(object) | InitApply(object) | Delete(object) => {
                for key in self.index(|index| concerned(index, object)) {
                    self.queue.add(key);
                }
            }
            Init | InitDone => {}
        }
    }
}

fn key_of(kind: PolicyKind, object: &DynamicObject) -> PolicyKey {
    PolicyKey {
        kind,
        namespace: object.namespace(),
        name: object.name_any(),
    }
}
