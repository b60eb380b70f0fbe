//! Any JSON may come as `fieldsV1`; what is understood is written back as it was meant.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polity_merge::fields::FieldSet;

fuzz_target!(|data: &[u8]| {
    let Ok(fields) = serde_json::from_slice(data) else { return };
    let Ok(set) = FieldSet::parse(&fields) else { return };
    let written = set.to_fields_v1();
    assert_eq!(FieldSet::parse(&written), Ok(set));
});
