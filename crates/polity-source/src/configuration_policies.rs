//! The configuration policies of one file: a ConfigurationPolicy, or those in the templates of a Policy.

use std::path::{Path, PathBuf};
use std::time::Duration;

use polity_comply::ConfigurationPolicy;
use polity_comply::policy::{EvaluationInterval, Interval, Remediation, unknown_fields};
use polity_core::FieldPath;
use serde_json::{Value, json};

use crate::manifests::LoadError;
use crate::{Document, Manifests};

const GROUP_VERSION: &str = "policy.open-cluster-management.io/v1";
/// The evaluation interval in a dry run. A dry run evaluates once, but messages depend on the interval.
const INTERVAL: Duration = Duration::from_secs(10);

/// Why the policies of a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFileError {
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The file must hold exactly one object.
    #[error("unable to read input policy: {} holds {n_objects} objects", path.display())]
    NotOneObject { path: PathBuf, n_objects: usize },
    #[error("unable to read input policy: {0}")]
    Invalid(String),
}

/// Reads the policies of a file for a dry run: they only inform. There is at least one.
pub fn read_for_dry_run(path: &Path) -> Result<Vec<ConfigurationPolicy>, PolicyFileError> {
    let manifests = Manifests::load([path])?;
    if let Some(problem) = manifests.problems.first() {
        return Err(PolicyFileError::Invalid(problem.to_string()));
    }
    let [document] = manifests.documents.as_slice() else {
        return Err(PolicyFileError::NotOneObject {
            path: path.to_owned(),
            n_objects: manifests.documents.len(),
        });
    };
    let api_version = document.kind.api_version();
    if api_version != GROUP_VERSION {
        return Err(PolicyFileError::Invalid(format!(
            "{}: unsupported apiVersion: {api_version}, the input policy must be '{GROUP_VERSION}'",
            document.origin
        )));
    }
    let policies = match document.kind.kind.as_str() {
        "ConfigurationPolicy" => vec![lower(document, &document.object, &FieldPath::root())?],
        "Policy" => inside(document)?,
        kind => {
            return Err(PolicyFileError::Invalid(format!(
                "{}: unsupported input kind: {kind}, must be 'Policy' or 'ConfigurationPolicy'",
                document.origin
            )));
        }
    };
    Ok(policies.into_iter().map(for_dry_run).collect())
}

/// The configuration policies among the templates of a Policy.
fn inside(document: &Document) -> Result<Vec<ConfigurationPolicy>, PolicyFileError> {
    let list = FieldPath::of("spec").child("policy-templates");
    let Some(templates) = document.object["spec"]["policy-templates"].as_array() else {
        return Err(PolicyFileError::Invalid(format!(
            "{}: invalid input Policy: no policy-templates found",
            document.locate(&list)
        )));
    };
    let mut policies = Vec::new();
    for (index, template) in templates.iter().enumerate() {
        let definition = &template["objectDefinition"];
        if definition["kind"] != "ConfigurationPolicy" {
            continue;
        }
        let at = list.index(index).child("objectDefinition");
        let mut policy = lower(document, definition, &at)?;
        if policy.namespace.is_empty() {
            let namespace = document.namespace().unwrap_or_default();
            namespace.clone_into(&mut policy.namespace);
        }
        policies.push(policy);
    }
    if policies.is_empty() {
        return Err(PolicyFileError::Invalid(format!(
            "{}: invalid input Policy: it must contain a ConfigurationPolicy",
            document.locate(&list)
        )));
    }
    Ok(policies)
}

/// One policy. An error lists every mistake with its line.
fn lower(
    document: &Document,
    object: &Value,
    at: &FieldPath,
) -> Result<ConfigurationPolicy, PolicyFileError> {
    let below = |field: &str| match at.is_root() {
        true => FieldPath::of(field),
        false => at.child(field),
    };
    let unknown = unknown_fields(object).into_iter().map(|field| {
        let place = document.locate(&below(&field));
        format!("{place}: unknown field \"{field}\"")
    });
    let mut mistakes: Vec<String> = unknown.collect();
    match ConfigurationPolicy::from_json(object) {
        Ok(policy) if mistakes.is_empty() => return Ok(policy),
        Ok(_) => {}
        Err(errors) => mistakes.extend(errors.iter().map(|error| {
            let place = document.locate(&below(&error.field));
            format!("{place}: {error}")
        })),
    }
    Err(PolicyFileError::Invalid(mistakes.join("\n       ")))
}

/// A dry run neither corrects violations nor watches objects.
fn for_dry_run(mut policy: ConfigurationPolicy) -> ConfigurationPolicy {
    policy.remediation = Remediation::Inform;
    policy.evaluation_interval = EvaluationInterval {
        compliant: Interval::Every(INTERVAL),
        noncompliant: Interval::Every(INTERVAL),
    };
    if let Some(spec) = policy.document["spec"].as_object_mut() {
        spec.insert("remediationAction".to_owned(), json!("inform"));
        let interval = json!({"compliant": "10s", "noncompliant": "10s"});
        spec.insert("evaluationInterval".to_owned(), interval);
    }
    policy
}
