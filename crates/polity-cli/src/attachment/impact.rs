//! `polity impact`: what applying files or deleting objects would change, without changing anything.

use std::path::PathBuf;

use anyhow::bail;
use polity_attach::{FieldChange, Graph, Impact, ObjectRef};
use serde::Serialize;

use super::source::{SourceArgs, Wanted, find, print_missing};
use super::text::{row, short};
use crate::exit::{Exit, Hinted};
use crate::manifests::load_with_warnings;
use crate::output::{OutputArgs, columns};
use polity_source::attachment::{Family, Missing, objects_of};

/// The most objects that are listed without --list.
const SHOWN: usize = 10;

/// Show what a change of policies, or of the objects they act on, would change
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity impact -f new-timeouts.yaml
  polity impact --delete retrypolicy/all -n baker
  polity impact -f change.yaml -m manifests/ -o json

Nothing is written: the change is made in memory only.

Exit codes: 0 nothing changes, 1 something does, 2 error, 3 incomplete:
something could not be read, or the change holds admission or configuration
policies, whose impact is not computed.")]
#[command(group = clap::ArgGroup::new("change").args(["files", "delete"]).required(true).multiple(true))]
pub struct ImpactArgs {
    /// Files and directories that would be applied; `-` is standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// An object that would be deleted; can be given more than once
    #[arg(long, value_name = "KIND/NAME")]
    delete: Vec<String>,

    /// List all objects, not only the first ten
    #[arg(long)]
    list: bool,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    source: SourceArgs,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ImpactReport {
    api_version: &'static str,
    kind: &'static str,
    pub(super) changes: Vec<Change>,
    pub(super) totals: Vec<String>,
    #[serde(flatten)]
    pub(super) impact: Impact,
    /// Objects that are not listed.
    more_objects: usize,
    missing: Vec<Missing>,
}

#[derive(Debug, Serialize)]
pub(super) struct Change {
    change: &'static str,
    object: ObjectRef,
}

impl ImpactArgs {
    pub async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            files,
            delete,
            list,
            source,
            output,
        } = self;
        let loaded = source.load(Wanted::default()).await?;
        let before = Graph::of(loaded.objects.clone());
        let mut applied: Vec<serde_json::Value> = Vec::new();
        if !files.is_empty() {
            let manifests = load_with_warnings(&files)?;
            applied = objects_of(manifests, &source.namespace);
        }
        let mut deleted = Vec::new();
        for text in &delete {
            deleted.push(find(&before, text, &source.namespace, &loaded.missing)?);
        }
        let left_out = left_out(&applied, &deleted);
        print_missing(&left_out);
        let mut answer = compare(before, loaded.objects, applied, deleted, list)?;
        let changes = !answer.impact.is_empty();
        answer.missing = loaded.missing;
        answer.missing.extend(left_out);
        let incomplete = !answer.missing.is_empty();
        output.print(&answer, table)?;
        Ok(match (changes, incomplete) {
            (true, _) => Exit::Findings,
            (false, true) => Exit::Incomplete,
            (false, false) => Exit::Fine,
        })
    }
}

/// The policies of a change whose effect is not computed.
fn left_out(applied: &[serde_json::Value], deleted: &[ObjectRef]) -> Vec<Missing> {
    let applied = applied.iter().filter_map(ObjectRef::of);
    let changed = applied.chain(deleted.iter().cloned());
    let missing = changed.filter_map(|object| {
        let family = Family::of_kind(&object.group, &object.kind)?;
        Some(Missing {
            family,
            what: object.to_string(),
            why: format!("the impact of {} policies is not computed", family.as_str()),
            kind: None,
        })
    });
    missing.collect()
}

/// A file knows no creation time: what exists keeps its age, what does not is the newest.
pub(super) fn keep_identity(object: &mut serde_json::Value, stored: &serde_json::Value) {
    for field in ["creationTimestamp", "uid", "generation"] {
        let value = stored["metadata"][field].clone();
        if !value.is_null() && object["metadata"][field].is_null() {
            object["metadata"][field] = value;
        }
    }
}

