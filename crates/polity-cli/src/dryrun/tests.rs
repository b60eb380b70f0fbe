//! The command over the sample directories of `tests/dryrun/`: each holds a policy and, in `state/`, a cluster. The
//! snapshots show what is printed; the mark at the end is the exit code.

mod live;

use std::path::{Path, PathBuf};

use clap::Parser;

use super::{DryrunArgs, NONCOMPLIANT};
use crate::exit::Exit;

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: DryrunArgs,
}

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dryrun")
}

/// Runs the command as it is typed; `@` in a flag stands for the sample's directory.
fn dryrun(flags: &[&str]) -> anyhow::Result<String> {
    let flags = flags.iter().map(|flag| (*flag).to_owned());
    let line = ["dryrun".to_owned(), "--no-colors".to_owned()]
        .into_iter()
        .chain(flags);
    let Command { args } = Command::try_parse_from(line)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let answer = runtime.block_on(args.evaluate())?;
    let code = match answer.exit() {
        Exit::Code(code) => code,
        Exit::Fine => 0,
        Exit::Findings => 1,
        Exit::Incomplete => 3,
    };
    Ok(format!("{}[exit {code}]", answer.text))
}

fn sample(name: &str, flags: &[&str]) -> String {
    let directory = samples().join(name);
    let at = |path: &str| directory.join(path).display().to_string();
    let mut line = vec!["-p".to_owned(), at("policy.yaml")];
    // Without a state the cluster is empty; nothing is waited for on standard input.
    line.push(match directory.join("state").is_dir() {
        true => at("state"),
        false => "/dev/null".to_owned(),
    });
    line.extend(flags.iter().map(|flag| match flag.strip_prefix('@') {
        Some(file) => at(file),
        None => (*flag).to_owned(),
    }));
    let line: Vec<&str> = line.iter().map(String::as_str).collect();
    dryrun(&line).unwrap_or_else(|error| format!("error: {error:#}"))
}

#[test]
fn objects_that_differ() {
    insta::assert_snapshot!(sample("differs", &[]));
}

#[test]
fn without_diffs() {
    insta::assert_snapshot!(sample("differs", &["--print-diffs=false"]));
}

/// Section 13: a Policy with several configuration policies
#[test]
fn several_policies() {
    insta::assert_snapshot!(sample("several", &[]));
}

/// Section 11.7
#[test]
fn long_diffs_are_cut() {
    insta::assert_snapshot!(sample("long", &[]));
    let full = sample("long", &["--full-diffs"]);
    assert!(
        full.contains("@@ -1,5 +1,66 @@\n") && full.contains("+    message60: message\n"),
        "{full}"
    );
}

#[test]
fn unnamed_definitions_search() {
    insta::assert_snapshot!(sample("search", &[]));
}

#[test]
fn kinds_from_a_mappings_file() {
    insta::assert_snapshot!(sample("mappings", &["--mappings-file", "@mappings.yaml"]));
    let without = sample("mappings", &[]);
    assert!(
        without.contains("fake.yaml:1: beta1 Fake is not a known kind"),
        "{without}"
    );
}

/// Section 11.4: what a server would confirm is confirmed by the schema
#[test]
fn defaults_of_custom_and_built_in_kinds() {
    insta::assert_snapshot!(sample("defaults", &[]));
}

#[test]
fn unknown_fields_are_refused() {
    insta::assert_snapshot!(sample("unknown-field", &[]));
}

#[test]
fn templates_look_things_up() {
    insta::assert_snapshot!(sample("templates", &[]));
}

#[test]
fn selectors_select() {
    insta::assert_snapshot!(sample("selectors", &[]));
}

#[test]
fn a_desired_status_is_compared() {
    insta::assert_snapshot!(sample("status", &["-c", "@expected.yaml"]));
}

#[test]
fn files_are_written() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let (messages, status, log) = (path("messages"), path("status"), path("log"));
    let printed = sample(
        "several",
        &[
            "--messages-path",
            &messages,
            "--status-path",
            &status,
            "--log-path",
            &log,
        ],
    );
    assert!(!printed.contains("# Compliance messages"), "{printed}");
    assert!(
        printed.ends_with(&format!("[exit {NONCOMPLIANT}]")),
        "{printed}"
    );
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    assert_eq!(
        read(&messages),
        "Compliant; notification - namespaces [there] found as specified\n\
         NonCompliant; violation - namespaces [missing] not found\n"
    );
    let statuses = read(&status);
    assert!(statuses.contains("compliant: Compliant\n"), "{statuses}");
    assert!(
        statuses.contains("---\n") && statuses.contains("compliant: NonCompliant\n"),
        "{statuses}"
    );
    assert!(read(&log).contains("policy=second resource=namespaces"));
}

/// The result of a mistake, for a policy and a state given as text.
fn mistake(policy: &str, state: &str) -> String {
    let scratch = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = scratch.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (policy, state) = (write("policy.yaml", policy), write("state.yaml", state));
    let answer = dryrun(&["-p", &policy, &state]);
    let text = answer.unwrap_or_else(|error| format!("error: {error:#}"));
    text.replace(&format!("{}/", scratch.path().display()), "")
}

