//! The one binary: parses arguments and composes services and commands.

fn main() {}
