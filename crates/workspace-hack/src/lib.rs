//! Unifies the features of third-party crates over the workspace. It has no code; `xtask/src/features.rs` explains it.
