//! Revisions for tests: a generation of a policy, in whatever state a row needs it.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use polity_api::policies::names;
use polity_api::policies::v1::{
    ConditionStatus, ConditionType, Initializer, PolicyCondition, PolicyRevision,
    PolicyRevisionStatus,
};
use serde_json::json;

use super::Revision;

/// A revision in the making.
#[derive(Clone)]
pub(crate) struct Sample(PolicyRevision);

impl Sample {
    /// Generation `n` of the policy `p`: enabled, nothing said yet.
    pub(crate) fn new(n: i64) -> Self {
        let object = json!({
            "apiVersion": "policies.kubewarden.io/v1", "kind": "PolicyRevision",
            "metadata": {
                "name": format!("clusterwide-p-{n}"), "namespace": "kubewarden", "uid": format!("r{n}"),
                "creationTimestamp": Timestamp::from_second(n.max(0)).unwrap().to_string(),
                "labels": {"kubewarden.io/policy-server": "default"},
                "annotations": {"kubewarden.io/policy-id": "clusterwide-p"},
            },
            "spec": {
                "objectReference": {
                    "apiVersion": "policies.kubewarden.io/v1", "kind": "ClusterAdmissionPolicy",
                    "name": "p", "uid": "policy-1",
                },
                "policyGeneration": n, "enabled": true,
                "data": {"spec": {
                    "policyServer": "default", "module": "registry.example/p:1", "mutating": false, "rules": [],
                }},
            },
        });
        Self(serde_json::from_value(object).unwrap())
    }

    /// A revision as it is.
    pub(crate) fn of(object: PolicyRevision) -> Self {
        Self(object)
    }

    pub(crate) fn object(self) -> PolicyRevision {
        self.0
    }

    pub(crate) fn read(self) -> Revision {
        Revision::read(Arc::new(self.0), "default").unwrap()
    }

    pub(crate) fn uid(mut self, uid: &str) -> Self {
        self.0.metadata.uid = Some(uid.to_owned());
        self
    }

    pub(crate) fn created(mut self, second: i64) -> Self {
        self.0.metadata.creation_timestamp = Some(Time(Timestamp::from_second(second).unwrap()));
        self
    }

    pub(crate) fn generation(mut self, generation: i64) -> Self {
        self.0.spec.policy_generation = generation;
        self
    }

    pub(crate) fn of_kind(mut self, kind: &str, namespace: Option<&str>) -> Self {
        let reference = &mut self.0.spec.object_reference;
        reference.kind = kind.to_owned();
        reference.namespace = namespace.map(str::to_owned);
        self
    }

    pub(crate) fn of_policy(mut self, uid: &str) -> Self {
        self.0.spec.object_reference.uid = Some(uid.to_owned());
        self
    }

    pub(crate) fn id(self, id: &str) -> Self {
        self.annotated(names::POLICY_ID, id)
    }

    pub(crate) fn server(self, name: &str) -> Self {
        self.spec("policyServer", json!(name))
    }

    pub(crate) fn spec(mut self, key: &str, value: serde_json::Value) -> Self {
        self.0.spec.data["spec"][key] = value;
        self
    }

    pub(crate) fn disabled(mut self) -> Self {
        self.0.spec.enabled = false;
        self
    }

    pub(crate) fn serving(self) -> Self {
        self.annotated(names::SERVING, "true")
    }

    pub(crate) fn takeover(self) -> Self {
        self.annotated(names::TAKEOVER, "true")
    }

    pub(crate) fn annotated(mut self, key: &str, value: &str) -> Self {
        let annotations = self.0.metadata.annotations.get_or_insert_default();
        annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn scheduled(self) -> Self {
        self.condition(ConditionType::Scheduled, "True", "PolicyScheduled", None)
    }

    pub(crate) fn initialized(self) -> Self {
        self.scheduled().condition(
            ConditionType::Initialized,
            "True",
            "PolicyInitialized",
            None,
        )
    }

    pub(crate) fn not_initialized(self, reason: &str) -> Self {
        self.scheduled()
            .condition(ConditionType::Initialized, "False", reason, None)
    }

    pub(crate) fn ready(self, replica: i32, status: &str, reason: &str) -> Self {
        self.condition(ConditionType::Ready, status, reason, Some(replica))
    }

    pub(crate) fn tried(mut self, attempts: i32, version: &str, config_hash: &str) -> Self {
        self.status().initializer = Some(Initializer {
            version: Some(version.to_owned()),
            config_hash: Some(config_hash.to_owned()),
            attempts,
            ..Initializer::default()
        });
        self
    }

    /// Attempts of these processes, after [`Self::tried`].
    pub(crate) fn begun_by(mut self, holders: &[&str]) -> Self {
        let initializer = self.status().initializer.get_or_insert_default();
        initializer.holders = holders.iter().map(|&holder| holder.to_owned()).collect();
        initializer.attempts = i32::try_from(holders.len()).unwrap();
        self
    }

    /// Failed after so many crashes, after [`Self::tried`]; the next attempt is due at this second.
    pub(crate) fn crashed(mut self, crashes: i32, next_second: i64) -> Self {
        let initializer = self.status().initializer.get_or_insert_default();
        initializer.crashes = crashes;
        initializer.next_attempt = Some(Time(Timestamp::from_second(next_second).unwrap()));
        self
    }

    fn condition(
        mut self,
        type_: ConditionType,
        status: &str,
        reason: &str,
        replica: Option<i32>,
    ) -> Self {
        let generation = Some(self.0.spec.policy_generation);
        let status = match status {
            "True" => ConditionStatus::True,
            "False" => ConditionStatus::False,
            _ => ConditionStatus::Unknown,
        };
        let condition = PolicyCondition {
            type_: type_.as_str().to_owned(),
            status,
            reason: reason.to_owned(),
            message: match (type_, status) {
                (ConditionType::Ready, ConditionStatus::True) => "The policy is ready to be used.",
                _ => "",
            }
            .to_owned(),
            generation,
            replica,
            last_transition_time: Some(Time(Timestamp::UNIX_EPOCH)),
            observed_generation: generation,
        };
        self.status().conditions.push(condition);
        self
    }

    fn status(&mut self) -> &mut PolicyRevisionStatus {
        self.0.status.get_or_insert_default()
    }
}
