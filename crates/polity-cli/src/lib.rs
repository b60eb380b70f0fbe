//! The commands that are not services, and their common parts: output formats, exit codes, errors, the client of a
//! cluster, and the instance that runs on this machine. What the commands read comes from `polity-source`.

pub mod attachment;
mod connect;
pub mod doctor;
pub mod down;
pub mod dryrun;
mod edits;
pub mod exit;
pub mod findings;
mod health;
pub mod lint;
pub mod local;
pub mod logs;
pub mod manifests;
pub mod output;
pub mod placement;
pub mod policy;
pub mod report;
pub mod reset;
pub mod rollout;
pub mod status;
pub mod template;
pub mod version;

pub use self::connect::connect;
use self::connect::local_client;
pub use self::edits::edits;
