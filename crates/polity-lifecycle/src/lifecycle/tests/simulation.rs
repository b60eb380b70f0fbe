//! A simulation for one policy: it stores what a plan writes as an API server would, and plays leader, replicas and pods.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::DynamicObject;
use polity_api::policies::names;
use polity_api::policies::v1::{
    ConditionStatus, ConditionType, ObservedMode, Phase, PolicyCondition, PolicyRevision,
    PolicyState, PolicyStatus, ResolvedModule,
};
use serde_json::{Value, json};

use crate::lifecycle::{
    Observed, Plan, Pod, Policy, PolicyKind, Server, Settings, Step, Webhook, Write,
};
use crate::names::UniqueNames;

pub(in crate::lifecycle) const SERVER: &str = "default";

#[derive(Debug, Clone)]
pub(in crate::lifecycle) struct Simulation {
    pub(in crate::lifecycle) observed: Observed,
    pub(in crate::lifecycle) now: Timestamp,
    /// Whether the policy is still there.
    pub(in crate::lifecycle) exists: bool,
    /// What was told, as `Reason`, oldest first.
    pub(in crate::lifecycle) events: Vec<String>,
    /// The notes of these Events.
    pub(in crate::lifecycle) notes: Vec<String>,
    /// Everything written, in a word each.
    pub(in crate::lifecycle) writes: Vec<String>,
    version: u64,
}

impl Simulation {
    /// A policy that was just created, and a policy server with this many ready replicas.
    pub(in crate::lifecycle) fn new(n_replicas: i32) -> Self {
        Self::of(PolicyKind::ClusterAdmissionPolicy, n_replicas)
    }

    pub(in crate::lifecycle) fn of(kind: PolicyKind, n_replicas: i32) -> Self {
        let now: Timestamp = "2026-11-16T12:00:00Z".parse().unwrap();
        let mut simulation = Self {
            observed: Observed {
                policy: Policy::read(kind, object(kind, now)).unwrap(),
                revisions: Vec::new(),
                webhooks: Vec::new(),
                servers: BTreeMap::new(),
                rivals: Vec::new(),
                refusal: None,
                settings: Settings {
                    namespace: "kubewarden".into(),
                    drain: Duration::from_secs(10),
                    history_limit: 10,
                    unique_names: UniqueNames::Classic,
                    ca_bundle: "CA".into(),
                },
            },
            now,
            exists: true,
            events: Vec::new(),
            notes: Vec::new(),
            writes: Vec::new(),
            version: 1,
        };
        simulation.add_server(n_replicas);
        simulation
    }

    /// One that is enforced in its first generation.
    pub(in crate::lifecycle) fn active(n_replicas: i32) -> Self {
        let mut simulation = Self::new(n_replicas);
        simulation.settle();
        simulation.load(1);
        assert_eq!(simulation.line(), "Active S=1 | 1 on serving");
        simulation.events.clear();
        simulation.notes.clear();
        simulation.writes.clear();
        simulation
    }

    // --- What the controller does.

    /// Plans and writes until there is nothing left to write; answers when it wants to look again.
    pub(in crate::lifecycle) fn settle(&mut self) -> Option<Timestamp> {
        for _ in 0..50 {
            let plan = Plan::of(&self.observed, self.now);
            if plan.steps.is_empty() || !self.exists {
                return plan.look_again_at;
            }
            for step in plan.steps {
                if !self.carry_out(step) {
                    break;
                }
            }
        }
        panic!("it never comes to rest: {:#?}", self.writes);
    }

    /// Settles, and goes on settling whenever it wants to look again.
    pub(in crate::lifecycle) fn settle_for_good(&mut self) {
        while let Some(when) = self.settle() {
            assert!(when > self.now, "it wants to look at once without writing");
            self.now = when;
        }
    }

    /// Stores one write as an API server would; false for a conflict.
    pub(in crate::lifecycle) fn carry_out(&mut self, step: Step) -> bool {
        let Step { write, events } = step;
        let (name, is_done) = self.store(write);
        if is_done {
            self.writes.push(name);
            self.notes
                .extend(events.iter().map(|event| event.note.clone()));
            self.events
                .extend(events.iter().map(|event| event.reason.as_str().to_owned()));
        }
        is_done
    }

