//! `polity analyze`: what is wrong with policies and references, and what a file would fix or break.

use std::collections::BTreeSet;
use std::path::PathBuf;

use polity_attach::{Finding, Graph, ObjectRef, Severity};
use serde::Serialize;

use super::source::only_attached;
use super::source::{SourceArgs, Wanted};
use crate::exit::Exit;
use crate::manifests::load_with_warnings;
use crate::output::{OutputArgs, Paint};
use polity_source::attachment::objects_of;

/// Find attached policies that do not act, and references that lead nowhere
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity analyze
  polity analyze -m manifests/
  polity analyze -f change.yaml -m manifests/

Exit codes: 0 nothing is wrong, 1 something is (with -f: the files bring it),
2 error, 3 incomplete: something could not be read, or there are admission or
configuration policies, which this command leaves out.")]
pub struct AnalyzeArgs {
    /// Files that would be applied: what they break and what they fix
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    source: SourceArgs,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Analysis {
    pub(super) created: Vec<ObjectRef>,
    pub(super) updated: Vec<ObjectRef>,
    pub(super) introduced: Vec<Finding>,
    pub(super) fixed: Vec<Finding>,
    pub(super) unchanged: Vec<Finding>,
}

impl AnalyzeArgs {
    pub async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            files,
            source,
            output,
        } = self;
        let mut loaded = source.load(Wanted::default()).await?;
        let left_out = only_attached(&Graph::of(loaded.objects.clone()));
        loaded.missing.extend(left_out);
        let analysis = if files.is_empty() {
            Analysis {
                introduced: Graph::of(loaded.objects).issues(),
                ..Analysis::default()
            }
        } else {
            let manifests = load_with_warnings(&files)?;
            compare(&loaded.objects, objects_of(manifests, &source.namespace))
        };
        let with_files = !files.is_empty();
        output.print(&analysis, |analysis| {
            table(analysis, with_files, Paint::for_stdout())
        })?;
        let grave = analysis
            .introduced
            .iter()
            .any(|finding| finding.severity >= Severity::Warn);
        Ok(match (grave, loaded.missing.is_empty()) {
            (true, _) => Exit::Findings,
            (false, false) => Exit::Incomplete,
            (false, true) => Exit::Fine,
        })
    }
}

pub(super) fn compare(objects: &[serde_json::Value], applied: Vec<serde_json::Value>) -> Analysis {
    let mut graph = Graph::of(objects.iter().cloned());
    let before = graph.issues();
    let mut analysis = Analysis::default();
    for reference in applied.iter().filter_map(ObjectRef::of) {
        let known = graph.object(&reference).is_some();
        let list = if known {
            &mut analysis.updated
        } else {
            &mut analysis.created
        };
        list.push(reference);
    }
    graph.change(applied, &[]);
    let after = graph.issues();
    let key = |finding: &Finding| (finding.code, finding.refs.clone(), finding.message.clone());
    let (old, new): (BTreeSet<_>, BTreeSet<_>) = (
        before.iter().map(key).collect(),
        after.iter().map(key).collect(),
    );
    for finding in after {
        let known = old.contains(&key(&finding));
        let list = if known {
            &mut analysis.unchanged
        } else {
            &mut analysis.introduced
        };
        list.push(finding);
    }
    analysis.fixed = before
        .into_iter()
        .filter(|finding| !new.contains(&key(finding)))
        .collect();
    analysis
}

pub(super) fn table(analysis: &Analysis, with_files: bool, paint: Paint) -> String {
    let mut out = String::new();
    if with_files {
        out.push_str("Summary:\n");
        for (verb, objects) in [
            ("Created", &analysis.created),
            ("Updated", &analysis.updated),
        ] {
            for object in objects {
                out.push_str(&format!("  - {verb} {object}\n"));
            }
        }
        out.push('\n');
    }
    let parts = [
        (
            if with_files {
                "Potential Issues Introduced"
            } else {
                "Issues"
            },
            &analysis.introduced,
        ),
        ("Existing Issues Fixed", &analysis.fixed),
        ("Existing Issues Unchanged", &analysis.unchanged),
    ];
    for (title, findings) in parts {
        if !with_files && title != "Issues" {
            continue;
        }
        out.push_str(&format!("{title}:\n"));
        if findings.is_empty() {
            out.push_str("  none\n");
        }
        for finding in findings {
            let word = match finding.severity {
                Severity::Error => paint.bad("error"),
                Severity::Warn => paint.warn("warn"),
                Severity::Info => "info".to_owned(),
            };
            out.push_str(&format!("  {word} {}: {}\n", finding.code, finding.message));
        }
    }
    out
}
