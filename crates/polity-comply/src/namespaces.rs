//! Which namespaces a policy's `namespaceSelector` selects. See docs/spec/governance.md#11-2.

use polity_core::selector::LabelSelector;
use polity_core::{FieldPath, field};
use serde_json::Value;

use crate::glob::{BadPattern, Glob};

/// `spec.namespaceSelector`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NamespaceSelector {
    /// Shell patterns of names.
    pub include: Vec<String>,
    /// Shell patterns of names, stronger than `include`.
    pub exclude: Vec<String>,
    /// `matchLabels` and `matchExpressions`, as JSON.
    pub labels: Option<Value>,
    pub terminating: TerminatingInclusion,
}

/// Whether namespaces that are being deleted count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TerminatingInclusion {
    /// As the process was told.
    #[default]
    Default,
    /// They count like any other.
    IfMatch,
    Never,
}

/// A namespace as far as selecting goes.
#[derive(Debug, Clone, PartialEq)]
pub struct Namespace {
    pub name: String,
    /// `metadata.labels`.
    pub labels: Value,
    pub terminating: bool,
}

/// Why no namespaces can be selected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NamespaceError {
    #[error("error parsing namespaceSelector pattern '{pattern}': {error}")]
    Pattern {
        pattern: String,
        #[source]
        error: BadPattern,
    },
    #[error("error parsing namespace LabelSelector: {0}")]
    Labels(String),
}

impl Namespace {
    /// Reads a Namespace object.
    pub fn from_json(object: &Value) -> Self {
        let metadata = &object["metadata"];
        Self {
            name: metadata["name"].as_str().unwrap_or_default().to_owned(),
            labels: metadata["labels"].clone(),
            terminating: metadata["deletionTimestamp"].is_string()
                || object["status"]["phase"] == "Terminating",
        }
    }
}

impl NamespaceSelector {
    /// Without names and labels nothing is selected.
    pub fn is_empty(&self) -> bool {
        self.include.is_empty() && self.labels.is_none()
    }

    /// The names selected, sorted, each once.
    pub fn select(
        &self,
        namespaces: &[Namespace],
        default: TerminatingInclusion,
    ) -> Result<Vec<String>, NamespaceError> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let everything = ["*".to_owned()];
        let include = if self.include.is_empty() {
            globs(&everything)?
        } else {
            globs(&self.include)?
        };
        let exclude = globs(&self.exclude)?;
        let labels = self.labels()?;
        let terminating_count = match self.terminating {
            TerminatingInclusion::Default => default != TerminatingInclusion::Never,
            TerminatingInclusion::IfMatch => true,
            TerminatingInclusion::Never => false,
        };
        let mut names: Vec<String> = namespaces
            .iter()
            .filter(|namespace| terminating_count || !namespace.terminating)
            .filter(|namespace| labels.matches(&namespace.labels))
            .map(|namespace| &namespace.name)
            .filter(|name| include.iter().any(|glob| glob.matches(name)))
            .filter(|name| !exclude.iter().any(|glob| glob.matches(name)))
            .cloned()
            .collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    fn labels(&self) -> Result<LabelSelector, NamespaceError> {
        let Some(labels) = &self.labels else {
            return Ok(LabelSelector::everything());
        };
        LabelSelector::from_json(labels, &FieldPath::root())
            .map_err(|errors| NamespaceError::Labels(field::join(&errors)))
    }
}

fn globs(patterns: &[String]) -> Result<Vec<Glob>, NamespaceError> {
    let parsed = patterns.iter().map(|pattern| {
        Glob::parse(pattern).map_err(|error| NamespaceError::Pattern {
            pattern: pattern.clone(),
            error,
        })
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn namespaces() -> Vec<Namespace> {
        let make = |name: &str, labels: Value, terminating: bool| Namespace {
            name: name.to_owned(),
            labels,
            terminating,
        };
        vec![
            make("prod-b", json!({"env": "prod"}), false),
            make("prod-a", json!({"env": "prod", "team": "x"}), false),
            make("test", json!({"env": "test"}), false),
            make("going", json!({"env": "prod"}), true),
            make("kube-system", Value::Null, false),
        ]
    }

    /// docs/spec/governance.md#11-2
    #[test]
    fn selectors_select() {
        let case = |selector: NamespaceSelector| {
            selector
                .select(&namespaces(), TerminatingInclusion::IfMatch)
                .map_err(|error| error.to_string())
        };
        let texts = |items: &[&str]| {
            items
                .iter()
                .map(|&item| item.to_owned())
                .collect::<Vec<_>>()
        };
        let selector =
            |include: &[&str], exclude: &[&str], labels: Option<Value>| NamespaceSelector {
                include: texts(include),
                exclude: texts(exclude),
                labels,
                terminating: TerminatingInclusion::Default,
            };
        let prod = json!({"matchLabels": {"env": "prod"}});
        assert_eq!(case(NamespaceSelector::default()), Ok(vec![]));
        assert_eq!(
            case(selector(&[], &["a"], None)),
            Ok(vec![]),
            "only an exclude selects none"
        );
        assert_eq!(
            case(selector(&["prod-*"], &["*-b"], None)),
            Ok(texts(&["prod-a"]))
        );
        assert_eq!(
            case(selector(&[], &[], Some(prod.clone()))),
            Ok(texts(&["going", "prod-a", "prod-b"])),
            "labels only: every name"
        );
        assert_eq!(
            case(selector(
                &["*-a", "prod-a", "kube*"],
                &[],
                Some(prod.clone())
            )),
            Ok(texts(&["prod-a"])),
            "all rules hold, each once"
        );
        assert_eq!(
            case(selector(&["*"], &[], Some(json!({"matchLabels": {}})))).map(|names| names.len()),
            Ok(5)
        );
        let never = NamespaceSelector {
            terminating: TerminatingInclusion::Never,
            ..selector(&["*"], &[], Some(prod))
        };
        assert_eq!(case(never), Ok(texts(&["prod-a", "prod-b"])));
        assert_eq!(
            case(selector(&["["], &[], None)).unwrap_err(),
            "error parsing namespaceSelector pattern '[': syntax error in pattern"
        );
        let bad =
            json!({"matchExpressions": [{"key": "env", "operator": "Near", "values": ["x"]}]});
        assert_eq!(
            case(selector(&[], &[], Some(bad))).unwrap_err(),
            "error parsing namespace LabelSelector: matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator"
        );
    }
}
