//! Whole-system scenarios: the real binary, real clients, real peers.
//!
//! What the test binaries share: starting `polity` and never leaving it behind, a [`Kubectl`] that knows how to fail
//! readably, [`servers`] that live as long as the test process, and [`scenarios!`], which plays the same steps on the
//! embedded server and on the real one, so that the steps themselves are known to be right. A [`Stage`] is a whole
//! installation, policy servers included.

pub mod door;
pub mod eventually;
pub mod kubectl;
pub mod leash;
pub mod module;
pub mod polity;
pub mod scene;
pub mod servers;
pub mod signposts;
pub mod stage;
pub mod subjects;

pub use eventually::eventually;
pub use kubectl::Kubectl;
pub use polity::Polity;
pub use stage::Stage;
