//! PlacementBinding. Its fields stand beside its metadata, without a `spec`, so its definition is put together here.

use std::borrow::Cow;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionNames, CustomResourceDefinitionSpec,
    CustomResourceDefinitionVersion, CustomResourceSubresourceStatus, CustomResourceSubresources,
    CustomResourceValidation,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::schema::StructuralSchemaRewriter;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::policy::names;

/// PlacementBinding assigns the clusters of a placement to policies and policy sets in the same namespace.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementBinding {
    #[serde(default)]
    pub api_version: String,
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub metadata: ObjectMeta,
    #[serde(flatten)]
    pub fields: PlacementBindingFields,
}

/// Fields of a PlacementBinding besides its metadata.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementBindingFields {
    /// Placement or PlacementRule that selects the clusters.
    pub placement_ref: PlacementSubject,

    /// Policies and policy sets to place on the clusters.
    #[schemars(length(min = 1))]
    pub subjects: Vec<Subject>,

    /// Settings of the policies that are overridden on the clusters of this binding.
    #[serde(default, skip_serializing_if = "BindingOverrides::is_empty")]
    pub binding_overrides: BindingOverrides,

    /// `restricted` applies the overrides only to clusters on which another binding places the policy; no cluster is
    /// added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_filter: Option<SubFilter>,

    /// Deprecated. Preserved in existing objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::common::any_object")]
    pub status: Option<Map<String, Value>>,
}

/// Reference to a Placement or PlacementRule in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlacementSubject {
    /// `cluster.open-cluster-management.io` for a Placement, `apps.open-cluster-management.io` for a PlacementRule.
    #[schemars(length(min = 1))]
    pub api_group: String,

    /// `Placement` or `PlacementRule`.
    #[schemars(length(min = 1))]
    pub kind: String,

    /// Name of the Placement or PlacementRule.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// Reference to a Policy or PolicySet in the same namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subject {
    /// `policy.open-cluster-management.io`.
    #[schemars(length(min = 1))]
    pub api_group: String,

    /// `Policy` or `PolicySet`.
    #[schemars(length(min = 1))]
    pub kind: String,

    /// Name of the Policy or PolicySet.
    #[schemars(length(min = 1))]
    pub name: String,
}

/// Settings of policies that a binding overrides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BindingOverrides {
    /// `enforce` makes the policy enforce on these clusters regardless of its own `remediationAction`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remediation_action: Option<OverrideAction>,
}

impl BindingOverrides {
    fn is_empty(&self) -> bool {
        self.remediation_action.is_none()
    }
}

/// Remediation action that a binding can set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OverrideAction {
    Enforce,
    #[serde(rename = "enforce")]
    EnforceLowercase,
}

/// Which clusters of the placement a binding applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SubFilter {
    /// Only clusters on which another binding places the policy.
    Restricted,
}

impl PlacementBinding {
    pub const KIND: &str = "PlacementBinding";
    const PLURAL: &str = "placementbindings";

    /// The definition, as the derive would make it for a kind with a `spec`.
    pub fn crd() -> CustomResourceDefinition {
        CustomResourceDefinition {
            metadata: ObjectMeta {
                name: Some(format!("{}.{}", Self::PLURAL, names::GROUP)),
                ..ObjectMeta::default()
            },
            spec: CustomResourceDefinitionSpec {
                group: names::GROUP.to_owned(),
                names: CustomResourceDefinitionNames {
                    kind: Self::KIND.to_owned(),
                    plural: Self::PLURAL.to_owned(),
                    singular: Some("placementbinding".to_owned()),
                    short_names: Some(vec!["pb".to_owned()]),
                    ..CustomResourceDefinitionNames::default()
                },
                scope: "Namespaced".to_owned(),
                versions: vec![version()],
                ..CustomResourceDefinitionSpec::default()
            },
            status: None,
        }
    }
}

fn version() -> CustomResourceDefinitionVersion {
    CustomResourceDefinitionVersion {
        name: "v1".to_owned(),
        served: true,
        storage: true,
        schema: Some(CustomResourceValidation {
            open_api_v3_schema: Some(
                serde_json::from_value(schema()).expect("the derived schema is a schema"),
            ),
        }),
        subresources: Some(CustomResourceSubresources {
            status: Some(CustomResourceSubresourceStatus(serde_json::json!({}))),
            scale: None,
        }),
        ..CustomResourceDefinitionVersion::default()
    }
}

fn schema() -> Value {
    let settings = SchemaSettings::openapi3()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .with_transform(StructuralSchemaRewriter)
        .with_transform(kube::core::schema::OptionalEnum);
    let mut schema = settings
        .into_generator()
        .into_root_schema_for::<PlacementBindingFields>()
        .to_value();
    schema["title"] = Value::String(PlacementBinding::KIND.to_owned());
    schema["description"] = Value::String(
        "Joins the clusters of one placement to policies and policy sets of the same namespace."
            .to_owned(),
    );
    schema
}

impl kube::Resource for PlacementBinding {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Self::KIND.into()
    }

    fn group((): &()) -> Cow<'_, str> {
        names::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        Self::PLURAL.into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
