//! `polity dryrun`: evaluates a configuration policy against files or a cluster.
//!
//! Output and exit codes are those of the dry run that users of these policies know
//! (docs/spec/governance.md#13). Everything is evaluated as inform, so nothing is ever written.

mod desired_status;
mod generate;
mod inputs;
mod log;
mod show;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use jiff::Timestamp;
use polity_comply::evaluate::{Options, evaluate};
use polity_comply::status::{State, Status};
use polity_comply::{ConfigurationPolicy, GoTemplates};
use polity_core::{GroupVersionKind, yaml_out};
use polity_runtime::args::ClientArgs;
use polity_runtime::{Clock, env};
use polity_source::Manifests;
use polity_source::cluster::{
    ClusterModel, ConfigurationCluster, DryRunUpdates, Kinds, LiveReader, ObjectCache,
    SchemaUpdates, TemplateHost,
};
use polity_source::configuration_policies::{PolicyFileError, read_for_dry_run};
use polity_source::schemas::Schemas;
use polity_template::{Limits, Rules};
use serde_json::Value;
use tokio::runtime::Handle;

use self::log::Log;
use crate::connect;
use crate::exit::{self, Exit, Hinted};
use crate::output::Paint;

/// What users of this command know: 2 is noncompliant, 1 is an error.
const NONCOMPLIANT: u8 = 2;
const ERROR: u8 = 1;

/// Check files or a cluster against a configuration policy; change nothing
#[derive(Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "flags are independent of each other"
)]
#[command(
    subcommand_negates_reqs = true,
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  polity dryrun -p policy.yaml pod.yaml\n  polity dryrun -p policy.yaml cluster-state/ --no-colors\n  kubectl get pods -A -o yaml | polity dryrun -p policy.yaml -\n  polity dryrun -p policy.yaml --from-cluster --context staging\n  polity dryrun -p policy.yaml state/ --desired-status expected.yaml\n\nDirectories are not searched below their first level.\n\nExit codes, which differ from those of other commands: 0 compliant,\n2 noncompliant, 1 error."
)]
pub struct DryrunArgs {
    #[command(subcommand)]
    command: Option<DryrunCommand>,

    /// The ConfigurationPolicy, or the Policy with ConfigurationPolicies in it
    #[arg(short = 'p', long, value_name = "FILE", required = true)]
    policy: Option<PathBuf>,

    /// What is in the cluster: files, directories, or `-` for standard input
    #[arg(value_name = "FILE|DIR|-")]
    inputs: Vec<PathBuf>,

    /// Write the compliance messages to this file, one a line, instead of printing them
    #[arg(long, value_name = "FILE")]
    messages_path: Option<PathBuf>,

    /// Print the differences
    #[arg(long, value_name = "BOOL", default_value = "true", default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set)]
    print_diffs: bool,

    /// Print differences in full, however long they are
    #[arg(long, value_name = "BOOL", default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set, hide_default_value = true)]
    full_diffs: bool,

    /// Compare the resulting status with the one in this file, which may be partial
    #[arg(short = 'c', long, value_name = "FILE")]
    desired_status: Option<PathBuf>,

    /// Write the resulting status to this file
    #[arg(long, value_name = "FILE")]
    status_path: Option<PathBuf>,

    /// More kinds than the built-in ones: a file as `polity dryrun generate` prints it
    #[arg(long, value_name = "FILE", env = env::DRYRUN_MAPPINGS_FILE)]
    mappings_file: Option<PathBuf>,

    /// Look at the cluster of the kubeconfig instead of files; a difference is confirmed by a server-side dry run
    #[arg(long, value_name = "BOOL", env = env::DRYRUN_FROM_CLUSTER, default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set, hide_default_value = true)]
    from_cluster: bool,

    /// No colours
    #[arg(long, value_name = "BOOL", default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set, hide_default_value = true)]
    no_colors: bool,

    /// Tell on stderr what was looked at and found
    #[arg(long, value_name = "BOOL", default_value = "false", default_missing_value = "true", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set, hide_default_value = true)]
    log: bool,

    /// Write what was looked at and found to this file
    #[arg(long, value_name = "FILE")]
    log_path: Option<PathBuf>,

    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Debug, clap::Subcommand)]
