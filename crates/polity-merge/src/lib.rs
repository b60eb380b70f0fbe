//! Structural schemas, field ownership, server-side apply, and JSON, merge and strategic-merge patches, over JSON values.

pub mod schema;
