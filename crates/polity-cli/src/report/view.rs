//! `polity report view`: reports of both API groups as one table.

use std::io::Write as _;

use polity_runtime::args::ClientArgs;
use polity_runtime::clock::Clock;

use super::filter::{FilterArgs, dimensions};
use super::{csv, html, sarif, table};
use crate::exit::Exit;
use crate::manifests::{self, ManifestArgs};
use crate::output::Paint;
use polity_source::reports::{
    Dimension, Filter, Gathered, Row, View, from_cluster, from_manifests,
};

/// Show the results of policy reports, of both API groups, as one table
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity report view
  polity report view -m reports/ --by policy         of files, by policy
  polity report view -n shop --result fail,error --list
  polity report view -o html > reports.html          one page for a browser
  polity report view -m . -o sarif > reports.sarif   for editors, code hosts

Exit codes: 0 nothing is wrong, 1 a result that is shown is fail, warn or
error, or a report cannot be read, 2 error.")]
pub(super) struct ViewArgs {
    #[command(flatten)]
    manifests: ManifestArgs,

    #[command(flatten)]
    filter: FilterArgs,

    /// What results are counted by
    #[arg(
        long,
        value_name = "FIELD",
        value_delimiter = ',',
        value_parser = dimensions(),
        default_values = ["namespace", "policy", "severity"]
    )]
    by: Vec<Dimension>,

    /// How many of the worst violations are shown
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,

    /// Also list every result that is shown
    #[arg(long)]
    list: bool,

    /// Output format
    #[arg(
        short = 'o',
        long = "output",
        value_name = "FORMAT",
        value_enum,
        default_value_t
    )]
    output: ViewFormat,

    #[command(flatten)]
    client: ClientArgs,
}

/// The forms in which reports are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum ViewFormat {
    /// For people, on a terminal
    #[default]
    Table,
    /// One line for each result
    Csv,
    /// Everything, for programs
    Json,
    /// Everything, for programs and people
    Yaml,
    /// Violations, for editors and code hosts
    Sarif,
    /// One page that needs nothing else
    Html,
}

impl ViewArgs {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            manifests,
            filter,
            by,
            top,
            list,
            output,
            client,
        } = self;
        let filter = Filter::from(filter);
        let gathered = if manifests.given() {
            from_manifests(&manifests::load(&manifests.manifests)?)
        } else {
            let client = crate::connect(&client).await?;
            from_cluster(&client, &filter.namespaces).await?
        };
        let paint = Paint::for_stderr();
        for complaint in &gathered.unreadable {
            eprintln!("{} {complaint}", paint.warn("warning:"));
        }
        let Gathered {
            rows,
            n_reports,
            unreadable,
        } = gathered;
        let mut view = View::new(rows, &filter, &by, top);
        view.reports = n_reports;
        view.unreadable = unreadable;
        let text = match output {
            ViewFormat::Table => table::page(&view, list, Paint::for_stdout()),
            ViewFormat::Csv => csv::text(&view.results),
            ViewFormat::Json => serde_json::to_string_pretty(&view)?,
            ViewFormat::Yaml => serde_saphyr::to_string(&view)?,
            ViewFormat::Sarif => sarif::findings(&view.results).to_sarif()?,
            ViewFormat::Html => html::page(&view, Clock::system().now()),
        };
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(text.trim_end().as_bytes())?;
        stdout.write_all(b"\n")?;
        let is_fine = view.unreadable.is_empty() && !view.results.iter().any(Row::is_violation);
        Ok(if is_fine { Exit::Fine } else { Exit::Findings })
    }
}