enum DryrunCommand {
    Generate(generate::GenerateArgs),
}

impl DryrunArgs {
    pub async fn run(self) -> anyhow::Result<Exit> {
        let ended = match self.command {
            Some(DryrunCommand::Generate(args)) => args.run().await.map(|()| Exit::Fine),
            None => self.evaluate().await.and_then(DryrunReport::print),
        };
        Ok(ended.unwrap_or_else(|error| {
            exit::report(&error);
            Exit::Code(ERROR)
        }))
    }

    /// Evaluates all policies, and writes the files that were asked for.
    async fn evaluate(self) -> anyhow::Result<DryrunReport> {
        let Self {
            command: _,
            policy,
            inputs,
            messages_path,
            print_diffs,
            full_diffs,
            desired_status,
            status_path,
            mappings_file,
            from_cluster,
            no_colors,
            log,
            log_path,
            client,
        } = self;
        let policy = policy.context("--policy is required")?;
        let policies = read_for_dry_run(&policy).map_err(with_hint)?;
        let desired_status = desired_status.map(|path| desired_status::read(&path));
        let report = Report {
            desired_status: desired_status.transpose()?,
            print_diffs,
            print_messages: messages_path.is_none(),
            options: Options {
                full_diffs,
                ..Options::default()
            },
            paint: match no_colors {
                true => Paint::plain(),
                false => Paint::for_stdout(),
            },
            now: Clock::system().now(),
        };
        let mut log = Log::new(log, log_path)?;
        let evaluated = if from_cluster {
            if !inputs.is_empty() {
                return Err(Hinted::new(
                    "files and --from-cluster exclude each other",
                    "leave out the files, or unset DRYRUN_FROM_CLUSTER",
                )
                .into());
            }
            let client = connect(&client).await?;
            let cluster = Target::live(LiveReader::new(client, Handle::current()));
            // The reader waits for the answers of the cluster.
            tokio::task::block_in_place(|| report.all(&policies, &cluster, &mut log))
        } else {
            let kinds = kinds(mappings_file.as_deref())?;
            let cluster = Target::files(kinds, inputs::load(&inputs)?)?;
            report.all(&policies, &cluster, &mut log)
        };
        if let Some(path) = messages_path {
            let lines: Vec<&str> = evaluated.iter().map(|one| one.message.as_str()).collect();
            write_file(&path, &format!("{}\n", lines.join("\n")))?;
        }
        if let Some(path) = status_path {
            let documents: Vec<String> = evaluated
                .iter()
                .map(|one| yaml_out::to_yaml(&one.status))
                .collect();
            write_file(&path, &documents.join("---\n"))?;
        }
        let blocks: Vec<&str> = evaluated.iter().map(|one| one.text.as_str()).collect();
        Ok(DryrunReport {
            text: blocks.join("\n"),
            compliant: evaluated.iter().all(|one| one.compliant),
        })
    }
}

/// What all policies came to.
struct DryrunReport {
    text: String,
    compliant: bool,
}

impl DryrunReport {
    fn print(self) -> anyhow::Result<Exit> {
        std::io::stdout().lock().write_all(self.text.as_bytes())?;
        Ok(self.exit())
    }

    fn exit(&self) -> Exit {
        match self.compliant {
            true => Exit::Fine,
            false => Exit::Code(NONCOMPLIANT),
        }
    }
}

fn write_file(path: &Path, content: &str) -> anyhow::Result<()> {
    std::fs::write(path, content).with_context(|| format!("writing {}", path.display()))
}

/// The built-in kinds, and those of a mappings file.
fn kinds(mappings_file: Option<&Path>) -> anyhow::Result<Kinds> {
    let mut kinds = Kinds::built_in();
    if let Some(path) = mappings_file {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the mappings file {}", path.display()))?;
        kinds
            .add_mappings(&text)
            .with_context(|| format!("cannot use the mappings file {}", path.display()))?;
    }
    Ok(kinds)
}

/// The cluster, or the files in its place, that policies are evaluated against.
struct Target {
    model: ClusterModel,
    updates: Updates,
}

/// What confirms a difference.
enum Updates {
    Server(LiveReader),
    Schemas(SchemaUpdates),
}

