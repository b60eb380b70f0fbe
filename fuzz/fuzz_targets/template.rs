//! Any text may come as a template, and any JSON as its data; what comes out stays within its limits.
//!
//! The first line of the input is the data, the rest the template.

#![no_main]

use jiff::Zoned;
use jiff::tz::TimeZone;
use libfuzzer_sys::fuzz_target;
use polity_template::lint::lint;
use polity_template::{
    CertificatePair, CertificateRequest, Host, KeyKind, Limits, LookupError, Query, Rules, Side, Template,
};
use serde_json::Value;

struct Nowhere;

impl Host for Nowhere {
    fn now(&self) -> Zoned {
        Zoned::default()
    }
    fn random(&self, buffer: &mut [u8]) {
        buffer.fill(7);
    }
    fn get(&self, _: &Query<'_>, _: &str) -> Result<Option<Value>, LookupError> {
        Ok(None)
    }
    fn list(&self, _: &Query<'_>) -> Result<Vec<Value>, LookupError> {
        Ok(Vec::new())
    }
    fn is_namespaced(&self, _: &str, kind: &str) -> Result<Option<bool>, LookupError> {
        Ok((!kind.is_empty()).then_some(true))
    }
    fn zone(&self, _: &str) -> Option<TimeZone> {
        None
    }
    fn addresses(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
    fn private_key(&self, _: KeyKind) -> Result<String, String> {
        Err("none".to_owned())
    }
    fn certificate(&self, _: &CertificateRequest<'_>) -> Result<CertificatePair, String> {
        Err("none".to_owned())
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (data, text) = text.split_once('\n').unwrap_or(("null", text));
    let data: Value = serde_json::from_str(data).unwrap_or(Value::Null);
    let _ = lint(text);
    let limits = Limits { output: 1 << 16, steps: 20_000, calls: 20 };
    for side in [Side::Managed, Side::Hub] {
        let rules = Rules::of(side);
        let Ok(template) = Template::parse("tmpl", text, &rules) else { continue };
        if let Ok(execution) = template.execute((&data).into(), &Nowhere, &rules, limits) {
            assert!(execution.text.len() <= limits.output);
        }
    }
});
