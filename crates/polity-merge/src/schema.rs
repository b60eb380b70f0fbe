//! Structural schemas: types, defaults, pruning, validation and merge rules of fields.
//!
//! One type serves custom resources ([`Schema::parse_crd`], which enforces the structural rules) and built-in kinds
//! ([`SchemaSet`], which trusts its input). Nodes are shared by [`Arc`], so a definition used in many places exists
//! once.

mod defaults;
mod embedded;
mod format;
mod lists;
mod meta;
mod openapi;
mod parse;
mod pattern;
mod prune;
mod structural;
mod validate;

use std::{collections::BTreeMap, sync::Arc};

use regex::Regex;
use serde_json::Value;

pub use defaults::default;
pub use meta::object_meta;
pub use parse::SchemaSet;
pub use prune::prune;
pub use validate::{validate, validate_at, validate_update, validate_update_at};

use format::Format;

/// A node of a schema.
#[derive(Debug, Clone, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the keywords are independent flags"
)]
pub struct Schema {
    kind: Type,
    properties: BTreeMap<String, Arc<Schema>>,
    additional: Additional,
    items: Option<Arc<Schema>>,
    description: Option<String>,
    default: Option<Value>,
    nullable: bool,
    preserve_unknown: bool,
    /// This node or one above it (in the same definition) preserves unknown fields.
    open: bool,
    embedded: bool,
    root: bool,
    list_type: ListType,
    list_keys: Vec<String>,
    map_type: MapType,
    patch_merge_key: Option<String>,
    patch_strategy: PatchStrategy,
    validations: Option<Value>,
    checks: Option<Box<Checks>>,
    raw: Option<Arc<Value>>,
}

/// The type of the value of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Type {
    /// No type: any value is allowed.
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// `x-kubernetes-int-or-string`.
    IntOrString,
}

/// The fields that an object may have besides its properties.
#[derive(Debug, Clone, Default)]
pub enum Additional {
    /// `additionalProperties` is absent.
    #[default]
    Absent,
    /// `additionalProperties: true` or `false`.
    Allowed(bool),
    /// Every other field follows this schema.
    Schema(Arc<Schema>),
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ListType {
    /// Not given: treated as atomic.
    #[default]
    Unset,
    Atomic,
    Set,
    Map,
}

/// `x-kubernetes-map-type`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MapType {
    #[default]
    Granular,
    Atomic,
}

/// `x-kubernetes-patch-strategy`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    pub merge: bool,
    pub replace: bool,
    pub retain_keys: bool,
}

/// The value validations of a node.
#[derive(Debug, Clone, Default)]
struct Checks {
    format: Option<Format>,
    maximum: Option<f64>,
    exclusive_maximum: bool,
    minimum: Option<f64>,
    exclusive_minimum: bool,
    multiple_of: Option<f64>,
    max_length: Option<i64>,
    min_length: Option<i64>,
    pattern: Option<(String, Regex)>,
    max_items: Option<i64>,
    min_items: Option<i64>,
    max_properties: Option<i64>,
    min_properties: Option<i64>,
    choices: Vec<Value>,
    required: Vec<String>,
    all_of: Vec<Schema>,
    any_of: Vec<Schema>,
    one_of: Vec<Schema>,
    not: Option<Box<Schema>>,
}

impl Schema {
    /// The type of the value.
    pub fn kind(&self) -> Type {
        self.kind
    }

    /// The declared fields of an object.
    pub fn properties(&self) -> &BTreeMap<String, Arc<Schema>> {
        &self.properties
    }

    /// One declared field of an object.
    pub fn property(&self, name: &str) -> Option<&Arc<Schema>> {
        self.properties.get(name)
    }

    /// The fields that an object may have besides its declared ones.
    pub fn additional_properties(&self) -> &Additional {
        &self.additional
    }

