//! `polity affects`: what a policy acts on.

use anyhow::bail;
use polity_attach::{Affected, Affects, Effectiveness};
use serde::Serialize;

use super::source::{SourceArgs, Wanted, ending, find, kind_and_name};
use super::text::row;
use crate::exit::{Exit, Hinted};
use crate::output::{OutputArgs, columns};
use polity_source::attachment::Family;

/// Show how many and which objects an attached policy acts on
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity affects timeoutpolicy/edge -n infra
  polity affects retrypolicy/all -n baker --list -m manifests/
  polity affects timeoutpolicy/edge -o json

Exit codes: 0 complete, 2 error, 3 incomplete: something could not be read.")]
pub struct AffectsArgs {
    /// The policy: its kind, plural or short name (with .group where that is not clear), and its name
    #[arg(value_name = "KIND/NAME")]
    policy: String,

    /// Its name, if the first argument is the kind alone
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// List the objects
    #[arg(long)]
    list: bool,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    source: SourceArgs,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AffectedObjects {
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
            name,
            list,
            source,
            output,
        } = self;
        let (graph, missing) = source.graph(Wanted::default()).await?;
        let policy = kind_and_name(policy, name);
        let policy = find(&graph, &policy, &source.namespace, &missing)?;
        if let Some(family) = Family::of_kind(&policy.group, &policy.kind) {
            bail!(Hinted::new(
                format!(
                    "{policy} is an {} policy, and this command counts for attached policies only",
                    family.as_str()
                ),
                "`polity explain KIND/NAME` lists the admission policies that act on an object"
            ));
        }
        if graph.kind(&policy.group, &policy.kind).is_none() {
            bail!(Hinted::new(
                format!("{policy} is no policy of a known kind"),
                format!(
                    "what acts on it: polity explain {}/{}",
                    policy.kind, policy.name
                )
            ));
        }
        let answer = AffectedObjects {
            affects: graph.affects(&policy),
            objects: list.then(|| graph.affected(&policy)),
            exact: missing.is_empty(),
            policy,
        };
        output.print(&answer, table)?;
        Ok(ending(&missing))
    }
}

pub(super) fn table(answer: &AffectedObjects) -> String {
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
