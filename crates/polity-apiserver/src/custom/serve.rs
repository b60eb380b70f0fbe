//! From a definition to the kinds it serves.

use std::borrow::Cow;
use std::sync::Arc;

use polity_core::GroupVersionKind;
use polity_store::Revision;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::bucket::bucket_of;
use super::definition;
use super::summary::Summary;
use crate::object::meta;
use crate::registry::{Registry, compare_versions};
use crate::served::{Compiler, CustomDef, DefinitionDigest, ServedResource};
use polity_kinds::jsonpath::JsonPath;
use polity_kinds::scale::{ScalePaths, SelectorSource};
use polity_kinds::table::CustomTable;
use polity_kinds::{GenerationRule, KindFlags, ResourceDef, Scope, Subresource};

/// The parts of the cluster that are needed to serve the kinds of a definition.
#[derive(Debug, Clone, Copy)]
pub struct ServeContext<'a> {
    /// The kinds that are served so far.
    pub known: &'a Registry,
    pub compiler: &'a Compiler,
    /// Ends all watches.
    pub shutdown: &'a CancellationToken,
}

/// The definition of a kind, and the token that ends its watches.
struct Origin {
    revision: Revision,
    source: DefinitionDigest,
    gone: CancellationToken,
}

/// The schema of a definition cannot be served although it was accepted.
#[derive(Debug, thiserror::Error)]
#[error("version {version} of {definition} has a schema that cannot be served: {why}")]
pub struct ServeError {
    definition: String,
    version: String,
    why: String,
}

/// The kinds of a definition, one for each served version. Empty while its names are not accepted.
///
/// A kind that is already served from the same text is reused, with its compiled rules and its watches. The definition
/// is only parsed otherwise.
pub fn resources<'a>(
    summary: &Summary,
    crd: impl FnOnce() -> Option<Cow<'a, Value>>,
    context: &ServeContext<'_>,
) -> Result<Vec<Arc<ServedResource>>, ServeError> {
    let known = |version: &str| {
        let def = context
            .known
            .get(&summary.group, version, summary.plural())?;
        let custom = def.custom.as_ref()?;
        (custom.is_made_from(summary.source)).then_some((def, custom))
    };
    let kept = summary.served.iter().map(|version| {
        let (def, custom) = known(version)?;
        (custom.is_terminating() == summary.is_deleting).then(|| def.clone())
    });
    if let Some(kept) = kept.collect() {
        return Ok(kept);
    }
    let Some(crd) = crd() else {
        return Ok(Vec::new());
    };
    let version_of =
        |name: &str| definition::versions(&crd).find(|version| version["name"] == name);
    let served = summary.served.iter().map(|version| {
        // Its watches go on while its objects are deleted.
        let gone = known(version).map_or_else(
            || context.shutdown.child_token(),
            |(_, custom)| custom.gone.clone(),
        );
        let origin = Origin {
            revision: summary.revision,
            source: summary.source,
            gone,
        };
        let version = version_of(version).unwrap_or(&Value::Null);
        resource(&crd, version, origin, context).map(Arc::new)
    });
    served.collect()
}

/// The kind in which the objects of a definition are stored, whether it is served or not.
pub fn stored(
    revision: Revision,
    crd: &Value,
    context: &ServeContext<'_>,
) -> Result<ServedResource, ServeError> {
    let origin = Origin {
        revision,
        source: DefinitionDigest::of(crd),
        gone: context.shutdown.child_token(),
    };
    let storage = definition::versions(crd).find(|version| version["storage"] == true);
    resource(crd, storage.unwrap_or(&Value::Null), origin, context)
}

