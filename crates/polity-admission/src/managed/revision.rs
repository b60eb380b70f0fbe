//! A PolicyRevision as the policy server needs it: its policy, whether it is enabled, and its conditions.

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
use polity_core::PolicyKind;
use polity_core::policy::{dotted_name, unique_name};
use serde_json::{Map, Value};

/// The UID of a revision. A policy that is created again has revisions of the same names, but never of the same UIDs.
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

/// All revisions of a server, by UID.
pub(crate) type Revisions = BTreeMap<Uid, Arc<Revision>>;

/// One generation of a policy.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Revision {
    pub(crate) uid: Uid,
    /// The UID of its policy.
    pub(crate) policy_uid: Arc<str>,
    pub(crate) kind: PolicyKind,
    /// The id of the policy in paths, logs and metrics.
    pub(crate) id: Arc<str>,
    /// The other spelling of the id.
    pub(crate) other_id: Option<Arc<str>>,
    pub(crate) generation: u64,
    pub(crate) created: Option<Timestamp>,
    /// Whether servers load it: it is enabled and not being deleted.
    pub(crate) is_enabled: bool,
    /// Whether webhook configurations point at it.
    pub(crate) is_serving: bool,
    /// Whether it was created while an installation without generations served the policy.
    pub(crate) is_takeover: bool,
    /// The generation that it rolls back to.
    pub(crate) rollback_of: Option<u64>,
    /// The object as it was read.
    pub(crate) object: Arc<PolicyRevision>,
}

impl Revision {
    /// Reads a revision. `None` if it belongs to another server or cannot be loaded by any.
    pub(crate) fn read(object: Arc<PolicyRevision>, server: &str) -> Option<Self> {
        let metadata = &object.metadata;
        let reference = &object.spec.object_reference;
        let annotation = |key: &str| metadata.annotations.as_ref()?.get(key).map(String::as_str);
        let spec = object.spec.data.get("spec").and_then(Value::as_object)?;
        // The label can be edited; the server in the specification cannot.
        if spec.get("policyServer").and_then(Value::as_str) != Some(server) {
            return None;
        }
        let kind = PolicyKind::parse(&reference.kind)?;
        let id = annotation(names::POLICY_ID)?;
        let namespace = reference.namespace.as_deref().unwrap_or_default();
        let namespace = kind.is_namespaced().then_some(namespace);
        let ids = [unique_name, dotted_name].map(|form| form(kind, namespace, &reference.name));
        Some(Self {
            uid: metadata.uid.as_deref()?.into(),
            policy_uid: reference.uid.as_deref().unwrap_or_default().into(),
            kind,
            id: id.into(),
            other_id: ids
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

    /// The namespace of the policy; absent for policies of the cluster.
    pub(crate) fn namespace(&self) -> Option<&str> {
        let namespace = self.object.spec.object_reference.namespace.as_deref();
        namespace.filter(|_| self.kind.is_namespaced())
    }

    /// The specification of the policy, as it was stored.
    pub(crate) fn spec(&self) -> Option<&Map<String, Value>> {
        self.object.spec.data.get("spec").and_then(Value::as_object)
    }

    pub(crate) fn status(&self) -> Option<&PolicyRevisionStatus> {
        self.object.status.as_ref()
    }

    /// The modules that the leader recorded, which every replica loads.
    pub(crate) fn modules(&self) -> &[ResolvedModule] {
        self.status().map_or(&[], |status| &status.modules)
    }

    pub(crate) fn is_initialized(&self) -> bool {
        self.condition(ConditionType::Initialized, None)
            .is_some_and(|condition| condition.status == ConditionStatus::True)
    }

    /// Whether replicas load it: it is enabled and initialised.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_enabled && self.is_initialized()
    }

    /// A condition by its type; `replica` is given only for `Ready`.
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

    /// The order of work: revisions that serve, then those that take over, then the oldest.
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
            "a label that differs from data.spec.policyServer"
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
