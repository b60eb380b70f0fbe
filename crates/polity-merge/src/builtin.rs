//! The built-in kinds as a server keeps them: their Go types as data, the shape that decoding and encoding gives an
//! object, and what is filled in where nothing was said.
//!
//! Section names such as B4 are those of the API server reference.

pub mod defaults;
pub mod normalise;
pub mod wire;
