//! The built-in Kubernetes kinds, as data: which there are, their Go types, schemas, defaults, stored shapes,
//! validation and the columns of `kubectl get`.
//!
//! An API server and a dry run on files default and validate an object with the same tables. Code exists per kind only
//! where a table cannot express it: `create`, `defaults`, `validation` and the cells of `table`.

pub mod builtin;
pub mod create;
pub mod decode;
pub mod defaults;
pub mod events;
pub mod jsonpath;
pub mod known;
pub mod normalise;
pub mod protobuf;
pub mod scale;
pub mod schemas;
pub mod status;
pub mod table;
pub mod validation;
pub mod wire;

use std::sync::Arc;

use polity_core::{GroupVersionKind, GroupVersionResource};
use polity_merge::schema::Schema;

pub use known::{KnownKind, known};

/// Where objects of a kind live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Namespaced,
    Cluster,
}

/// Subresources that the engine can serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subresource {
    Eviction,
    Finalize,
    Log,
    Scale,
    Status,
    Token,
}

impl Subresource {
    /// Its name in URLs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Eviction => "eviction",
            Self::Finalize => "finalize",
            Self::Log => "log",
            Self::Scale => "scale",
            Self::Status => "status",
            Self::Token => "token",
        }
    }
}

/// Which changes increment `metadata.generation`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GenerationRule {
    /// The kind has no generation.
    Never,
    /// Always 1.
    Fixed,
    /// Grows when one of these top-level fields changes.
    On(Vec<String>),
    /// Grows when `spec` or the annotations change (Deployments).
    SpecOrAnnotations,
    /// Grows when anything outside `metadata` changes, or the labels do (EndpointSlices).
    ContentOrLabels,
    /// Custom resources: anything outside `metadata`, and outside `status` where that is a subresource.
    Custom,
}

/// Ways in which a kind differs from the rest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent flags of a table row"
)]
pub struct KindFlags {
    /// PUT needs a resourceVersion.
    pub update_needs_version: bool,
    /// PUT of a missing object creates it.
    pub create_on_update: bool,
    /// DELETE returns the object.
    pub delete_returns_object: bool,
    /// The verb deletecollection is not supported.
    pub no_delete_collection: bool,
    /// Evaluated on POST, never stored.
    pub create_only: bool,
}

/// One resource in one served version.
#[derive(Debug, Clone)]
pub struct ResourceDef {
    pub gvk: GroupVersionKind,
    pub plural: String,
    pub singular: String,
    pub list_kind: String,
    pub scope: Scope,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub subresources: Vec<Subresource>,
    pub generation: GenerationRule,
    pub flags: KindFlags,
    /// Dotted paths usable in field selectors, beyond `metadata.name` and `metadata.namespace`.
    pub selectable_fields: Vec<String>,
    pub schema: Arc<Schema>,
    /// The store's bucket. All versions of a resource share one; so do both Event groups.
    pub bucket: Arc<str>,
}

impl ResourceDef {
    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource::new(
            self.gvk.group.as_str(),
            self.gvk.version.as_str(),
            self.plural.as_str(),
        )
    }

    pub fn is_namespaced(&self) -> bool {
        self.scope == Scope::Namespaced
    }

    pub fn has(&self, subresource: Subresource) -> bool {
        self.subresources.contains(&subresource)
    }
}
