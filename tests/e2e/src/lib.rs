//! Whole-system scenarios: the real binary, real clients, real peers.
