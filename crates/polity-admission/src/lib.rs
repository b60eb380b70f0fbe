//! The policy server: admission reviews in, verdicts out.
//!
//! - [`Standalone`] is the whole server over a `policies.yml`: it loads the policies, serves them,
//!   follows changes of its files and drains when it is told to stop.
//! - [`PolicyTable`] is what is served: immutable, swapped whole, read without a lock.
//! - [`Webhook`] is the HTTP side as a service without a socket.
//! - [`FairQueue`] decides who is evaluated next, as a value.
//!
//! Verdicts are made by `polity-eval`, modules come from `polity-host`. There is no policy logic here,
//! and nothing of a cluster: a managed server will fill the same table from API objects.

mod body;
mod fair;
mod load;
mod metrics;
mod refusal;
mod reload;
mod reply;
mod route;
mod span;
mod standalone;
mod table;
mod time_limit;
mod turnstile;
mod webhook;

pub use fair::{Admitted, Entered, FairLimits, FairQueue, Full, Pace, Ticket};
pub use load::{LoadError, Loader};
pub use metrics::ServerMetrics;
pub use polity_eval::{EngineOptions, Limits as GuestLimits};
pub use standalone::{
    ClusterChoice, ModuleOptions, Standalone, StandaloneError, StandaloneOptions, runtime_threads,
};
pub use table::{Generation, NotServed, PolicyTable, Prepared, Served};
pub use turnstile::Shed;
pub use webhook::{Webhook, WebhookLimits, WebhookOptions};
