//! `polity graph`: the hierarchy and the policies on it as a picture.

use std::io::Write as _;

use super::source::{SourceArgs, Wanted, ending, find, only_attached};
use crate::exit::Exit;

/// Draw objects and the policies attached to them
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity graph -o dot | dot -Tsvg > policies.svg
  polity graph -o mermaid --only shop
  polity graph --object service/cart -n shop -m manifests/

Exit codes: 0 complete, 2 error, 3 incomplete: something could not be read, or
there are admission or configuration policies, which are not drawn.")]
pub struct GraphArgs {
    /// Only objects of this namespace, and cluster-scoped ones they hang on
    #[arg(long, value_name = "NAMESPACE")]
    only: Option<String>,

    /// Only what is above and below this object
    #[arg(long, value_name = "KIND/NAME")]
    object: Option<String>,

    /// How the picture is written
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: Picture,

    #[command(flatten)]
    source: SourceArgs,
}

/// The forms of a picture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Picture {
    /// For Graphviz
    #[default]
    Dot,
    /// For Mermaid
    Mermaid,
    Json,
}

impl GraphArgs {
    pub async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            only,
            object,
            output,
            source,
        } = self;
        let wanted = object.as_deref();
        let wanted = wanted.map_or_else(Wanted::default, Wanted::object);
        let (graph, mut missing) = source.graph(wanted).await?;
        let around = object
            .map(|text| find(&graph, &text, &source.namespace, &missing))
            .transpose()?;
        missing.extend(only_attached(&graph));
        let topology = graph.topology(only.as_deref(), around.as_ref());
        let text = match output {
            Picture::Dot => topology.to_dot(),
            Picture::Mermaid => topology.to_mermaid(),
            Picture::Json => format!("{}\n", serde_json::to_string_pretty(&topology)?),
        };
        std::io::stdout().lock().write_all(text.as_bytes())?;
        Ok(ending(&missing))
    }
}
