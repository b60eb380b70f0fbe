//! Custom resources: their definitions as objects, and the kinds they make
//! (docs/spec/apiserver.md#15).

pub mod approval;
pub mod bucket;
pub mod definition;
pub mod names;
pub mod serve;
pub mod summary;

pub use bucket::{bucket_of, definition_of};
pub use summary::{Summaries, Summary};

/// The store's bucket of CustomResourceDefinitions.
pub const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// The finalizer that holds a definition until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
