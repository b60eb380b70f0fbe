//! A PolicyRevision as a server looks at it: whose it is, whether it is wanted, what was said about it.

pub(super) mod store;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use polity_api::policies::names;
use polity_api::policies::v1::{
    ConditionStatus, ConditionType, PolicyCondition, PolicyRevision, PolicyRevisionStatus,
    ResolvedModule,
};
use serde_json::{Map, Value};

/// Tells revisions apart. Names come back when a policy is created again, UIDs do not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Uid(Arc<str>);

impl Uid {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Uid {
    fn from(uid: &str) -> Self {
        Self(uid.into())
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is known about all revisions of a server.
pub(crate) type Revisions = BTreeMap<Uid, Arc<Revision>>;

/// The four kinds of policies, by what a server has to know of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PolicyKind {
    pub(crate) is_namespaced: bool,
    pub(crate) is_group: bool,
}

impl PolicyKind {
    fn parse(kind: &str) -> Option<Self> {
        let (is_namespaced, is_group) = match kind {
            "AdmissionPolicy" => (true, false),
            "ClusterAdmissionPolicy" => (false, false),
            "AdmissionPolicyGroup" => (true, true),
            "ClusterAdmissionPolicyGroup" => (false, true),
            _ => return None,
        };
        Some(Self {
            is_namespaced,
            is_group,
        })
    }

    /// Both spellings of the id of a policy: the classic one, and the one with dots.
    fn ids(self, namespace: &str, name: &str) -> [String; 2] {
        match (self.is_namespaced, self.is_group) {
            (true, false) => [
                format!("namespaced-{namespace}-{name}"),
                format!("kw.ap.{namespace}.{name}"),
            ],
            (false, false) => [format!("clusterwide-{name}"), format!("kw.cap.{name}")],
            (true, true) => [
                format!("namespaced-group-{namespace}-{name}"),
                format!("kw.apg.{namespace}.{name}"),
            ],
            (false, true) => [
                format!("clusterwide-group-{name}"),
                format!("kw.capg.{name}"),
            ],
        }
    }
}

/// One generation of a policy.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Revision {
    pub(crate) uid: Uid,
    /// The policy it is a generation of.
    pub(crate) policy_uid: Arc<str>,
    pub(crate) kind: PolicyKind,
    /// The id of the policy: what paths, logs and metrics call it.
    pub(crate) id: Arc<str>,
    /// The other spelling of the id.
    pub(crate) other_id: Option<Arc<str>>,
    pub(crate) generation: u64,
    pub(crate) created: Option<Timestamp>,
    /// Whether servers load it: it is enabled, and nobody deletes it.
    pub(crate) is_enabled: bool,
    /// Whether webhooks point at it.
    pub(crate) is_serving: bool,
    /// Whether it was made while an installation without generations served.
    pub(crate) is_takeover: bool,
    /// The generation that it brings back.
    pub(crate) rollback_of: Option<u64>,
    /// The whole of it.
    pub(crate) object: Arc<PolicyRevision>,
}

impl Revision {
    /// Reads a revision. Nothing, if it is meant for another server, or is not one that anybody could load.
    pub(crate) fn read(object: Arc<PolicyRevision>, server: &str) -> Option<Self> {
        let metadata = &object.metadata;
        let reference = &object.spec.object_reference;
        let annotation = |key: &str| metadata.annotations.as_ref()?.get(key).map(String::as_str);
        let spec = object.spec.data.get("spec").and_then(Value::as_object)?;
        // The label may have been moved; the policy itself cannot.
        if spec.get("policyServer").and_then(Value::as_str) != Some(server) {
            return None;
        }
        let kind = PolicyKind::parse(&reference.kind)?;
        let id = annotation(names::POLICY_ID)?;
        let namespace = reference.namespace.as_deref().unwrap_or_default();
        let other_id = kind.ids(namespace, &reference.name);
        Some(Self {
            uid: metadata.uid.as_deref()?.into(),
            policy_uid: reference.uid.as_deref().unwrap_or_default().into(),
            kind,
            id: id.into(),
            other_id: other_id
                .iter()
                .find(|other| *other != id)
                .map(|other| other.as_str().into()),
            generation: object.spec.policy_generation.try_into().ok()?,
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            is_enabled: object.spec.enabled && metadata.deletion_timestamp.is_none(),
            is_serving: annotation(names::SERVING) == Some("true"),
            is_takeover: annotation(names::TAKEOVER) == Some("true"),
            rollback_of: annotation(names::ROLLBACK_OF).and_then(|n| n.parse().ok()),
            object,
        })
    }

