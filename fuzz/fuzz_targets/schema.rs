//! Any JSON may come as a schema, and any JSON as an object of it.
//!
//! The input is a list of a schema, an object and the object it replaces.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polity_merge::schema::{Schema, default, prune, validate, validate_update};
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let Ok((schema, mut value, old)) = serde_json::from_slice::<(Value, Value, Value)>(data) else { return };
    let Ok(schema) = Schema::parse_crd(&schema) else { return };
    prune(&schema, &mut value);
    default(&schema, &mut value);
    let settled = value.clone();
    assert!(prune(&schema, &mut value).is_empty(), "pruning settles at once");
    default(&schema, &mut value);
    assert_eq!(value, settled, "defaulting settles at once");
    let _ = validate(&schema, &value);
    let _ = validate_update(&schema, &value, &old);
});
