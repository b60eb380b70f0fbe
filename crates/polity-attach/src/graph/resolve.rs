//! Resolves target references to levels, and reads policies when they or their kinds change.
//! See docs/spec/attachment.md#4-3.
//!
//! The order of checks is part of the contract: structure, permission, existence, section, conflict. The first failure
//! decides; with several targets each is judged alone.

use std::collections::BTreeSet;

use polity_core::GroupKind;

use super::ids::{LevelId, ObjId};
use super::lattice::Part;
use super::{Graph, Held};
use crate::kind::PolicyKind;
use crate::object::ObjectRef;
use crate::policy::{Policy, Target};
use crate::scope::is_cluster_kind;
use crate::settings::Class;

/// Why a target is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    Invalid(String),
    /// The reference crosses namespaces and nothing there permits it.
    NotPermitted(String),
    NotFound(String),
}

/// What came of one target: the object that is meant, as far as the reference says, and its level or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) object: ObjectRef,
    pub(crate) section: Option<String>,
    pub(crate) outcome: Result<LevelId, Refusal>,
}

impl Graph {
    pub(super) fn settle_policies(&mut self) {
        for id in std::mem::take(&mut self.pending.reads) {
            self.work.weighed += 1;
            self.read_policy(id);
        }
        for id in std::mem::take(&mut self.pending.resolves) {
            self.work.weighed += 1;
            self.resolve_policy(id);
        }
    }

    /// Reads an object that may be a policy.
    fn read_policy(&mut self, id: ObjId) {
        let reference = self.refs.value(id).clone();
        let policy = match (self.objects.get(&id), self.kind_of(&reference)) {
            (Some(stored), Some(kind)) => {
                Some((Policy::read(&stored.value, &reference, kind), kind.clone()))
            }
            _ => None,
        };
        let Some((policy, kind)) = policy else {
            if self.policies.contains_key(&id) {
                self.let_go(id);
                self.forget_targets(id);
                self.policies.remove(&id);
                self.tallies.remove(&id);
                self.pending.policies.insert(id);
            }
            return;
        };
        let PolicyKind {
            merge_group,
            hierarchy,
            effective_kind,
            class,
            ..
        } = kind;
        let group = self.group_names.id(&merge_group);
        let is_direct = class == Class::Direct;
        self.pending.policies.insert(id);
        if let Some(held) = self.policies.get(&id)
            && held.group == group
            && held.hierarchy == hierarchy
            && held.leaf_kind == effective_kind
            && held.is_direct == is_direct
            && says_the_same(&held.policy, &policy)
        {
            // Only displayed data has changed, such as the generation or the status of another controller.
            let held = self.policies.get_mut(&id).expect("it was there above");
            held.policy = policy;
            self.pending.resolves.insert(id);
            return;
        }
        self.let_go(id);
        self.forget_targets(id);
        let held = Held {
            policy,
            group,
            hierarchy,
            leaf_kind: effective_kind,
            is_direct,
            verdicts: Vec::new(),
            attached: BTreeSet::new(),
            refused_on: BTreeSet::new(),
        };
        self.policies.insert(id, held);
        self.pending.resolves.insert(id);
    }

    fn forget_targets(&mut self, id: ObjId) {
        let Some(held) = self.policies.get(&id) else {
            return;
        };
        let targets: Vec<ObjectRef> = held
            .verdicts
            .iter()
            .map(|verdict| verdict.object.clone())
            .collect();
        for target in targets {
            if let Some(target) = self.refs.get(&target) {
                if let Some(policies) = self.by_target.get_mut(&target) {
                    policies.remove(&id);
                    if policies.is_empty() {
                        self.by_target.remove(&target);
                    }
                }
                self.forget_outside(id, target);
            }
        }
    }

    /// Looks up the targets of a policy, and attaches it to what they mean.
    fn resolve_policy(&mut self, id: ObjId) {
        let Some(held) = self.policies.get(&id) else {
            return;
        };
        let object = held.policy.object.clone();
        let targets = held.policy.targets.clone();
        let invalid = held.policy.invalid.clone();
        let hierarchy = held.hierarchy.clone();
        let Some(kind) = self.kind_of(&object).cloned() else {
            return;
        };
        self.forget_targets(id);
        let mut verdicts = Vec::with_capacity(targets.len());
        for target in &targets {
            let meant = self.meant(&object, target);
            let meant_id = self.refs.id(&meant);
            let outcome = match &invalid {
                Some(message) => Err(Refusal::Invalid(message.clone())),
                None => self.judge(&object, &kind, target, &meant),
            };
            self.by_target.entry(meant_id).or_default().insert(id);
            self.note_outside(id, &object, meant_id);
            let outcome = outcome.map(|()| self.level(meant_id, target.section.as_deref()));
            verdicts.push(Verdict {
                object: meant,
                section: target.section.clone(),
                outcome,
            });
        }
        let wanted: BTreeSet<LevelId> = verdicts
            .iter()
            .filter_map(|verdict| verdict.outcome.clone().ok())
            .collect();
        let refused_on = self.refused_on(id);
        let held = self.policies.get_mut(&id).expect("it was there above");
        if held.verdicts != verdicts {
            held.verdicts = verdicts;
            self.pending.policies.insert(id);
        }
        let wanted = if held.policy.deleting {
            BTreeSet::new()
        } else {
            wanted
        };
        for level in &wanted {
            self.make_target_node(&hierarchy, *level);
        }
        self.attach(id, wanted, refused_on);
    }

