//! `polity template lint`: what is wrong in templates, without resolving them.

use std::path::PathBuf;

use polity_template::lint;

use crate::exit::Exit;
use crate::findings::{Finding, Findings, FindingsArgs, Rule};

/// Find mistakes in templates without resolving them
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity template lint policy.yaml
  polity template lint policies/*.yaml -o sarif > templates.sarif
  kustomize build . | polity template lint -

Exit code 1 when something was found.")]
pub(super) struct LintArgs {
    /// Files with templates; `-` is standard input
    #[arg(required = true, value_name = "FILE|-")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    output: FindingsArgs,
}

impl LintArgs {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let Self { files, output } = self;
        let rules = lint::RULES.iter();
        let rules = rules.map(|(id, summary)| Rule::new(*id, *summary));
        let mut findings = Vec::new();
        for file in files {
            let (name, text) = super::resolve::read(&file)?;
            for found in lint::lint(&text) {
                let finding = if found.is_error {
                    Finding::error(found.rule, found.why)
                } else {
                    Finding::warning(found.rule, found.why)
                };
                let finding = finding.in_file(&name, Some(found.line));
                findings.push(finding.mend(found.mend));
            }
        }
        output.print(&Findings::new(rules, findings))
    }
}
