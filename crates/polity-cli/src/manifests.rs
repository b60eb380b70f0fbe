//! `-m, --manifests`: files instead of a cluster.

use std::path::PathBuf;

use anyhow::Context as _;
use polity_source::Manifests;
use polity_source::manifests::Input;

use crate::output::Paint;

/// `-m`, for commands that can work without a cluster.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct ManifestArgs {
    /// Read these files and directories instead of a cluster; `-` is standard input
    #[arg(short = 'm', long = "manifests", value_name = "DIR|FILE|-")]
    pub manifests: Vec<PathBuf>,
}

impl ManifestArgs {
    /// Whether `-m` was used.
    pub fn given(&self) -> bool {
        !self.manifests.is_empty()
    }

    /// Loads the manifests and prints what could not be used to stderr.
    pub fn load(&self) -> anyhow::Result<Manifests> {
        load_with_warnings(&self.manifests)
    }
}

/// Loads manifests; the path `-` is standard input.
pub(crate) fn load(paths: &[PathBuf]) -> anyhow::Result<Manifests> {
    let inputs = paths.iter().map(|path| {
        if path.as_os_str() == "-" {
            Input::from_reader("stdin", std::io::stdin().lock())
                .context("cannot read standard input")
        } else {
            Ok(Input::from(path))
        }
    });
    Ok(Manifests::load(
        inputs.collect::<anyhow::Result<Vec<Input>>>()?,
    )?)
}

/// Loads manifests and prints what could not be used to stderr.
pub(crate) fn load_with_warnings(paths: &[PathBuf]) -> anyhow::Result<Manifests> {
    let manifests = load(paths)?;
    print_problems(&manifests);
    Ok(manifests)
}

/// Prints what could not be used to stderr.
pub(crate) fn print_problems(manifests: &Manifests) {
    let paint = Paint::for_stderr();
    for problem in &manifests.problems {
        eprintln!("{} {problem}", paint.warn("warning:"));
    }
}
