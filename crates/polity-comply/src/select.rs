//! Selects the objects that an object template is compared with. See docs/spec/governance.md#11-2.

use std::collections::BTreeMap;
use std::sync::Arc;

use polity_core::selector::LabelSelector;
use polity_core::{FieldPath, GroupVersionKind, ObjectKey, field};
use serde_json::{Map, Value};

use crate::cluster::{Cluster, Kind, TemplateContext, Templates, has_template};
use crate::compare::{Question, matches_search};
use crate::event::{Event, reasons};
use crate::namespaces::TerminatingInclusion;
use crate::policy::{ComplianceType, ConfigurationPolicy, ObjectTemplate};

/// An object template with what is around it.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) policy: &'a ConfigurationPolicy,
    pub(crate) index: usize,
    pub(crate) template: &'a ObjectTemplate,
    pub(crate) cluster: &'a dyn Cluster,
    /// `None` where templates are disabled, or resolved already.
    pub(crate) templates: Option<&'a dyn Templates>,
    pub(crate) terminating: TerminatingInclusion,
}

/// An object that is asked for, every template in it resolved.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Desired {
    pub(crate) namespace: Option<String>,
    /// `None`: any object that fits.
    pub(crate) name: Option<String>,
    pub(crate) definition: Value,
}

/// What a template is about.
#[derive(Debug, PartialEq)]
pub(crate) enum Selected {
    Objects {
        kind: Kind,
        desired: Vec<Desired>,
        /// A template has touched secret data.
        sensitive: bool,
    },
    /// `mustnothave` with an object selector, and nothing selected has the other fields.
    Nothing {
        kind: Kind,
        namespaces: Vec<Option<String>>,
    },
    /// There is something to say and no object to look at.
    Settled {
        event: Event,
        /// What the policy asks for is not known: nothing may be pruned for it.
        failed: bool,
    },
}

impl Selected {
    fn failed(reason: &'static str, message: impl Into<String>) -> Self {
        Self::Settled {
            event: Event::violation(reason, message),
            failed: true,
        }
    }

    fn violation(reason: &'static str, message: impl Into<String>) -> Self {
        Self::Settled {
            event: Event::violation(reason, message),
            failed: false,
        }
    }
}

/// The names to look for, by namespace; with the object where a template needs it. An empty name stands for
/// "whatever the resolved definition says".
type NamesByNamespace = BTreeMap<String, BTreeMap<String, Option<Arc<Value>>>>;

pub(crate) fn select(asked: Asked<'_>) -> Selected {
    find(asked).unwrap_or_else(|settled| *settled)
}

fn find(asked: Asked<'_>) -> Result<Selected, Box<Selected>> {
    let kind = kind(asked)?;
    let header = Header::of(&asked.template.definition);
    let mut places = namespaces(asked, &kind, &header)?;
    names(asked, &kind, &header, &mut places)?;
    let Definitions {
        desired,
        sensitive,
        skipped,
    } = resolve(asked, &kind, &header, &places)?;
    if desired.is_empty() {
        let kind = &kind.gvk.kind;
        let message = if skipped {
            format!("All objects of kind {kind} were skipped by the `skipObject` template function")
        } else if asked.template.object_selector.is_some() {
            format!("No objects of kind {kind} were matched from the policy objectSelector")
        } else {
            format!("No objects of kind {kind} were matched from the objectDefinition metadata")
        };
        return Err(Box::new(Selected::Settled {
            event: Event::notification("", message),
            failed: false,
        }));
    }
    let by_fields = asked.template.compliance == ComplianceType::MustNotHave
        && asked.template.object_selector.is_some()
        && header.name.is_empty();
    let desired = if by_fields {
        having_the_fields(asked, &kind, desired)?
    } else {
        desired
    };
    if desired.is_empty() {
        let namespaces = places.into_keys().map(non_empty).collect();
        return Ok(Selected::Nothing { kind, namespaces });
    }
    Ok(Selected::Objects {
        kind,
        desired,
        sensitive,
    })
}

/// Name and namespace as they stand in the definition.
struct Header {
    name: String,
    namespace: String,
    has_template: bool,
    uses: Uses,
}

