//! One policy on one object: how it acts, why, and what is said about it.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Effect, Generations, PolicyEntry, PolicyRef, Provenance, SettingEntry, VerdictEntry, Why,
};
use crate::graph::ids::ObjId;
use crate::graph::paths::Step;
use crate::graph::{Effectiveness, Graph, Held};
use crate::object::{ObjectRef, text};
use crate::policy::Side;
use crate::status::{Ancestor, PolicyStatus};

/// The most fields that an effect spells out.
const MAX_FIELDS: usize = 3;

impl Graph {
    /// What one policy does to an object, whether it acts there or not.
    pub(super) fn policy_entry(
        &self,
        object: ObjId,
        id: ObjId,
        settings: &mut BTreeMap<ObjectRef, Vec<SettingEntry>>,
        n_contexts: usize,
    ) -> Option<PolicyEntry> {
        let held = self.policies.get(&id)?;
        let reference = &held.policy.object;
        let kind = self.kind_of(reference)?;
        let settings = settings.remove(reference).unwrap_or_default();
        let contribution = self.contributions.get(&object).and_then(|contributions| {
            contributions
                .iter()
                .find(|contribution| contribution.policy == id)
        });
        let acts = contribution
            .is_some_and(|contribution| contribution.class != Effectiveness::Overridden);
        let status = self.policy_status(reference)?;
        let why = why(
            held,
            contribution.map(|contribution| contribution.class),
            &status,
        );
        let current = held.policy.generation;
        Some(PolicyEntry {
            family: "attachment",
            reference: PolicyRef {
                object: reference.clone(),
                version: self.version_of(reference),
                uid: held.policy.uid.clone(),
            },
            created_at: held.policy.created.clone(),
            generation: Generations {
                current,
                acting: current.filter(|_| acts),
            },
            mode: mode(held, &settings),
            acts: if acts { "yes" } else { "no" },
            operations: Vec::new(),
            effect: Effect {
                kind: "setting",
                blocks_on_outage: false,
                text: effect_text(&settings, n_contexts, &why),
            },
            why,
            settings,
            ancestors: ancestors(&status),
            provenance: held
                .verdicts
                .iter()
                .map(|verdict| Provenance {
                    role: "target",
                    reference: verdict.object.clone(),
                })
                .collect(),
            verdict: verdict(&status, kind.managed),
            redacted: Vec::new(),
        })
    }

    /// The API version in which an object was read.
    pub(super) fn version_of(&self, object: &ObjectRef) -> Option<String> {
        let api_version = text(self.object(object)?, &["apiVersion"])?;
        api_version.rsplit('/').next().map(str::to_owned)
    }
}

/// The ancestors with regard to which something is said about a policy, as people type them.
fn ancestors(status: &PolicyStatus) -> Vec<String> {
    let texts = status.ancestors.iter().map(|ancestor| {
        let about = &ancestor.ancestor_ref;
        let object = ObjectRef::new(
            &about.group,
            &about.kind,
            about.namespace.as_deref(),
            &about.name,
        );
        let section = about.section_name.clone();
        Step { object, section }.short()
    });
    texts.collect()
}

fn mode(held: &Held, settings: &[SettingEntry]) -> &'static str {
    if held.is_direct {
        return "direct";
    }
    let won_override = settings
        .iter()
        .any(|setting| setting.won && setting.stanza == "overrides");
    let only_override = held
        .policy
        .pieces
        .iter()
        .all(|piece| piece.side == Side::Override);
    if won_override || (only_override && !held.policy.pieces.is_empty()) {
        "override"
    } else {
        "default"
    }
}

