//! A whole policy held against a cluster.

use std::sync::Arc;

use polity_core::{ObjectKey, field};

use crate::cluster::{Cluster, Kind, Templates, has_template};
use crate::custom_message::Objects;
use crate::decide::{Finding, Judge};
use crate::event::{Event, Reason, reasons};
use crate::namespaces::TerminatingInclusion;
use crate::policy::{ConfigurationPolicy, Interval, ObjectTemplate, ObjectTemplates, RecordDiff};
use crate::related::ObjectRef;
use crate::select::{Asked, Selected, select};

/// What the process decides for all policies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Differences are not cut.
    pub full_diffs: bool,
    /// What `terminatingInclusion: Default` means.
    pub terminating: TerminatingInclusion,
}

/// What was found; [`Evaluation::conclude`] makes a status of it.
#[derive(Debug)]
pub struct Evaluation<'a> {
    pub(crate) policy: &'a ConfigurationPolicy,
    pub(crate) templates: Vec<TemplateFindings>,
    /// Nothing failed on the way to know what the policy is about.
    pub(crate) complete: bool,
    /// The objects looked at, for custom messages.
    pub(crate) objects: Objects,
}

/// What was found about one object template.
#[derive(Debug)]
pub(crate) struct TemplateFindings {
    pub(crate) findings: Vec<Finding>,
    /// There was no object to look at, and this is why.
    pub(crate) settled: Option<Event>,
}

impl TemplateFindings {
    fn settled(event: Event) -> Self {
        Self {
            findings: Vec::new(),
            settled: Some(event),
        }
    }
}

impl Evaluation<'_> {
    /// All findings, template by template.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.templates
            .iter()
            .flat_map(|template| &template.findings)
    }

    /// Whether everything the policy is about could be found out; if not, nothing is pruned.
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}

/// Looks at everything a policy is about.
pub fn evaluate<'a>(
    policy: &'a ConfigurationPolicy,
    cluster: &dyn Cluster,
    templates: &dyn Templates,
    options: Options,
) -> Evaluation<'a> {
    let mut evaluation = Evaluation {
        policy,
        templates: Vec::new(),
        complete: true,
        objects: Objects::new(),
    };
    let (listed, templates) = match listed(policy, templates) {
        Ok((listed, resolved)) => {
            let more = !resolved && !policy.templates_disabled;
            (listed, more.then_some(templates))
        }
        Err(event) => {
            evaluation.complete = false;
            evaluation.templates.push(TemplateFindings::settled(event));
            return evaluation;
        }
    };
    if listed.is_empty() {
        let message = format!(
            "{} contains no object templates to check, and thus has no violations",
            policy.name
        );
        let event = Event::notification(reasons::NO_TEMPLATES, message);
        evaluation.templates.push(TemplateFindings::settled(event));
    }
    for (index, template) in listed.iter().enumerate() {
        evaluation.look(
            Asked {
                policy,
                index,
                template,
                cluster,
                templates,
                terminating: options.terminating,
            },
            options,
        );
    }
    evaluation
}

impl Evaluation<'_> {
    fn look(&mut self, asked: Asked<'_>, options: Options) {
        let findings = match select(asked) {
            Selected::Settled { event, failed } => {
                self.complete &= !failed;
                self.templates.push(TemplateFindings::settled(event));
                return;
            }
            Selected::Nothing { kind, namespaces } => namespaces
                .into_iter()
                .map(|namespace| Finding::nothing(&kind, namespace, Event::of(Reason::Absent)))
                .collect(),
            Selected::Objects {
                kind,
                desired,
                sensitive,
            } => {
                let judge = Judge {
                    asked,
                    kind: &kind,
                    sensitive,
                    full_diffs: options.full_diffs,
                };
                let findings: Vec<Finding> = desired
                    .iter()
                    .map(|desired| judge.decide(desired))
                    .collect();
                self.remember_objects(asked, &kind, &findings);
                findings
            }
        };
        self.complete &= findings.iter().all(|finding| !finding.failed);
        self.templates.push(TemplateFindings {
            findings,
            settled: None,
        });
    }

    /// Custom messages see whole objects, while the policy is watching.
    fn remember_objects(&mut self, asked: Asked<'_>, kind: &Kind, findings: &[Finding]) {
        let custom = &self.policy.custom_message;
        let interval = self.policy.evaluation_interval;
        let wanted = (custom.compliant.is_some() && interval.compliant == Interval::Watch)
            || (custom.noncompliant.is_some() && interval.noncompliant == Interval::Watch);
        if !wanted {
            return;
        }
        for finding in findings {
            for name in &finding.names {
                let key = ObjectKey {
                    namespace: finding.namespace.clone(),
                    name: name.clone(),
                };
                if let Ok(Some(object)) = asked.cluster.get(kind, &key) {
                    let object_ref = ObjectRef::new(&kind.gvk, key.namespace.as_deref(), name);
                    self.objects.insert(object_ref, Arc::clone(&object));
                }
            }
        }
    }
}

/// The object templates, and whether templates in them are resolved already.
fn listed(
    policy: &ConfigurationPolicy,
    templates: &dyn Templates,
) -> Result<(Vec<ObjectTemplate>, bool), Event> {
    let raw = match &policy.objects {
        ObjectTemplates::Listed(listed) => return Ok((listed.clone(), false)),
        ObjectTemplates::Raw(raw) => raw,
    };
    let violation = |message: String| Event::violation(reasons::TEMPLATE_ERROR, message);
    if policy.templates_disabled {
        // Without resolving there is nothing to read.
        return Ok((Vec::new(), true));
    }
    let resolved = templates.resolve_text(raw).map_err(|error| {
        violation(match has_template(raw) {
            true => error,
            false => format!("Error parsing object-templates-raw YAML: {error}"),
        })
    })?;
    let mut listed = ObjectTemplates::from_json(&resolved.value)
        .map_err(|errors| violation(unreadable(raw, &field::join(&errors))))?;
    if resolved.sensitive {
        for template in &mut listed {
            template.record_diff = template.record_diff.or(Some(RecordDiff::Censored));
        }
    }
    Ok((listed, true))
}

fn unreadable(raw: &str, error: &str) -> String {
    match has_template(raw) {
        true => format!("failed unmarshalling resolved object-templates-raw template: {error}"),
        false => format!("Error parsing object-templates-raw YAML: {error}"),
    }
}
