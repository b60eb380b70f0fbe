//! The three patch formats other than apply: JSON patch, merge patch and strategic merge patch.

mod json;
mod strategic;

pub use json::{JsonPatchError, MAX_OPERATIONS, json_patch, merge_patch};
pub use strategic::{StrategicError, strategic};

#[cfg(test)]
mod tests;
