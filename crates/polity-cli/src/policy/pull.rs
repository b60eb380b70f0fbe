//! `polity policy pull`: a module as it is now, into the store or into a file.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use polity_fetch::ModuleUri;

use super::progress;
use super::sources::SourceArgs;
use super::verification::VerificationArgs;
use crate::exit::Exit;

/// Fetch a module into the store
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity policy pull ghcr.io/kubewarden/policies/pod-privileged:v1.0.0
  polity policy pull https://example.com/policy.wasm -o policy.wasm

The server is always asked, so a tag that moved is followed. Prints the SHA-256
of the module.")]
pub(super) struct PullArgs {
    /// registry://host/name:tag (the scheme may be left out), https://, http:// or file://
    #[arg(value_name = "URI")]
    uri: ModuleUri,
    /// Write the module into this file, too
    #[arg(short = 'o', long, value_name = "FILE")]
    output_path: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceArgs,
    #[command(flatten)]
    verification: VerificationArgs,
}

impl PullArgs {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            uri,
            output_path,
            sources,
            verification,
        } = self;
        verification.refuse()?;
        let fetcher = sources.fetcher()?;
        let now = polity_runtime::Clock::system().now();
        let fetched = progress::with(&uri.to_string(), |bar| {
            let (fetcher, uri) = (fetcher.clone(), uri.clone());
            async move { fetcher.download(&uri, now, &*bar).await }
        })
        .await?;
        if let Some(path) = output_path {
            write(&path, &fetched.bytes).with_context(|| format!("writing {}", path.display()))?;
        }
        writeln!(std::io::stdout().lock(), "{}", fetched.digest)?;
        Ok(Exit::Fine)
    }
}

/// Whole, or not at all.
pub(super) fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let directory = match path.parent() {
        Some(directory) if directory != Path::new("") => directory,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(directory)?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}