const GOOD: &str = "apiVersion: policy.open-cluster-management.io/v1\nkind: ConfigurationPolicy\nmetadata: {name: p}\nspec:\n  object-templates:\n  - complianceType: musthave\n    objectDefinition: {apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: default}, data: {k: v}}\n";

#[test]
fn mistakes_have_a_place() {
    for (policy, state, expected) in [
        (
            "just text",
            "",
            "error: unable to read input policy: policy.yaml:1: not an object",
        ),
        (
            "",
            "",
            "error: unable to read input policy: policy.yaml holds 0 objects",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n",
            "",
            "error: unable to read input policy: policy.yaml:1: unsupported apiVersion: v1, the input policy must be 'policy.open-cluster-management.io/v1'",
        ),
        (
            "apiVersion: policy.open-cluster-management.io/v1\nkind: PlacementBinding\nmetadata: {name: x}\n",
            "",
            "error: unable to read input policy: policy.yaml:1: unsupported input kind: PlacementBinding, must be 'Policy' or 'ConfigurationPolicy'",
        ),
        (
            "apiVersion: policy.open-cluster-management.io/v1\nkind: Policy\nmetadata: {name: x}\nspec:\n  policy-templates: []\n",
            "",
            "error: unable to read input policy: policy.yaml:5: invalid input Policy: it must contain a ConfigurationPolicy",
        ),
        (
            &GOOD.replace("complianceType: musthave", "complianceType: maybehave"),
            "",
            "error: unable to read input policy: policy.yaml:6: spec.object-templates[0].complianceType: Unsupported value: \"maybehave\"",
        ),
        (
            &GOOD.replace(
                "complianceType: musthave",
                "complianceType: musthave\n    complianceTyp: x",
            ),
            "",
            "error: unable to read input policy: policy.yaml:7: unknown field \"spec.object-templates[0].complianceTyp\"",
        ),
        (
            GOOD,
            "a: [",
            "error: unable to read input resources: state.yaml:1: not YAML",
        ),
        (
            GOOD,
            "apiVersion: v1\nkind: Pod\n",
            "error: state.yaml:1: Pod has no name",
        ),
        (
            GOOD,
            "# x\napiVersion: x.io/v1\nkind: Widget\nmetadata: {name: w}\n",
            "error: state.yaml:2: x.io/v1 Widget is not a known kind",
        ),
    ] {
        let text = mistake(policy, state);
        assert!(text.starts_with(expected), "{text}\ninstead of\n{expected}");
    }
}

#[test]
fn selectors_with_bad_operators_are_violations() {
    let policy = GOOD.replace(
        "    objectDefinition: {apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: default}, data: {k: v}}",
        "    objectSelector: {matchExpressions: [{key: a, operator: Near, values: [b]}]}\n    objectDefinition: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: default}}",
    );
    let text = mistake(&policy, "");
    assert!(
        text.contains(
            "Error parsing provided objectSelector in the object-template at index [0]: "
        ),
        "{text}"
    );
    assert!(text.ends_with("[exit 2]"), "{text}");
}

/// Section 12: sprig's functions that make keys and certificates, and one that never ends.
#[test]
fn templates_make_certificates_and_end() {
    let with = |template: &str| GOOD.replace("{k: v}", &format!("{{k: '{template}'}}"));
    let state = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {k: -----BEGIN CERTIFICATE-----}\n";
    let signed = r#"{{ $ca := genCA "ca" 1 }}{{ (genSignedCert "web" nil (list "web") 1 $ca).Cert | substr 0 27 }}"#;
    let text = mistake(&with(signed), state);
    assert!(text.ends_with("[exit 0]"), "{text}");
    let text = mistake(&with("{{ range until 2000000000 }}x{{ end }}"), state);
    assert!(
        text.contains("template exceeded its limit of 1000000 evaluation steps"),
        "{text}"
    );
    assert!(text.ends_with("[exit 2]"), "{text}");
}

#[test]
fn a_large_manifest_is_read_and_compared() {
    let large = |value: &str, n_bytes: usize| {
        let mut state = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n".to_owned();
        while state.len() < n_bytes {
            let n = state.len();
            state.push_str(&format!("  key-{n}: {value}\n"));
        }
        state
    };
    let expected = "configmaps [c] found but not as specified in namespace default";
    let long_values = large(&"text ".repeat(200), 10 << 20);
    let many_values = large("x", 3 << 20);
    for state in [long_values, many_values] {
        let text = mistake(GOOD, &state);
        assert!(text.contains(expected), "{text:.300}");
    }
}

#[test]
fn deep_objects_are_refused() {
    let deep = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata: {}{}",
        "{a: ".repeat(5000),
        "}".repeat(5000)
    );
    let text = mistake(GOOD, &deep);
    assert!(
        text.starts_with("error: unable to read input resources: state.yaml:"),
        "{text:.300}"
    );
}
