//! Compares the duration of template resolution with Go's text/template in one run.
//!
//! `cargo run --release -p polity-template --example bench` prints a table. With `--json` it prints a line of JSON per
//! template: its name, our nanoseconds, Go's nanoseconds, and the ratio.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use jiff::Zoned;
use jiff::tz::TimeZone;
use polity_template::{
    CertificatePair, CertificateRequest, Host, KeyKind, Limits, LookupError, Query, Rules, Side,
    Template,
};
use serde_json::{Value, json};

/// Templates with their names: from one field to a list of objects.
const TEMPLATES: &[(&str, &str)] = &[
    ("one field", "name: '{{ .name }}'"),
    (
        "text functions",
        "{{ .name | upper | trimSuffix \"-1\" | replace \"-\" \"_\" | printf \"%s.%s\" \"prefix\" | quote }}",
    ),
    (
        "conditions",
        "{{ if and (eq .kind \"prod\") (gt .replicas 2) }}{{ mul .replicas 2 }}{{ else if hasPrefix \"dev\" .kind }}1{{ else }}{{ default 3 .none }}{{ end }}",
    ),
    (
        "loop of 100 objects",
        "{{ range $i, $n := .nodes }}- name: {{ $n.name }}\n  index: {{ $i }}\n  role: {{ $n.labels.role | default \"worker\" }}\n{{ end }}",
    ),
    (
        "dictionaries",
        "{{ $d := dict }}{{ range .nodes }}{{ $_ := set $d .name (dict \"role\" .labels.role \"zone\" (get .labels \"zone\")) }}{{ end }}{{ $d | toJson }}",
    ),
    (
        "regular expressions",
        "{{ range .nodes }}{{ if regexMatch \"^node-[0-9]+$\" .name }}{{ regexReplaceAll \"node-([0-9]+)\" .name \"n${1}\" }} {{ end }}{{ end }}",
    ),
    (
        "digests and base64",
        "{{ .name | sha256sum | b64enc }} {{ .name | b64enc | b64dec | sha512sum }}",
    ),
    (
        "nested definitions",
        "{{ define \"node\" }}{{ .name }}:{{ .labels.role }}{{ end }}{{ range .nodes }}{{ template \"node\" . }},{{ end }}",
    ),
];

/// Minimum duration of the measurement of a template.
const MIN_DURATION: Duration = Duration::from_millis(300);

fn main() -> Result<()> {
    let as_json = std::env::args().any(|argument| argument == "--json");
    let data = data();
    let ours: Vec<u128> = TEMPLATES
        .iter()
        .map(|(_, text)| measure(text, &data))
        .collect();
    let theirs = go(&data)?;
    let mut out = std::io::stdout().lock();
    if !as_json {
        writeln!(
            out,
            "{:<22} {:>12} {:>12} {:>8}",
            "template", "polity µs", "Go µs", "faster"
        )?;
    }
    for (((name, _), ours), theirs) in TEMPLATES.iter().zip(ours).zip(theirs) {
        let faster = theirs as f64 / ours as f64;
        if as_json {
            let line = json!({"template": name, "polity_ns": ours as u64, "go_ns": theirs as u64, "faster": faster});
            writeln!(out, "{line}")?;
        } else {
            let micro = |nanoseconds: u128| nanoseconds as f64 / 1000.0;
            writeln!(
                out,
                "{name:<22} {:>12.1} {:>12.1} {faster:>7.1}x",
                micro(ours),
                micro(theirs)
            )?;
        }
    }
    Ok(())
}

fn data() -> Value {
    let nodes: Vec<Value> = (0..100)
        .map(|i| {
            let role = if i % 3 == 0 { "infra" } else { "worker" };
            json!({"name": format!("node-{i}"), "labels": {"role": role, "zone": format!("z{}", i % 4)}})
        })
        .collect();
    json!({"name": "shop-frontend-1", "kind": "prod", "replicas": 3, "nodes": nodes})
}

/// Average time to parse and execute a template once.
fn measure(text: &str, data: &Value) -> u128 {
    let rules = Rules::of(Side::Plain);
    let data: polity_template::Value = data.into();
    let once = || {
        let template = Template::parse("tmpl", text, &rules).expect("the template is one");
        template
            .execute(data.clone(), &EmptyHost, &rules, Limits::default())
            .expect("the template can be executed")
    };
    once();
    let start = peers::stopwatch::start();
    let mut rounds = 0;
    while start.elapsed() < MIN_DURATION {
        for _ in 0..100 {
            std::hint::black_box(once());
        }
        rounds += 100;
    }
    start.elapsed().as_nanos() / rounds
}

/// Measures the same templates with the Go program.
fn go(data: &Value) -> Result<Vec<u128>> {
    let cases: Vec<Value> = TEMPLATES
        .iter()
        .map(|(_, text)| json!({"template": text, "data": data}))
        .collect();
    let program = peers::templates::build()?;
    let flags = ["-bench", "2000"];
    let lines = peers::templates::run_cases(&program, &flags, serde_json::to_vec(&cases)?)?;
    lines
        .lines()
        .map(|line| {
            let answer: Value = serde_json::from_str(line)?;
            let nanoseconds = answer["nanoseconds"]
                .as_u64()
                .context("Go could not execute a template")?;
            Ok(u128::from(nanoseconds))
        })
        .collect()
}

/// A template host without any objects.
struct EmptyHost;

impl Host for EmptyHost {
    fn now(&self) -> Zoned {
        Zoned::default()
    }

    fn random(&self, _: &mut [u8]) {}

    fn get(&self, _: &Query<'_>, _: &str) -> Result<Option<Value>, LookupError> {
        Ok(None)
    }

    fn list(&self, _: &Query<'_>) -> Result<Vec<Value>, LookupError> {
        Ok(Vec::new())
    }

    fn is_namespaced(&self, _: &str, _: &str) -> Result<Option<bool>, LookupError> {
        Ok(None)
    }

    fn zone(&self, _: &str) -> Option<TimeZone> {
        None
    }

    fn addresses(&self, _: &str) -> Vec<String> {
        Vec::new()
    }

    fn private_key(&self, _: KeyKind) -> Result<String, String> {
        Err("none here".to_owned())
    }

    fn check_certificate(&self, _: &str) -> Result<(), String> {
        Err("none here".to_owned())
    }

    fn check_private_key(&self, _: &str) -> Result<(), String> {
        Err("none here".to_owned())
    }

    fn certificate(&self, _: &CertificateRequest<'_>) -> Result<CertificatePair, String> {
        Err("none here".to_owned())
    }
}