    fn store(&mut self, write: Write) -> (String, bool) {
        self.version += 1;
        let version = Some(self.version.to_string());
        match write {
            Write::UpdatePolicy(object) => ("policy".into(), self.store_policy(*object)),
            Write::RollBack { rolled_back, .. } => {
                ("rollback".into(), self.store_policy(*rolled_back))
            }
            Write::UpdatePolicyStatus(status) => {
                assert_agrees(&status);
                let mut object = self.observed.policy.object.clone();
                object.data["status"] = json!(*status);
                object.metadata.resource_version = version;
                self.read_policy(object);
                ("status".into(), true)
            }
            Write::CreateRevision(revision) => {
                let mut revision = *revision;
                assert!(self.observed.policy.deleted_at().is_none());
                revision.metadata.resource_version = version;
                revision.metadata.uid = Some(format!("revision-{}", self.version));
                revision.metadata.creation_timestamp = Some(Time(self.now));
                let name = revision.metadata.name.clone();
                let is_there = |one: &PolicyRevision| one.metadata.name == name;
                assert!(!self.observed.revisions.iter().any(is_there));
                let word = format!("create {}", revision.spec.policy_generation);
                self.observed.revisions.push(revision);
                (word, true)
            }
            Write::UpdateRevision(revision) => {
                let word = format!("update {}", revision.spec.policy_generation);
                (word, self.store_revision(*revision, false))
            }
            Write::UpdateRevisionStatus(revision) => {
                let word = format!("report {}", revision.spec.policy_generation);
                (word, self.store_revision(*revision, true))
            }
            Write::DeleteRevision(revision) => {
                let is_kept = |one: &PolicyRevision| one.metadata.name != revision.metadata.name;
                self.observed.revisions.retain(is_kept);
                (format!("delete {}", revision.spec.policy_generation), true)
            }
            Write::CreateWebhook(webhook) => {
                let word = format!("webhook {}", webhook.generation().unwrap_or_default());
                let is_there =
                    |one: &Webhook| (one.kind, &one.name) == (webhook.kind, &webhook.name);
                assert!(!self.observed.webhooks.iter().any(is_there));
                let uid = Some(format!("webhook-{}", self.version));
                self.observed.webhooks.push(Webhook {
                    uid,
                    resource_version: version,
                    ..*webhook
                });
                (word, true)
            }
            Write::UpdateWebhook(webhook) => {
                let word = format!("webhook {}", webhook.generation().unwrap_or_default());
                let is_it = |one: &&mut Webhook| {
                    (one.kind, &one.name) == (webhook.kind, &webhook.name)
                        && one.resource_version == webhook.resource_version
                };
                let Some(there) = self.observed.webhooks.iter_mut().find(is_it) else {
                    return (word, false);
                };
                *there = Webhook {
                    resource_version: version,
                    ..*webhook
                };
                (word, true)
            }
            Write::DeleteWebhook(webhook) => {
                let is_kept =
                    |one: &Webhook| (one.kind, &one.name) != (webhook.kind, &webhook.name);
                self.observed.webhooks.retain(is_kept);
                ("no webhook".into(), true)
            }
        }
    }

    fn store_policy(&mut self, mut object: DynamicObject) -> bool {
        let before = &self.observed.policy.object;
        if object.metadata.resource_version != before.metadata.resource_version {
            return false;
        }
        if object.data.get("spec") != before.data.get("spec") {
            object.metadata.generation =
                before.metadata.generation.map(|generation| generation + 1);
        }
        object.metadata.resource_version = Some(self.version.to_string());
        let finalizers = object.metadata.finalizers.iter().flatten().count();
        self.exists = object.metadata.deletion_timestamp.is_none() || finalizers > 0;
        self.read_policy(object);
        true
    }

    fn store_revision(&mut self, revision: PolicyRevision, is_status: bool) -> bool {
        let version = Some(self.version.to_string());
        let there = self.observed.revisions.iter_mut().find(|one| {
            one.metadata.name == revision.metadata.name
                && one.metadata.resource_version == revision.metadata.resource_version
        });
        let Some(there) = there else { return false };
        assert_eq!(
            there.spec.data, revision.spec.data,
            "a revision never changes"
        );
        assert!(there.spec.enabled || !revision.spec.enabled);
        if is_status {
            there.status = revision.status;
        } else {
            there.spec = revision.spec;
            there.metadata = revision.metadata;
        }
        there.metadata.resource_version = version;
        true
    }

    fn read_policy(&mut self, object: DynamicObject) {
        self.observed.policy = Policy::read(self.observed.policy.kind, object).unwrap();
    }

    // --- What the user does.

    /// Changes the specification, as a new generation.
    pub(in crate::lifecycle) fn edit(&mut self, edit: impl FnOnce(&mut Value)) {
        let mut object = self.observed.policy.object.clone();
        edit(&mut object.data["spec"]);
        object.metadata.generation = object.metadata.generation.map(|generation| generation + 1);
        self.read_policy(object);
    }

    /// Asks for another module, as a new generation.
    pub(in crate::lifecycle) fn update(&mut self, tag: &str) {
        self.edit(|spec| spec["module"] = json!(format!("registry.example/policy:{tag}")));
    }

