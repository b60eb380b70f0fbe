//! The policy server: admission reviews in, verdicts out.
//!
//! - [`StandaloneOptions::start`] starts a server over a `policies.yml`: it loads the policies, serves them and follows
//!   changes of the file.
//! - [`ManagedOptions::start`] starts a server in a cluster: it serves the PolicyRevisions of its PolicyServer.
//! - [`RunningServer`] is either of them: it drains when it is told to stop.
//! - [`PolicyTable`] holds the policies that are served: immutable, swapped as a whole, read without a lock.
//! - [`ReviewService`] is the HTTP service for admission reviews, without a socket.
//! - [`FairQueue`] decides which request is evaluated next, as a value.
//!
//! `polity-eval` evaluates the policies; `polity-host` has the modules and the host calls. There is no policy logic here:
//! both kinds of server fill the same table, one from a file, one from API objects.

mod body;
mod fair;
mod load;
mod managed;
mod metrics;
mod refusal;
mod reload;
mod reply;
mod review;
mod route;
mod server;
mod span;
mod standalone;
mod table;
mod time_limit;
mod turnstile;

pub use fair::{Admitted, Entered, FairLimits, FairQueue, Full, Pace, Ticket};
pub use load::{LoadError, Loader};
pub use managed::{CacheOptions, ManagedError, ManagedOptions, ReplicaIdentity};
pub use metrics::ServerMetrics;
pub use polity_eval::{EngineOptions, Limits as GuestLimits};
pub use review::{RequestLimits, ReviewService, ReviewServiceOptions};
pub use server::{ModuleOptions, RunningServer, ServerOptions, StartError, runtime_threads};
pub use standalone::{ClusterChoice, StandaloneError, StandaloneOptions};
pub use table::{Generation, NotServed, PolicyTable, Prepared, Served};
pub use turnstile::Shed;