/// What the results are before and after.
pub(super) fn compare(
    before: Graph,
    objects: Vec<serde_json::Value>,
    applied: Vec<serde_json::Value>,
    deleted: Vec<ObjectRef>,
    list: bool,
) -> anyhow::Result<ImpactReport> {
    if applied.is_empty() && deleted.is_empty() {
        bail!(Hinted::new(
            "the files hold no object",
            "name files with -f, or objects with --delete"
        ));
    }
    let mut changes: Vec<Change> = deleted
        .iter()
        .map(|object| Change {
            change: "deleted",
            object: object.clone(),
        })
        .collect();
    let mut incoming = Vec::new();
    for mut object in applied {
        let Some(reference) = ObjectRef::of(&object) else {
            continue;
        };
        let stored = before.object(&reference);
        if let Some(stored) = stored {
            keep_identity(&mut object, stored);
        }
        changes.push(Change {
            change: if stored.is_some() { "changed" } else { "new" },
            object: reference,
        });
        incoming.push(object);
    }
    let mut after = Graph::of(objects);
    after.change(incoming, &deleted);
    let mut impact = Impact::between(&before, &after);
    // A Namespace is a level, not something that runs: it is told of only where nothing is in it.
    if impact
        .objects
        .iter()
        .any(|object| object.object.kind != "Namespace")
    {
        impact
            .objects
            .retain(|object| object.object.kind != "Namespace");
    }
    let totals = impact.summary();
    let more = if list {
        0
    } else {
        impact.objects.len().saturating_sub(SHOWN)
    };
    impact.objects.truncate(impact.objects.len() - more);
    Ok(ImpactReport {
        api_version: "polity.dev/v1alpha1",
        kind: "Impact",
        changes,
        totals,
        impact,
        more_objects: more,
        missing: Vec::new(),
    })
}

pub(super) fn table(answer: &ImpactReport) -> String {
    let mut out = String::new();
    for change in &answer.changes {
        out.push_str(&format!("{} {}\n", change.change, change.object));
    }
    out.push('\n');
    if answer.totals.is_empty() {
        out.push_str("nothing changes for any object\n");
    }
    for line in &answer.totals {
        out.push_str(&format!("{line}\n"));
    }
    if !answer.impact.objects.is_empty() {
        let mut rows = vec![row(&[
            "OBJECT", "KIND", "FIELD", "BEFORE", "AFTER", "CONTEXTS",
        ])];
        for object in &answer.impact.objects {
            for change in object
                .loses
                .iter()
                .chain(&object.changes)
                .chain(&object.gains)
            {
                rows.push(change_row(&object.object, change));
            }
        }
        out.push('\n');
        out.push_str(&columns(&rows));
        if answer.more_objects > 0 {
            out.push_str(&format!(
                "and {} more objects; --list shows them\n",
                answer.more_objects
            ));
        }
    }
    if !answer.impact.policies.is_empty() {
        let mut rows = vec![row(&["POLICY", "BEFORE", "AFTER"])];
        rows.extend(answer.impact.policies.iter().map(|policy| {
            vec![
                policy.policy.to_string(),
                policy.before.clone(),
                policy.after.clone(),
            ]
        }));
        out.push('\n');
        out.push_str(&columns(&rows));
    }
    out
}

fn change_row(object: &ObjectRef, change: &FieldChange) -> Vec<String> {
    let value =
        |value: &Option<serde_json::Value>| value.as_ref().map_or_else(|| "-".to_owned(), short);
    let section = change
        .section_name
        .as_deref()
        .map_or_else(String::new, |name| format!("#{name}"));
    vec![
        format!("{object}{section}"),
        change.kind.clone(),
        change.field.clone(),
        value(&change.before),
        value(&change.after),
        change.contexts.to_string(),
    ]
}
