//! Values that the definition of a kind does not allow. An API server refuses them; files hold anything.

use std::collections::BTreeMap;

use polity_core::cluster::names::GROUP as CLUSTER_GROUP;
use polity_core::governance::names::{APPS_GROUP, GROUP};
use polity_core::{FieldPath, GroupVersionKind};
use polity_merge::{Schema, schema};
use serde_json::Value;

use super::rules::REFUSED;
use crate::findings::Finding;
use crate::{Document, Manifests, Problem};

/// What the definitions of the kinds say about documents of governance, but for those with a problem already.
pub(super) fn refused(manifests: &Manifests, problems: &[Problem]) -> Vec<Finding> {
    let schemas = schemas_of(manifests);
    let is_told = |document: &Document| {
        let mut origins = problems.iter().map(|problem| &problem.origin);
        origins.any(|origin| *origin == document.origin)
    };
    let documents = manifests.documents.iter();
    documents
        .filter(|document| !is_told(document))
        .filter_map(|document| Some((document, schemas.get(&document.kind)?)))
        .flat_map(|(document, schema)| judge(document, schema))
        .collect()
}

fn judge(document: &Document, schema: &Schema) -> Vec<Finding> {
    let mut object = document.object.clone();
    // What is written does not set a status, whatever the file says of it.
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    schema::default(schema, &mut object);
    let errors = schema::validate(schema, &object).into_iter();
    errors
        .map(|error| {
            let path = FieldPath::of(&error.field);
            let origin = document.locate(&path);
            let kind = &document.kind.kind;
            let (namespace, name) = (document.namespace().unwrap_or("default"), document.name());
            Finding::error(REFUSED, format!("an API server refuses this: {error}"))
                .at(format!("{kind}/{namespace}/{name} {path}"))
                .in_file(origin.file.as_ref(), Some(origin.line))
                .mend("write a value that the definition of the kind allows")
        })
        .collect()
}

/// The schemas of the kinds that the files hold.
fn schemas_of(manifests: &Manifests) -> BTreeMap<GroupVersionKind, Schema> {
    let is_ours =
        |kind: &GroupVersionKind| [GROUP, CLUSTER_GROUP, APPS_GROUP].contains(&kind.group.as_str());
    let held = |kind: &GroupVersionKind| {
        let mut documents = manifests.documents.iter();
        is_ours(kind) && documents.any(|document| document.kind == *kind)
    };
    let mut schemas = BTreeMap::new();
    for definition in polity_api::crd::crds() {
        for version in definition.spec.versions {
            let kind = GroupVersionKind::new(
                &definition.spec.group,
                &version.name,
                &definition.spec.names.kind,
            );
            let openapi = version.schema.and_then(|schema| schema.open_api_v3_schema);
            if !held(&kind) {
                continue;
            }
            let openapi = serde_json::to_value(openapi).unwrap_or(Value::Null);
            if let Ok(schema) = Schema::parse_crd(&openapi) {
                schemas.insert(kind, schema);
            }
        }
    }
    schemas
}
