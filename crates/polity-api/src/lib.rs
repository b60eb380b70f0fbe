//! CRD and wire types, one module per API group and version, with their schemas.
//!
//! What a user writes in a manifest is a type here, and nothing else is: engines never see a wire type, they get what
//! is lowered from it. The `///` of a field is the help text of `kubectl explain`. [`crds`] gives the definitions to
//! install; `cargo xtask generate` writes the same to `config/crd/`.

#![expect(
    unreachable_pub,
    reason = "the schema derive copies each public struct into a function body"
)]

pub mod apps;
pub mod attachment;
pub mod audit;
pub mod cluster;
pub mod crd;
pub mod decode;
pub mod policies;
pub mod policy;
pub mod reports;
mod unknown;
mod vocabulary;

/// The label selector of Kubernetes, as fields of our kinds have it.
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

pub use crd::crds;
pub use decode::{DecodeError, decode, decode_fields, decode_metadata};
pub use unknown::unknown_fields;
