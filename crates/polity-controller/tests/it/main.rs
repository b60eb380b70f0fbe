//! The controller against the in-process API server: the test plays policy server, pods and users.

mod lifecycle;
mod world;
