//! A small Kubernetes-compatible API server: discovery, CRUD, watch, apply, the admission chain, authentication and
//! authorization.
//!
//! It has one generic engine over a table of kinds. Built-in kinds come from data, custom resources from their CRDs at
//! run time, and objects are JSON values. It is one node without kubelet, scheduler or aggregation layer. Its
//! behaviour is that of a real kube-apiserver.

pub mod cluster;
pub mod controllers;
pub mod custom;
pub mod discovery;
pub mod engine;
pub mod fleet;
mod heavy;
pub mod http_api;
pub mod kubeconfig;
pub mod logs;
pub mod metrics;
pub mod object;
pub mod openapi;
pub mod registry;
pub mod render;
pub mod request;
pub mod served;
pub mod version;

pub use polity_auth::AuthorizationMode;
pub use polity_kinds::status::ApiError;
