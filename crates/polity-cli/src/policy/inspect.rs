//! `polity policy inspect`: what a module says about itself.

use anyhow::bail;
use polity_eval::{Inspection, Limits, Metadata, inspect};
use polity_fetch::Fetched;

use super::sources::SourceArgs;
use super::{progress, reference};
use crate::exit::{Exit, Hinted};
use crate::output::{Format, OutputArgs, Paint, columns};

/// Where annotations of policies begin.
const ANNOTATIONS: &str = "io.kubewarden.policy.";

/// Show the metadata of a module
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity policy inspect ./policy.wasm
  polity policy inspect ghcr.io/kubewarden/policies/pod-privileged:v1 -o yaml

JSON and YAML are the module's metadata, as it carries it.")]
pub(super) struct InspectArgs {
    /// A file, a reference, or the beginning of the SHA-256 of a module in the store
    #[arg(value_name = "MODULE")]
    module: String,
    /// Show signatures (not yet: refused when given)
    #[arg(long)]
    show_signatures: bool,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    sources: SourceArgs,
}

impl InspectArgs {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            module,
            show_signatures,
            sources,
            output,
        } = self;
        if show_signatures {
            bail!("--show-signatures: signatures cannot be read yet");
        }
        let fetcher = sources.fetcher()?;
        let uri = reference::module(&module, &fetcher.store)?;
        let now = polity_runtime::Clock::system().now();
        let fetched = progress::with(&uri.to_string(), |bar| {
            let (fetcher, uri) = (fetcher.clone(), uri.clone());
            async move { fetcher.fetch(&uri, now, &*bar).await }
        })
        .await?;
        let inspection = inspect(&fetched.bytes, &Limits::default())?;
        match (&inspection.metadata, output.output) {
            (_, Format::Table) => {
                let text = in_words(&uri.to_string(), &fetched, &inspection, Paint::for_stdout());
                output.print(&(), |()| text)?;
            }
            (Some(metadata), _) => output.print(metadata, |_| String::new())?,
            (None, _) => {
                return Err(Hinted::new(
                    format!("{uri} has no metadata"),
                    "without it a server refuses the module; `run` takes it with --execution-mode",
                )
                .into());
            }
        }
        Ok(Exit::Fine)
    }
}

fn in_words(uri: &str, fetched: &Fetched, inspection: &Inspection, paint: Paint) -> String {
    let mut rows = Vec::new();
    let mut row = |name: &str, value: String| rows.push(vec![paint.bold(name), value]);
    row("Module", uri.to_owned());
    row("SHA-256", inspection.digest.clone());
    if let Some(manifest) = &fetched.manifest {
        row("Manifest", manifest.to_string());
    }
    row("Size", size(inspection.size as u64));
    row("Kind", kind(inspection));
    match &inspection.metadata {
        None => row("Metadata", "none: a server refuses the module".to_owned()),
        Some(metadata) => describe(metadata, &mut row),
    }
    let mut text = columns(&rows);
    if let Some(metadata) = &inspection.metadata {
        text.push_str(&rules(metadata, paint));
        let usage = annotation(metadata, "usage");
        if let Some(usage) = usage {
            text.push_str(&format!("\n{}\n{}\n", paint.bold("Usage"), usage.trim()));
        }
    }
    text
}

fn kind(inspection: &Inspection) -> String {
    let mode = inspection.execution_mode().to_string();
    match inspection
        .metadata
        .as_ref()
        .map(|metadata| metadata.policy_type)
    {
        Some(polity_eval::PolicyType::Raw) => format!("{mode}, raw requests"),
        _ => mode,
    }
}

fn describe(metadata: &Metadata, row: &mut impl FnMut(&str, String)) {
    for (name, key) in [
        ("Title", "title"),
        ("Version", "version"),
        ("Description", "description"),
        ("Author", "author"),
        ("URL", "url"),
        ("Source", "source"),
        ("License", "license"),
        ("Category", "category"),
        ("Severity", "severity"),
    ] {
        if let Some(value) = annotation(metadata, key) {
            row(name, value.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    row("Mutating", yes_no(metadata.mutating));
    row("Background audit", yes_no(metadata.background_audit));
    let reads: Vec<String> = metadata
        .context_aware_resources
        .iter()
        .map(|kind| format!("{}/{}", kind.api_version, kind.kind))
        .collect();
    row(
        "Reads",
        if reads.is_empty() {
            "nothing".to_owned()
        } else {
            reads.join(", ")
        },
    );
    if let Some(capabilities) = &metadata.host_capabilities {
        row("Host capabilities", capabilities.join(", "));
    }
    if let Some(version) = &metadata.minimum_kubewarden_version {
        row("Needs", format!("Kubewarden {version}"));
    }
}

fn annotation<'a>(metadata: &'a Metadata, key: &str) -> Option<&'a str> {
    let annotations = metadata.annotations.as_ref()?;
    annotations
        .get(&format!("{ANNOTATIONS}{key}"))
        .map(String::as_str)
        .filter(|value| !value.trim().is_empty())
}

fn rules(metadata: &Metadata, paint: Paint) -> String {
    if metadata.rules.is_empty() {
        return String::new();
    }
    let mut rows = vec![
        ["GROUPS", "VERSIONS", "RESOURCES", "OPERATIONS"]
            .map(|head| paint.bold(head))
            .to_vec(),
    ];
    for rule in &metadata.rules {
        let groups: Vec<&str> = rule
            .api_groups
            .iter()
            .map(|group| if group.is_empty() { "core" } else { group })
            .collect();
        rows.push(vec![
            groups.join(","),
            rule.api_versions.join(","),
            rule.resources.join(","),
            rule.operations.join(","),
        ]);
    }
    format!("\n{}", columns(&rows))
}

/// A number of bytes for people.
pub(super) fn size(bytes: u64) -> String {
    const KIB: f64 = 1024.0;
    let bytes = bytes as f64;
    if bytes < KIB {
        format!("{bytes} B")
    } else if bytes < KIB * KIB {
        format!("{:.1} KiB", bytes / KIB)
    } else {
        format!("{:.1} MiB", bytes / (KIB * KIB))
    }
}
