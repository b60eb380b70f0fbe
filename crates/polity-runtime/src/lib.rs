//! The kit that every process uses: client, argument groups, admin port, logs, metrics, telemetry, TLS reload, clock,
//! leases, shutdown.
//!
//! Everything process-wide is only used here: the environment ([`mod@env`]), the clock ([`clock`]), the parent process
//! ([`parent`]), signals ([`shutdown`]), the log subscriber ([`logs`]), the crypto provider
//! ([`tls::install_provider`]). All other crates take handles and values.

pub mod admin;
pub mod args;
pub mod changes;
pub mod client;
pub mod clock;
pub mod dirs;
pub mod env;
pub mod files;
pub mod lease;
pub mod logs;
pub mod metrics;
pub mod parent;
pub mod process;
pub mod procfs;
mod random;
pub mod retry;
pub mod serve;
pub mod shutdown;
pub mod telemetry;
pub mod tls;

pub use clock::{Clock, Moment};
pub use shutdown::{Shutdown, Tasks};

/// The version of this build.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
