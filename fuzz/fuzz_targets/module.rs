//! Any bytes may come as a module: looking at them never panics, and what cannot be a policy is refused before it is
//! compiled.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polity_wasm::{Limits, Metadata, inspect};

fuzz_target!(|data: &[u8]| {
    let _ = inspect(data, &Limits::default());
    let _ = Metadata::parse(data);
});
