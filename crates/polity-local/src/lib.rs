//! Plays kubelet and service proxy on one machine: makes StatefulSets of our own image true as child processes.
//!
//! Decisions are functions of values: [`permit`] (which Pods are run at all), [`set`] (which Pods there should be),
//! [`pod`] (what to do about one Pod), [`container`] and [`volumes`] (what its process is given), [`endpoints`] and
//! [`claims`] (what others are told).
//! Around them [`process`] starts processes, [`logs`] keeps what they say, [`mod@ask`] asks probes, [`forward`]
//! forwards connections, and [`runtime`] is the shell that watches objects and carries everything out.
//!
//! It never adopts a process, never leaves one behind, and never runs a Pod that is not [permitted](permit).

pub mod access;
pub mod ask;
pub mod claims;
pub mod container;
pub mod endpoints;
pub mod forward;
pub mod images;
pub mod logs;
pub mod permit;
pub mod pod;
pub mod process;
pub mod runtime;
pub mod set;
pub mod volumes;

pub use images::Images;
pub use permit::Permit;
pub use runtime::{Local, Options};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        text.push_str(&format!("{byte:02x}"));
        text
    })
}