fn resource(
    crd: &Value,
    version: &Value,
    origin: Origin,
    context: &ServeContext<'_>,
) -> Result<ServedResource, ServeError> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let spec = &crd["spec"];
    let names = &crd["status"]["acceptedNames"];
    let (group, version_name) = (text(&spec["group"]), text(&version["name"]));
    let failed = |why: String| ServeError {
        definition: meta::name(crd).to_owned(),
        version: version_name.clone(),
        why,
    };
    let compile = |version: &Value| {
        let openapi = version.pointer("/schema/openAPIV3Schema");
        let compiled = context.compiler.compile(openapi.unwrap_or(&Value::Null));
        compiled.map_err(|errors| failed(polity_core::field::join(&errors)))
    };
    let compiled = compile(version)?;
    let storage_version = definition::storage_version(crd).unwrap_or(&version_name);
    let storage_schema = match definition::versions(crd).find(|one| one["name"] == storage_version)
    {
        Some(storage) if storage_version != version_name => compile(storage)?.schema.clone(),
        _ => compiled.schema.clone(),
    };
    let scale = version
        .pointer("/subresources/scale")
        .map(scale_paths)
        .transpose()
        .map_err(&failed)?;
    let columns = version
        .get("additionalPrinterColumns")
        .and_then(Value::as_array)
        .map_or(&[][..], Vec::as_slice);
    let table = CustomTable::new(columns).map_err(|error| failed(error.to_string()))?;
    let mut subresources = Vec::new();
    if version.pointer("/subresources/status").is_some() {
        subresources.push(Subresource::Status);
    }
    if scale.is_some() {
        subresources.push(Subresource::Scale);
    }
    let plural = text(&names["plural"]);
    let kind = text(&names["kind"]);
    let selectable = version.get("selectableFields").and_then(Value::as_array);
    let custom = CustomDef {
        definition: meta::name(crd).to_owned(),
        storage_api_version: format!("{group}/{storage_version}"),
        storage_schema,
        scale,
        table,
        deprecation_warning: deprecation(crd, version, &group, &version_name, &kind),
        compiled: compiled.clone(),
        terminating: meta::is_deleting(crd),
        schema_since: origin.revision,
        source: origin.source,
        gone: origin.gone,
    };
    let def = ResourceDef {
        gvk: GroupVersionKind::new(group.as_str(), version_name.as_str(), kind.as_str()),
        bucket: bucket_of(meta::name(crd)).into(),
        plural,
        singular: text(&names["singular"]),
        list_kind: text(&names["listKind"]),
        scope: if spec["scope"] == "Namespaced" {
            Scope::Namespaced
        } else {
            Scope::Cluster
        },
        short_names: meta::strings(names.get("shortNames"))
            .into_iter()
            .map(str::to_owned)
            .collect(),
        categories: meta::strings(names.get("categories"))
            .into_iter()
            .map(str::to_owned)
            .collect(),
        subresources,
        generation: GenerationRule::Custom,
        flags: KindFlags {
            update_needs_version: true,
            ..KindFlags::default()
        },
        selectable_fields: selectable
            .into_iter()
            .flatten()
            .map(|field| text(&field["jsonPath"]).trim_start_matches('.').to_owned())
            .collect(),
        schema: compiled.schema.clone(),
    };
    Ok(ServedResource::custom(def, custom))
}

fn scale_paths(scale: &Value) -> Result<ScalePaths, String> {
    let path = |field: &str| -> Result<Vec<String>, String> {
        let path: JsonPath = scale[field]
            .as_str()
            .unwrap_or_default()
            .parse()
            .map_err(|error| format!("{field}: {error}"))?;
        let names = path
            .names()
            .ok_or_else(|| format!("{field}: only names may stand in it"))?;
        Ok(names.into_iter().map(str::to_owned).collect())
    };
    Ok(ScalePaths {
        spec_replicas: path("specReplicasPath")?,
        status_replicas: path("statusReplicasPath")?,
        selector: match scale["labelSelectorPath"].as_str() {
            None | Some("") => SelectorSource::None,
            Some(_) => SelectorSource::Text(path("labelSelectorPath")?),
        },
    })
}

fn deprecation(
    crd: &Value,
    version: &Value,
    group: &str,
    name: &str,
    kind: &str,
) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    let own = version["deprecationWarning"]
        .as_str()
        .filter(|text| !text.is_empty());
    if let Some(own) = own {
        return Some(own.to_owned());
    }
    let served = definition::versions(crd)
        .filter(|version| version["served"] == true && version["deprecated"] != true);
    let newer = served
        .filter_map(|version| version["name"].as_str())
        .filter(|other| compare_versions(other, name).is_lt());
    let hint = newer
        .min_by(|a, b| compare_versions(a, b))
        .map_or_else(String::new, |newest| {
            format!("; use {group}/{newest} {kind}")
        });
    Some(format!("{group}/{name} {kind} is deprecated{hint}"))
}