    /// The schema of a list's elements.
    pub fn items(&self) -> Option<&Arc<Schema>> {
        self.items.as_ref()
    }

    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The value a missing field gets.
    pub fn default_value(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    /// Whether `null` is a valid value here.
    pub fn nullable(&self) -> bool {
        self.nullable
    }

    /// Whether undeclared fields are kept.
    pub fn preserve_unknown(&self) -> bool {
        self.preserve_unknown
    }

    /// Whether this is an object with its own apiVersion, kind and metadata.
    pub fn embedded_resource(&self) -> bool {
        self.embedded
    }

    /// How elements of a list are identified.
    pub fn list_type(&self) -> ListType {
        self.list_type
    }

    /// The fields that identify an element of a map list.
    pub fn list_keys(&self) -> &[String] {
        &self.list_keys
    }

    /// Whether an object is owned field by field or as one.
    pub fn map_type(&self) -> MapType {
        self.map_type
    }

    /// The merge key of this list in a strategic merge patch.
    pub fn patch_merge_key(&self) -> Option<&str> {
        self.patch_merge_key.as_deref()
    }

    /// How strategic merge treats this field.
    pub fn patch_strategy(&self) -> PatchStrategy {
        self.patch_strategy
    }

    /// `x-kubernetes-validations`, unparsed.
    pub fn validations(&self) -> Option<&Value> {
        self.validations.as_ref()
    }

    /// The fields an object must have.
    pub fn required(&self) -> &[String] {
        self.checks.as_ref().map_or(&[], |checks| &checks.required)
    }

    /// The most elements, characters or fields a value of this node may have; CEL costs are estimated from these.
    pub fn max_size(&self) -> Option<i64> {
        let checks = self.checks.as_ref()?;
        match self.kind {
            Type::Array => checks.max_items,
            Type::Object => checks.max_properties,
            _ => checks.max_length,
        }
    }

    /// The `format`, if this server supports it.
    pub fn format(&self) -> Option<&str> {
        Some(self.checks.as_ref()?.format.as_ref()?.name())
    }

    /// The unparsed schema. Only the root of a custom resource's schema keeps it.
    pub fn to_openapi(&self) -> Option<&Value> {
        self.raw.as_deref()
    }

    /// The schema of field `name`, declared or additional; apiVersion, kind and metadata of a resource are
    /// always known.
    pub fn field(&self, name: &str) -> Option<&Schema> {
        if self.is_resource()
            && let Some(known) = meta::type_and_object_meta(name)
        {
            return Some(known);
        }
        self.declared(name)
    }

    fn declared(&self, name: &str) -> Option<&Schema> {
        match (self.properties.get(name), &self.additional) {
            (Some(property), _) => Some(property),
            (None, Additional::Schema(schema)) => Some(schema),
            (None, _) => None,
        }
    }

    /// Whether apiVersion, kind and metadata are implied: the root of a custom resource, or an embedded one.
    fn is_resource(&self) -> bool {
        self.root || self.embedded
    }

    /// Whether `name` is a declared field rather than an entry of a map.
    pub(crate) fn declares(&self, name: &str) -> bool {
        self.properties.contains_key(name)
            || (self.is_resource() && meta::type_and_object_meta(name).is_some())
    }

    /// Whether this is the root of a custom resource's schema.
    pub(crate) fn is_custom(&self) -> bool {
        self.root
    }

    /// Whether an undeclared field of this object has a type deduced from its value, as apply sees it.
    pub(crate) fn deduces_unknown(&self) -> bool {
        match self.additional {
            Additional::Absent => self.open || (self.properties.is_empty() && !self.is_resource()),
            Additional::Allowed(allowed) => allowed,
            Additional::Schema(_) => false,
        }
    }
}

impl Type {
    /// The types as an error lists them.
    fn names(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::IntOrString => "integer,string",
        }
    }

    fn accepts(self, name: &str) -> bool {
        match self {
            Self::IntOrString => name == "integer" || name == "string",
            other => other.names() == name,
        }
    }
}

#[cfg(test)]
mod tests;
