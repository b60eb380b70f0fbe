//! The templates of whole policies: which parts of them are resolved, and where.

use serde_json::{Map, Value as Json};

use crate::resolve::{Context, ResolveError, Resolver, has_template};
use crate::rules::Side;
use crate::run::Noticed;

pub use polity_core::governance::names::{DISABLE_TEMPLATES, ENCRYPTION_IV, HUB_TEMPLATES_ERROR};

/// A policy after its hub templates were resolved, as far as they could be.
#[derive(Debug, Clone, PartialEq)]
pub struct HubResolution {
    /// Definitions with an error carry it as an annotation, and are otherwise as they were.
    pub policy: Json,
    /// The errors, with the index of their definition.
    pub errors: Vec<(usize, ResolveError)>,
    /// Observations in any of them.
    pub noticed: Noticed,
}

/// Resolves `{{hub … hub}}` in the definitions of a Policy, one at a time.
pub fn resolve_hub(policy: &Json, resolver: &Resolver<'_>, context: &Context) -> HubResolution {
    let mut resolution = HubResolution {
        policy: policy.clone(),
        errors: Vec::new(),
        noticed: Noticed::default(),
    };
    if is_disabled(policy) {
        return resolution;
    }
    let templates = resolution
        .policy
        .pointer_mut("/spec/policy-templates")
        .and_then(Json::as_array_mut);
    for (index, template) in templates.into_iter().flatten().enumerate() {
        let Some(definition) = template.get_mut("objectDefinition") else {
            continue;
        };
        match resolver.resolve(definition, context) {
            Ok(resolved) => {
                *definition = resolved.value;
                resolution.noticed.join(resolved.noticed);
            }
            Err(error) => {
                annotate(definition, HUB_TEMPLATES_ERROR, &error.to_string());
                resolution.errors.push((index, error));
            }
        }
    }
    resolution
}

/// Does a Policy have hub templates at all?
pub fn has_hub_templates(policy: &Json) -> bool {
    let templates = policy.pointer("/spec/policy-templates");
    templates.is_some_and(|templates| has_template(&templates.to_string(), Side::Hub, false))
}

/// Resolves the templates of a ConfigurationPolicy or OperatorPolicy for one managed cluster.
///
/// The object templates get the given context. `object-templates-raw` has no context, is resolved once, and becomes
/// the object templates. Objects that `skipObject` excludes are omitted.
pub fn resolve_managed(
    policy: &Json,
    resolver: &Resolver<'_>,
    context: &Context,
) -> Result<(Json, Noticed), ResolveError> {
    let mut resolved = policy.clone();
    let mut noticed = Noticed::default();
    if is_disabled(policy) {
        return Ok((resolved, noticed));
    }
    let Some(spec) = resolved.get_mut("spec").and_then(Json::as_object_mut) else {
        return Ok((resolved, noticed));
    };
    match policy["kind"].as_str() {
        Some("ConfigurationPolicy") => configuration(spec, resolver, context, &mut noticed)?,
        Some("OperatorPolicy") => operator(spec, resolver, &mut noticed)?,
        _ => {}
    }
    Ok((resolved, noticed))
}

fn configuration(
    spec: &mut Map<String, Json>,
    resolver: &Resolver<'_>,
    context: &Context,
    noticed: &mut Noticed,
) -> Result<(), ResolveError> {
    if let Some(Json::String(raw)) = spec.get("object-templates-raw") {
        let templates = resolver.resolve_text(raw, &Context::Nothing)?;
        spec.remove("object-templates-raw");
        spec.insert("object-templates".to_owned(), templates.value);
        noticed.join(templates.noticed);
        return Ok(());
    }
    let Some(Json::Array(templates)) = spec.get_mut("object-templates") else {
        return Ok(());
    };
    let mut kept = Vec::with_capacity(templates.len());
    for mut template in std::mem::take(templates) {
        let mut skipped = false;
        if let Some(definition) = template.get_mut("objectDefinition") {
            let resolved = resolver.resolve(definition, context)?;
            skipped = resolved.noticed.skip_object;
            *definition = resolved.value;
            noticed.join(resolved.noticed);
        }
        if !skipped {
            kept.push(template);
        }
    }
    *templates = kept;
    Ok(())
}

/// The parts of an OperatorPolicy that may hold templates.
fn operator(
    spec: &mut Map<String, Json>,
    resolver: &Resolver<'_>,
    noticed: &mut Noticed,
) -> Result<(), ResolveError> {
    for part in ["operatorGroup", "subscription", "versions"] {
        if let Some(value) = spec.get_mut(part) {
            let resolved = resolver.resolve(value, &Context::Nothing)?;
            *value = resolved.value;
            noticed.join(resolved.noticed);
        }
    }
    Ok(())
}

fn is_disabled(policy: &Json) -> bool {
    policy["metadata"]["annotations"][DISABLE_TEMPLATES] == "true"
}

fn annotate(definition: &mut Json, name: &str, value: &str) {
    let mut here = definition;
    for key in ["metadata", "annotations"] {
        let Some(map) = here.as_object_mut() else {
            return;
        };
        here = map.entry(key).or_insert_with(|| Json::Object(Map::new()));
    }
    if let Some(annotations) = here.as_object_mut() {
        annotations.insert(name.to_owned(), value.into());
    }
}

impl Noticed {
    /// Both, from two parts of one policy.
    fn join(&mut self, other: Self) {
        self.sensitive |= other.sensitive;
        self.plain_secrets.extend(other.plain_secrets);
        self.skip_object |= other.skip_object;
        self.volatile |= other.volatile;
    }
}
