//! Repository chores: build, test, tidy, generate, and the real Kubernetes peers.

fn main() {}
