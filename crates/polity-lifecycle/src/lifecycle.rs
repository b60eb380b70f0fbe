//! The lifecycle of one policy, as decisions: the observed objects and the time go in, the writes and the time of the
//! next look come out.
//!
//! G is the generation of the policy, S the one its webhook points at. A new G gets a revision; the leader of the policy
//! server initialises it, every replica loads it, and all of them report on the revision. The webhook moves from S to G
//! once every expected replica is ready; S is disabled when no request can still be on its way to it. Whatever fails, S
//! keeps serving.

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
pub use policy::{Content, Modules, Policy, PolicyError};
pub use polity_core::PolicyKind;
pub use revision::{claim, meet};
pub use rollback::refused as rollback_refused;
pub(crate) use webhook::normal;
pub use webhook::{Owner, Webhook, WebhookKind};

#[cfg(test)]
mod tests;
