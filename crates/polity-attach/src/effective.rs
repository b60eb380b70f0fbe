//! Effective policy: the settings in effect for an object, on which paths, and the source of every field.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::graph::Graph;
use crate::graph::ids::{GroupId, ObjId};
use crate::graph::lattice::Part;
use crate::graph::paths::{Path, Step, Through};
use crate::kind::PolicyKind;
use crate::merge::{Merged, OWN, Rule, Verdict};
use crate::object::ObjectRef;
use crate::policy::BodyPart;
use crate::tree::Source;

/// The most paths to one object that are listed; results are complete whatever their number.
pub(crate) const MAX_CONTEXTS: usize = 1_000;

/// A path on which a result holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Context {
    pub path: Vec<Step>,
}

/// One field that one policy sets, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Setting {
    pub field: String,
    pub value: Value,
    pub policy: ObjectRef,
    /// `defaults`, `overrides`, or `spec` for what stands in no stanza.
    pub stanza: &'static str,
    /// The object, or section of one, that the policy is attached to.
    pub level: Step,
    /// Whether the value is in force; of equal values all are.
    pub won: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beaten_by: Option<ObjectRef>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
}

/// What one merge group comes to, for an object or one of its sections.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resultant {
    pub group: String,
    pub kind: String,
    /// `authoritative` where Polity is the controller of the kind, else `computed`.
    pub basis: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
    /// The paths that share this result, as far as they are listed.
    pub contexts: Vec<Context>,
    /// How many paths there are, when not all are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub more_contexts: Option<u64>,
    /// The fields with their values.
    pub values: Value,
    /// The same as a `spec` of the kind: every field in the stanza it won in.
    pub spec: Value,
    /// Every field that any policy sets here, the winner first.
    pub settings: Vec<Setting>,
}

impl Resultant {
    /// The policies that give at least one field, in order.
    pub fn sources(&self) -> BTreeSet<&ObjectRef> {
        let winners = self.settings.iter().filter(|setting| setting.won);
        winners.map(|setting| &setting.policy).collect()
    }
}

impl Graph {
    /// What holds for an object: one entry for each merge group and each different result, with the paths that share it.
    /// With `through`, only paths that pass over that object. Sections are listed where they differ from the whole.
    pub fn effective(&self, object: &ObjectRef, through: Option<&Through>) -> Vec<Resultant> {
        let Some(id) = self.refs.get(object) else {
            return Vec::new();
        };
        let contributions = self.contributions.get(&id).into_iter().flatten();
        let groups: BTreeSet<(String, GroupId)> = contributions
            .map(|contribution| {
                let held = &self.policies[&contribution.policy];
                (held.hierarchy.clone(), held.group)
            })
            .collect();
        let mut resultants: Vec<Resultant> = Vec::new();
        for (hierarchy, group) in groups {
            resultants.extend(self.effective_in(&hierarchy, group, id, through));
        }
        resultants.sort_by(|a, b| {
            let key = |it: &Resultant| {
                (
                    it.kind.clone(),
                    it.group.clone(),
                    it.section_name.clone(),
                    it.contexts.first().cloned(),
                )
            };
            key(a).cmp(&key(b))
        });
        resultants
    }

    fn effective_in(
        &self,
        hierarchy: &str,
        group: GroupId,
        id: ObjId,
        through: Option<&Through>,
    ) -> Vec<Resultant> {
        let Some(parts) = self.host(hierarchy).nodes.get(&id) else {
            return Vec::new();
        };
        let mut whole: Vec<Resultant> = Vec::new();
        let mut sections: BTreeMap<String, Vec<Resultant>> = BTreeMap::new();
        for (part, node) in parts {
            let (paths, all) = self.paths(hierarchy, *node, through, MAX_CONTEXTS);
            let mut results = self.results_on(hierarchy, group, id, part, &paths);
            if all > paths.len() as u64
                && let Some(last) = results.last_mut()
            {
                last.more_contexts = Some(all - paths.len() as u64);
            }
            match self.section_name(id, part) {
                None => whole.extend(results),
                Some(name) => sections.entry(name).or_default().extend(results),
            }
        }
        let mut known: Vec<Value> = whole.iter().map(|result| result.values.clone()).collect();
        known.sort_by_key(ToString::to_string);
        known.dedup();
        for (_, results) in sections {
            let mut values: Vec<Value> =
                results.iter().map(|result| result.values.clone()).collect();
            values.sort_by_key(ToString::to_string);
            values.dedup();
            if values != known {
                whole.extend(results);
            }
        }
        whole
    }

    /// The different results over these paths.
    fn results_on(
        &self,
        hierarchy: &str,
        group: GroupId,
        id: ObjId,
        part: &Part,
        paths: &[Path],
    ) -> Vec<Resultant> {
        let mut by_stack: BTreeMap<u32, Vec<Context>> = BTreeMap::new();
        for path in paths {
            by_stack.entry(path.stack).or_default().push(Context {
                path: path.steps.clone(),
            });
        }
        let mut results: Vec<Resultant> = Vec::new();
        for (stack, contexts) in by_stack {
            let levels = self.host(hierarchy).lattice.levels_of(stack);
            let merged = Merged::of(&self.input_at(hierarchy, group, &levels, id, part));
            let Some(mut result) = self.resultant(group, id, part, &merged) else {
                continue;
            };
            let same = results.iter_mut().find(|present| {
                present.values == result.values && present.settings == result.settings
            });
            match same {
                Some(present) => present.contexts.extend(contexts),
                None => {
                    result.contexts = contexts;
                    results.push(result);
                }
            }
        }
        for result in &mut results {
            result.contexts.sort();
        }
        results.sort_by(|a, b| a.contexts.cmp(&b.contexts));
        results
    }

