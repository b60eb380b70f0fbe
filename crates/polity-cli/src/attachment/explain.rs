//! `polity explain`: every policy that acts on an object, and why.

mod table;

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use polity_attach::{Explanation, Graph, ObjectRef, Severity};

use super::impact::keep_identity;
use super::source::{SourceArgs, Wanted, ending, find, kind_and_name};
use crate::exit::{Exit, Hinted};
use crate::manifests::load_with_warnings;
use crate::output::Paint;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use polity_source::attachment::admission::{self, Subject};
use polity_source::attachment::{Family, Missing, objects_of};
pub(super) use table::{Columns, table};

/// Explain which policies act on an object, why, and to what effect
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity explain httproute/web -n shop         or: polity explain httproute web
  polity explain service/cart --field timeout -m manifests/
  polity explain -f new-route.yaml             an object that is not stored yet
  polity explain httproute/web --policy timeoutpolicy/strict
  polity explain deployment/web --owned        with its ReplicaSets and Pods
  polity explain gateway/edge -n infra -o dot | dot -Tsvg > edge.svg

Attached and admission policies are explained: of the latter their rules and
selectors, not their match conditions. Configuration policies are not yet; when
there are any, the answer is incomplete. --as decides what can be read, as for
kubectl.

Exit codes: 0 complete, 1 with --fail-on: there is a finding of that severity,
2 error, 3 incomplete: the answer names what is missing.")]
pub struct ExplainArgs {
    /// The object: its kind, plural or short name (with .group where that is not clear), and its name
    #[arg(value_name = "KIND/NAME", required_unless_present = "file")]
    object: Option<String>,

    /// Its name, if the first argument is the kind alone
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Explain as if the objects of this file were stored; `-` is standard input
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: Option<PathBuf>,

    /// Only this field, and what is below it
    #[arg(long, value_name = "A.B")]
    field: Option<String>,

    /// Only this policy, also where it does not act
    #[arg(long, value_name = "KIND/NAME")]
    policy: Option<String>,

    /// Only policies of these families
    #[arg(
        long,
        value_name = "FAMILY",
        value_delimiter = ',',
        value_parser = families(),
        default_values = ["admission", "configuration", "attachment"]
    )]
    family: Vec<Family>,

    /// Also show policies that do not act
    #[arg(long)]
    all: bool,

    /// Follow owner references down, with one line for each kind that is found there
    #[arg(long)]
    owned: bool,

    /// End with exit code 1 if there is a finding of this severity, or a worse one
    #[arg(long, value_name = "SEVERITY", value_enum)]
    fail_on: Option<FailOn>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: ExplainFormat,

    #[command(flatten)]
    source: SourceArgs,
}

/// The severities that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum FailOn {
    Warn,
    Error,
}

/// The forms of an explanation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ExplainFormat {
    /// For people, on a terminal
    #[default]
    Table,
    /// With the step that decided, ancestors, version and provenance of each policy
    Wide,
    Json,
    Yaml,
    /// A picture for Graphviz
    Dot,
    /// A picture for Mermaid
    Mermaid,
}

impl ExplainArgs {
    pub async fn run(self, now: Timestamp) -> anyhow::Result<Exit> {
        let (text, exit) = self.answer(now).await?;
        writeln!(std::io::stdout().lock(), "{}", text.trim_end())?;
        Ok(exit)
    }

    /// What is printed, and how the command ends.
    pub(super) async fn answer(self, now: Timestamp) -> anyhow::Result<(String, Exit)> {
        let Self {
            object,
            name,
            file,
            field,
            policy,
            family,
            all,
            owned,
            fail_on,
            source,
            output,
        } = self;
        let object = object.map(|kind| kind_and_name(kind, name));
        let wanted = object
            .as_deref()
            .map_or_else(Wanted::default, Wanted::object);
        let (mut graph, unread) = source.graph(wanted.with_owned(owned)).await?;
        let incoming = match file {
            Some(file) => apply(&mut graph, file, &source.namespace)?,
            None => Vec::new(),
        };
        let object = match object {
            Some(text) => find(&graph, &text, &source.namespace, &unread)?,
            None => only(&incoming)?,
        };
        let policy = policy
            .map(|text| find(&graph, &text, &source.namespace, &unread))
            .transpose()?;
        let of_admission = policy.as_ref().is_some_and(|policy| {
            Family::of_kind(&policy.group, &policy.kind) == Some(Family::Admission)
        });
        let attached = policy.as_ref().filter(|_| !of_admission);
        let mut explanation = explained(&graph, &object, attached, field.as_deref(), now)?;
        let is_new = |(new, stored): &(ObjectRef, bool)| *new == object && !stored;
        explanation.object.stored &= !incoming.iter().any(is_new);
        if !family.contains(&Family::Attachment) || of_admission {
            explanation.policies.clear();
            explanation.resultants.clear();
        }
        // Fields are settings, which only attached policies give.
        if family.contains(&Family::Admission) && field.is_none() && attached.is_none() {
            let is_live = !source.manifests.given();
            let subject = Subject::new(&graph, &object, is_live);
            let mut entries = subject.map_or_else(Vec::new, |it| admission::entries(&graph, &it));
            entries.retain(|entry| {
                let mut asked = policy.iter();
                asked.all(|policy| entry.reference.object == *policy)
            });
            explanation.policies.splice(0..0, entries);
        }
        if owned {
            explanation.owned = Some(graph.owned(&object));
        }
        let family = match &policy {
            Some(policy) => {
                vec![Family::of_kind(&policy.group, &policy.kind).unwrap_or(Family::Attachment)]
            }
            None => family,
        };
        explanation.missing = missing(unread, &family, &graph)?;
        explanation.complete = explanation.missing.is_empty();
        if !all && field.is_none() && policy.is_none() {
            explanation
                .policies
                .retain(|policy| policy.acts != "no" || !policy.settings.is_empty());
        }
        let columns = match (&field, output) {
            (Some(_), _) => Columns::FieldsOnly,
            (None, ExplainFormat::Wide) => Columns::Wide,
            (None, _) => Columns::Usual,
        };
        hints(&graph, &object, owned);
        let exit = match ending(&explanation.missing) {
            _ if fails(&explanation, fail_on) => Exit::Findings,
            end => end,
        };
        Ok((written(&explanation, output, columns, now)?, exit))
    }
}

