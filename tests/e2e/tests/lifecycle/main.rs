//! The lifecycle of admission policies, on the embedded API server and on the real one.
//!
//! Every scenario is a function of a [`test_namespace::TestNamespace`]. The scenarios share one installation per kind
//! of API server. Each scenario has its own namespace, and its policies apply to no other.

#![expect(
    clippy::unwrap_used,
    reason = "a scenario is a test, also where it is a plain function"
)]

mod caches;
mod changes;
mod crashing_modules;
mod deletions;
mod ends;
mod examples;
mod failures;
mod first;
mod kinds;
mod load;
mod manifests;
mod many;
mod modules;
mod owner;
mod registry;
mod rights;
mod servers;
mod test_namespace;