    pub(in crate::lifecycle) fn annotate(&mut self, key: &str, value: &str) {
        let mut object = self.observed.policy.object.clone();
        let annotations = object.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
        self.read_policy(object);
    }

    pub(in crate::lifecycle) fn delete(&mut self) {
        let mut object = self.observed.policy.object.clone();
        object.metadata.deletion_timestamp = Some(Time(self.now));
        object.metadata.generation = object.metadata.generation.map(|generation| generation + 1);
        self.read_policy(object);
    }

    pub(in crate::lifecycle) fn pass(&mut self, seconds: i64) {
        self.now += jiff::SignedDuration::from_secs(seconds);
    }

    // --- What the policy server does.

    pub(in crate::lifecycle) fn add_server(&mut self, n_replicas: i32) {
        self.observed
            .servers
            .insert(SERVER.into(), Server::default());
        self.scale(n_replicas);
    }

    /// Sets the number of replicas; all of them take requests.
    pub(in crate::lifecycle) fn scale(&mut self, n_replicas: i32) {
        let created = self.now;
        let server = self.server();
        server.expected = Some(0..n_replicas);
        server.pods.retain(|replica, _| *replica < n_replicas);
        for replica in 0..n_replicas {
            server.pods.entry(replica).or_insert(Pod {
                created,
                is_running: true,
                is_ready: true,
            });
        }
    }

    pub(in crate::lifecycle) fn server(&mut self) -> &mut Server {
        self.observed.servers.get_mut(SERVER).unwrap()
    }

    pub(in crate::lifecycle) fn set_ready(&mut self, replica: i32, is_ready: bool) {
        self.server().pods.get_mut(&replica).unwrap().is_ready = is_ready;
    }

    /// Writes a condition as its writer would.
    pub(in crate::lifecycle) fn say(
        &mut self,
        generation: i64,
        type_: ConditionType,
        replica: Option<i32>,
        status: ConditionStatus,
        reason: &str,
    ) {
        self.version += 1;
        let version = self.version.to_string();
        let now = self.now;
        let revision = self.revision(generation);
        revision.metadata.resource_version = Some(version);
        let conditions = &mut revision.status.get_or_insert_default().conditions;
        conditions.retain(|one| one.type_ != type_.as_str() || one.replica != replica);
        conditions.push(PolicyCondition {
            type_: type_.as_str().into(),
            status,
            reason: reason.into(),
            message: format!("{reason}, in its own words."),
            generation: Some(generation),
            replica,
            last_transition_time: Some(Time(now)),
            observed_generation: Some(generation),
        });
    }

    pub(in crate::lifecycle) fn revision(&mut self, generation: i64) -> &mut PolicyRevision {
        let mut revisions = self.observed.revisions.iter_mut();
        revisions
            .find(|revision| revision.spec.policy_generation == generation)
            .unwrap()
    }

    pub(in crate::lifecycle) fn take(&mut self, generation: i64) {
        self.say(
            generation,
            ConditionType::Scheduled,
            None,
            ConditionStatus::True,
            "PolicyScheduled",
        );
    }

    pub(in crate::lifecycle) fn initialize(&mut self, generation: i64) {
        self.take(generation);
        self.say(
            generation,
            ConditionType::Initialized,
            None,
            ConditionStatus::True,
            "PolicyInitialized",
        );
        let status = self.revision(generation).status.get_or_insert_default();
        status.modules = vec![ResolvedModule {
            member: None,
            uri: "registry.example/policy:1".into(),
            digest: "00".into(),
            manifest_digest: None,
            size: 1,
        }];
    }

    pub(in crate::lifecycle) fn fail_to_initialize(&mut self, generation: i64, reason: &str) {
        self.take(generation);
        self.say(
            generation,
            ConditionType::Initialized,
            None,
            ConditionStatus::False,
            reason,
        );
    }

    pub(in crate::lifecycle) fn ready(&mut self, generation: i64, replica: i32) {
        self.say(
            generation,
            ConditionType::Ready,
            Some(replica),
            ConditionStatus::True,
            "PolicyReady",
        );
    }

    pub(in crate::lifecycle) fn fail_to_load(
        &mut self,
        generation: i64,
        replica: i32,
        reason: &str,
    ) {
        self.say(
            generation,
            ConditionType::Ready,
            Some(replica),
            ConditionStatus::False,
            reason,
        );
    }

    /// Initialises a generation and loads it on every replica.
    pub(in crate::lifecycle) fn load(&mut self, generation: i64) {
        self.initialize(generation);
        for replica in self.server().ordinals() {
            self.ready(generation, replica);
        }
        self.settle();
    }

    // --- What can be seen.

