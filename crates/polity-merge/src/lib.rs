//! Structural schemas, field ownership, server-side apply, and JSON, merge and strategic-merge patches, over JSON
//! values.
//!
//! Everything here is a function of values: no file, no socket, no clock. This crate computes the result of a write.
//! Authorization and storage are elsewhere.

pub mod apply;
pub mod fields;
pub mod patch;
pub mod schema;
mod text;
mod typed;

pub use schema::{Schema, SchemaSet};
