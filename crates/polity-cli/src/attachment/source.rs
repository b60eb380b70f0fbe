//! `-m`, `-n` and the flags of the client: where the objects come from.

use polity_attach::{Graph, ObjectRef};
use polity_runtime::args::ClientArgs;
use polity_source::attachment::{
    self, Family, Missing, NameError, Names, from_cluster, objects_of,
};
pub(super) use polity_source::attachment::{Loaded, Wanted};

use crate::exit::{Exit, Hinted};
use crate::manifests::ManifestArgs;
use crate::output::Paint;

/// The objects that a command works on.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct SourceArgs {
    #[command(flatten)]
    pub(super) manifests: ManifestArgs,

    /// The namespace of objects that are named without one, and of manifests without one
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub(super) namespace: String,

    #[command(flatten)]
    pub(super) client: ClientArgs,
}

impl SourceArgs {
    /// Reads everything, and prints to stderr what could not be read.
    pub(super) async fn load(&self, wanted: Wanted<'_>) -> anyhow::Result<Loaded> {
        let loaded = if self.manifests.given() {
            Loaded {
                objects: objects_of(self.manifests.load()?, &self.namespace),
                missing: Vec::new(),
            }
        } else {
            let client = crate::connect(&self.client).await?;
            from_cluster(client, wanted.or_namespace(&self.namespace)).await?
        };
        print_missing(&loaded.missing);
        Ok(loaded)
    }

    /// The graph of everything, with its errors on stderr.
    pub(super) async fn graph(&self, wanted: Wanted<'_>) -> anyhow::Result<(Graph, Vec<Missing>)> {
        let Loaded { objects, missing } = self.load(wanted).await?;
        let graph = Graph::of(objects);
        print_errors(&graph);
        Ok((graph, missing))
    }
}

/// Prints the findings that keep policies out of the results.
fn print_errors(graph: &Graph) {
    let paint = Paint::for_stderr();
    for finding in graph.findings() {
        if finding.severity == polity_attach::Severity::Error {
            eprintln!(
                "{} {}",
                paint.bad(&format!("{}:", finding.code)),
                finding.message
            );
        }
    }
}

/// Prints to stderr what a result does not cover.
pub(super) fn print_missing(missing: &[Missing]) {
    let paint = Paint::for_stderr();
    for missing in missing {
        eprintln!("{} {missing}", paint.warn("incomplete:"));
    }
}

/// What a result about attached policies alone does not cover; also printed to stderr.
pub(super) fn only_attached(graph: &Graph) -> Vec<Missing> {
    let missing = attachment::only_attached(graph);
    print_missing(&missing);
    missing
}

/// Points to `polity explain` when a result leaves out admission policies, which that command covers.
pub(super) fn hint_explain(object: &ObjectRef, missing: &[Missing]) {
    if let Some(hint) = explain_instead(object, missing) {
        eprintln!("hint: {hint}");
    }
}

pub(super) fn explain_instead(object: &ObjectRef, missing: &[Missing]) -> Option<String> {
    let leaves_out_admission = missing
        .iter()
        .any(|missing| missing.family == Family::Admission && missing.kind.is_none());
    let namespace = object
        .namespace
        .as_ref()
        .map(|namespace| format!(" -n {namespace}"));
    leaves_out_admission.then(|| {
        format!(
            "admission policies are covered by: polity explain {}/{}{}",
            object.kind,
            object.name,
            namespace.unwrap_or_default()
        )
    })
}

/// `KIND/NAME` of arguments as kubectl takes them: `KIND/NAME` or `KIND NAME`.
pub(super) fn kind_and_name(kind: String, name: Option<String>) -> String {
    match name {
        Some(name) => format!("{kind}/{name}"),
        None => kind,
    }
}

/// The object that `KIND/NAME` means. The error says whether it does not exist or cannot be read.
pub(super) fn find(
    graph: &Graph,
    text: &str,
    namespace: &str,
    missing: &[Missing],
) -> anyhow::Result<ObjectRef> {
    match Names::of(graph).object(graph, text, namespace) {
        Err(NameError::NotFound(object)) => {
            let kind = Some((object.group.clone(), object.kind.clone()));
            match missing.iter().find(|missing| missing.kind == kind) {
                Some(missing) => Err(Hinted::new(
                    format!("{object} cannot be read: {}", missing.why),
                    "act --as another user, or ask for the right to list its kind",
                )
                .into()),
                None => Err(NameError::NotFound(object).into()),
            }
        }
        other => Ok(other?),
    }
}

/// The end of a command that found nothing wrong but may not have read everything.
pub(super) fn ending<T>(missing: &[T]) -> Exit {
    if missing.is_empty() {
        Exit::Fine
    } else {
        Exit::Incomplete
    }
}
