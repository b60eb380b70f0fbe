//! The admission chain: built-in plugins, then mutating and validating webhooks.

pub mod webhooks;

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}
