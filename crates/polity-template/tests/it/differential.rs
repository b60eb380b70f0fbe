//! The same cases through Go and through us: every rule of the language, every function of sprig, the
//! errors too, and YAML byte for byte.

use polity_core::yaml_out::{Layout, to_yaml, to_yaml_in};
use polity_template::{Delimiters, Limits, Rules, Side, Template, function_names};
use serde_json::{Value, json};

use crate::host::TestHost;
use crate::oracle;

const FILES: &[(&str, &str)] = &[
    ("language", include_str!("cases/language.cases")),
    ("strings", include_str!("cases/strings.cases")),
    ("numbers", include_str!("cases/numbers.cases")),
    ("collections", include_str!("cases/collections.cases")),
];

/// Where we differ and mean it: the start of the template, and why.
const ACCEPTED: &[(&str, &str)] = &[];

/// Functions whose results vary between runs, or that need a cluster.
const WITHOUT_CASE: &[&str] = &[
    "now",
    "ago",
    "env",
    "expandenv",
    "getHostByName",
    "toYaml",
    "toYAML",
    "fromYAML",
    "base64enc",
    "base64dec",
    "fromJSON",
    "mustFromJSON",
    "toJSON",
    "mustToJSON",
    "toRawJSON",
    "mustToRawJSON",
];

pub(crate) fn data() -> Value {
    serde_json::from_str(include_str!("cases/data.json")).expect("the data is JSON")
}

fn templates() -> Vec<String> {
    let lines = FILES.iter().flat_map(|(_, text)| text.lines());
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.replace('⏎', "\n"))
        .collect()
}

pub(crate) fn ours(text: &str, data: &Value) -> Result<String, String> {
    let rules = Rules::of(Side::Plain);
    let template = Template::parse("tmpl", text, &rules).map_err(|error| error.0)?;
    template
        .execute(data.into(), &TestHost::default(), &rules, Limits::default())
        .map(|execution| execution.text)
        .map_err(|error| error.to_string())
}

/// One comparison: its name, Go's result and ours.
struct Comparison {
    name: String,
    theirs: Result<String, String>,
    ours: Result<String, String>,
}

fn report(comparisons: Vec<Comparison>) {
    let n_cases = comparisons.len();
    let (mut n_same, mut n_accepted, mut different) = (0, 0, Vec::new());
    for Comparison { name, theirs, ours } in comparisons {
        let accepted = ACCEPTED.iter().any(|(start, _)| name.starts_with(start));
        match (theirs == ours, accepted) {
            (true, false) => n_same += 1,
            (false, true) => n_accepted += 1,
            (true, true) => {
                different.push(format!("{name}\n  is the same by now: accept it no longer"));
            }
            (false, false) => {
                different.push(format!("{name}\n  Go:   {theirs:?}\n  ours: {ours:?}"));
            }
        }
    }
    eprintln!(
        "{n_cases} cases, {n_same} same, {n_accepted} accepted differences, {} different",
        different.len()
    );
    assert!(different.is_empty(), "\n{}", different.join("\n"));
}

#[test]
fn templates_are_as_in_go() {
    let Some(program) = oracle::find() else {
        return;
    };
    let (templates, data) = (templates(), data());
    let cases: Vec<Value> = templates
        .iter()
        .map(|text| oracle::template(text, &data))
        .collect();
    let answers = oracle::ask(program, &cases).unwrap();
    let comparisons = templates
        .iter()
        .zip(answers)
        .map(|(text, answer)| Comparison {
            name: text.clone(),
            theirs: answer.result(),
            ours: ours(text, &data),
        });
    report(comparisons.collect());
}

#[test]
fn other_delimiters_are_as_in_go() {
    let Some(program) = oracle::find() else {
        return;
    };
    let texts = [
        "{{hub .text hub}} {{ .text }}",
        "{{hub- .number -hub}}",
        "a {{hub- .number -hub}} b",
        "a {{hub- .number - hub}} b",
        "a {{hub - .number -hub}} b",
        "{{hub/* c */hub}}x",
        "{{hub .texthub}}",
        "{{hub if .yes hub}}y{{hub end hub}}",
        "{{hub printf \"%s\" `}}` hub}}",
        "{{hub \"hub}}\" hub}}",
        "{{hub .text }}",
    ];
    let data = data();
    let delimiters = Delimiters {
        left: "{{hub",
        right: "hub}}",
    };
    let cases: Vec<Value> = texts
        .iter()
        .map(|text| json!({"template": text, "left": "{{hub", "right": "hub}}", "data": data}))
        .collect();
    let answers = oracle::ask(program, &cases).unwrap();
    let rules = Rules::of(Side::Plain);
    let comparisons = texts.iter().zip(answers).map(|(text, answer)| Comparison {
        name: (*text).to_owned(),
        theirs: answer.result(),
        ours: Template::parse_with("tmpl", text, delimiters, &rules)
            .map_err(|error| error.0)
            .and_then(|template| {
                template
                    .execute(
                        (&data).into(),
                        &TestHost::default(),
                        &rules,
                        Limits::default(),
                    )
                    .map(|execution| execution.text)
                    .map_err(|error| error.to_string())
            }),
    });
    report(comparisons.collect());
}

