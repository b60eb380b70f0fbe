//! The policies of `--policy`: one ConfigurationPolicy, or those inside a Policy.

use std::path::Path;
use std::time::Duration;

use polity_comply::ConfigurationPolicy;
use polity_comply::policy::{EvaluationInterval, Interval, Remediation, unknown_fields};
use polity_core::FieldPath;
use serde_json::{Value, json};

use crate::exit::Hinted;
use polity_source::{Document, Manifests};

const GROUP_VERSION: &str = "policy.open-cluster-management.io/v1";
/// How often a policy is evaluated in a dry run: it never comes to that, but messages depend on it.
const INTERVAL: Duration = Duration::from_secs(10);

/// Reads the policies of a file; there is at least one.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<ConfigurationPolicy>> {
    let manifests = Manifests::load([path])?;
    if let Some(problem) = manifests.problems.first() {
        anyhow::bail!("unable to read input policy: {problem}");
    }
    let [document] = manifests.documents.as_slice() else {
        return Err(Hinted::new(
            format!(
                "unable to read input policy: {} holds {} objects",
                path.display(),
                manifests.documents.len()
            ),
            "a policy file holds one ConfigurationPolicy or one Policy",
        )
        .into());
    };
    let api_version = document.kind.api_version();
    if api_version != GROUP_VERSION {
        anyhow::bail!(
            "unable to read input policy: {}: unsupported apiVersion: {api_version}, the input policy \
             must be '{GROUP_VERSION}'",
            document.origin
        );
    }
    let policies = match document.kind.kind.as_str() {
        "ConfigurationPolicy" => vec![lower(document, &document.object, &FieldPath::root())?],
        "Policy" => inside(document)?,
        kind => anyhow::bail!(
            "unable to read input policy: {}: unsupported input kind: {kind}, must be 'Policy' or \
             'ConfigurationPolicy'",
            document.origin
        ),
    };
    Ok(policies.into_iter().map(for_dry_run).collect())
}

/// The configuration policies among the templates of a Policy.
fn inside(document: &Document) -> anyhow::Result<Vec<ConfigurationPolicy>> {
    let list = FieldPath::of("spec").child("policy-templates");
    let Some(templates) = document.object["spec"]["policy-templates"].as_array() else {
        anyhow::bail!(
            "unable to read input policy: {}: invalid input Policy: no policy-templates found",
            document.locate(&list)
        );
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
        anyhow::bail!(
            "unable to read input policy: {}: invalid input Policy: it must contain a \
             ConfigurationPolicy",
            document.locate(&list)
        );
    }
    Ok(policies)
}

/// One policy, with every mistake and the line it stands on.
fn lower(
    document: &Document,
    object: &Value,
    at: &FieldPath,
) -> anyhow::Result<ConfigurationPolicy> {
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
    anyhow::bail!(
        "unable to read input policy: {}",
        mistakes.join("\n       ")
    )
}

/// Nothing is mended in a dry run, and nothing watched.
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
