//! Structural schemas.

/// A structural schema node.
#[derive(Debug, Default)]
pub struct Schema {}
