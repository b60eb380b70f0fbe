//! Plans template sync: which template objects a managed cluster creates, updates and deletes for its replica of a
//! policy, and what it reports for templates that cannot be applied.
//!
//! An invalid template does not affect the others. Admission policies are allowed as templates; the action of the policy
//! sets their mode.

mod object;

use std::collections::BTreeSet;

use crate::objects::{Dependency, Policy, PolicyTemplate};
use polity_core::governance::{Action, Compliance, names};
use serde_json::Value;

use crate::dependency::{self, Found, PolicyDependencies, Unmet};
use crate::mark::{Mark, Stage};
use crate::objects::MAX_MESSAGE;

/// Whether a kind may be a template on this cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateKind {
    /// Not served; what the API said about it.
    NotServed {
        why: String,
    },
    /// Served, but its CRD is not marked as one for templates.
    NotAllowed,
    Allowed {
        namespaced: bool,
    },
}

/// The objects and kinds of the managed cluster.
pub trait Cluster {
    /// Whether a kind is served and allowed as a template.
    fn kind(&self, api_version: &str, kind: &str) -> TemplateKind;

    /// The object of a dependency.
    fn dependency(&self, dependency: &Dependency) -> Found<'_>;

    /// The object of a template, if there is one.
    fn object(&self, api_version: &str, kind: &str, name: &str) -> Option<&Value>;

    /// Every object of a template kind that carries the label of this policy.
    fn labelled(&self, policy: &str) -> Vec<&Value>;
}

/// The writes and reports for one replica.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SyncPlan {
    /// One for each template, in their order.
    pub templates: Vec<TemplatePlan>,
    /// Objects of this policy that it no longer lists.
    pub deletes: Vec<ObjectName>,
    /// Whether the policy needs the finalizer for what an owner reference does not reach.
    pub needs_finalizer: bool,
    /// Dependencies that were ignored because an earlier one wants something else.
    pub ignored_dependencies: Vec<Dependency>,
}

/// The write and the report for one template.
#[derive(Debug, Clone, PartialEq)]
pub struct TemplatePlan {
    pub name: String,
    pub step: TemplateStep,
    /// The message to report; none if the controller of the object reports, or if it is the newest message already.
    pub report: Option<String>,
    /// Remove `status.compliant` of the object, so that its controller reports again.
    pub clear_compliance: bool,
}

/// The write for one template.
#[derive(Debug, Clone, PartialEq)]
pub enum TemplateStep {
    /// There is nothing to apply.
    None,
    Create(Value),
    Update(Value),
    /// The object is up to date.
    Keep,
    Delete {
        object: ObjectName,
        /// First set `pruneObjectBehavior: None`, so that the objects it created are not deleted with it.
        without_pruning: bool,
    },
}

/// Identifies an object on the managed cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    pub api_version: String,
    pub kind: String,
    pub namespace: Option<String>,
    pub name: String,
}

impl ObjectName {
    fn of(object: &Value) -> Self {
        let text = |pointer: &str| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        Self {
            api_version: text("/apiVersion").unwrap_or_default(),
            kind: text("/kind").unwrap_or_default(),
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name").unwrap_or_default(),
        }
    }
}

/// Plans template sync for one policy of a cluster. `policy` is the copy on the cluster, in its cluster namespace.
pub fn sync(policy: &Policy, cluster_name: &str, cluster: &dyn Cluster) -> SyncPlan {
    let dependencies = PolicyDependencies::of(&policy.spec.dependencies);
    let waits = Mark::read(&policy.annotations).is_some_and(|mark| mark.step.stage == Stage::Wait);
    let syncer = Syncer {
        policy,
        cluster_name,
        cluster,
        waits,
        dependencies: &dependencies,
    };
    let mut plan = SyncPlan::default();
    if has_duplicates(&policy.spec.templates) {
        const TEXT: &str =
            "template-error; All policy-template names must be unique within a policy";
        plan.templates = (0..policy.spec.templates.len())
            .map(|index| syncer.error(&syncer.name(index), TEXT.to_owned()))
            .collect();
        return plan;
    }
    plan.templates = (0..policy.spec.templates.len())
        .map(|index| syncer.template(index))
        .collect();
    plan.needs_finalizer = policy.spec.templates.iter().any(|template| {
        matches!(
            cluster.kind(template.api_version(), template.kind()),
            TemplateKind::Allowed { namespaced: false }
        )
    });
    plan.deletes = syncer.unlisted();
    plan.ignored_dependencies.clone_from(&dependencies.ignored);
    plan
}

