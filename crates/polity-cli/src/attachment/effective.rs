//! `polity effective`: what holds for an object.

use anyhow::bail;
use polity_attach::Resultant;

use super::source::{SourceArgs, Wanted, ending, find, hint_explain, kind_and_name, only_attached};
use super::text::{row, short};
use crate::exit::{Exit, Hinted};
use crate::output::{OutputArgs, Paint, columns};
use polity_source::attachment::Names;

/// Show the settings that attached policies give an object, and their sources
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity effective httproute/web -n shop
  polity effective service/cart -m manifests/ -o yaml
  polity effective httproute/web --through Gateway/infra/edge#https

Exit codes: 0 complete, 2 error, 3 incomplete: something could not be read, or
there are admission or configuration policies, which this command leaves out.")]
pub struct EffectiveArgs {
    /// The object: its kind, plural or short name (with .group where that is not clear), and its name
    #[arg(value_name = "KIND/NAME")]
    object: String,

    /// Its name, if the first argument is the kind alone
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Only paths over this object, such as Gateway/NAMESPACE/NAME#LISTENER
    #[arg(long, value_name = "KIND/NS/NAME#SECTION")]
    through: Option<String>,

    #[command(flatten)]
    output: OutputArgs,

    #[command(flatten)]
    source: SourceArgs,
}

impl EffectiveArgs {
    pub async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            object,
            name,
            through,
            source,
            output,
        } = self;
        let object = kind_and_name(object, name);
        let (graph, mut missing) = source.graph(Wanted::object(&object)).await?;
        let names = Names::of(&graph);
        let object = find(&graph, &object, &source.namespace, &missing)?;
        missing.extend(only_attached(&graph));
        hint_explain(&object, &missing);
        let over = through
            .as_deref()
            .map(|text| names.through(&graph, text, &source.namespace))
            .transpose()?;
        let resultants = graph.effective(&object, over.as_ref());
        if let Some(through) = through
            && resultants.is_empty()
            && !graph.effective(&object, None).is_empty()
        {
            bail!(Hinted::new(
                format!("no path to {object} leads over {through}"),
                "leave out --through to see all paths"
            ));
        }
        output.print(&resultants, |resultants| {
            if resultants.is_empty() {
                format!("no attached policy acts on {object}")
            } else {
                let parts: Vec<String> = resultants
                    .iter()
                    .map(|resultant| table(resultant, Paint::for_stdout()))
                    .collect();
                parts.join("\n")
            }
        })?;
        Ok(ending(&missing))
    }
}

/// One result: its kind, its paths, its fields.
pub(super) fn table(resultant: &Resultant, paint: Paint) -> String {
    let section = resultant
        .section_name
        .as_deref()
        .map_or_else(String::new, |name| format!(" for section {name}"));
    let mut out = format!(
        "{}{section}\n",
        paint.bold(&format!("{}.{}", resultant.kind, resultant.group))
    );
    for context in resultant.contexts.iter().take(10) {
        let steps: Vec<String> = context
            .path
            .iter()
            .map(polity_attach::Step::short)
            .collect();
        out.push_str(&format!("  on {}\n", steps.join(" > ")));
    }
    let unseen =
        resultant.contexts.len().saturating_sub(10) as u64 + resultant.more_contexts.unwrap_or(0);
    if unseen > 0 {
        out.push_str(&format!("  and on {unseen} more paths\n"));
    }
    let mut rows = vec![row(&["  FIELD", "VALUE", "POLICY", "STANZA", "LEVEL"])];
    let mut last = None;
    for setting in resultant.settings.iter().filter(|setting| setting.won) {
        // Of equal values the first is the winner; the others agree with it.
        if last == Some(&setting.field) {
            continue;
        }
        last = Some(&setting.field);
        rows.push(vec![
            format!("  {}", setting.field),
            short(&setting.value),
            setting.policy.path(),
            setting.stanza.to_owned(),
            setting.level.short(),
        ]);
    }
    out.push_str(&columns(&rows));
    out
}
