//! Any text may stand in `policies.yml`, in settings or in a recording: it is refused with a reason.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polity_eval::{Replay, Settings, parse_policies};

fuzz_target!(|text: &str| {
    if let Err(error) = parse_policies(text) {
        assert!(!error.to_string().is_empty());
    }
    let _ = Settings::parse(text);
    let _ = Replay::parse(text);
});
