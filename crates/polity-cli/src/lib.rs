//! The commands people type that are not processes.
