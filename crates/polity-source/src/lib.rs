//! What the engines read: manifests or a live cluster, as the values that the engines work on.
//!
//! Commands and services use the same loaders. Nothing here prints, exits, or knows about command lines: problems with
//! single documents are data, and each operation that can fail has an error type of its own.

pub mod manifests;

pub use manifests::{Document, Manifests, Origin, Problem};
