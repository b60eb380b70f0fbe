//! What the shell has read about one policy: the policy, its revisions, its webhooks, and the servers concerned.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use jiff::Timestamp;
use polity_api::policies::names;
use polity_api::policies::v1::{ConditionType, PolicyCondition, PolicyRevision};
use polity_core::PolicyKind;
use serde_json::Value;

use super::policy::{Content, Policy};
use super::webhook::Webhook;
use crate::names::{Claim, UniqueNames};

/// Everything a decision about one policy depends on, besides the time.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The policy.
    pub policy: Policy,
    /// Its revisions, by its UID, in any order.
    pub revisions: Vec<PolicyRevision>,
    /// Its webhooks, and any other of the same name, so that nothing of somebody else is overwritten.
    pub webhooks: Vec<Webhook>,
    /// The policy servers that it and its revisions name; one that is not here does not exist.
    pub servers: BTreeMap<String, Server>,
    /// The other live policies that have the same classic id.
    pub rivals: Vec<Claim>,
    /// What the API server refused when this was last tried, if it did.
    pub refusal: Option<Refusal>,
    /// How the controller is set up.
    pub settings: Settings,
}

/// What the API server did not take, with its own words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A revision.
    Revision(String),
    /// A webhook configuration.
    Webhook(String),
}

/// How the controller is set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Where revisions and policy servers live.
    pub namespace: String,
    /// How long an old generation is answered for after the webhook has moved on.
    pub drain: Duration,
    /// How many disabled revisions are kept where the policy server does not say.
    pub history_limit: usize,
    /// How new ids are spelled.
    pub unique_names: UniqueNames,
    /// The certificates that API servers trust policy servers by, in PEM.
    pub ca_bundle: String,
}

/// A policy server and its workload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Server {
    /// Whether it is being deleted.
    pub is_deleting: bool,
    /// The ordinals that its StatefulSet asks for; `None` while there is no StatefulSet.
    pub expected: Option<Range<i32>>,
    /// Its pods, by ordinal.
    pub pods: BTreeMap<i32, Pod>,
    /// How many pods of a Deployment, from before there were StatefulSets, still serve.
    pub n_deployment_pods: usize,
    /// How many disabled revisions it wants kept.
    pub history_limit: Option<usize>,
    /// Whether it asks for signatures to be verified, which nobody can do yet.
    pub asks_for_signatures: bool,
}

/// One replica's pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pod {
    /// When it was created.
    pub created: Timestamp,
    /// Whether its process runs.
    pub is_running: bool,
    /// Whether it takes requests.
    pub is_ready: bool,
}

impl Server {
    /// The ordinals that should be there, none while nobody knows.
    pub fn ordinals(&self) -> Range<i32> {
        self.expected.clone().unwrap_or(0..0)
    }

    /// Whether replica `i` takes requests.
    pub fn is_ready(&self, replica: i32) -> bool {
        self.pods.get(&replica).is_some_and(|pod| pod.is_ready)
    }

    /// Whether any replica runs.
    pub fn is_running(&self) -> bool {
        self.pods.values().any(|pod| pod.is_running)
    }
}

impl Observed {
    /// The policy server that this policy names, if it is there to stay.
    pub fn server(&self) -> Option<&Server> {
        self.live_server(&self.policy.content.enforcement.policy_server)
    }

    /// A policy server, if it is there to stay.
    pub fn live_server(&self, name: &str) -> Option<&Server> {
        self.servers.get(name).filter(|server| !server.is_deleting)
    }

    /// The revision of a generation.
    pub fn revision(&self, generation: i64) -> Option<&PolicyRevision> {
        let mut revisions = self.revisions.iter();
        revisions.find(|revision| revision.spec.policy_generation == generation)
    }

    /// The revision of the policy's current generation.
    pub fn current(&self) -> Option<&PolicyRevision> {
        self.revision(self.policy.generation)
    }

    /// Its revisions, newest first.
    pub fn newest_first(&self) -> Vec<&PolicyRevision> {
        let mut revisions: Vec<_> = self.revisions.iter().collect();
        revisions.sort_by_key(|revision| std::cmp::Reverse(revision.spec.policy_generation));
        revisions
    }

    /// How many disabled revisions are kept.
    pub fn history_limit(&self) -> usize {
        let server = self
            .servers
            .get(&self.policy.content.enforcement.policy_server);
        server
            .and_then(|server| server.history_limit)
            .unwrap_or(self.settings.history_limit)
    }
}

/// Questions to one revision.
pub(super) trait Revision {
    /// The policy's generation.
    fn generation(&self) -> i64;
    /// Whether it carries the mark of the one that the webhook points at.
    fn is_serving(&self) -> bool;
    /// The id of the policy, as recorded when the revision was made.
    fn id(&self) -> Option<&str>;
    /// The policy's specification, as it was.
    fn content(&self) -> Result<Content, serde_json::Error>;
    /// The policy server it is meant for.
    fn server(&self) -> &str;
    /// A condition; `replica` only for `Ready`.
    fn condition(&self, type_: ConditionType, replica: Option<i32>) -> Option<&PolicyCondition>;
}

impl Revision for PolicyRevision {
    fn generation(&self) -> i64 {
        self.spec.policy_generation
    }

    fn is_serving(&self) -> bool {
        annotation(self, names::SERVING) == Some("true")
    }

    fn id(&self) -> Option<&str> {
        annotation(self, names::POLICY_ID)
    }

    fn content(&self) -> Result<Content, serde_json::Error> {
        let kind = PolicyKind::parse(&self.spec.object_reference.kind);
        let kind = kind.ok_or_else(|| serde::de::Error::custom("not a kind of policy"))?;
        let spec = self.spec.data.get("spec").and_then(Value::as_object);
        let spec = spec.ok_or_else(|| serde::de::Error::missing_field("spec"))?;
        Content::read(kind, spec)
    }

    fn server(&self) -> &str {
        let spec = self.spec.data.get("spec");
        let server = spec.and_then(|spec| spec.get("policyServer"));
        server.and_then(Value::as_str).unwrap_or_default()
    }

    fn condition(&self, type_: ConditionType, replica: Option<i32>) -> Option<&PolicyCondition> {
        let conditions = self.status.iter().flat_map(|status| &status.conditions);
        conditions
            .into_iter()
            .find(|condition| condition.type_ == type_.as_str() && condition.replica == replica)
    }
}

fn annotation<'a>(revision: &'a PolicyRevision, key: &str) -> Option<&'a str> {
    let annotations = revision.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(key)).map(String::as_str)
}
