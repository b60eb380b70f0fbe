//! Where the modules of revisions come from: memory, this replica's disk, a volume that the replicas share, or their
//! source.

pub(super) mod modules;
pub(super) mod shared;
pub(super) mod upkeep;
pub(super) mod vault;