    /// Levels of ancestors for which the policy's own controller refused it.
    fn refused_on(&mut self, id: ObjId) -> BTreeSet<LevelId> {
        let rejections = self.policies[&id].policy.rejections.clone();
        rejections
            .iter()
            .map(|rejection| {
                let target = &rejection.ancestor;
                let object = ObjectRef::new(
                    &target.group,
                    &target.kind,
                    target.namespace.as_deref(),
                    &target.name,
                );
                let object = self.refs.id(&object);
                self.level(object, target.section.as_deref())
            })
            .collect()
    }

    /// A target that no hierarchy knows still is a path of its own.
    fn make_target_node(&mut self, hierarchy: &str, level: LevelId) {
        let object = self.level_names.value(level).0;
        if self.node_of(hierarchy, object, &Part::Whole).is_none() {
            let levels = self.object_levels(object);
            if let Some(host) = self.hosts.get_mut(hierarchy) {
                host.strays.insert(object);
                self.ensure_node(hierarchy, object, Part::Whole, levels);
            }
        }
    }

    /// The object that a reference means, whether it is there or not.
    fn meant(&self, policy: &ObjectRef, target: &Target) -> ObjectRef {
        let named = |namespace: Option<&str>| {
            ObjectRef::new(&target.group, &target.kind, namespace, &target.name)
        };
        let namespace = target.namespace.as_deref().or(policy.namespace.as_deref());
        if self.is_virtual_kind(target) {
            let of_cluster = named(None);
            return if self.registry.virtual_objects.contains(&of_cluster) {
                of_cluster
            } else {
                named(namespace)
            };
        }
        if self.is_cluster_kind(&target.group, &target.kind) {
            return named(None);
        }
        named(namespace)
    }

    fn is_virtual_kind(&self, target: &Target) -> bool {
        let mut all = self.registry.virtual_objects.iter();
        all.any(|object| object.is(&target.group, &target.kind))
    }

    pub(crate) fn is_cluster_kind(&self, group: &str, kind: &str) -> bool {
        let key = GroupKind::new(group, kind);
        match self.registry.installed.get(&key) {
            Some(namespaced) => !namespaced,
            None => is_cluster_kind(group, kind),
        }
    }

    fn judge(
        &self,
        policy: &ObjectRef,
        kind: &PolicyKind,
        target: &Target,
        meant: &ObjectRef,
    ) -> Result<(), Refusal> {
        if self.registry.is_excluded(&target.group, &target.kind) {
            return Err(Refusal::Invalid(format!(
                "{} cannot be a target of policies",
                meant.kind_and_group()
            )));
        }
        self.check_scope(policy, kind, target, meant)?;
        let there = self.refs.get(meant).filter(|id| self.exists(*id));
        let Some(there) = there else {
            return Err(Refusal::NotFound(format!("{meant} does not exist")));
        };
        let Some(section) = &target.section else {
            return Ok(());
        };
        let has = self
            .sections(there)
            .iter()
            .any(|(_, name)| name.as_ref() == Some(section));
        if has {
            Ok(())
        } else {
            Err(Refusal::NotFound(format!(
                "{meant} has no section {section}"
            )))
        }
    }

    fn check_scope(
        &self,
        policy: &ObjectRef,
        kind: &PolicyKind,
        target: &Target,
        meant: &ObjectRef,
    ) -> Result<(), Refusal> {
        if self.is_virtual_kind(target) {
            return Ok(());
        }
        let cluster_target = self.is_cluster_kind(&target.group, &target.kind);
        let namespaced_policy = kind.namespaced.unwrap_or(policy.namespace.is_some());
        if !namespaced_policy {
            if !cluster_target && target.namespace.is_none() {
                return Err(Refusal::Invalid(format!(
                    "a cluster-scoped policy must say in which namespace its target {} {} is",
                    target.kind, target.name
                )));
            }
            return Ok(());
        }
        if cluster_target && !meant.is("", "Namespace") {
            return Err(Refusal::Invalid(format!(
                "a namespaced policy cannot target {}, which is cluster-scoped",
                meant.kind_and_group()
            )));
        }
        if self.may_refer(policy, meant) {
            return Ok(());
        }
        // The message is the same whether or not the target exists: a refusal must not reveal that.
        Err(Refusal::NotPermitted(format!(
            "no ReferenceGrant in namespace {} lets {} of namespace {} refer to {} {}",
            meant.namespace.as_ref().unwrap_or(&meant.name),
            policy.kind_and_group(),
            policy.namespace.as_deref().unwrap_or(""),
            meant.kind_and_group(),
            meant.name
        )))
    }
}

/// Whether two readings of a policy act alike.
fn says_the_same(one: &Policy, other: &Policy) -> bool {
    one.deleting == other.deleting
        && one.rank == other.rank
        && one.targets == other.targets
        && one.invalid == other.invalid
        && one.pieces == other.pieces
        && one.rejections == other.rejections
}
