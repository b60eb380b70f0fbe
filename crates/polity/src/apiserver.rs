//! `polity apiserver`: the embedded API server alone.

use std::net::SocketAddr;
use std::path::PathBuf;

use polity_apiserver::AuthorizationMode;
use polity_cli::exit::{Exit, Hinted};
use polity_cli::local::{DataDirArgs, Local};
use polity_runtime::{Shutdown, env, files};

use crate::services::{Plan, Services};

/// Run a Kubernetes-compatible API server in this process
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  polity apiserver --data-dir ./data --kubeconfig-out ./kubeconfig\n  polity apiserver --in-memory --listen 127.0.0.1:0\n\nThe data directory also keeps the CA and the keys: a restart on it is the same\ncluster."
)]
pub(crate) struct ApiserverArgs {
    #[command(flatten)]
    data_dir: DataDirArgs,
    /// The address to listen on; port 0 takes a free one
    #[arg(long, env = env::LISTEN, value_name = "ADDRESS", default_value = "127.0.0.1:6443")]
    listen: SocketAddr,
    /// Where to write the administrator's kubeconfig [default: `kubeconfig` in the data directory]
    #[arg(long, env = env::KUBECONFIG_OUT, value_name = "FILE")]
    kubeconfig_out: Option<PathBuf>,
    /// Keep nothing on disk: everything is gone when the server stops
    #[arg(long, env = env::IN_MEMORY, conflicts_with = "data_dir")]
    in_memory: bool,
    /// How requests are authorized
    #[arg(long, env = env::AUTHORIZATION_MODE, value_name = "MODE", default_value = "RBAC", value_parser = authorization_mode)]
    authorization_mode: AuthorizationMode,
}

fn authorization_mode(text: &str) -> Result<AuthorizationMode, String> {
    match text {
        "RBAC" => Ok(AuthorizationMode::Rbac),
        "AlwaysAllow" => Ok(AuthorizationMode::AlwaysAllow),
        _ => Err("it is RBAC or AlwaysAllow".into()),
    }
}

impl ApiserverArgs {
    pub(crate) async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            data_dir,
            listen,
            kubeconfig_out,
            in_memory,
            authorization_mode,
        } = self;
        let shutdown = Shutdown::on_signals()?;
        let (dir, kubeconfig, _held) = if in_memory {
            let default =
                std::env::temp_dir().join(format!("polity-{}.kubeconfig", std::process::id()));
            (None, kubeconfig_out.unwrap_or(default), None)
        } else {
            let local = Local::new(data_dir.resolve()?);
            files::create_private_dir(local.dir())?;
            let Some(held) = local.hold()? else {
                let message = format!("another polity runs on {}", local.dir().display());
                return Err(Hinted::new(
                    message,
                    "stop it, or choose another place with --data-dir",
                )
                .into());
            };
            (
                Some(local.dir().to_owned()),
                kubeconfig_out.unwrap_or_else(|| local.kubeconfig()),
                Some(held),
            )
        };
        let plan = Plan {
            data_dir: dir,
            listen,
            hub: "polity".into(),
            members: Vec::new(),
            authorization: authorization_mode,
            kubeconfig: kubeconfig.clone(),
        };
        let services = Services::start(plan, shutdown).await?;
        eprintln!(
            "serving on {}\nexport KUBECONFIG={}",
            services.fleet.url("polity"),
            kubeconfig.display()
        );
        services.run_until_shutdown().await?;
        Ok(Exit::Fine)
    }
}
