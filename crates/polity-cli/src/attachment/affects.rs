//! `polity affects`: what a policy acts on.

use anyhow::bail;
use polity_attach::{Affected, Affects, Effectiveness};
use serde::Serialize;

use super::names::Names;
use super::source::{SourceArgs, Wanted, ending};
use super::text::row;
use crate::exit::{Exit, Hinted};
use crate::output::{OutputArgs, columns};

/// Show how many and which objects a policy acts on
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  polity affects timeoutpolicy/edge -n infra\n  polity affects retrypolicy/all -n baker --list -m manifests/\n  polity affects timeoutpolicy/edge -o json"
)]
pub struct AffectsArgs {
    /// The policy: its kind, plural or short name (with .group where that is not clear), and its name
    #[arg(value_name = "KIND/NAME")]
    policy: String,

    /// List the objects
    #[arg(long)]
    list: bool,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    pub(super) policy: polity_attach::ObjectRef,
    pub(super) affects: Affects,
    /// Whether the numbers are exact or upper bounds.
    pub(super) exact: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) objects: Option<Vec<Affected>>,
}

impl AffectsArgs {
    pub async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            policy,
            list,
            source,
            output,
        } = self;
        let (graph, missing) = source.graph(Wanted::default()).await?;
        let policy = Names::of(&graph).object(&graph, &policy, &source.namespace)?;
        if graph.kind(&policy.group, &policy.kind).is_none() {
            bail!(Hinted::new(
                format!("{policy} is no policy of a known kind"),
                format!(
                    "what acts on it: polity explain {}/{}",
                    policy.kind, policy.name
                )
            ));
        }
        let answer = Answer {
            affects: graph.affects(&policy),
            objects: list.then(|| graph.affected(&policy)),
            exact: missing.is_empty(),
            policy,
        };
        output.print(&answer, table)?;
        Ok(ending(&missing))
    }
}

pub(super) fn table(answer: &Answer) -> String {
    let affects = &answer.affects;
    let exact = if answer.exact { "exact" } else { "at most" };
    let mut out = format!(
        "{} acts on {} objects ({exact})\n",
        answer.policy, affects.total
    );
    out.push_str(&format!(
        "  full {}, partial {}, overridden {}\n",
        affects.full, affects.partial, affects.overridden
    ));
    for (title, counts) in [
        ("KIND", &affects.by_kind),
        ("NAMESPACE", &affects.by_namespace),
    ] {
        let mut order: Vec<(&String, &u64)> = counts.iter().collect();
        order.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
        if order.is_empty() {
            continue;
        }
        let mut rows = vec![row(&[title, "OBJECTS"])];
        rows.extend(order.into_iter().map(|(name, count)| {
            let name = if name.is_empty() { "<cluster>" } else { name };
            vec![name.to_owned(), count.to_string()]
        }));
        out.push('\n');
        out.push_str(&columns(&rows));
    }
    if let Some(objects) = &answer.objects {
        let mut rows = vec![row(&["OBJECT", "EFFECT"])];
        rows.extend(objects.iter().map(|affected| {
            let effect = match affected.effect {
                Effectiveness::Full => "full",
                Effectiveness::Partial => "partial",
                Effectiveness::Overridden => "overridden",
            };
            vec![affected.object.to_string(), effect.to_owned()]
        }));
        out.push('\n');
        out.push_str(&columns(&rows));
    }
    out
}