/// The values of `--family`.
fn families() -> impl TypedValueParser<Value = Family> {
    let value = |family: Family| {
        PossibleValue::new(family.as_str()).help(match family {
            Family::Admission => "Policies that decide at admission",
            Family::Configuration => "Policies that keep objects as they declare them",
            Family::Attachment => "Policies that are attached to objects by targetRef",
        })
    };
    PossibleValuesParser::new(Family::ALL.map(value)).map(|text| {
        let mut families = Family::ALL.into_iter();
        families
            .find(|family| family.as_str() == text)
            .unwrap_or(Family::Attachment)
    })
}

/// Applies the objects of a file in memory; answers with each of them, and whether it was there before.
fn apply(
    graph: &mut Graph,
    file: PathBuf,
    namespace: &str,
) -> anyhow::Result<Vec<(ObjectRef, bool)>> {
    let manifests = load_with_warnings(&[file])?;
    let mut objects = objects_of(manifests, namespace);
    let mut incoming = Vec::new();
    for object in &mut objects {
        if let Some(reference) = ObjectRef::of(object) {
            let stored = graph.object(&reference);
            if let Some(stored) = stored {
                keep_identity(object, stored);
            }
            incoming.push((reference, stored.is_some()));
        }
    }
    graph.change(objects, &[]);
    Ok(incoming)
}

/// The one object of a file.
fn only(incoming: &[(ObjectRef, bool)]) -> anyhow::Result<ObjectRef> {
    match incoming {
        [(object, _)] => Ok(object.clone()),
        [] => bail!(Hinted::new(
            "the file holds no object",
            "name another one with -f"
        )),
        many => bail!(Hinted::new(
            format!("the file holds {} objects", many.len()),
            "say which of them: KIND/NAME"
        )),
    }
}

fn explained(
    graph: &Graph,
    object: &ObjectRef,
    policy: Option<&ObjectRef>,
    field: Option<&str>,
    now: Timestamp,
) -> anyhow::Result<Explanation> {
    if let Some(policy) = policy
        && graph.kind(&policy.group, &policy.kind).is_none()
    {
        bail!(Hinted::new(
            format!("{policy} is no policy"),
            "`polity get policycrds` lists the kinds of policies"
        ));
    }
    let explanation = match policy {
        Some(policy) => graph.explain_policy(object, policy, field, now),
        None => graph.explain(object, field, now),
    };
    explanation.with_context(|| format!("{object} is not found"))
}

/// What the answer does not cover: kinds that could not be read, families that are not explained.
fn missing(
    unread: Vec<Missing>,
    families: &[Family],
    graph: &Graph,
) -> anyhow::Result<Vec<serde_json::Value>> {
    let asked = families.contains(&Family::Configuration);
    let left_out = asked
        .then(|| Family::Configuration.left_out(graph))
        .flatten();
    let unread = unread
        .into_iter()
        .filter(|missing| families.contains(&missing.family));
    let missing = unread.chain(left_out).map(serde_json::to_value);
    Ok(missing.collect::<Result<_, _>>()?)
}

fn written(
    explanation: &Explanation,
    output: ExplainFormat,
    columns: Columns,
    now: Timestamp,
) -> anyhow::Result<String> {
    Ok(match output {
        ExplainFormat::Table | ExplainFormat::Wide => {
            table(explanation, columns, now, Paint::for_stdout())
        }
        ExplainFormat::Json => serde_json::to_string_pretty(explanation)?,
        ExplainFormat::Yaml => serde_saphyr::to_string(explanation)?,
        ExplainFormat::Dot => explanation.to_dot(),
        ExplainFormat::Mermaid => explanation.to_mermaid(),
    })
}

/// Where else to look.
fn hints(graph: &Graph, object: &ObjectRef, owned: bool) {
    if graph.kind(&object.group, &object.kind).is_some() {
        eprintln!(
            "hint: {object} is itself a policy; what it acts on: polity affects {}/{}",
            object.kind, object.name
        );
    }
    let below = graph.owned(object);
    let policies: usize = below.iter().map(|entry| entry.policies.len()).sum();
    if !owned && policies > 0 {
        let objects: usize = below.iter().map(|entry| entry.objects).sum();
        eprintln!("hint: {policies} policies act on the {objects} objects it owns: --owned");
    }
}

fn fails(explanation: &Explanation, fail_on: Option<FailOn>) -> bool {
    let findings = explanation.findings.iter();
    let mut severities = findings.map(|finding| finding.severity);
    match fail_on {
        None => false,
        Some(FailOn::Warn) => severities.any(|severity| severity != Severity::Info),
        Some(FailOn::Error) => severities.any(|severity| severity == Severity::Error),
    }
}