    /// The kind in whose form a merge group's results are given.
    pub(crate) fn shape(&self, group: GroupId) -> Option<&PolicyKind> {
        let kinds = self.registry.groups.get(self.group_names.value(group))?;
        self.registry.kinds.get(kinds.first()?)
    }

    fn resultant(
        &self,
        group: GroupId,
        id: ObjId,
        part: &Part,
        merged: &Merged<'_>,
    ) -> Option<Resultant> {
        if merged.parts.is_empty() {
            return None;
        }
        let shape = self.shape(group)?;
        let section = self.section_name(id, part);
        let named = match part {
            Part::Section(name) | Part::FrontendPort(name) => Some(name.as_ref()),
            _ => None,
        };
        Some(Resultant {
            group: shape.kind.group.clone(),
            kind: shape.kind.kind.clone(),
            basis: if shape.managed {
                "authoritative"
            } else {
                "computed"
            },
            section_name: section,
            contexts: Vec::new(),
            more_contexts: None,
            values: merged.tree.value(),
            spec: render(shape, self.reference(id), named, merged),
            settings: self.settings(merged),
        })
    }

    /// Every field of every policy in a merge, in the order of fields; the winner first, then by rank.
    fn settings(&self, merged: &Merged<'_>) -> Vec<Setting> {
        let mut settings: Vec<(Setting, bool, usize)> = Vec::new();
        for (source, part) in merged.parts.iter().enumerate() {
            let (object, section) = self.level_name(part.level);
            merged.verdicts(source as Source, &mut |path, value, verdict| {
                let (won, first, by, rule) = match verdict {
                    Verdict::Won => (true, true, None, None),
                    Verdict::Agrees(_) => (true, false, None, None),
                    Verdict::Beaten(by, rule) => (false, false, by, Some(rule)),
                };
                let by = by
                    .filter(|by| *by != OWN)
                    .map(|by| &merged.parts[by as usize]);
                let setting = Setting {
                    field: path.to_owned(),
                    value: value.clone(),
                    policy: self.reference(part.policy).clone(),
                    stanza: stanza(part.piece.place),
                    level: Step {
                        object: object.clone(),
                        section: section.map(str::to_owned),
                    },
                    won,
                    beaten_by: by.map(|by| self.reference(by.policy).clone()),
                    rule,
                };
                settings.push((setting, !first, source));
            });
        }
        settings.sort_by(|(a, a_lost, a_source), (b, b_lost, b_source)| {
            (&a.field, a_lost, !a.won, a_source).cmp(&(&b.field, b_lost, !b.won, b_source))
        });
        settings.into_iter().map(|(setting, ..)| setting).collect()
    }
}

fn stanza(place: BodyPart) -> &'static str {
    match place {
        BodyPart::Top => "spec",
        BodyPart::Defaults => "defaults",
        BodyPart::Overrides => "overrides",
    }
}

/// A result as the `spec` of its kind: winners in the stanza they won in, with a reference to the object.
fn render(
    shape: &PolicyKind,
    object: &ObjectRef,
    section: Option<&str>,
    merged: &Merged<'_>,
) -> Value {
    let place_of = |source: Source| {
        merged
            .parts
            .get(source as usize)
            .map(|part| part.piece.place)
    };
    let in_place = |place: BodyPart| {
        merged
            .tree
            .value_of(&|source| place_of(source) == Some(place))
    };
    let mut spec = match in_place(BodyPart::Top) {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    for (place, plural, singular) in [
        (BodyPart::Defaults, "defaults", "default"),
        (BodyPart::Overrides, "overrides", "override"),
    ] {
        if let Some(value) = in_place(place)
            .filter(|value| value.as_object().is_none_or(|fields| !fields.is_empty()))
        {
            spec.insert(spelled(shape, plural, singular).to_owned(), value);
        }
    }
    let reference = target_reference(shape, object, section);
    let knows = |name: &str| {
        shape
            .spec_schema()
            .is_some_and(|schema| schema.property(name).is_some())
    };
    if knows("targetRef") || !knows("targetRefs") {
        spec.insert("targetRef".to_owned(), reference);
    } else {
        spec.insert("targetRefs".to_owned(), json!([reference]));
    }
    Value::Object(spec)
}

/// How a kind spells a stanza.
fn spelled<'a>(shape: &PolicyKind, plural: &'a str, singular: &'a str) -> &'a str {
    let schema = shape.spec_schema();
    let knows = |name: &str| schema.is_some_and(|schema| schema.property(name).is_some());
    if knows(singular) && !knows(plural) {
        singular
    } else {
        plural
    }
}

fn target_reference(shape: &PolicyKind, object: &ObjectRef, section: Option<&str>) -> Value {
    let mut reference = json!({"group": object.group, "kind": object.kind, "name": object.name});
    let schema = shape.spec_schema().and_then(|spec| {
        let one = spec.property("targetRef").cloned();
        one.or_else(|| spec.property("targetRefs")?.items().cloned())
    });
    let knows_section = schema.is_none_or(|schema| schema.property("sectionName").is_some());
    if let (Some(section), true) = (section, knows_section) {
        reference["sectionName"] = Value::from(section);
    }
    reference
}
