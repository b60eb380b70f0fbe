//! Kinds and hierarchies at run time: what is read again when a CRD or a setting changes.
//! See docs/spec/attachment.md#4-4.

use std::collections::BTreeSet;

use polity_core::GroupKind;

use super::ids::{GroupId, ObjId};
use super::{Graph, Host};
use crate::object::ObjectRef;
use crate::registry::Registry;

impl Graph {
    pub(super) fn settle_kinds(&mut self) {
        if !std::mem::take(&mut self.pending.kinds) {
            return;
        }
        let new = Registry::of(self.definitions.values(), self.configs.values());
        let old = std::mem::replace(&mut self.registry, new);
        let kinds: BTreeSet<GroupKind> = old
            .kinds
            .keys()
            .chain(self.registry.kinds.keys())
            .filter(|kind| old.kinds.get(kind) != self.registry.kinds.get(kind))
            .cloned()
            .collect();
        for kind in &kinds {
            let members = self.by_kind.get(kind).into_iter().flatten();
            self.pending.reads.extend(members);
        }
        // How policies meet may have changed though they read as before: in the groups of these kinds, all of them.
        let in_either = kinds
            .iter()
            .flat_map(|kind| [old.kinds.get(kind), self.registry.kinds.get(kind)]);
        let groups: BTreeSet<GroupId> = in_either
            .flatten()
            .filter_map(|kind| self.group_names.get(&kind.merge_group))
            .collect();
        for held in self
            .policies
            .values()
            .filter(|held| groups.contains(&held.group))
        {
            let levels = held.attached.iter().map(|level| (*level, held.group));
            self.pending.levels.extend(levels);
        }
        // Whether an object can be a target depends on whether its kind is a policy kind.
        let became: BTreeSet<ObjId> = self
            .by_target
            .keys()
            .filter(|id| {
                let target = self.refs.value(**id);
                let kind = GroupKind::new(target.group.as_str(), target.kind.as_str());
                kinds.contains(&kind)
                    || old.virtual_objects != self.registry.virtual_objects
                    || old.installed.get(&kind) != self.registry.installed.get(&kind)
            })
            .copied()
            .collect();
        for target in became {
            let policies = self.by_target.get(&target).into_iter().flatten();
            self.pending.resolves.extend(policies);
        }
        self.settle_hosts(&old, &kinds);
        if old.virtual_objects != self.registry.virtual_objects {
            let all: Vec<ObjectRef> = old
                .virtual_objects
                .union(&self.registry.virtual_objects)
                .cloned()
                .collect();
            for object in all {
                let id = self.refs.id(&object);
                self.pending.links.insert(id);
            }
        }
    }

    /// Makes a host for every hierarchy that a kind uses, and drops the others.
    fn settle_hosts(&mut self, old: &Registry, changed: &BTreeSet<GroupKind>) {
        let used: BTreeSet<String> = self
            .registry
            .kinds
            .values()
            .map(|kind| kind.hierarchy.clone())
            .chain(["gateway".to_owned()])
            .collect();
        let stale: Vec<String> = self
            .hosts
            .keys()
            .filter(|name| {
                *name != "gateway"
                    && (!used.contains(*name)
                        || self.hosts[*name].rules.as_ref() != self.registry.hierarchies.get(*name)
                        || !changed.is_empty()
                        || old.virtual_objects != self.registry.virtual_objects)
            })
            .cloned()
            .collect();
        for name in &stale {
            // Everything that was attached there is attached anew below.
            self.hosts.remove(name);
            let members: Vec<ObjId> = self
                .policies
                .iter()
                .filter(|(_, held)| held.hierarchy == *name)
                .map(|(id, _)| *id)
                .collect();
            for policy in members {
                self.let_go(policy);
                self.pending.reads.insert(policy);
            }
            self.pending.scores.extend(self.contributions.keys());
        }
        for name in used {
            if self.hosts.contains_key(&name) {
                continue;
            }
            let host = Host {
                rules: self.registry.hierarchies.get(&name).cloned(),
                ..Host::default()
            };
            self.hosts.insert(name, host);
            self.pending.links.extend(self.objects.keys());
            let namespaces = self
                .by_namespace
                .keys()
                .map(|name| ObjectRef::of_namespace(name));
            let implied: Vec<ObjectRef> = namespaces
                .chain(self.registry.virtual_objects.iter().cloned())
                .collect();
            for object in implied {
                let id = self.refs.id(&object);
                self.pending.links.insert(id);
            }
        }
    }
}