impl Target {
    fn live(reader: LiveReader) -> Self {
        Self {
            model: ClusterModel::live(reader.clone()),
            updates: Updates::Server(reader),
        }
    }

    fn files(kinds: Kinds, manifests: Manifests) -> anyhow::Result<Self> {
        let schemas = Schemas::new(&manifests);
        Ok(Self {
            model: ClusterModel::new(ObjectCache::from_applied(kinds, manifests)?),
            updates: Updates::Schemas(SchemaUpdates::new(schemas)),
        })
    }

    fn updates(&self) -> &dyn DryRunUpdates {
        match &self.updates {
            Updates::Server(reader) => reader,
            Updates::Schemas(schemas) => schemas,
        }
    }

    /// The kinds whose differences no schema could confirm since the last call.
    fn take_unconfirmed(&self) -> BTreeSet<GroupVersionKind> {
        match &self.updates {
            Updates::Server(_) => BTreeSet::new(),
            Updates::Schemas(schemas) => schemas.take_unconfirmed(),
        }
    }
}

/// The result of one policy.
struct Evaluated {
    compliant: bool,
    message: String,
    status: Value,
    /// The block to print.
    text: String,
}

/// How policies are evaluated and shown.
struct Report {
    desired_status: Option<Value>,
    print_diffs: bool,
    print_messages: bool,
    options: Options,
    paint: Paint,
    now: Timestamp,
}

impl Report {
    fn all(
        &self,
        policies: &[ConfigurationPolicy],
        target: &Target,
        log: &mut Log,
    ) -> Vec<Evaluated> {
        let several = policies.len() > 1;
        policies
            .iter()
            .map(|policy| {
                let mut evaluated = self.one(policy, target, log);
                if several {
                    let header = format!("{}  {}\n", policy.name, "-".repeat(47));
                    evaluated.text.insert_str(0, &header);
                }
                evaluated
            })
            .collect()
    }

    fn one(&self, policy: &ConfigurationPolicy, target: &Target, log: &mut Log) -> Evaluated {
        let host = TemplateHost::new(&target.model, self.now);
        let cluster = ConfigurationCluster::new(&target.model, target.updates());
        let templates = GoTemplates::new(&host, Rules::default(), Limits::default());
        let evaluation = evaluate(policy, &cluster, &templates, self.options);
        log.evaluation(policy, &evaluation);
        let mut conclusion = evaluation.conclude(&Status::default(), &[], &templates, self.now);
        say_unconfirmed(&mut conclusion.messages, &target.take_unconfirmed());
        let status = conclusion.status.to_json(self.now, &Value::Null);
        let mut text = String::new();
        if let Some(desired) = &self.desired_status {
            text.push_str(&desired_status::compare(desired, &status, self.paint));
            text.push('\n');
        }
        if self.print_diffs {
            text.push_str(&show::diffs(&conclusion.status.related, self.paint));
        }
        if self.print_messages {
            text.push_str("# Compliance messages:\n");
            for message in &conclusion.messages {
                _ = writeln!(text, "{message}");
            }
        }
        Evaluated {
            compliant: conclusion.status.state == State::Compliant,
            message: conclusion.messages.join("\n"),
            status,
            text,
        }
    }
}

/// Says in the messages for which kinds a server might see things differently.
fn say_unconfirmed(messages: &mut [String], unconfirmed: &BTreeSet<GroupVersionKind>) {
    if unconfirmed.is_empty() {
        return;
    }
    let kind = |gvk: &GroupVersionKind| format!("{} {}", gvk.api_version(), gvk.kind);
    let kinds: Vec<String> = unconfirmed.iter().map(kind).collect();
    let violations = messages.iter_mut();
    for message in violations.filter(|message| message.starts_with("NonCompliant")) {
        _ = write!(
            message,
            " (there is no schema of {}: what a server would default or leave out is not known)",
            kinds.join(", ")
        );
    }
}

fn with_hint(error: PolicyFileError) -> anyhow::Error {
    match error {
        PolicyFileError::Load(load) => load.into(),
        PolicyFileError::NotOneObject { .. } => Hinted::new(
            error.to_string(),
            "a policy file holds one ConfigurationPolicy or one Policy",
        )
        .into(),
        PolicyFileError::Invalid(_) => error.into(),
    }
}

#[cfg(test)]
mod tests;
