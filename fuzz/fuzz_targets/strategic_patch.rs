//! Any JSON may come as a patch of any object under any built-in schema.
//!
//! The input is a list of definitions (the one called `Root` is used), a live object and a patch.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use polity_merge::patch::strategic;
use polity_merge::schema::SchemaSet;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    type Input = (BTreeMap<String, Value>, Value, Value);
    let Ok((definitions, live, patch)) = serde_json::from_slice::<Input>(data) else { return };
    let Some(schema) = SchemaSet::from_definitions(&definitions).get("Root") else { return };
    let _ = strategic(&schema, &live, &patch);
});
