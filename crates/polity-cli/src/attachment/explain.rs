//! `polity explain`: every policy that acts on an object, and why.

use jiff::Timestamp;
use polity_attach::{Explanation, PolicyEntry};

use super::names::Names;
use super::source::{SourceArgs, ending};
use super::text::{age, row, short};
use crate::exit::Exit;
use crate::output::{OutputArgs, Paint, columns};

/// Explain which policies act on an object, to what effect, and what every field was decided by
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  polity explain httproute/web -n shop\n  polity explain service/cart --field timeout -m manifests/\n  polity explain gateway/edge -n infra -o json"
)]
pub struct ExplainArgs {
    /// The object: its kind, plural or short name (with .group where that is not clear), and its name
    #[arg(value_name = "KIND/NAME")]
    object: String,

    /// Only this field, and what is below it
    #[arg(long, value_name = "A.B")]
    field: Option<String>,

    /// Show policies too that do not act
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    output: OutputArgs,
}

impl ExplainArgs {
    pub async fn run(self, now: Timestamp) -> anyhow::Result<Exit> {
        let Self {
            object,
            field,
            all,
            source,
            output,
        } = self;
        let (graph, missing) = source.graph().await?;
        let names = Names::of(&graph);
        let object = names.object(&graph, &object, &source.namespace)?;
        let Some(mut explanation) = graph.explain(&object, field.as_deref(), now) else {
            anyhow::bail!("{object} is not found or not readable");
        };
        explanation.complete = missing.is_empty();
        explanation.missing = missing
            .iter()
            .map(|what| serde_json::json!({"family": "attachment", "what": what}))
            .collect();
        if !all && field.is_none() {
            explanation
                .policies
                .retain(|policy| policy.acts == "yes" || !policy.settings.is_empty());
        }
        output.print(&explanation, |explanation| {
            table(explanation, field.is_some(), now, Paint::for_stdout())
        })?;
        if graph.kind(&object.group, &object.kind).is_some() {
            eprintln!(
                "hint: {object} is itself a policy; what it acts on: polity affects {}/{}",
                object.kind, object.name
            );
        }
        Ok(ending(&missing))
    }
}

pub(super) fn table(
    explanation: &Explanation,
    fields_only: bool,
    now: Timestamp,
    paint: Paint,
) -> String {
    let object = &explanation.object;
    let kind = if object.group.is_empty() {
        object.kind.clone()
    } else {
        format!("{}.{}", object.kind, object.group)
    };
    let name = object.namespace.as_ref().map_or_else(
        || object.name.clone(),
        |namespace| format!("{namespace}/{}", object.name),
    );
    let generation = object.generation.map_or_else(String::new, |generation| {
        format!("   generation {generation}")
    });
    let n = explanation.n_acting();
    let count = if n == 1 {
        "1 policy acts".to_owned()
    } else {
        format!("{n} policies act")
    };
    let mut out = format!(
        "{} {name}{generation}   as of {}   {count}\n",
        paint.bold(&kind),
        explanation.as_of
    );
    if explanation.policies.is_empty() {
        out.push_str("no policy acts on this object\n");
        return out;
    }
    if !fields_only {
        let mut rows = vec![row(&[
            "FAMILY", "POLICY", "GEN", "MODE", "ACTS", "EFFECT", "VERDICT", "SINCE",
        ])];
        rows.extend(
            explanation
                .policies
                .iter()
                .map(|policy| policy_row(policy, now, paint)),
        );
        out.push_str(&columns(&rows));
        out.push('\n');
    }
    out.push_str(&fields(explanation, paint));
    for finding in &explanation.findings {
        out.push_str(&format!(
            "{} {}\n",
            paint.warn(finding.code),
            finding.message
        ));
    }
    out
}

fn policy_row(policy: &PolicyEntry, now: Timestamp, paint: Paint) -> Vec<String> {
    let reference = &policy.reference.object;
    let generation = policy
        .generation
        .current
        .map_or_else(|| "-".to_owned(), |generation| generation.to_string());
    vec![
        policy.family.to_owned(),
        format!("{} {}", reference.kind_and_group(), reference.path()),
        generation,
        policy.mode.to_owned(),
        if policy.acts == "yes" {
            paint.good("yes")
        } else {
            paint.warn("no")
        },
        policy.effect.text.clone(),
        policy.verdict.result.clone(),
        age(policy.created_at.as_deref(), now),
    ]
}

/// Every field: the winner, its stanza and level, then every loser with the rule that beat it.
fn fields(explanation: &Explanation, paint: Paint) -> String {
    let mut entries: Vec<(&str, bool, &PolicyEntry, &polity_attach::SettingEntry)> = explanation
        .policies
        .iter()
        .flat_map(|policy| {
            policy
                .settings
                .iter()
                .map(move |setting| (setting.field.as_str(), !setting.won, policy, setting))
        })
        .collect();
    entries.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)));
    if entries.is_empty() {
        return String::new();
    }
    let mut rows = vec![row(&[
        "FIELD", "VALUE", "POLICY", "STANZA", "LEVEL", "CONTEXTS", "OUTCOME",
    ])];
    for (field, _, policy, setting) in entries {
        let outcome = match (&setting.beaten_by, setting.rule) {
            (Some(winner), Some(rule)) => {
                format!("beaten by {}: {}", winner.path(), rule.sentence())
            }
            (None, Some(rule)) => rule.sentence().to_owned(),
            _ => paint.good("in force"),
        };
        rows.push(vec![
            field.to_owned(),
            short(&setting.value),
            policy.reference.object.path(),
            setting.stanza.to_owned(),
            setting.level.clone(),
            setting.contexts.len().to_string(),
            outcome,
        ]);
    }
    columns(&rows)
}
