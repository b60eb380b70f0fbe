//! Any text may come as a label or field selector; what is understood is written back as it was meant, and selects
//! without a panic.

#![no_main]

use std::borrow::Cow;
use std::fmt::{Debug, Display};
use std::str::FromStr;

use libfuzzer_sys::fuzz_target;
use polity_core::selector::{FieldSelector, LabelSelector};

fuzz_target!(|text: &str| {
    if let Some(selector) = read::<LabelSelector>(text) {
        let own = selector.requirements().unwrap_or_default().iter();
        let labels = own.map(|requirement| {
            let value = requirement.values().next().unwrap_or_default();
            (requirement.key().to_owned(), value.to_owned())
        });
        selector.matches(&labels.collect::<std::collections::BTreeMap<_, _>>());
    }
    if let Some(selector) = read::<FieldSelector>(text) {
        selector.matches(|field| Some(Cow::Owned(field.to_owned())));
    }
});

/// The selector, if the text is one; its own text must then mean the same.
fn read<S: FromStr + Display + PartialEq + Debug>(text: &str) -> Option<S> {
    let selector: S = text.parse().ok()?;
    let written = selector.to_string();
    let again: Option<S> = written.parse().ok();
    assert_eq!(
        again.as_ref(),
        Some(&selector),
        "{text:?} became {written:?}"
    );
    Some(selector)
}
