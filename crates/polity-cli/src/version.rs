//! `polity version`.

use serde::Serialize;

use crate::exit::Exit;
use crate::output::OutputArgs;

/// Show the version of Polity and of its Kubernetes API
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  polity version\n  polity version -o json")]
pub struct VersionArgs {
    #[command(flatten)]
    output: OutputArgs,
}

/// What `polity version` says.
#[derive(Debug, Serialize)]
pub struct Versions {
    pub polity: &'static str,
    pub kubernetes: &'static str,
}

impl VersionArgs {
    /// `kubernetes` is the version of the embedded API server.
    pub fn run(self, kubernetes: &'static str) -> anyhow::Result<Exit> {
        let versions = Versions {
            polity: env!("CARGO_PKG_VERSION"),
            kubernetes,
        };
        self.output.print(&versions, |versions| {
            format!(
                "polity {}\nkubernetes API {}",
                versions.polity, versions.kubernetes
            )
        })?;
        Ok(Exit::Fine)
    }
}
