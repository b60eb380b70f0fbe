//! `polity describe`: an object with everything that policies do to it.

use std::collections::BTreeSet;
use std::io::Write as _;

use jiff::Timestamp;
use polity_attach::{Graph, ObjectRef, Resultant};

use super::source::{SourceArgs, Wanted, ending, find, hint_explain, kind_and_name, only_attached};
use super::text::age_of;
use crate::exit::Exit;

/// The most rows of a list.
const ROWS: usize = 10;

/// Describe an object: its routes or backends, its policies, and what results
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity describe httproute web -n shop
  polity describe gateway/edge -n infra -m manifests/

Exit codes: 0 complete, 2 error, 3 incomplete: something could not be read, or
there are admission or configuration policies, which this command leaves out
(`polity explain` covers admission policies).")]
pub struct DescribeArgs {
    /// The type, or TYPE/NAME
    #[arg(value_name = "TYPE")]
    kind: String,

    name: Option<String>,

    #[command(flatten)]
    source: SourceArgs,
}

impl DescribeArgs {
    pub async fn run(self, now: Timestamp) -> anyhow::Result<Exit> {
        let Self { kind, name, source } = self;
        let text = kind_and_name(kind, name);
        let (graph, mut missing) = source.graph(Wanted::object(&text)).await?;
        let object = find(&graph, &text, &source.namespace, &missing)?;
        missing.extend(only_attached(&graph));
        hint_explain(&object, &missing);
        std::io::stdout()
            .lock()
            .write_all(description(&graph, &object, now).as_bytes())?;
        Ok(ending(&missing))
    }
}

pub(super) fn description(graph: &Graph, object: &ObjectRef, now: Timestamp) -> String {
    let mut out = format!("Name: {}\n", object.name);
    if let Some(namespace) = &object.namespace {
        out.push_str(&format!("Namespace: {namespace}\n"));
    }
    out.push_str(&format!("Kind: {}\n", object.kind_and_group()));
    if let Some(value) = graph.object(object) {
        out.push_str(&format!("Age: {}\n", age_of(value, now)));
        if let Some(spec) = value
            .get("spec")
            .filter(|spec| spec.as_object().is_some_and(|fields| !fields.is_empty()))
        {
            let spec = serde_saphyr::to_string(spec).unwrap_or_default();
            out.push_str("Spec:\n");
            out.push_str(&indented(&spec));
        }
    }
    let neighbours = graph.neighbours(object);
    let is_route = |other: &&ObjectRef| other.kind.ends_with("Route");
    match object.kind.as_str() {
        "Gateway" | "ListenerSet" | "XListenerSet" => list(
            &mut out,
            "AttachedRoutes",
            neighbours.below.iter().filter(is_route),
        ),
        "Service" => list(
            &mut out,
            "ReferencedByRoutes",
            neighbours.above.iter().filter(is_route),
        ),
        kind if kind.ends_with("Route") => list(&mut out, "Backends", neighbours.below.iter()),
        _ => {}
    }
    let direct = graph.targeting(object);
    list(&mut out, "DirectlyAttachedPolicies", direct.iter());
    inherited(&mut out, graph, object, &direct);
    effective(&mut out, graph, object);
    let issues: Vec<String> = graph
        .issues()
        .into_iter()
        .filter(|issue| {
            issue.refs.contains(object) || issue.refs.iter().any(|about| direct.contains(about))
        })
        .map(|issue| format!("[{:?}] {}: {}", issue.severity, issue.code, issue.message))
        .collect();
    lines(&mut out, "Analysis", &issues);
    lines(&mut out, "Events", &[]);
    out
}

fn inherited(out: &mut String, graph: &Graph, object: &ObjectRef, direct: &[ObjectRef]) {
    let results = graph.effective(object, None);
    let reaching: BTreeSet<&ObjectRef> = results
        .iter()
        .flat_map(|result| &result.settings)
        .map(|setting| &setting.policy)
        .collect();
    let rows: Vec<String> = reaching
        .into_iter()
        .filter(|policy| !direct.contains(policy))
        .map(|policy| {
            let targets: Vec<String> = graph
                .targets(policy)
                .iter()
                .take(2)
                .map(|(target, _, _)| format!("{}/{}", target.kind_and_group(), target.path()))
                .collect();
            format!(
                "{} {} (target {})",
                policy.kind_and_group(),
                policy.path(),
                targets.join(", ")
            )
        })
        .collect();
    lines(out, "InheritedPolicies", &rows);
}

/// Results by kind; for routes and services first by the Gateway above.
fn effective(out: &mut String, graph: &Graph, object: &ObjectRef) {
    let results = graph.effective(object, None);
    if results.is_empty() {
        out.push_str("EffectivePolicies: <none>\n");
        return;
    }
    out.push_str("EffectivePolicies:\n");
    let by_gateway = object.kind.ends_with("Route") || object.kind == "Service";
    let mut shown: BTreeSet<String> = BTreeSet::new();
    for result in &results {
        let section = result
            .section_name
            .as_deref()
            .map_or_else(String::new, |name| format!("#{name}"));
        let body = indented(&indented(
            &serde_saphyr::to_string(&result.values).unwrap_or_default(),
        ));
        for gateway in gateways(result).into_iter().filter(|_| by_gateway) {
            let entry = format!(
                "  {gateway}:\n    {}.{}{section}:\n{}",
                result.kind,
                result.group,
                indented(&body)
            );
            if shown.insert(entry.clone()) {
                out.push_str(&entry);
            }
        }
        if !by_gateway || gateways(result).is_empty() {
            out.push_str(&format!(
                "  {}.{}{section}:\n{body}",
                result.kind, result.group
            ));
        }
    }
}

fn gateways(result: &Resultant) -> BTreeSet<String> {
    let steps = result.contexts.iter().flat_map(|context| &context.path);
    let gateways = steps.filter(|step| step.object.kind == "Gateway" && step.section.is_none());
    gateways
        .map(|step| format!("{}/{}", step.object.kind_and_group(), step.object.path()))
        .collect()
}

fn list<'a>(out: &mut String, title: &str, objects: impl Iterator<Item = &'a ObjectRef>) {
    let rows: Vec<String> = objects
        .map(|object| format!("{} {}", object.kind_and_group(), object.path()))
        .collect();
    lines(out, title, &rows);
}

fn lines(out: &mut String, title: &str, rows: &[String]) {
    if rows.is_empty() {
        out.push_str(&format!("{title}: <none>\n"));
        return;
    }
    out.push_str(&format!("{title}:\n"));
    for row in rows.iter().take(ROWS) {
        out.push_str(&format!("  {row}\n"));
    }
    if rows.len() > ROWS {
        out.push_str("  (Truncated)\n");
    }
}

fn indented(text: &str) -> String {
    let mut out = String::new();
    for line in text.trim_end().lines() {
        out.push_str("  ");
        out.push_str(line);
        out.push('\n');
    }
    out
}