/// The objects of a policy that its deletion leaves behind: those in other namespaces, and those without one, which an
/// owner reference does not reach.
pub fn left_behind(policy: &Policy, cluster: &dyn Cluster) -> Vec<ObjectName> {
    let objects = cluster
        .labelled(&policy.name)
        .into_iter()
        .map(ObjectName::of);
    objects
        .filter(|object| object.namespace.as_deref() != Some(policy.namespace.as_str()))
        .collect()
}

fn has_duplicates(templates: &[PolicyTemplate]) -> bool {
    let mut seen = BTreeSet::new();
    templates
        .iter()
        .map(PolicyTemplate::name)
        .filter(|name| !name.is_empty())
        .any(|name| !seen.insert(name))
}

struct Syncer<'a> {
    policy: &'a Policy,
    cluster_name: &'a str,
    cluster: &'a dyn Cluster,
    /// The replica waits for its turn: no object that enforces may be lost.
    waits: bool,
    dependencies: &'a PolicyDependencies,
}

impl Syncer<'_> {
    fn name(&self, index: usize) -> String {
        match self.policy.spec.templates[index].name() {
            "" => format!("template-{index}"),
            name => name.to_owned(),
        }
    }

    fn template(&self, index: usize) -> TemplatePlan {
        let template = &self.policy.spec.templates[index];
        let name = self.name(index);
        if !template.definition.is_object()
            || template.kind().is_empty()
            || template.api_version().is_empty()
        {
            let text = "template-error; Failed to decode policy template with err: Object 'Kind' is missing";
            return self.error(&name, text.to_owned());
        }
        if template.name().is_empty() {
            let text = format!(
                "template-error; Failed to parse or get name from policy template at index {index}"
            );
            return self.error(&name, text);
        }
        let namespaced = match self.cluster.kind(template.api_version(), template.kind()) {
            TemplateKind::NotServed { why } => {
                let check = mapping_check(template.api_version());
                return self.error(
                    &name,
                    format!("template-error; Mapping not found, {check}: {why}"),
                );
            }
            TemplateKind::NotAllowed if !template.is_admission_policy() => {
                let (api_version, kind) = (template.api_version(), template.kind());
                let text = format!(
                    "template-error; policy-template kind is not supported: {api_version}, Kind={kind}"
                );
                return self.error(&name, text);
            }
            TemplateKind::NotAllowed => false,
            TemplateKind::Allowed { namespaced } => namespaced,
        };
        let existing =
            self.cluster
                .object(template.api_version(), template.kind(), template.name());
        let wanted = match self.dependencies.with(template) {
            Ok(wanted) => wanted,
            Err(conflict) => {
                let text = format!(
                    "template-error; Failed to decode policy template with err: {conflict}"
                );
                return self.error(&name, text);
            }
        };
        let unmet: Vec<(Dependency, Unmet)> = wanted
            .into_iter()
            .filter_map(|wanted| {
                let why = dependency::check(&wanted, self.cluster.dependency(&wanted)).err()?;
                Some((wanted, why))
            })
            .collect();
        if let Some(text) = dependency::message(&unmet, template.ignore_pending) {
            return self.pending(&name, text, existing);
        }
        if let Some(error) = hub_template_error(template) {
            let mut plan = self.error(&name, format!("template-error; {error}"));
            if let Some(existing) = existing.filter(|_| template.kind() == "ConfigurationPolicy") {
                plan.step = TemplateStep::Delete {
                    object: ObjectName::of(existing),
                    without_pruning: true,
                };
            }
            return plan;
        }
        self.apply(&name, template, namespaced, existing)
    }

    /// An error; left out when the newest entry of the history says the same.
    fn error(&self, name: &str, text: String) -> TemplatePlan {
        let text = format!("{}; {text}", Compliance::NonCompliant);
        TemplatePlan {
            name: name.to_owned(),
            step: TemplateStep::None,
            report: (!self.was_said(name, &text)).then_some(text),
            clear_compliance: false,
        }
    }

    fn pending(&self, name: &str, text: String, existing: Option<&Value>) -> TemplatePlan {
        let ours = existing.filter(|object| object::belongs_to(object, self.policy));
        let step = ours.map_or(TemplateStep::None, |object| TemplateStep::Delete {
            object: ObjectName::of(object),
            without_pruning: self.waits && object::enforces(object),
        });
        TemplatePlan {
            name: name.to_owned(),
            step,
            report: (!self.was_said(name, &text)).then_some(text),
            clear_compliance: false,
        }
    }

    fn apply(
        &self,
        name: &str,
        template: &PolicyTemplate,
        namespaced: bool,
        existing: Option<&Value>,
    ) -> TemplatePlan {
        if let Some(existing) = existing
            && !object::belongs_to(existing, self.policy)
        {
            let owner = object::owner(existing).map_or_else(
                || "outside of a Policy".to_owned(),
                |owner| format!("in policy {owner}"),
            );
            let kind = template.kind();
            let text = format!(
                "template-error; Template name must be unique. Policy template with kind: {kind} name: {name} already \
                 exists {owner}"
            );
            return self.error(name, text);
        }
        let wanted = object::build(self.policy, self.cluster_name, template, namespaced);
        let step = match existing {
            None => TemplateStep::Create(wanted),
            Some(existing) if object::is_as_wanted(existing, &wanted) => TemplateStep::Keep,
            Some(existing) => TemplateStep::Update(object::merged(existing, &wanted)),
        };
        TemplatePlan {
            name: name.to_owned(),
            step,
            report: None,
            clear_compliance: self.newest(name).is_some_and(|message| {
                message.contains("template-error;") || message.contains("Pending;")
            }),
        }
    }

    fn newest(&self, name: &str) -> Option<&str> {
        let details = self
            .policy
            .status
            .details
            .iter()
            .find(|details| details.name == name)?;
        Some(details.history.first()?.message.as_str())
    }

    /// Whether the newest entry of the history is this message. A long message is cut when it is read.
    fn was_said(&self, name: &str, text: &str) -> bool {
        self.newest(name).is_some_and(|message| {
            let is_cut = message.chars().count() >= MAX_MESSAGE;
            message == text || (is_cut && text.starts_with(message))
        })
    }

    /// Objects that the policy no longer lists. While it waits, what it drops stays, and keeps its old action.
    fn unlisted(&self) -> Vec<ObjectName> {
        if self.waits {
            return Vec::new();
        }
        let is_listed = |object: &Value| {
            let found = ObjectName::of(object);
            self.policy
                .spec
                .templates
                .iter()
                .any(|template| template.kind() == found.kind && template.name() == found.name)
        };
        let mut unlisted: Vec<ObjectName> = self
            .cluster
            .labelled(&self.policy.name)
            .into_iter()
            .filter(|object| !is_listed(object))
            .map(ObjectName::of)
            .collect();
        unlisted.sort();
        unlisted
    }
}

fn hub_template_error(template: &PolicyTemplate) -> Option<&str> {
    let annotations = template.definition.pointer("/metadata/annotations")?;
    annotations.get(names::HUB_TEMPLATES_ERROR)?.as_str()
}

fn mapping_check(api_version: &str) -> &'static str {
    match api_version.split_once('/').map_or("", |(group, _)| group) {
        "templates.gatekeeper.sh" => "check if Gatekeeper is installed",
        "constraints.gatekeeper.sh" => "check if the required ConstraintTemplate has been deployed",
        _ => "check if you have the CRD deployed",
    }
}

/// The action that a template has in a policy: the policy's, else its own.
pub(crate) fn effective_action(policy: &Policy, template: &PolicyTemplate) -> Option<Action> {
    let own = template
        .definition
        .pointer("/spec/remediationAction")
        .and_then(Value::as_str);
    if own.is_some_and(|text| text.eq_ignore_ascii_case("informonly")) {
        return Some(Action::Inform);
    }
    policy.spec.action.or_else(|| Action::parse(own?))
}

#[cfg(test)]
mod tests;
