//! Parses a request from its method, path, query and headers.

pub mod accept;
pub mod body;
pub mod json;
pub mod path;
pub mod query;
