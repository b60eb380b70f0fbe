//! `--log` and `--log-path`: what was looked at and what was found.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use polity_comply::{ConfigurationPolicy, Evaluation};

/// Where the log goes, if anywhere.
pub(super) struct Log {
    to_stderr: bool,
    file: Option<File>,
}

impl Log {
    pub(super) fn new(to_stderr: bool, path: Option<PathBuf>) -> anyhow::Result<Self> {
        let file = match path {
            None => None,
            Some(path) => {
                let file = File::create(&path);
                Some(file.with_context(|| format!("writing the log {}", path.display()))?)
            }
        };
        Ok(Self { to_stderr, file })
    }

    /// A line for everything the policy looked at, and the differences that it wants in the log only.
    pub(super) fn evaluation(&mut self, policy: &ConfigurationPolicy, evaluation: &Evaluation<'_>) {
        if !self.to_stderr && self.file.is_none() {
            return;
        }
        for finding in evaluation.findings() {
            let names = finding.names.join(", ");
            let place = finding.namespace.as_deref().unwrap_or("-");
            self.line(&format!(
                "policy={} resource={} namespace={place} names=[{names}] compliant={} reason={:?} message={:?}",
                policy.name,
                finding.kind.plural,
                finding.event.compliant,
                finding.event.reason.related(),
                finding.event.message,
            ));
            if let Some(diff) = &finding.logged_diff {
                self.line(&format!("Logging the diff:\n{diff}"));
            }
        }
    }

    /// A log that cannot be written is no reason to stop.
    fn line(&mut self, line: &str) {
        if self.to_stderr {
            eprintln!("{line}");
        }
        if let Some(file) = &mut self.file {
            writeln!(file, "{line}").ok();
        }
    }
}
