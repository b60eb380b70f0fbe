//! Objects as the engine sees them: JSON values with metadata, and the bytes they are stored as.

pub mod conditions;
pub mod encode;
pub mod index;
pub mod meta;
