//! Any text may come as a quantity; what is understood is written in a canonical form that means the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polity_core::quantity::{Quantity, canonical};

fuzz_target!(|text: &str| {
    let Ok(quantity) = text.parse::<Quantity>() else { return };
    let written = quantity.to_string();
    let again: Quantity = written.parse().expect("what is written can be read");
    assert_eq!(again, quantity, "{text:?} became {written:?}");
    assert_eq!(canonical(&written).as_deref(), Ok(written.as_str()), "canonical is canonical");
    assert_eq!(quantity.is_zero(), quantity.whole() == 0, "{text:?}");
    let doubled = &quantity + &again;
    assert_eq!(doubled.is_negative(), quantity.is_negative());
    let milli = quantity.clone().round_up_to_milli();
    assert_eq!(milli.is_negative(), quantity.is_negative());
    assert!(milli.to_f64().abs() >= quantity.to_f64().abs());
});
