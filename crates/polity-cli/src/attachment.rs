//! The commands about policies and objects: which policies act on an object, why, what a policy acts on, what a change
//! would do.
//!
//! All of them fill one [`polity_attach::Graph`] from files or from a cluster, ask it, and print the answer. An answer
//! that does not cover all families of policies says so, and the command ends with [`Exit::Incomplete`].

pub mod affects;
pub mod analyze;
pub mod describe;
pub mod effective;
pub mod explain;
pub mod get;
pub mod graph;
pub mod impact;
mod source;
mod text;

use polity_runtime::clock::Clock;

use crate::exit::Exit;

/// The commands, as `polity` joins them.
#[derive(Debug, clap::Subcommand)]
pub enum AttachmentCommand {
    Effective(effective::EffectiveArgs),
    Explain(explain::ExplainArgs),
    Affects(affects::AffectsArgs),
    Impact(impact::ImpactArgs),
    Graph(graph::GraphArgs),
    Get(get::GetArgs),
    Describe(describe::DescribeArgs),
    Analyze(analyze::AnalyzeArgs),
}

impl AttachmentCommand {
    pub async fn run(self) -> anyhow::Result<Exit> {
        let now = Clock::system().now();
        match self {
            Self::Effective(args) => args.run().await,
            Self::Explain(args) => args.run(now).await,
            Self::Affects(args) => args.run().await,
            Self::Impact(args) => args.run().await,
            Self::Graph(args) => args.run().await,
            Self::Get(args) => args.run(now).await,
            Self::Describe(args) => args.run(now).await,
            Self::Analyze(args) => args.run().await,
        }
    }
}

#[cfg(test)]
mod cluster_tests;
#[cfg(test)]
mod tests;
