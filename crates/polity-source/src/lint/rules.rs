//! The rules, one function each; those about policies are here.

use std::collections::{BTreeMap, BTreeSet};

use polity_core::FieldPath;
use polity_core::governance::names;
use polity_govern::canonical::canonical;
use polity_govern::dependency::PolicyDependencies;
use polity_govern::objects::{Dependency, Policy};
use polity_govern::validate::{self, Operation};
use serde_json::Value;

use super::cycles::{Graph, cycles};
use crate::findings::{Finding, Rule};
use crate::{HubManifests, Manifests};

pub(super) const UNDECODABLE: &str = "undecodable";
const CYCLE: &str = "dependency-cycle";
const MISSING: &str = "dependency-on-nothing";
const CONFLICT: &str = "conflicting-compliance";
pub(super) const GROUP: &str = "unknown-mandatory-group";
const STRATEGY: &str = "refused-strategy";
pub(super) const OFFLINE: &str = "drops-offline-clusters";
pub(super) const IGNORED: &str = "ignored-enforcement";
pub(super) const SLOTS: &str = "failures-hold-slots";
pub(super) const THRESHOLD: &str = "threshold-out-of-range";
pub(super) const REFUSED: &str = "refused-object";
const FUNCTION: &str = "unknown-function";
pub(super) const MISCONFIGURED: &str = "misconfigured-placement";
pub(super) const EXPRESSION: &str = "broken-expression";

/// The rules with their documentation.
pub fn rules() -> Vec<Rule> {
    [
        (UNDECODABLE, "A document cannot be read or does not fit its kind."),
        (CYCLE, "Policies or templates wait for each other, so none of them is ever applied."),
        (MISSING, "A dependency names something that the files do not hold."),
        (CONFLICT, "Two dependencies want different states of one object."),
        (GROUP, "A mandatory decision group is in no bound placement, so the rollout goes on without it."),
        (STRATEGY, "The rollout strategy is refused, so no cluster is handed out."),
        (OFFLINE, "A placement drops clusters that are offline, and their policies are taken away."),
        (IGNORED, "A binding asks for enforcement that a progressive strategy sets aside."),
        (SLOTS, "Failures are tolerated, but a failed cluster keeps its slot for ever."),
        (THRESHOLD, "A number of clusters is negative, or more than there are, and counts as another."),
        (MISCONFIGURED, "A placement is invalid, so it selects no cluster."),
        (EXPRESSION, "An expression of a placement does not compile, so it selects no cluster."),
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
    pub(super) governance: &'a HubManifests<'a>,
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
    pub(super) fn place(
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

    pub(super) fn at_policy(&self, finding: Finding, policy: &Policy, path: &FieldPath) -> Finding {
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
                format!("the strategy is refused: {why}; no cluster would be handed out")
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
            .mend("correct the name or the namespace, or add the missing object");
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
                keys.any(|key| {
                    let namespace = key.namespace.as_deref().unwrap_or_default();
                    names::replica_name(namespace, &key.name) == dependency.name
                })
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
        let cycles = cycles(&graph);
        cycles
            .iter()
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
