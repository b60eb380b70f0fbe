//! Objects as the engine sees them: JSON values with metadata, and the bytes they are stored as.

pub mod conditions;
pub mod encode;
pub mod index;
pub mod meta;

use std::sync::Arc;

use polity_store::{Object, Revision};

use index::ObjectIndex;

/// A stored object.
pub type Stored = Arc<Object<ObjectIndex>>;

/// The objects of one revision.
pub type Snapshot = polity_store::Snapshot<ObjectIndex>;

/// One page of a list.
#[derive(Debug)]
pub struct Page {
    pub items: Vec<Stored>,
    pub revision: Revision,
    pub continue_token: Option<String>,
    pub remaining: Option<u64>,
}
