//! Plays kubelet and service proxy on one machine: makes StatefulSets of our own image true as child processes.
//!
//! Decisions are functions of values: [`set`] (which Pods there should be), [`pod`] (what to do about one Pod).
//!
//! It never adopts a process and never leaves one behind.

pub mod pod;
pub mod set;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        text.push_str(&format!("{byte:02x}"));
        text
    })
}
