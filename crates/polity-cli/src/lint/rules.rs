//! The rules, one function each.

use std::collections::{BTreeMap, BTreeSet};

use polity_core::FieldPath;
use polity_core::cluster::TaintEffect;
use polity_core::cluster::names::{UNAVAILABLE, UNREACHABLE};
use polity_core::governance::{
    Binding, Dependency, PlacementKind, Policy, PolicySet, SubjectKind, names,
};
use polity_core::placement::{Placement, ToleratedValue};
use polity_core::rollout_strategy::{GroupReference, RolloutStrategy, Threshold};
use polity_govern::canonical::canonical;
use polity_govern::dependency::PolicyDependencies;
use polity_govern::validate::{self, Operation};
use polity_rollout::placement::ClusterExpressions as _;
use serde_json::Value;

use super::cycles::{Graph, cycles};
use crate::findings::{Finding, Rule};
use crate::governance::Governance;
use crate::manifests::Manifests;
use crate::placement::Expressions;

const CYCLE: &str = "dependency-cycle";
const MISSING: &str = "dependency-on-nothing";
const CONFLICT: &str = "conflicting-compliance";
const GROUP: &str = "unknown-mandatory-group";
const STRATEGY: &str = "refused-strategy";
const OFFLINE: &str = "drops-offline-clusters";
const IGNORED: &str = "ignored-enforcement";
const SLOTS: &str = "failures-hold-slots";
const REFUSED: &str = "refused-object";
const FUNCTION: &str = "unknown-function";
const MISCONFIGURED: &str = "misconfigured-placement";
const EXPRESSION: &str = "broken-expression";

/// The rules for those who want to know more.
pub(super) fn rules() -> Vec<Rule> {
    [
        ("undecodable", "A document cannot be read or does not fit its kind."),
        (CYCLE, "Policies or templates wait for each other, so none of them is ever applied."),
        (MISSING, "A dependency names something that the files do not hold."),
        (CONFLICT, "Two dependencies want different states of one object."),
        (GROUP, "A mandatory decision group is in no bound placement, so the rollout goes on without it."),
        (STRATEGY, "The rollout strategy cannot be carried out, so nobody is handed out."),
        (OFFLINE, "A placement drops clusters that are offline, and their policies are taken away."),
        (IGNORED, "A binding asks for enforcement that a progressive strategy sets aside."),
        (SLOTS, "Failures are tolerated, but a failed cluster keeps its slot for ever."),
        (MISCONFIGURED, "A placement makes no sense, so it chooses nobody."),
        (EXPRESSION, "An expression of a placement does not compile, so it chooses nobody."),
        (REFUSED, "The object would be refused when it is written."),
        (
            FUNCTION,
            "A template calls a function that there is not, so the policy is a violation wherever it goes.",
        ),
    ]
    .map(|(id, summary)| Rule::new(id, summary))
    .to_vec()
}

/// What is looked over.
pub(super) struct Lint<'a> {
    pub(super) manifests: &'a Manifests,
    pub(super) governance: &'a Governance<'a>,
}

