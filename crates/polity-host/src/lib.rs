//! The modules of policies, and the services behind their host calls.
//!
//! - [`Modules`] turns references into loaded modules: fetched once, compiled once, and loaded from the local store
//!   in milliseconds the next time.
//! - [`SharedCache`] keeps modules and their native code, signed, on a volume that all replicas of a server share.
//! - [`HostServices`] answers the host calls of guests: registries, names, certificates, the cluster. Lists of
//!   objects come from stores that watches keep up to date ([`Cluster`]).
//!
//! The policy server and the commands use this crate. It knows neither requests nor verdicts.

mod certificates;
mod kubernetes;
mod modules;
mod protocol;
mod services;
mod shared_cache;

pub use kubernetes::{Cluster, ClusterError, ClusterLimits};
pub use modules::{LoadOptions, LoadProgress, LoadedModules, ModuleError, Modules, module_of};
pub use protocol::{ProtocolError, protocol_version};
pub use services::{HostServices, ServicesOptions};
pub use shared_cache::{
    AbsentReason, CacheBuild, CacheError, CacheIdentity, Collected, Demand, Lookup, ModuleFacts,
    Reference, SharedCache, SignerError, SignerFiles, SignerTexts,
};
