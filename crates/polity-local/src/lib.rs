//! Plays kubelet and service proxy on one machine: makes StatefulSets of our own image true as child processes.
//!
//! Decisions are functions of values: [`pod`] says what to do about one Pod.
//!
//! It never adopts a process and never leaves one behind.

pub mod pod;
