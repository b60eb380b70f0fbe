//! Kinds without `spec`: what the derive of `kube` cannot say.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition,
};
use kube::core::schema::StructuralSchemaRewriter;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// What a kind is called.
pub(super) struct Names {
    pub(super) group: &'static str,
    pub(super) version: &'static str,
    pub(super) kind: &'static str,
    pub(super) plural: &'static str,
    pub(super) short: &'static str,
    pub(super) scope: &'static str,
    pub(super) doc: &'static str,
}

/// The definition of a kind whose fields, but for the metadata, are those of `Body`.
pub(super) fn definition<Body: JsonSchema>(
    names: &Names,
    columns: Vec<CustomResourceColumnDefinition>,
) -> CustomResourceDefinition {
    let generator = SchemaSettings::openapi3()
        .with(|settings| {
            settings.inline_subschemas = true;
            settings.meta_schema = None;
        })
        .with_transform(StructuralSchemaRewriter)
        .into_generator();
    let mut schema: Value = generator.into_root_schema_for::<Body>().into();
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("title");
        fields.insert("description".to_owned(), json!(names.doc));
    }
    for (field, doc) in [
        ("apiVersion", "string"),
        ("kind", "string"),
        ("metadata", "object"),
    ] {
        schema["properties"][field] = json!({ "type": doc });
    }
    serde_json::from_value(json!({
        "metadata": {"name": format!("{}.{}", names.plural, names.group)},
        "spec": {
            "group": names.group,
            "names": {
                "kind": names.kind,
                "listKind": format!("{}List", names.kind),
                "plural": names.plural,
                "singular": names.kind.to_lowercase(),
                "shortNames": [names.short],
                "categories": [],
            },
            "scope": names.scope,
            "versions": [{
                "name": names.version,
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": schema},
                "additionalPrinterColumns": columns,
            }],
        },
    }))
    .expect("a schema that was generated is a valid part of a definition")
}

/// Declares a kind with metadata and the fields of a body, its names and its definition.
macro_rules! report_kind {
    (
        $(#[doc = $doc:literal])+
        $kind:ident of $body:ty,
        group: $group:literal, version: $version:literal, plural: $plural:literal, short: $short:literal,
        scope: $scope:ident as $scope_name:literal, columns: $columns:path
    ) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $kind {
            #[serde(flatten)]
            pub types: Option<kube::core::TypeMeta>,
            pub metadata: kube::core::ObjectMeta,
            #[serde(flatten)]
            pub body: $body,
        }

        impl $kind {
            /// The object with its API version and kind.
            pub fn new(metadata: kube::core::ObjectMeta, body: $body) -> Self {
                Self {
                    types: Some(kube::core::TypeMeta::resource::<Self>()),
                    metadata,
                    body,
                }
            }
        }

        impl kube::Resource for $kind {
            type DynamicType = ();
            type Scope = kube::core::$scope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($kind).into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &kube::core::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut kube::core::ObjectMeta {
                &mut self.metadata
            }
        }

        impl kube::CustomResourceExt for $kind {
            fn crd_name() -> &'static str {
                concat!($plural, ".", $group)
            }

            fn api_resource() -> kube::core::ApiResource {
                kube::core::ApiResource::erase::<Self>(&())
            }

            fn shortnames() -> &'static [&'static str] {
                &[$short]
            }

            fn crd() -> k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition {
                $crate::reports::kind::definition::<$body>(
                    &$crate::reports::kind::Names {
                        group: $group,
                        version: $version,
                        kind: stringify!($kind),
                        plural: $plural,
                        short: $short,
                        scope: $scope_name,
                        doc: concat!($($doc),+).trim_ascii_start(),
                    },
                    $columns(),
                )
            }
        }
    };
}

pub(super) use report_kind;
