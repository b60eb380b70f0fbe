//! Any JSON may come as a scenario: it is refused with a reason, or it plays to its end.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polity_govern::simulate::{Document, Scenario, run};
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let Ok(scenario) = serde_json::from_slice::<Scenario>(data) else { return };
    let _ = run(&scenario, &[], &|_: &Value| Ok(Document::Other));
});
