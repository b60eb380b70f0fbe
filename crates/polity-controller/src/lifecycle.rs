//! The lifecycle of one policy, as decisions: what was read and the time go in, what to write and when to look again
//! come out.
//!
//! G is the generation of the policy, S the one its webhook points at. A new G gets a revision; the leader of the policy
//! server initialises it, every replica loads it, all of them say so on the revision. Only when every expected replica is
//! ready does the webhook move from S to G; when nobody can be on the way to S any more, S is disabled. Whatever fails
//! on the way, S goes on serving.

mod conditions;
mod events;
mod history;
mod observed;
mod orphans;
mod plan;
mod policy;
mod revision;
mod rollback;
mod standing;
mod status;
mod webhook;

pub use events::{Event, EventReason};
pub use observed::{Observed, Pod, Refusal, Server, Settings};
pub use orphans::orphans;
pub use plan::{Plan, Step, Write};
pub use policy::{Content, Modules, Policy, PolicyError, PolicyKind};
pub use revision::{claim, meet};
pub use rollback::refused as rollback_refused;
pub use webhook::{Owner, Webhook, WebhookKind};

#[cfg(test)]
mod tests;