/// What templates use of the object they are resolved for.
#[derive(Clone, Copy)]
struct Uses {
    namespace: bool,
    name: bool,
    object: bool,
}

impl Header {
    fn of(definition: &Value) -> Self {
        let text = |field: &str| {
            definition["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let json = definition.to_string();
        let has_template = has_template(&json);
        let uses = |variable: &str| has_template && mentions(&json, variable);
        Self {
            name: text("name"),
            namespace: text("namespace"),
            has_template,
            uses: Uses {
                namespace: uses(".ObjectNamespace"),
                name: uses(".ObjectName"),
                object: uses(".Object"),
            },
        }
    }

    /// The name, if it is written out.
    fn explicit_name(&self) -> &str {
        explicit(&self.name)
    }

    fn explicit_namespace(&self) -> &str {
        explicit(&self.namespace)
    }
}

fn explicit(text: &str) -> &str {
    if has_template(text) { "" } else { text }
}

/// Whether a variable is used: its name, and not one that only starts like it.
fn mentions(text: &str, variable: &str) -> bool {
    text.match_indices(variable).any(|(at, _)| {
        let next = text[at + variable.len()..].chars().next();
        !next.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

fn kind(asked: Asked<'_>) -> Result<Kind, Box<Selected>> {
    let definition = &asked.template.definition;
    let text = |field: &str| definition[field].as_str().unwrap_or_default().trim();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if kind.is_empty() || version.is_empty() {
        let message = format!(
            "The kind and apiVersion fields are required on the object template at index {} in policy {}",
            asked.index, asked.policy.name
        );
        return Err(Box::new(Selected::violation(
            reasons::DECODE_ERROR,
            message,
        )));
    }
    let gvk = GroupVersionKind::new(group, version, kind);
    match asked.cluster.kind(&gvk) {
        Ok(Some(kind)) => Ok(kind),
        Ok(None) if skips(asked) => Err(Box::new(Selected::Settled {
            event: Event::notification(
                "",
                format!(
                    "All objects of kind {kind} were skipped by the `skipObject` template function"
                ),
            ),
            failed: false,
        })),
        Ok(None) => Err(Box::new(Selected::failed(
            reasons::MAPPING_ERROR,
            format!(
                "couldn't find mapping resource with kind {kind} in API version {api_version}, \
                 please check if you have CRD deployed"
            ),
        ))),
        Err(error) => Err(Box::new(Selected::failed(
            reasons::MAPPING_ERROR,
            error.to_string(),
        ))),
    }
}

/// A template that leaves its object out may do so before anybody asks whether the kind is served.
fn skips(asked: Asked<'_>) -> bool {
    let definition = &asked.template.definition;
    let Some(templates) = asked.templates else {
        return false;
    };
    definition.to_string().contains("skipObject")
        && templates
            .resolve(definition, TemplateContext::default())
            .is_ok_and(|resolved| resolved.skipped)
}

fn namespaces(
    asked: Asked<'_>,
    kind: &Kind,
    header: &Header,
) -> Result<NamesByNamespace, Box<Selected>> {
    let explicit_name = header.explicit_name();
    let any_name = || {
        if explicit_name.is_empty() && asked.template.object_selector.is_some() {
            BTreeMap::new()
        } else {
            BTreeMap::from([(explicit_name.to_owned(), None)])
        }
    };
    if !kind.namespaced {
        return Ok(NamesByNamespace::from([(String::new(), any_name())]));
    }
    let explicit_namespace = header.explicit_namespace();
    if !explicit_namespace.is_empty() {
        return Ok(NamesByNamespace::from([(
            explicit_namespace.to_owned(),
            any_name(),
        )]));
    }
    let selector = &asked.policy.namespace_selector;
    let failed = |error: String| {
        Box::new(Selected::failed(
            reasons::NAMESPACE_SELECTOR,
            format!("Error filtering namespaces with provided namespaceSelector: {error}"),
        ))
    };
    let all = match selector.is_empty() {
        true => Vec::new(),
        false => asked
            .cluster
            .namespaces()
            .map_err(|error| failed(error.to_string()))?,
    };
    let selected = selector
        .select(&all, asked.terminating)
        .map_err(|error| failed(error.to_string()))?;
    let mut places: NamesByNamespace = selected
        .into_iter()
        .map(|namespace| (namespace, any_name()))
        .collect();
    if places.is_empty() && !header.namespace.is_empty() {
        // A template may still name one.
        places.insert(String::new(), any_name());
    }
    if places.is_empty() {
        let message = format!(
            "namespaced object{} of kind {} has no namespace specified from the policy \
             namespaceSelector nor the object metadata",
            spaced(explicit_name),
            kind.gvk.kind
        );
        return Err(Box::new(Selected::violation(
            reasons::MISSING_NAMESPACE,
            message,
        )));
    }
    Ok(places)
}

/// Fills in the names that the object selector selects, and the objects that templates use.
fn names(
    asked: Asked<'_>,
    kind: &Kind,
    header: &Header,
    places: &mut NamesByNamespace,
) -> Result<(), Box<Selected>> {
    let explicit_name = header.explicit_name();
    if let (Some(selector), true) = (&asked.template.object_selector, explicit_name.is_empty()) {
        let failed = |doing: &str, error: String| {
            let message = format!(
                "Error {doing} provided objectSelector in the object-template at index [{}]: {error}",
                asked.index
            );
            Box::new(Selected::failed(reasons::OBJECT_SELECTOR, message))
        };
        let selector = LabelSelector::from_json(selector, &FieldPath::root())
            .map_err(|errors| failed("parsing", field::join(&errors)))?;
        for (namespace, names) in places {
            let objects = asked
                .cluster
                .list(kind, place_of(kind, namespace), &selector)
                .map_err(|error| failed("listing resources with", error.to_string()))?;
            for object in objects {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                names.insert(name.to_owned(), header.uses.object.then(|| object.clone()));
            }
        }
    } else if header.uses.object && !explicit_name.is_empty() {
        for (namespace, names) in places {
            let key = ObjectKey {
                namespace: place_of(kind, namespace).map(str::to_owned),
                name: explicit_name.to_owned(),
            };
            // What cannot be read is not there for the template; comparing will say why.
            if let Ok(Some(object)) = asked.cluster.get(kind, &key) {
                names.insert(explicit_name.to_owned(), Some(object));
            }
        }
    }
    Ok(())
}

fn place_of<'a>(kind: &Kind, namespace: &'a str) -> Option<&'a str> {
    kind.namespaced.then_some(namespace)
}

struct Definitions {
    desired: Vec<Desired>,
    sensitive: bool,
    skipped: bool,
}

/// Resolves the definition for every place: once if nothing in it depends on the place.
fn resolve(
    asked: Asked<'_>,
    kind: &Kind,
    header: &Header,
    places: &NamesByNamespace,
) -> Result<Definitions, Box<Selected>> {
    let mut found = Definitions {
        desired: Vec::new(),
        sensitive: false,
        skipped: false,
    };
    let mut reusable: Option<Value> = None;
    for (namespace, names) in places {
        if header.uses.namespace {
            reusable = None;
        }
        for (name, object) in names {
            if header.uses.name || header.uses.object {
                reusable = None;
            }
            let definition = match (&reusable, asked.templates) {
                (Some(definition), _) => definition.clone(),
                (None, Some(templates)) if header.has_template => {
                    let context = TemplateContext {
                        namespace: some_text(namespace),
                        name: some_text(name),
                        object: object.as_deref(),
                    };
                    let resolved = templates
                        .resolve(&asked.template.definition, context)
                        .map_err(|error| Selected::failed(reasons::TEMPLATE_ERROR, error))?;
                    if resolved.skipped {
                        found.skipped = true;
                        continue;
                    }
                    found.sensitive |= resolved.sensitive;
                    resolved.value
                }
                _ => asked.template.definition.clone(),
            };
            reusable = Some(definition.clone());
            let desired = placed(asked, kind, header, (namespace, name), definition)?;
            found.desired.push(desired);
        }
    }
    Ok(found)
}

/// Puts a resolved definition in its place, and sees that it agrees with it.
fn placed(
    asked: Asked<'_>,
    kind: &Kind,
    header: &Header,
    (namespace, name): (&str, &str),
    mut definition: Value,
) -> Result<Desired, Box<Selected>> {
    if !definition.is_object() {
        let message = format!(
            "Decoding error, please check your policy file! Aborting handling the object template at \
             index [{}] in policy `{}` with error = `the object definition is not an object`",
            asked.index, asked.policy.name
        );
        return Err(Box::new(Selected::failed(reasons::DECODE_ERROR, message)));
    }
    let written = |definition: &Value, field: &str| {
        let text = definition["metadata"][field].as_str().unwrap_or_default();
        text.trim().to_owned()
    };
    let or_selected = |written: String, selected: &str| match written.is_empty() {
        true => selected.trim().to_owned(),
        false => written,
    };
    let desired_name = or_selected(written(&definition, "name"), name);
    let desired_namespace = or_selected(written(&definition, "namespace"), namespace);
    let selects = kind.namespaced && !asked.policy.namespace_selector.is_empty();
    if selects && header.explicit_namespace().is_empty() && desired_namespace != *namespace {
        return Err(Box::new(Selected::violation(
            reasons::TEMPLATE_ERROR,
            "The object definition's namespace must match the result from the namespace selector \
             after template resolution",
        )));
    }
    if kind.namespaced && desired_namespace.is_empty() {
        let message = format!(
            "namespaced object{} of kind {} has no namespace specified after template resolution",
            spaced(header.explicit_name()),
            kind.gvk.kind
        );
        return Err(Box::new(Selected::violation(
            reasons::TEMPLATE_ERROR,
            message,
        )));
    }
    let selects = asked.template.object_selector.is_some() && header.explicit_name().is_empty();
    if selects && desired_name != *name {
        return Err(Box::new(Selected::violation(
            reasons::TEMPLATE_ERROR,
            "The object definition's name must match the result from the object selector after \
             template resolution",
        )));
    }
    let namespace = match kind.namespaced {
        true => Some(desired_namespace),
        false => None,
    };
    let name = non_empty(desired_name);
    write_place(&mut definition, kind, namespace.as_deref(), name.as_deref());
    Ok(Desired {
        namespace,
        name,
        definition,
    })
}

fn write_place(definition: &mut Value, kind: &Kind, namespace: Option<&str>, name: Option<&str>) {
    let Some(fields) = definition.as_object_mut() else {
        return;
    };
    fields.insert("kind".to_owned(), kind.gvk.kind.as_str().into());
    let metadata = fields
        .entry("metadata")
        .or_insert_with(|| Value::Object(Map::new()));
    let Some(metadata) = metadata.as_object_mut() else {
        return;
    };
    for (field, value) in [("namespace", namespace), ("name", name)] {
        match value {
            Some(value) => _ = metadata.insert(field.to_owned(), value.into()),
            None => _ = metadata.remove(field),
        }
    }
}

/// Of the selected objects those that also have the definition's other fields (docs/spec/governance.md#11-2).
fn having_the_fields(
    asked: Asked<'_>,
    kind: &Kind,
    desired: Vec<Desired>,
) -> Result<Vec<Desired>, Box<Selected>> {
    let mut kept = Vec::new();
    for desired in desired {
        let Some(name) = desired.name.clone() else {
            continue;
        };
        let key = ObjectKey {
            namespace: desired.namespace.clone(),
            name,
        };
        let object = asked.cluster.get(kind, &key).map_err(|error| {
            let message = format!(
                "Error retrieving an object for object-template at index [{}]: {error}",
                asked.index
            );
            Selected::failed(reasons::API_ERROR, message)
        })?;
        let has_them = object.is_some_and(|object| {
            matches_search(Question {
                definition: &desired.definition,
                object: &object,
                compliance: ComplianceType::MustHave,
                metadata_compliance: ComplianceType::MustHave,
            })
        });
        if has_them {
            kept.push(desired);
        }
    }
    Ok(kept)
}

fn non_empty(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

fn some_text(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

/// A name after `object`, with the blank before it.
fn spaced(name: &str) -> String {
    match name {
        "" => String::new(),
        name => format!(" {name}"),
    }
}
