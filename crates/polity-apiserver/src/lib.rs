//! A small Kubernetes-compatible API server: discovery, CRUD, watch, apply, the admission chain,
//! authentication and authorization.
//!
//! One generic engine over a table of kinds: built-ins come from data, custom resources from their
//! CRDs at run time, objects are JSON values. It is one node without kubelet, scheduler or
//! aggregation layer, and everything it does a real kube-apiserver does too.

pub mod admission;
pub mod auth;
pub mod kinds;
pub mod status;

pub use status::ApiError;
