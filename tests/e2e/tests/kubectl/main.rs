//! kubectl of two minor releases against the real binary, with a ConfigMap, a Deployment, a Namespace, a
//! CustomResourceDefinition and a custom resource. The same steps pass on the real server.

#![expect(
    clippy::unwrap_used,
    reason = "a scenario is a test, also where it is a plain function"
)]

mod access;
mod apply;
mod create;
mod definitions;
mod deletion;
mod discover;
mod events;
mod first_steps;
mod lifecycle;
mod lists;
mod namespaces;
mod objects;
mod pods;
mod process;
mod up;
mod workloads;