/// `timeout=20s (2 of 3 contexts)`, or what stands in the way.
fn effect_text(settings: &[SettingEntry], n_contexts: usize, why: &[Why]) -> String {
    let mut won: Vec<&SettingEntry> = settings.iter().filter(|setting| setting.won).collect();
    won.dedup_by(|a, b| a.field == b.field && a.value == b.value);
    if won.is_empty() {
        let beaters: BTreeSet<String> = settings
            .iter()
            .filter_map(|setting| setting.beaten_by.as_ref())
            .map(ObjectRef::path)
            .collect();
        if !beaters.is_empty() {
            let names: Vec<String> = beaters.into_iter().take(MAX_FIELDS).collect();
            return format!("overridden by {}", names.join(", "));
        }
        return why
            .iter()
            .find(|why| !why.detail.is_empty())
            .map_or_else(String::new, |why| why.detail.clone());
    }
    if won.len() > MAX_FIELDS {
        return format!("sets {} fields", won.len());
    }
    let shown: Vec<String> = won
        .iter()
        .map(|setting| {
            let value = setting
                .value
                .as_str()
                .map_or_else(|| setting.value.to_string(), str::to_owned);
            let part = setting.contexts.len();
            if part < n_contexts {
                format!(
                    "{}={value} ({part} of {n_contexts} contexts)",
                    setting.field
                )
            } else {
                format!("{}={value}", setting.field)
            }
        })
        .collect();
    shown.join(", ")
}

fn why(held: &Held, class: Option<Effectiveness>, status: &PolicyStatus) -> Vec<Why> {
    let refused = status
        .ancestors
        .iter()
        .find(|ancestor| !ancestor.is_accepted());
    let accepted = status.ancestors.iter().any(Ancestor::is_accepted);
    let mut why = Vec::new();
    match (class, refused) {
        (None, Some(ancestor)) => {
            let condition = ancestor.condition("Accepted");
            let text =
                condition.map(|condition| format!("{}: {}", condition.reason, condition.message));
            why.push(Why {
                step: "accepted",
                result: "no",
                detail: text.unwrap_or_default(),
            });
        }
        (None, None) if held.policy.deleting => why.push(Why {
            step: "accepted",
            result: "no",
            detail: "the policy is being deleted".to_owned(),
        }),
        _ => why.push(Why {
            step: "accepted",
            result: if accepted { "yes" } else { "no" },
            detail: String::new(),
        }),
    }
    if !held.refused_on.is_empty() {
        let controllers: BTreeSet<&str> = held
            .policy
            .rejections
            .iter()
            .map(|rejection| rejection.controller.as_str())
            .collect();
        let names: Vec<&str> = controllers.into_iter().collect();
        why.push(Why {
            step: "owner",
            result: "no",
            detail: format!("not accepted by {} on some paths", names.join(", ")),
        });
    }
    if class.is_none() && accepted && held.policy.pieces.is_empty() {
        why.push(Why {
            step: "sets",
            result: "no",
            detail: "it sets no field".to_owned(),
        });
    } else if class.is_none() && accepted && held.refused_on.is_empty() {
        why.push(Why {
            step: "reaches",
            result: "no",
            detail: "nothing that it acts on is on a path to this object".to_owned(),
        });
    }
    if let Some(class) = class {
        let (result, detail) = match class {
            Effectiveness::Full => ("yes", "all fields are in force"),
            Effectiveness::Partial => ("yes", "some fields are in force"),
            Effectiveness::Overridden => ("no", "every field is overridden on every path"),
        };
        why.push(Why {
            step: "effective",
            result,
            detail: detail.to_owned(),
        });
    }
    why
}

fn verdict(status: &PolicyStatus, managed: bool) -> VerdictEntry {
    let refused = status
        .ancestors
        .iter()
        .find(|ancestor| !ancestor.is_accepted());
    let (result, message) = match (status.effectiveness, refused) {
        (Some(Effectiveness::Full), _) => ("Effective".to_owned(), String::new()),
        (Some(effectiveness), _) => {
            let ancestor = status
                .ancestors
                .iter()
                .find(|ancestor| ancestor.is_accepted());
            let message = ancestor
                .and_then(|ancestor| ancestor.conditions.last())
                .map(|condition| condition.message.clone());
            (format!("{effectiveness:?}"), message.unwrap_or_default())
        }
        (None, Some(ancestor)) => {
            let condition = ancestor.condition("Accepted");
            condition.map_or_else(Default::default, |condition| {
                (condition.reason.clone(), condition.message.clone())
            })
        }
        (None, None) => ("NotAccepted".to_owned(), String::new()),
    };
    VerdictEntry {
        result,
        message,
        state: "fresh",
        source: if managed { "authoritative" } else { "computed" },
    }
}
