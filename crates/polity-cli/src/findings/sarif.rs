//! Findings as SARIF 2.1.0, the form that editors and code hosts read.
//!
//! A result carries its file and line where it has one, and the object as a logical location, which is all there is
//! for an object of a cluster. The fingerprint leaves the line out, so that a finding stays the same finding when
//! lines above it come and go.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;

use super::{Finding, Rule};

const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

#[derive(Debug, Serialize)]
pub(super) struct Log {
    #[serde(rename = "$schema")]
    schema: &'static str,
    version: &'static str,
    runs: [Run; 1],
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    tool: Tool,
    column_kind: &'static str,
    results: Vec<SarifResult>,
}

#[derive(Debug, Serialize)]
struct Tool {
    driver: Driver,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Driver {
    name: &'static str,
    semantic_version: &'static str,
    rules: Vec<Descriptor>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    id: String,
    short_description: Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<Text>,
}

#[derive(Debug, Serialize)]
struct Text {
    text: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct SarifResult {
    rule_id: String,
    rule_index: usize,
    level: &'static str,
    message: Text,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    locations: Vec<Location>,
    partial_fingerprints: BTreeMap<&'static str, String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    #[serde(skip_serializing_if = "Option::is_none")]
    physical_location: Option<PhysicalLocation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    logical_locations: Vec<LogicalLocation>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation {
    artifact_location: ArtifactLocation,
    #[serde(skip_serializing_if = "Option::is_none")]
    region: Option<Region>,
}

#[derive(Debug, Serialize)]
struct ArtifactLocation {
    uri: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct LogicalLocation {
    fully_qualified_name: String,
    kind: &'static str,
}

/// The whole log: one run of one tool.
pub(super) fn log(rules: &[Rule], findings: &[Finding]) -> Log {
    let (descriptors, index_of) = descriptors(rules, findings);
    let results = findings
        .iter()
        .map(|finding| result(finding, index_of[finding.rule.as_str()]))
        .collect();
    Log {
        schema: SCHEMA,
        version: "2.1.0",
        runs: [Run {
            tool: Tool {
                driver: Driver {
                    name: "polity",
                    semantic_version: env!("CARGO_PKG_VERSION"),
                    rules: descriptors,
                },
            },
            column_kind: "unicodeCodePoints",
            results,
        }],
    }
}

/// The rules that were told, then those that only findings name, each once.
fn descriptors<'a>(
    rules: &'a [Rule],
    findings: &'a [Finding],
) -> (Vec<Descriptor>, BTreeMap<&'a str, usize>) {
    let told = rules.iter().map(|rule| {
        let help = Some(&rule.help).filter(|help| !help.is_empty());
        (rule.id.as_str(), rule.summary.as_str(), help)
    });
    let named = findings
        .iter()
        .map(|finding| (finding.rule.as_str(), finding.rule.as_str(), None));
    let mut descriptors = Vec::new();
    let mut index_of = BTreeMap::new();
    for (id, summary, help) in told.chain(named) {
        if index_of.contains_key(id) {
            continue;
        }
        index_of.insert(id, descriptors.len());
        descriptors.push(Descriptor {
            id: id.to_owned(),
            short_description: text(summary),
            help: help.map(|help| text(help)),
        });
    }
    (descriptors, index_of)
}

fn result(finding: &Finding, rule_index: usize) -> SarifResult {
    let message = if finding.mend.is_empty() {
        finding.why.clone()
    } else {
        format!("{}\n\nTo mend it: {}", finding.why, finding.mend)
    };
    let location = Location {
        physical_location: (!finding.file.is_empty()).then(|| PhysicalLocation {
            artifact_location: ArtifactLocation {
                uri: uri(&finding.file),
            },
            region: finding.line.map(|start_line| Region { start_line }),
        }),
        logical_locations: Some(&finding.place)
            .filter(|place| !place.is_empty())
            .map(|place| LogicalLocation {
                fully_qualified_name: place.clone(),
                kind: "object",
            })
            .into_iter()
            .collect(),
    };
    let is_somewhere =
        location.physical_location.is_some() || !location.logical_locations.is_empty();
    SarifResult {
        rule_id: finding.rule.clone(),
        rule_index,
        level: finding.level.as_str(),
        message: text(&message),
        locations: if is_somewhere {
            vec![location]
        } else {
            Vec::new()
        },
        partial_fingerprints: BTreeMap::from([("polity/v1", fingerprint(finding))]),
    }
}

fn fingerprint(finding: &Finding) -> String {
    let parts = [&finding.rule, &finding.file, &finding.place, &finding.why];
    // FNV-1a: it only has to stay the same; a zero byte keeps the parts apart.
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in parts.iter().flat_map(|part| part.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{hash:016x}")
}

/// A path as a URI reference: relative stays relative, and only what a URI may hold is left as it is.
fn uri(file: &str) -> String {
    let path = file.strip_prefix("./").unwrap_or(file);
    let mut uri = String::new();
    if Path::new(path).is_absolute() {
        uri.push_str("file://");
    }
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'_' | b'.' | b'~') {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

fn text(text: &str) -> Text {
    Text {
        text: text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn sarif(rules: &[Rule], findings: &[Finding]) -> Value {
        serde_json::to_value(log(rules, findings)).unwrap()
    }

    #[test]
    fn a_result_has_rule_level_message_and_both_locations() {
        let rules = [Rule::new("cycle", "No circles").help("A circle never ends.")];
        let finding = Finding::error("cycle", "A → B → A")
            .in_file("./dir/ä b.yaml", Some(3))
            .at("Policy/shop/a")
            .mend("cut it");
        let log = sarif(&rules, &[finding]);
        assert_eq!(log["version"], "2.1.0");
        let run = &log["runs"][0];
        assert_eq!(
            run["tool"]["driver"]["rules"],
            json!([{
                "id": "cycle",
                "shortDescription": {"text": "No circles"},
                "help": {"text": "A circle never ends."}
            }])
        );
        let mut result = run["results"][0].clone();
        result["partialFingerprints"].take();
        assert_eq!(
            result,
            json!({
                "ruleId": "cycle",
                "ruleIndex": 0,
                "level": "error",
                "message": {"text": "A → B → A\n\nTo mend it: cut it"},
                "locations": [{
                    "physicalLocation": {
                        "artifactLocation": {"uri": "dir/%C3%A4%20b.yaml"},
                        "region": {"startLine": 3}
                    },
                    "logicalLocations": [{"fullyQualifiedName": "Policy/shop/a", "kind": "object"}]
                }],
                "partialFingerprints": null
            })
        );
    }

    #[test]
    fn rules_that_nobody_told_are_listed_too() {
        let findings = [
            Finding::note("b", "x"),
            Finding::note("a", "x"),
            Finding::note("b", "y"),
        ];
        let log = sarif(&[Rule::new("a", "A")], &findings);
        let ids: Vec<&Value> = log["runs"][0]["tool"]["driver"]["rules"]
            .as_array()
            .unwrap()
            .iter()
            .map(|rule| &rule["id"])
            .collect();
        assert_eq!(ids, ["a", "b"]);
        let indexes: Vec<&Value> = log["runs"][0]["results"]
            .as_array()
            .unwrap()
            .iter()
            .map(|result| &result["ruleIndex"])
            .collect();
        assert_eq!(indexes, [1, 0, 1]);
        assert_eq!(log["runs"][0]["results"][0].get("locations"), None);
    }

    #[test]
    fn a_finding_keeps_its_fingerprint_when_its_line_moves() {
        let finding = Finding::error("r", "why").in_file("f", Some(1));
        let moved = finding.clone().in_file("f", Some(2));
        let other = finding.clone().in_file("g", Some(1));
        assert_eq!(fingerprint(&finding), fingerprint(&moved));
        assert_ne!(fingerprint(&finding), fingerprint(&other));
    }

    #[test]
    fn absolute_paths_become_file_uris() {
        assert_eq!(uri("/a/b c.yaml"), "file:///a/b%20c.yaml");
        assert_eq!(uri("./a.yaml"), "a.yaml");
        assert_eq!(uri("100%.yaml"), "100%25.yaml");
    }
}
