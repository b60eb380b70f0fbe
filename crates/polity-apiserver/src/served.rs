//! A served resource: the data of its kind, and the additional properties of a custom resource.

pub mod compiled;
mod custom;
mod stored_form;

use std::ops::Deref;
use std::sync::Arc;

use polity_kinds::ResourceDef;
use polity_kinds::status::ResourceName;

pub use compiled::{Compiled, Compiler};
pub use custom::{CustomDef, DefinitionDigest};

/// One served resource in one version, built in or custom.
#[derive(Debug, Clone)]
pub struct ServedResource {
    def: ResourceDef,
    /// Set for custom resources.
    pub custom: Option<Arc<CustomDef>>,
}

impl ServedResource {
    pub fn built_in(def: ResourceDef) -> Self {
        Self { def, custom: None }
    }

    pub fn custom(def: ResourceDef, custom: CustomDef) -> Self {
        Self {
            def,
            custom: Some(Arc::new(custom)),
        }
    }

    pub fn resource_name(&self) -> ResourceName<'_> {
        ResourceName {
            group: &self.gvk.group,
            plural: &self.plural,
        }
    }

    pub fn is_custom(&self) -> bool {
        self.custom.is_some()
    }
}

/// Built-in and custom resources have the same data.
impl Deref for ServedResource {
    type Target = ResourceDef;

    fn deref(&self) -> &ResourceDef {
        &self.def
    }
}