/// Values that are hard to write as YAML. Go's own reader refuses the control characters 7f and 85.
fn yaml_values() -> Vec<Value> {
    let texts = [
        "",
        " ",
        "a",
        "true",
        "True",
        "yes",
        "Yes",
        "y",
        "n",
        "N",
        "no",
        "on",
        "off",
        "null",
        "~",
        "Null",
        "1",
        "-1",
        "+1",
        "1.5",
        ".5",
        "1e3",
        "1E+3",
        "0x1f",
        "0o17",
        "017",
        "0b11",
        "1_000",
        "0b2",
        "1.2.3",
        ".inf",
        "-.inf",
        ".NaN",
        "nan",
        "inf",
        "1:30",
        "190:20:30",
        "12:30:45.5",
        "2001-01-01",
        "2001-1-1",
        "2001-01-01T00:00:00Z",
        "2001-13-01",
        "2001-01-01 10:10:10",
        "01-01-2001",
        "{{ a }}",
        "{a",
        "}",
        "[",
        "]",
        ",",
        "#",
        "a#b",
        "a #b",
        "# a",
        ":",
        ": a",
        "a:",
        "a: b",
        "a:b",
        "-",
        "- a",
        "-a",
        "--",
        "---",
        "--- a",
        "...",
        "....",
        "?",
        "? a",
        "?a",
        "&a",
        "*a",
        "!a",
        "|",
        ">",
        "%a",
        "@a",
        "`a",
        "'a'",
        "\"a\"",
        "it's",
        "say \"hi\"",
        " lead",
        "trail ",
        "tab\there",
        "\tlead",
        "a\nb",
        "a\nb\n",
        "a\n\nb\n\n",
        "\na",
        "\n",
        "  a\nb",
        "a \nb",
        "a\n b",
        "a\r\nb",
        "a\rb",
        "back\\slash",
        "\u{0}",
        "\u{7}",
        "\u{1b}",
        "\u{a0}",
        "\u{2028}",
        "\u{feff}a",
        "é",
        "世界",
        "😀",
        "a\u{fffd}b",
        "<<",
        "=",
        "a=b",
        "!",
        "!!str",
        "<a>",
        "a, b",
        "[a]",
        "{}",
        "[]",
        "0",
        "00",
        "0.0",
        "-0",
        "1.",
        "1.e5",
        "1e",
        "e1",
        "+",
        "+.",
        "1__2",
        "_1",
        "1_",
        "0x",
        "0xg",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551616",
        "1e999",
        "99e-999",
    ];
    let mut values: Vec<Value> = texts.iter().map(|text| json!({ "k": text })).collect();
    values.extend(texts.iter().map(|text| json!({ *text: 1 })));
    values.extend(texts.iter().map(|text| json!([text, [text]])));
    values.push(json!({"k".repeat(128): 1, "k".repeat(129): [1, {"a": 1}]}));
    values.push(json!({"a\nb": {"c": 1}, "long ".repeat(40): "v ".repeat(80)}));
    for number in [
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1e6),
        json!(1e20),
        json!(1e21),
        json!(1e-5),
        json!(0.1),
        json!(123_456_789.5),
        json!(i64::MIN),
        json!(1e300),
        json!(-0.5),
        json!(100.25),
    ] {
        values.push(json!({ "n": number }));
    }
    values.push(json!({"a10": 1, "a9": 2, "a01": 3, "a1": 4, "A": 5, "b": 6, "1": 7, "10": 8, "2": 9, "-": 10}));
    values.push(json!({"a0": 1, "a00": 2, "a100": 1, "a10b": 3, "a1b": 4, "a.b": 5, "a-b": 6, "a/b": 7, "ab": 8}));
    values.push(
        json!([[], {}, [[]], [{}], {"a": []}, {"a": {}}, [[1, 2], [3]], [{"a": 1, "b": [1]}]]),
    );
    values.push(json!({"m": {"l": [{"x": "a\nb\n", "y": ["c\nd"]}]}}));
    values.push(json!("just a text"));
    values.push(json!(null));
    values.push(json!(["a\n"]));
    values
}

#[test]
fn yaml_is_written_as_in_go() {
    let Some(program) = oracle::find() else {
        return;
    };
    let values = yaml_values();
    let cases: Vec<Value> = values
        .iter()
        .map(|value| json!({"kind": "yaml", "data": value}))
        .collect();
    let answers = oracle::ask(program, &cases).unwrap();
    let comparisons = values
        .iter()
        .zip(answers)
        .map(|(value, answer)| Comparison {
            name: value.to_string(),
            theirs: answer.result(),
            ours: Ok(to_yaml(value)),
        });
    report(comparisons.collect());
}

/// `toYaml` formats lists like yaml.v3. The other test covers quotes.
#[test]
fn lists_are_indented_as_in_yaml_v3() {
    let Some(program) = oracle::find() else {
        return;
    };
    let values = [
        json!({"a": [1, {"b": [1, 2], "c": {"d": ["x\ny", "z"]}}], "e": [[1], [2, [3]]]}),
        json!([{"a": 1, "b": {"c": []}}, [1, [2]]]),
        json!({"a": {"b": {"c": [{"d": "x\n  y\n"}]}}, "t": "a\tb\nc"}),
        json!({"s": "a: b", "q": "it's", "t": "{{ x }}", "n": "1", "y": "yes"}),
    ];
    let cases: Vec<Value> = values
        .iter()
        .map(|value| json!({"kind": "yaml3", "data": value}))
        .collect();
    let answers = oracle::ask(program, &cases).unwrap();
    let comparisons = values
        .iter()
        .zip(answers)
        .map(|(value, answer)| Comparison {
            name: value.to_string(),
            theirs: answer.result(),
            ours: Ok(to_yaml_in(value, Layout::Indented)),
        });
    report(comparisons.collect());
}

#[test]
fn every_function_has_a_case() {
    let all = templates().join("\n");
    let words: Vec<&str> = all
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .collect();
    let without: Vec<&str> = function_names(Side::Plain)
        .into_iter()
        .filter(|name| !words.contains(name) && !WITHOUT_CASE.contains(name))
        .collect();
    assert!(without.is_empty(), "no case names {without:?}");
}