    pub(in crate::lifecycle) fn status(&self) -> &PolicyStatus {
        self.observed.policy.status.as_ref().unwrap()
    }

    pub(in crate::lifecycle) fn phase(&self) -> Phase {
        self.status().phase.unwrap()
    }

    /// The generation the webhook points at.
    pub(in crate::lifecycle) fn webhook(&self) -> Option<i64> {
        let webhooks = self.observed.webhooks.iter();
        webhooks.filter_map(Webhook::generation).max()
    }

    /// Phase, webhook and revisions in one line: `Updating S=1 | 1 on serving, 2 on`.
    pub(in crate::lifecycle) fn line(&self) -> String {
        let mut revisions = self.observed.newest_first();
        revisions.reverse();
        let revisions: Vec<_> = revisions
            .into_iter()
            .map(|revision| {
                let on = if revision.spec.enabled { "on" } else { "off" };
                let annotations = revision.metadata.annotations.as_ref().unwrap();
                let mark = annotations.get(names::SERVING).map_or("", |_| " serving");
                format!("{} {on}{mark}", revision.spec.policy_generation)
            })
            .collect();
        let serving = self
            .webhook()
            .map_or("-".to_owned(), |serving| serving.to_string());
        format!("{:?} S={serving} | {}", self.phase(), revisions.join(", "))
    }

    /// The conditions of the lifecycle on the policy, one a line: `2 Ready[0]=True/PolicyReady`.
    pub(in crate::lifecycle) fn conditions(&self) -> Vec<String> {
        shown(&self.status().conditions)
            .into_iter()
            .filter(|line| {
                !line.contains("Policy")
                    || line.contains("Scheduled")
                    || line.contains("Ready")
                    || line.contains("Initialized")
            })
            .collect()
    }

    /// The conditions of a revision, as above.
    pub(in crate::lifecycle) fn conditions_of(&self, generation: i64) -> Vec<String> {
        let revision = self.observed.revision(generation).unwrap();
        shown(&revision.status.clone().unwrap_or_default().conditions)
    }

    /// A condition of older releases: `True/PolicyActive`.
    pub(in crate::lifecycle) fn legacy(&self, type_: ConditionType) -> String {
        let conditions = &self.status().conditions;
        let mut found = conditions.iter().filter(|one| one.type_ == type_.as_str());
        let one = found.next().unwrap();
        assert_eq!(found.next(), None);
        format!("{:?}/{}", one.status, one.reason)
    }
}

fn shown(conditions: &[PolicyCondition]) -> Vec<String> {
    conditions
        .iter()
        .map(|one| {
            let replica = one
                .replica
                .map_or(String::new(), |replica| format!("[{replica}]"));
            let generation = one.generation.unwrap();
            format!(
                "{generation} {}{replica}={:?}/{}",
                one.type_, one.status, one.reason
            )
        })
        .collect()
}

fn object(kind: PolicyKind, now: Timestamp) -> DynamicObject {
    let mut object = json!({
        "apiVersion": "policies.kubewarden.io/v1",
        "kind": kind.as_str(),
        "metadata": {
            "name": "pods", "uid": "uid-1", "generation": 1, "resourceVersion": "1",
            "creationTimestamp": now.to_string(), "finalizers": ["kubewarden.io/finalizer"],
        },
        "spec": {
            "policyServer": SERVER, "mode": "protect", "timeoutSeconds": 10, "backgroundAudit": true,
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"],
            }],
        },
    });
    let spec = &mut object["spec"];
    if kind.is_group() {
        spec["expression"] = json!("a() && b()");
        spec["message"] = json!("no");
        spec["policies"] = json!({"a": {"module": "a:1"}, "b": {"module": "b:1"}});
    } else {
        spec["mutating"] = json!(false);
        spec["module"] = json!("registry.example/policy:1");
    }
    if kind.is_namespaced() {
        object["metadata"]["namespace"] = json!("team");
    }
    serde_json::from_value(object).unwrap()
}

/// `policyStatus` says whether any generation is served, and `phase` what became of the newest one.
fn assert_agrees(status: &PolicyStatus) {
    let is_active = status.policy_status == PolicyState::Active;
    let agrees = match status.phase {
        Some(Phase::Active | Phase::Updating) => is_active,
        Some(Phase::Pending) => !is_active,
        Some(Phase::Failed) => matches!(
            status.policy_status,
            PolicyState::Active | PolicyState::Pending
        ),
        None => false,
    };
    assert!(agrees, "{:?} and {:?}", status.policy_status, status.phase);
    let is_served = status.mode != Some(ObservedMode::Unknown);
    // The webhook of an earlier installation calls a policy whose mode is not known.
    assert!(
        !is_served || is_active,
        "{:?} without a webhook",
        status.mode
    );
}
