//! What a request asks for, read from its method, path, query and headers alone.

pub mod accept;
pub mod body;
pub mod json;
pub mod path;
pub mod query;
