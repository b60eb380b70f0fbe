//! The kinds that CustomResourceDefinitions among the files define.

use std::collections::BTreeMap;
use std::sync::Arc;

use polity_core::{FieldPath, GroupVersionKind};
use polity_merge::Schema;
use serde_json::Value;

use super::{Document, Problem};

/// What the files say about a kind.
#[derive(Debug, Clone)]
pub struct Definition {
    pub namespaced: bool,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub labels: BTreeMap<String, String>,
    /// The schema of this version, unless it has none or a broken one.
    pub schema: Option<Arc<Schema>>,
}

/// Collects the definitions, and what is wrong with their schemas.
pub(super) fn collect(
    documents: &[Document],
) -> (BTreeMap<GroupVersionKind, Definition>, Vec<Problem>) {
    let mut definitions = BTreeMap::new();
    let mut problems = Vec::new();
    let crds = documents.iter().filter(|document| {
        document.kind.group == "apiextensions.k8s.io"
            && document.kind.kind == "CustomResourceDefinition"
    });
    for document in crds {
        let spec = &document.object["spec"];
        let versions = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
        for (index, version) in versions.iter().enumerate() {
            let at = FieldPath::of("spec").child("versions").index(index);
            let openapi = &version["schema"]["openAPIV3Schema"];
            let schema = match openapi {
                Value::Null => None,
                openapi => match Schema::parse_crd(openapi) {
                    Ok(schema) => Some(Arc::new(schema)),
                    Err(errors) => {
                        problems.push(Problem {
                            origin: document.locate(&at.child("schema")),
                            message: format!(
                                "the schema of {} cannot be used: {}",
                                document.name(),
                                polity_core::field::join(&errors)
                            ),
                        });
                        None
                    }
                },
            };
            let kind = GroupVersionKind::new(
                text(&spec["group"]),
                text(&version["name"]),
                text(&spec["names"]["kind"]),
            );
            definitions.insert(kind, definition(document, schema));
        }
    }
    (definitions, problems)
}

fn definition(document: &Document, schema: Option<Arc<Schema>>) -> Definition {
    let spec = &document.object["spec"];
    let names = &spec["names"];
    let short_names = names["shortNames"].as_array().into_iter().flatten();
    let labels = document.object["metadata"]["labels"].as_object();
    Definition {
        namespaced: spec["scope"] == "Namespaced",
        plural: text(&names["plural"]),
        singular: match text(&names["singular"]) {
            singular if singular.is_empty() => text(&names["kind"]).to_lowercase(),
            singular => singular,
        },
        short_names: short_names.map(text).collect(),
        labels: labels
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.clone(), text(value)))
            .collect(),
        schema,
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