    pub(crate) fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    /// The specification of the policy, as it was stored.
    pub(crate) fn spec(&self) -> Option<&Map<String, Value>> {
        self.object.spec.data.get("spec").and_then(Value::as_object)
    }

    pub(crate) fn status(&self) -> Option<&PolicyRevisionStatus> {
        self.object.status.as_ref()
    }

    /// The bytes that every replica loads.
    pub(crate) fn modules(&self) -> &[ResolvedModule] {
        self.status().map_or(&[], |status| &status.modules)
    }

    pub(crate) fn is_initialized(&self) -> bool {
        self.condition(ConditionType::Initialized, None)
            .is_some_and(|condition| condition.status == ConditionStatus::True)
    }

    /// Whether it is loaded sooner or later.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_enabled && self.is_initialized()
    }

    /// What was said about it; `replica` only for `Ready`.
    pub(crate) fn condition(
        &self,
        type_: ConditionType,
        replica: Option<i32>,
    ) -> Option<&PolicyCondition> {
        let conditions = self.status().map_or(&[][..], |status| &status.conditions);
        conditions
            .iter()
            .find(|condition| condition.type_ == type_.as_str() && condition.replica == replica)
    }

    /// Who goes first: what serves, then what will take over, then the oldest.
    pub(crate) fn urgency(&self) -> impl Ord + use<> {
        (
            !self.is_serving,
            !self.is_takeover,
            self.created,
            self.uid.clone(),
        )
    }
}

#[cfg(test)]
pub(super) mod samples;

#[cfg(test)]
mod tests {
    use super::samples::Sample;
    use super::*;

    #[test]
    fn ids_have_two_spellings() {
        for (kind, namespace, recorded, other) in [
            ("ClusterAdmissionPolicy", None, "clusterwide-p", "kw.cap.p"),
            ("ClusterAdmissionPolicy", None, "kw.cap.p", "clusterwide-p"),
            ("AdmissionPolicy", Some("a"), "namespaced-a-p", "kw.ap.a.p"),
            (
                "ClusterAdmissionPolicyGroup",
                None,
                "clusterwide-group-p",
                "kw.capg.p",
            ),
            (
                "AdmissionPolicyGroup",
                Some("a"),
                "kw.apg.a.p",
                "namespaced-group-a-p",
            ),
        ] {
            let revision = Sample::new(1).of_kind(kind, namespace).id(recorded).read();
            assert_eq!(&*revision.id, recorded);
            assert_eq!(revision.other_id.as_deref(), Some(other));
        }
    }

    #[test]
    fn revisions_of_others_and_oddities_are_passed_over() {
        let read = |sample: Sample| Revision::read(Arc::new(sample.object()), "default");
        assert!(read(Sample::new(1)).is_some());
        assert!(
            read(Sample::new(1).server("other")).is_none(),
            "19.11: a label that differs from data.spec.policyServer"
        );
        assert!(read(Sample::new(1).of_kind("Pod", None)).is_none());
        assert!(read(Sample::new(0).generation(-1)).is_none());
        let mut without_id = Sample::new(1).object();
        without_id.metadata.annotations = None;
        assert!(Revision::read(Arc::new(without_id), "default").is_none());
    }

    #[test]
    fn what_is_being_deleted_is_no_longer_enabled() {
        let mut object = Sample::new(1).object();
        assert!(
            Revision::read(Arc::new(object.clone()), "default")
                .unwrap()
                .is_enabled
        );
        object.metadata.deletion_timestamp = Some(
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(Timestamp::UNIX_EPOCH),
        );
        assert!(
            !Revision::read(Arc::new(object), "default")
                .unwrap()
                .is_enabled
        );
    }
}
