//! The policy server: admission reviews in, verdicts out.
//!
//! - [`Standalone`] is the whole server over a `policies.yml`: it loads the policies, serves them,
//!   follows changes of its files and drains when it is told to stop.
//! - [`Managed`] is the whole server in a cluster: it serves the PolicyRevisions of its PolicyServer.
//! - [`PolicyTable`] is what is served: immutable, swapped whole, read without a lock.
//! - [`ReviewService`] is the HTTP side as a service without a socket.
//! - [`FairQueue`] decides who is evaluated next, as a value.
//!
//! Verdicts are made by `polity-eval`, modules and host calls are `polity-host`'s. There is no policy logic here: both
//! servers fill the same table, one from a file, one from API objects.

mod body;
mod fair;
mod load;
mod managed;
mod metrics;
mod process;
mod refusal;
mod reload;
mod reply;
mod review;
mod route;
mod span;
mod standalone;
mod table;
mod time_limit;
mod turnstile;

pub use fair::{Admitted, Entered, FairLimits, FairQueue, Full, Pace, Ticket};
pub use load::{LoadError, Loader};
pub use managed::{CacheOptions, Managed, ManagedError, ManagedOptions, ReplicaIdentity};
pub use metrics::ServerMetrics;
pub use polity_eval::{EngineOptions, Limits as GuestLimits};
pub use process::{ModuleOptions, runtime_threads};
pub use review::{RequestLimits, ReviewService, ReviewServiceOptions};
pub use standalone::{ClusterChoice, Standalone, StandaloneError, StandaloneOptions};
pub use table::{Generation, NotServed, PolicyTable, Prepared, Served};
pub use turnstile::Shed;