impl Lint<'_> {
    pub(super) fn all(&self) -> Vec<Finding> {
        let mut findings = self.cycles();
        for policy in self.policies() {
            findings.extend(self.refused(policy));
            findings.extend(self.dependencies(policy));
            findings.extend(self.strategy(policy));
            findings.extend(self.functions(policy));
        }
        for set in &self.governance.hub.policy_sets {
            if let Err(refusal) = validate::policy_set(set) {
                let path = FieldPath::of("spec").child("exclusions");
                let finding = Finding::error(REFUSED, refusal.to_string())
                    .mend("list each member once, and only members");
                findings.push(self.place(finding, "PolicySet", (&set.namespace, &set.name), &path));
            }
        }
        for (_, placement) in &self.governance.fleet.placements {
            findings.extend(self.misconfigured(placement));
            findings.extend(self.expressions(placement));
            findings.extend(self.offline(placement));
        }
        findings
    }

    fn policies(&self) -> impl Iterator<Item = &Policy> {
        self.governance.hub.policies.values()
    }

    /// Puts a finding where it belongs: file and line of a field of an object.
    fn place(
        &self,
        finding: Finding,
        kind: &str,
        object: (&str, &str),
        path: &FieldPath,
    ) -> Finding {
        let (namespace, name) = object;
        let document = self.manifests.documents.iter().find(|document| {
            let found = document.namespace().unwrap_or("default");
            document.kind.kind == kind && document.name() == name && found == namespace
        });
        let finding = finding.at(format!("{kind}/{namespace}/{name} {path}"));
        match document.map(|document| document.locate(path)) {
            Some(origin) => finding.in_file(origin.file.as_ref(), Some(origin.line)),
            None => finding,
        }
    }

    fn at_policy(&self, finding: Finding, policy: &Policy, path: &FieldPath) -> Finding {
        self.place(finding, "Policy", (&policy.namespace, &policy.name), path)
    }

    fn refused(&self, policy: &Policy) -> Option<Finding> {
        let refusal = validate::policy(policy, Operation::Create).err()?;
        let (rule, path, mend) = match &refusal {
            validate::PolicyRefusal::NameTooLong => (
                REFUSED,
                FieldPath::of("metadata").child("name"),
                "shorten the name of the policy or of its namespace",
            ),
            validate::PolicyRefusal::NoAction => (
                REFUSED,
                FieldPath::of("spec").child("remediationAction"),
                "set remediationAction in the policy or in every template",
            ),
            validate::PolicyRefusal::Strategy(_) => (
                STRATEGY,
                FieldPath::of("spec").child("rolloutStrategy"),
                "write numbers as numbers, parts as in 10%, deadlines as in 30m or 1h30m",
            ),
        };
        let why = match &refusal {
            validate::PolicyRefusal::Strategy(why) => {
                format!("the strategy cannot be carried out: {why}; nobody would be handed out")
            }
            other => other.to_string(),
        };
        Some(self.at_policy(Finding::error(rule, why).mend(mend), policy, &path))
    }

    fn dependencies(&self, policy: &Policy) -> Vec<Finding> {
        let mut findings = Vec::new();
        let all = PolicyDependencies::of(&policy.spec.dependencies);
        let spec = FieldPath::of("spec");
        for ignored in &all.ignored {
            let position = policy
                .spec
                .dependencies
                .iter()
                .rposition(|dependency| dependency == ignored);
            let path = spec.child("dependencies").index(position.unwrap_or(0));
            let why = format!(
                "{} {} is wanted in two states; the later one is ignored",
                ignored.kind, ignored.name
            );
            let finding = Finding::error(CONFLICT, why).mend("keep one of the two");
            findings.push(self.at_policy(finding, policy, &path));
        }
        for (index, dependency) in policy.spec.dependencies.iter().enumerate() {
            let path = spec.child("dependencies").index(index);
            findings.extend(self.missing(policy, dependency, &path));
        }
        for (index, template) in policy.spec.templates.iter().enumerate() {
            let path = spec
                .child("policy-templates")
                .index(index)
                .child("extraDependencies");
            if let Err(conflict) = all.with(template) {
                let why = format!("{conflict}; the template would not be applied");
                findings.push(self.at_policy(
                    Finding::error(CONFLICT, why).mend("keep one of the two"),
                    policy,
                    &path,
                ));
            }
            for (index, dependency) in template.extra_dependencies.iter().enumerate() {
                findings.extend(self.missing(policy, dependency, &path.index(index)));
            }
        }
        findings
    }

    /// A dependency on something that the files should hold and do not.
    fn missing(
        &self,
        policy: &Policy,
        dependency: &Dependency,
        path: &FieldPath,
    ) -> Option<Finding> {
        let sets = &self.governance.hub.policy_sets;
        let resolved = canonical(std::slice::from_ref(dependency), &policy.namespace, sets);
        let unknown: Vec<String> = resolved
            .iter()
            .filter(|dependency| !self.is_known(dependency))
            .map(title)
            .collect();
        if unknown.is_empty() {
            return None;
        }
        let why = format!(
            "depends on {}, which is not among the files: pending until it is there",
            unknown.join(", ")
        );
        let finding = Finding::warning(MISSING, why)
            .mend("mend the name or the namespace, or add what is missing");
        Some(self.at_policy(finding, policy, path))
    }

    fn is_known(&self, dependency: &Dependency) -> bool {
        match (
            dependency.kind.as_str(),
            dependency
                .api_version
                .split_once('/')
                .map(|(group, _)| group),
        ) {
            ("Policy", Some(names::GROUP)) => {
                let mut keys = self.governance.hub.policies.keys();
                keys.any(|key| names::replica_name(&key.namespace, &key.name) == dependency.name)
            }
            ("PolicySet", Some(names::GROUP)) => false,
            (kind, Some(names::GROUP)) => self
                .policies()
                .flat_map(|policy| &policy.spec.templates)
                .any(|template| template.kind() == kind && template.name() == dependency.name),
            // What other software brings is not expected among the files.
            _ => true,
        }
    }

    fn cycles(&self) -> Vec<Finding> {
        let mut graph = Graph::new();
        let mut places: BTreeMap<String, &Policy> = BTreeMap::new();
        for policy in self.policies() {
            let name = format!(
                "Policy {}",
                names::replica_name(&policy.namespace, &policy.name)
            );
            let resolve = |dependencies: &[Dependency]| -> BTreeSet<String> {
                let resolved = canonical(
                    dependencies,
                    &policy.namespace,
                    &self.governance.hub.policy_sets,
                );
                resolved.iter().map(title).collect()
            };
            let own = resolve(&policy.spec.dependencies);
            places.insert(name.clone(), policy);
            for template in policy
                .spec
                .templates
                .iter()
                .filter(|template| !template.extra_dependencies.is_empty())
            {
                // A policy complies when its templates do, so it waits with each of them.
                let template_name = format!("{} {}", template.kind(), template.name());
                places.entry(template_name.clone()).or_insert(policy);
                graph
                    .entry(name.clone())
                    .or_default()
                    .insert(template_name.clone());
                let waits_for = graph.entry(template_name).or_default();
                waits_for.extend(resolve(&template.extra_dependencies));
                waits_for.extend(own.iter().cloned());
            }
            graph.entry(name).or_default().extend(own);
        }
        let told = cycles(&graph);
        told.iter()
            .filter_map(|cycle| {
                let policy = places.get(cycle.first()?)?;
                let why = format!(
                    "{}: each waits for the next, so none is ever applied",
                    cycle.join(" → ")
                );
                let finding = Finding::error(CYCLE, why).mend("remove one of these dependencies");
                Some(self.at_policy(
                    finding,
                    policy,
                    &FieldPath::of("spec").child("dependencies"),
                ))
            })
            .collect()
    }

    fn strategy(&self, policy: &Policy) -> Vec<Finding> {
        let Some(Ok(strategy)) = &policy.spec.rollout_strategy else {
            return Vec::new();
        };
        let path = FieldPath::of("spec").child("rolloutStrategy");
        let mut findings: Vec<Finding> = strategy
            .mandatory_groups()
            .iter()
            .filter(|reference| !self.has_group(policy, reference))
            .map(|reference| {
                let why = format!("no bound placement has a decision group {reference}: the rollout goes on without it");
                let mend = "name a group of decisionStrategy.groupStrategy.decisionGroups; prefer names, an index shifts";
                self.at_policy(Finding::warning(GROUP, why).mend(mend), policy, &path)
            })
            .collect();
        if let RolloutStrategy::Progressive(progressive) = strategy
            && policy.spec.enforces()
            && progressive.pace.progress_deadline.is_none()
            && !matches!(
                progressive.pace.max_failures,
                Threshold::Count(..=0) | Threshold::Percent(0)
            )
            && matches!(
                progressive.max_concurrency,
                None | Some(Threshold::Count(..=1))
            )
        {
            let why = "failures are tolerated, but without progressDeadline the first failed cluster keeps the only slot";
            let finding = Finding::warning(SLOTS, why)
                .mend("set progressDeadline, or maxConcurrency above 1");
            findings.push(self.at_policy(finding, policy, &path));
        }
        if !matches!(strategy, RolloutStrategy::All(_)) {
            findings.extend(self.ignored_bindings(policy));
        }
        findings
    }

    fn ignored_bindings(&self, policy: &Policy) -> Vec<Finding> {
        self.bindings_of(policy)
            .filter(|binding| binding.restricted || binding.enforces())
            .map(|binding| {
                let (field, what) = if binding.restricted {
                    ("subFilter", "has no effect at all")
                } else {
                    ("bindingOverrides", "does not enforce anything")
                };
                let why = format!(
                    "the progressive strategy of policy {} sets selective enforcement aside: this binding {what}",
                    policy.name
                );
                let finding = Finding::warning(IGNORED, why)
                    .mend("use the strategy All with this binding, or remove the binding and let the rollout decide");
                let object = (binding.namespace.as_str(), binding.name.as_str());
                self.place(finding, "PlacementBinding", object, &FieldPath::of(field))
            })
            .collect()
    }

    fn bindings_of<'p>(&'p self, policy: &'p Policy) -> impl Iterator<Item = &'p Binding> {
        let sets: Vec<&PolicySet> = self
            .governance
            .hub
            .policy_sets
            .iter()
            .filter(|set| set.namespace == policy.namespace && set.policies.contains(&policy.name))
            .collect();
        self.governance.hub.bindings.iter().filter(move |binding| {
            binding.namespace == policy.namespace
                && binding.subjects.iter().any(|subject| match subject.kind {
                    SubjectKind::Policy => subject.name == policy.name,
                    SubjectKind::PolicySet => sets.iter().any(|set| set.name == subject.name),
                })
        })
    }

    /// Whether some placement of the policy has the group; one that is not among the files may have it.
    fn has_group(&self, policy: &Policy, reference: &GroupReference) -> bool {
        let mut references = self
            .bindings_of(policy)
            .filter_map(|binding| binding.placement.as_ref())
            .peekable();
        if references.peek().is_none() {
            return true;
        }
        references.any(|bound| {
            let placements = self.governance.fleet.placements.iter();
            let placement = placements
                .map(|(_, placement)| placement)
                .find(|placement| {
                    bound.kind == PlacementKind::Placement
                        && placement.key.name == bound.name
                        && placement.key.namespace == policy.namespace
                });
            let Some(placement) = placement else {
                return bound.kind == PlacementKind::Placement
                    || *reference == GroupReference::Index(0);
            };
            // What is wrong with a placement is a finding of its own.
            let Ok(rules) = &placement.rules else {
                return true;
            };
            let mut named = rules.groups.named.iter();
            let decided = self.governance.decided();
            let decided = decided.get(&(policy.namespace.as_str(), bound.name.as_str()));
            match reference {
                GroupReference::Name(name) => named.any(|group| group.name == *name),
                GroupReference::Index(_) => decided.is_some_and(|decisions| {
                    decisions.groups.n_clusters() == 0
                        || decisions
                            .groups
                            .iter()
                            .any(|group| group.key.is_meant_by(reference))
                }),
            }
        })
    }

    /// Functions that templates call and that there are not. In admission policies braces are text.
    fn functions(&self, policy: &Policy) -> Vec<Finding> {
        let templates = FieldPath::of("spec").child("policy-templates");
        let mut findings = Vec::new();
        for (index, template) in policy.spec.templates.iter().enumerate() {
            if template.is_admission_policy() {
                continue;
            }
            let path = templates.index(index).child("objectDefinition");
            texts(&template.definition, &path, &mut |path, text| {
                let unknown = polity_template::lint::lint(text)
                    .into_iter()
                    .filter(|lint| lint.rule == FUNCTION);
                findings.extend(unknown.map(|lint| {
                    let finding = Finding::error(FUNCTION, lint.why).mend(lint.mend);
                    self.at_policy(finding, policy, path)
                }));
            });
        }
        findings
    }

    fn offline(&self, placement: &Placement) -> Option<Finding> {
        let is_bound = self.governance.hub.bindings.iter().any(|binding| {
            binding.namespace == placement.key.namespace
                && binding.placement.as_ref().is_some_and(|bound| {
                    bound.kind == PlacementKind::Placement && bound.name == placement.key.name
                })
        });
        let rules = placement.rules.as_ref().ok().filter(|_| is_bound)?;
        let tolerates = |key: &str| {
            rules.tolerations.iter().any(|toleration| {
                toleration.key.as_deref().is_none_or(|found| found == key)
                    && toleration.value == ToleratedValue::Any
                    && toleration
                        .effect
                        .is_none_or(|effect| effect == TaintEffect::NoSelect)
                    && toleration.seconds.is_none()
            })
        };
        let missing: Vec<&str> = [UNREACHABLE, UNAVAILABLE]
            .into_iter()
            .filter(|key| !tolerates(key))
            .collect();
        if missing.is_empty() {
            return None;
        }
        let why = "a cluster that goes offline leaves this placement: its policies are taken away, and when it is back it \
                   starts as a new one";
        let finding = Finding::warning(OFFLINE, why).mend(format!(
            "add tolerations with operator Exists for {}",
            missing.join(" and ")
        ));
        let path = FieldPath::of("spec").child("tolerations");
        Some(self.at_placement(finding, placement, &path))
    }

    fn at_placement(&self, finding: Finding, placement: &Placement, path: &FieldPath) -> Finding {
        let object = (
            placement.key.namespace.as_str(),
            placement.key.name.as_str(),
        );
        self.place(finding, "Placement", object, path)
    }

    fn misconfigured(&self, placement: &Placement) -> Option<Finding> {
        let why = &placement.rules.as_ref().err()?.message;
        let why = format!("the placement makes no sense and chooses nobody: {why}");
        let finding = Finding::error(MISCONFIGURED, why)
            .mend("mend what the message names; polity placement explain shows the rest");
        Some(self.at_placement(finding, placement, &FieldPath::of("spec")))
    }

    fn expressions(&self, placement: &Placement) -> Vec<Finding> {
        let language = Expressions::default();
        let mut findings = Vec::new();
        let predicates = placement.rules.iter().flat_map(|rules| &rules.predicates);
        for (index, predicate) in predicates.enumerate() {
            let path = FieldPath::of("spec").child("predicates").index(index);
            let path = path.child("requiredClusterSelector").child("celSelector");
            for (index, expression) in predicate.expressions.iter().enumerate() {
                let Err(error) = language.compile(expression) else {
                    continue;
                };
                let why = format!(
                    "the expression does not compile: {error}; the placement chooses nobody"
                );
                let finding = Finding::error(EXPRESSION, why)
                    .mend("mend the expression; its only variable is managedCluster");
                let path = path.child("celExpressions").index(index);
                findings.push(self.at_placement(finding, placement, &path));
            }
        }
        findings
    }
}

/// Calls `look` with every text in a value that may hold a template.
fn texts(value: &Value, path: &FieldPath, look: &mut impl FnMut(&FieldPath, &str)) {
    match value {
        Value::String(text) if text.contains("{{") => look(path, text),
        Value::Object(fields) => {
            for (name, value) in fields {
                texts(value, &path.child(name), look);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                texts(value, &path.index(index), look);
            }
        }
        _ => {}
    }
}

fn title(dependency: &Dependency) -> String {
    format!("{} {}", dependency.kind, dependency.name)
}
