//! Marks on affected objects, and the policy kinds on a GatewayClass. See docs/spec/attachment.md#7-4.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::graph::Graph;
use crate::graph::facts::{EXPERIMENTAL_GROUP, GATEWAY_GROUP, ROUTES};
use crate::graph::ids::ObjId;
use crate::object::{ObjectRef, at, generation, is_deleting, list, text};
use crate::settings::Class;
use crate::status::Condition;

/// The type of the condition, and the key of the annotation, that mark an object as affected.
pub const POLICY_AFFECTED: &str = "polity.dev/PolicyAffected";
/// The type of the condition that lists policy kinds on a GatewayClass.
pub const EXTENSION_TYPES: &str = "polity.dev/ExtensionTypes";
/// The most conditions of a Gateway API object.
const MAX_CONDITIONS: usize = 8;

/// How an object shows that policies act on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// `status.conditions` where the kind has them and there is room, else the annotation.
    pub place: MarkPlace,
    /// Listeners that a policy targets, which carry the condition too.
    pub listeners: Vec<String>,
}

/// Where the mark stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MarkPlace {
    Condition(Condition),
    /// `polity.dev/PolicyAffected: "true"`.
    Annotation,
}

impl Graph {
    /// The mark an object must carry; `None` when no policy acts on it, and for objects on their way out or virtual ones.
    pub fn mark(&self, object: &ObjectRef) -> Option<Mark> {
        let id = self.refs.get(object)?;
        let stored = &self.objects.get(&id)?.value;
        let wanted = self
            .affected_by(object)
            .iter()
            .any(|policy| self.kind_of(policy).is_some_and(|kind| kind.publish.marks));
        if !wanted || is_deleting(stored) {
            return None;
        }
        let place = if has_conditions(object) && has_room(stored) {
            // Services and other core kinds do not count generations.
            let generation = if object.group.is_empty() {
                None
            } else {
                generation(stored)
            };
            MarkPlace::Condition(affected_condition(object, generation))
        } else {
            MarkPlace::Annotation
        };
        Some(Mark {
            place,
            listeners: self.targeted_listeners(id, object),
        })
    }

    fn targeted_listeners(&self, id: ObjId, object: &ObjectRef) -> Vec<String> {
        if !matches!(
            object.kind.as_str(),
            "Gateway" | "ListenerSet" | "XListenerSet"
        ) {
            return Vec::new();
        }
        let names = self.sections(id).into_iter().filter_map(|(_, name)| name);
        names
            .filter(|name| {
                let level = self.level_names.get(&(id, Some(name.as_str().into())));
                level
                    .and_then(|level| self.levels.get(&level))
                    .is_some_and(|groups| {
                        groups
                            .values()
                            .any(|at| !at.direct.is_empty() || !at.inherited.is_empty())
                    })
            })
            .collect()
    }

    /// The condition that lists, on a GatewayClass, the policy kinds there are and the kinds that are used as parameters
    /// and filters under it.
    pub fn extension_types(&self, class: &ObjectRef) -> Option<Condition> {
        let id = self.refs.get(class)?;
        let stored = &self.objects.get(&id)?.value;
        let mut types: BTreeSet<String> = self
            .kinds()
            .map(|kind| {
                let class = match kind.class {
                    Class::Direct => "direct",
                    Class::Inherited => "inherited",
                };
                format!("{}({class})", kind.kind)
            })
            .collect();
        let mut name = |reference: &Value, what: &str| {
            if let Some(kind) = text(reference, &["kind"]) {
                let kind =
                    polity_core::GroupKind::new(text(reference, &["group"]).unwrap_or(""), kind);
                types.insert(format!("{kind}({what})"));
            }
        };
        if let Some(reference) = at(stored, &["spec", "parametersRef"]) {
            name(reference, "parameters");
        }
        for object in self.below(id) {
            for rule in self
                .objects
                .get(&object)
                .map_or(&[][..], |stored| list(&stored.value, &["spec", "rules"]))
            {
                for filter in list(rule, &["filters"]) {
                    if let Some(reference) = filter.get("extensionRef") {
                        name(reference, "filter");
                    }
                }
            }
        }
        let types: Vec<String> = types.into_iter().collect();
        Some(Condition {
            kind: EXTENSION_TYPES.to_owned(),
            status: "True",
            reason: "Listed".to_owned(),
            message: types.join(", "),
            observed_generation: generation(stored),
        })
    }

    fn below(&self, id: ObjId) -> BTreeSet<ObjId> {
        let host = self.host("gateway");
        let Some(level) = self.level_names.get(&(id, None)) else {
            return BTreeSet::new();
        };
        host.lattice
            .reach(level)
            .into_iter()
            .map(|node| host.lattice.node(node).object)
            .collect()
    }
}

/// Kinds with `status.conditions` of the standard form. Routes have none of their own, and those of a Namespace know no
/// generation.
fn has_conditions(object: &ObjectRef) -> bool {
    match object.group.as_str() {
        GATEWAY_GROUP => !ROUTES.contains(&object.kind.as_str()) && object.kind != "ReferenceGrant",
        EXPERIMENTAL_GROUP => object.kind == "XListenerSet",
        "" => object.kind == "Service",
        _ => false,
    }
}

/// Whether our condition is there already, or the list is not full of others.
fn has_room(stored: &Value) -> bool {
    let conditions = list(stored, &["status", "conditions"]);
    let ours = |condition: &Value| text(condition, &["type"]) == Some(POLICY_AFFECTED);
    conditions.iter().any(ours) || conditions.len() < MAX_CONDITIONS
}

/// The message does not depend on the policies. Otherwise every edit of a policy would write to every object.
fn affected_condition(object: &ObjectRef, generation: Option<i64>) -> Condition {
    let kind = if object.namespace.is_some() {
        "EffectivePolicy"
    } else {
        "ClusterEffectivePolicy"
    };
    Condition {
        kind: POLICY_AFFECTED.to_owned(),
        status: "True",
        reason: "PolicyAffected".to_owned(),
        message: format!("policies act on this object: see {kind} {}", object.path()),
        observed_generation: generation,
    }
}
