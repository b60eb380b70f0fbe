//! Whole-system scenarios: the real binary, real clients and real peers.
//!
//! Shared by the test binaries:
//! - [`Polity`] starts the binary under test and guarantees that it exits with the test.
//! - [`Kubectl`] runs kubectl and reports failures with command line and output.
//! - [`servers`] holds API servers that run as long as the test process.
//! - [`scenarios!`] runs the same steps on the embedded server and on the real one. The real one shows that the steps
//!   themselves are right.
//! - [`Installation`] is a complete installation, including policy servers.

pub mod cleanup;
pub mod eventually;
pub mod installation;
pub mod kubectl;
pub mod module;
pub mod polity;
pub mod replica_client;
pub mod routing;
pub mod scenario;
pub mod servers;
pub mod test_policies;

pub use eventually::eventually;
pub use installation::Installation;
pub use kubectl::Kubectl;
pub use polity::Polity;
