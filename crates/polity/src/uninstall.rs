//! `polity uninstall`: removes an installation, in an order in which no webhook ever calls a server that is gone.
//!
//! [`Found`] is what is in the cluster and says what is removed and kept; [`remove`] carries it out. Every step is
//! idempotent, so a run after an interrupted one continues it.

mod found;
mod observe;
mod remove;
#[cfg(test)]
mod tests;

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use anyhow::{Context as _, bail};
use kube::Client;
use polity_cli::exit::{Exit, Hinted};
use polity_runtime::args::{ClientArgs, HumanDuration};
use polity_runtime::{Clock, Shutdown, env};

use found::{Found, Scope};
use remove::Removal;

/// Remove Polity from a cluster
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  polity uninstall --dry-run      what it would remove\n  polity uninstall                policies and definitions are kept\n  polity uninstall --crds --yes   policies and definitions are deleted too\n\nThe command stops the controller, deletes the webhooks of policies, and then\ndeletes the policy servers and all other objects. If it is interrupted, run it\nagain to continue."
)]
pub(crate) struct UninstallArgs {
    /// The namespace of the installation
    #[arg(long, short, env = env::INSTALL_NAMESPACE, value_name = "NAMESPACE", default_value = "kubewarden")]
    namespace: String,
    /// Delete the policies, the policy servers and the CustomResourceDefinitions too
    #[arg(long)]
    crds: bool,
    /// Print what would be removed and kept, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask for confirmation
    #[arg(long, short = 'y')]
    yes: bool,
    /// How long it may take before it prints what is left and fails
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    timeout: HumanDuration,
    #[command(flatten)]
    client: ClientArgs,
}

impl UninstallArgs {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            client,
            namespace,
            crds,
            dry_run,
            yes,
            timeout,
        } = self;
        let client = polity_cli::connect(&client).await?;
        let scope = if crds {
            Scope::WithDefinitions
        } else {
            Scope::Installation
        };
        let found = observed(&client, &namespace).await?;
        let summary = found.summary(scope);
        if dry_run {
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(summary.as_bytes())?;
            return Ok(Exit::Fine);
        }
        eprint!("{summary}");
        if found.is_gone(scope) {
            return Ok(Exit::Fine);
        }
        if !yes && !confirmed()? {
            eprintln!("nothing was removed");
            return Ok(Exit::Findings);
        }
        let removal = Removal {
            client,
            clock: Clock::system(),
            timeout: timeout.0,
            scope,
        };
        let shutdown = Shutdown::on_signals()?;
        let removed = removal.run(&found, |progress| eprintln!("{progress}"));
        match shutdown.run_until(removed).await {
            None => bail!("interrupted; run `polity uninstall` again to continue"),
            Some(outcome) => outcome?,
        }
        eprintln!("Polity is uninstalled");
        Ok(Exit::Fine)
    }
}

/// What is installed, unless the cluster is one of `polity up`.
async fn observed(client: &Client, namespace: &str) -> anyhow::Result<Found> {
    if observe::is_local_hub(client).await? {
        let message = "the controller of this cluster runs in `polity up`, not in the cluster";
        let hint = "`polity down` stops it and `polity reset` deletes its data; name another cluster with --context";
        return Err(Hinted::new(message, hint).into());
    }
    let found = observe::found(client, namespace).await;
    found.with_context(|| format!("reading what is installed in namespace {namespace}"))
}

fn confirmed() -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        let message = "uninstall asks for confirmation, and standard input is not a terminal";
        return Err(Hinted::new(message, "polity uninstall --yes").into());
    }
    eprint!("Continue? [y/N] ");
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
