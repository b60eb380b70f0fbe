//! Validates objects of our kinds before they are stored, and fills in their defaults.
//!
//! Pure: what has to be looked up is an argument. The schema says part of this too; here it is said in full, for API
//! servers that ask the webhook.

mod policy;
mod revision;
mod server;

pub use policy::{defaulted, policy};
pub use revision::{StatusWriter, revision, revision_status};
pub use server::{References, server};

#[cfg(test)]
mod tests;
