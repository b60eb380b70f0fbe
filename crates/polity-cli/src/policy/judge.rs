//! From a command line to policies that are ready to judge a request: what `run` and `bench` share.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use polity_eval::{
    CachedServices, CapabilitySet, Deadline, Engine, EngineOptions, Environment, Evaluation,
    ExecutionMode, GuestConfig, Module, Origin, Policy, PolicyConfig, PolicyType, RawReview,
    Recorder, Replay, Services, Settings, recording_to_yaml,
};
use polity_fetch::{Fetcher, ModuleUri};
use polity_host::{
    Cluster, ClusterLimits, HostServices, LoadOptions, LoadedModules, Modules, ServicesOptions,
    module_of,
};
use polity_runtime::Clock;
use polity_runtime::args::ClientArgs;

use super::progress;
use super::request::Request;
use super::sources::SourceArgs;
use super::subject::{self, Subject};
use super::verification::VerificationArgs;
use crate::exit::{Hinted, hint_of, in_words};

/// What is run, on what, and with which rights.
#[derive(Debug, clap::Args)]
pub(super) struct JudgeArgs {
    /// A module, or a YAML file with policies: manifests, or a server's policies.yml
    #[arg(value_name = "MODULE|FILE")]
    subject: String,
    /// An AdmissionReview, an AdmissionRequest or, for raw policies, any JSON; `-` is standard input
    #[arg(short = 'r', long, value_name = "FILE|-")]
    request_path: PathBuf,
    /// Settings as JSON
    #[arg(long, value_name = "JSON", conflicts_with = "settings_path")]
    settings_json: Option<String>,
    /// Settings in a file, YAML or JSON
    #[arg(short = 's', long, value_name = "FILE")]
    settings_path: Option<PathBuf>,
    /// The kind of guest, for modules without metadata: kubewarden-wapc, wasi
    #[arg(short = 'e', long, value_name = "MODE", value_parser = execution_mode)]
    execution_mode: Option<ExecutionMode>,
    /// The request is any JSON, not an admission request
    #[arg(long)]
    raw: bool,
    /// Let the policy read what it asks for, or what the file grants, from the cluster
    #[arg(long)]
    allow_context_aware: bool,
    /// The host capabilities it may use, such as `oci/*` [default: all]
    #[arg(long, value_name = "PATTERN", value_delimiter = ',')]
    allowed_host_capabilities: Option<Vec<String>>,
    /// Record all host calls in this file
    #[arg(long, value_name = "FILE")]
    record_host_capabilities_interactions: Option<PathBuf>,
    /// Use this recording instead of the cluster and the network
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "record_host_capabilities_interactions"
    )]
    replay_host_capabilities_interactions: Option<PathBuf>,
    /// Do not use the cache of compiled code
    #[arg(long)]
    disable_wasmtime_cache: bool,
    #[command(flatten)]
    sources: SourceArgs,
    #[command(flatten)]
    verification: VerificationArgs,
    #[command(flatten)]
    client: ClientArgs,
}

/// Policies that are ready, and what they are asked.
pub(super) struct Judge {
    pub(super) policies: Vec<Ready>,
    request: Request,
    environment: Environment,
    recording: Option<Recording>,
}

/// A policy that is ready.
pub(super) struct Ready {
    pub(super) name: String,
    policy: Policy,
    is_raw: bool,
}

/// Who answers what policies ask of the host.
enum Talk {
    Live {
        client: ClientArgs,
        needs_cluster: bool,
        /// Where to write it down.
        record: Option<PathBuf>,
    },
    Replayed(Replay),
}

/// Where conversations are written down.
struct Recording {
    path: PathBuf,
    recorder: Arc<Recorder<CachedServices<HostServices>>>,
}

impl JudgeArgs {
    /// Makes everything ready that one evaluation needs.
    pub(super) async fn prepare(self) -> anyhow::Result<Judge> {
        let Self {
            subject,
            request_path,
            settings_json,
            settings_path,
            execution_mode,
            raw,
            allow_context_aware,
            allowed_host_capabilities,
            record_host_capabilities_interactions,
            replay_host_capabilities_interactions,
            disable_wasmtime_cache,
            sources,
            verification,
            client,
        } = self;
        verification.refuse()?;
        let capabilities = allowed_host_capabilities
            .map(CapabilitySet::parse)
            .transpose()?;
        let settings = settings(settings_json, settings_path.as_deref())?;
        let request = Request::read(&request_path)?;
        let talk = match replay_host_capabilities_interactions {
            Some(path) => Talk::Replayed(replay(&path)?),
            None => Talk::Live {
                client,
                needs_cluster: allow_context_aware,
                record: record_host_capabilities_interactions,
            },
        };
        let fetcher = sources.fetcher()?;
        let mut subjects = subjects(&subject, settings, &fetcher)?;

        let engine = Engine::new(&EngineOptions {
            instances: 4,
            warm_instances: 4,
            ..EngineOptions::default()
        })?;
        let modules = if disable_wasmtime_cache {
            Modules::compiling_anew(engine, fetcher.clone())
        } else {
            Modules::new(engine, fetcher.clone())
        };
        let loaded = load(&subjects, &modules, execution_mode).await?;
        for subject in &mut subjects {
            grant(subject, &loaded, allow_context_aware, capabilities.as_ref())?;
        }

        let (services, recording) = talk.services(fetcher).await?;
        let environment = Environment::new(services);
        let prepared = prepare_all(subjects, loaded, environment.clone(), raw);
        Ok(Judge {
            policies: prepared.await?,
            request,
            environment,
            recording,
        })
    }
}

impl Talk {
    /// The services, and where what they say is written down.
    async fn services(
        self,
        fetcher: Fetcher,
    ) -> anyhow::Result<(Arc<dyn Services>, Option<Recording>)> {
        let (client, needs_cluster, record) = match self {
            Self::Replayed(replay) => return Ok((Arc::new(replay), None)),
            Self::Live {
                client,
                needs_cluster,
                record,
            } => (client, needs_cluster, record),
        };
        let services = CachedServices::new(HostServices::new(ServicesOptions {
            cluster: cluster(&client, needs_cluster).await?,
            fetcher,
            runtime: tokio::runtime::Handle::current(),
            clock: Clock::system(),
        }));
        let Some(path) = record else {
            return Ok((Arc::new(services), None));
        };
        let recorder = Arc::new(Recorder::new(services));
        Ok((recorder.clone(), Some(Recording { path, recorder })))
    }
}

impl Judge {
    /// Asks a policy, and gives what it says itself, whatever is made of it where it is served. Blocks.
    pub(super) fn ask(&self, ready: &Ready) -> anyhow::Result<Evaluation> {
        if ready.is_raw {
            let review = RawReview {
                request: self.request.body()?,
            };
            let policy = &ready.policy;
            return Ok(policy.evaluate_raw(&self.environment, &review, Deadline::NEVER));
        }
        let request = self.request.admission()?;
        let policy = &ready.policy;
        Ok(policy.evaluate(&self.environment, &request, Origin::Audit, Deadline::NEVER))
    }

    /// Writes the recording to a file, if one is named.
    pub(super) fn finish(&self) -> anyhow::Result<()> {
        let Some(Recording { path, recorder }) = &self.recording else {
            return Ok(());
        };
        std::fs::write(path, recording_to_yaml(&recorder.exchanges()))
            .with_context(|| format!("writing the recording {}", path.display()))
    }
}

/// `kubewarden` is the short word of kwctl.
fn execution_mode(word: &str) -> Result<ExecutionMode, String> {
    match word {
        "kubewarden" => Ok(ExecutionMode::Wapc),
        word => word.parse(),
    }
}

fn settings(json: Option<String>, path: Option<&Path>) -> anyhow::Result<Option<Settings>> {
    if let Some(json) = json {
        return Ok(Some(Settings::parse(&json).context("--settings-json")?));
    }
    let Some(path) = path else {
        return Ok(None);
    };
    let name = path.display();
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading the settings {name}"))?;
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    let value: serde_json::Value = serde_saphyr::from_str_with_options(&text, options)
        .with_context(|| format!("the settings {name} are not YAML"))?;
    Ok(Some(
        Settings::from_value(&value).with_context(|| format!("the settings {name}"))?,
    ))
}

fn replay(path: &Path) -> anyhow::Result<Replay> {
    let name = path.display();
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading the recording {name}"))?;
    Replay::parse(&text).with_context(|| format!("{name}"))
}

fn subjects(
    text: &str,
    settings: Option<Settings>,
    fetcher: &Fetcher,
) -> anyhow::Result<Vec<Subject>> {
    match subject::in_file(text)? {
        Some(_) if settings.is_some() => {
            bail!("settings of policies in a file are those of the file")
        }
        Some(subjects) => Ok(subjects),
        None => {
            let settings = settings.unwrap_or_default();
            Ok(vec![subject::of_module(text, settings, &fetcher.store)?])
        }
    }
}

/// Loads every module that is needed; the first that cannot be had ends it.
async fn load(
    subjects: &[Subject],
    modules: &Modules,
    mode: Option<ExecutionMode>,
) -> anyhow::Result<LoadedModules> {
    let mut loaded = LoadedModules::new();
    for subject in subjects {
        for (_, guest) in subject.config.guests() {
            let uri: ModuleUri = guest.module.parse()?;
            if loaded.contains_key(&uri) {
                continue;
            }
            let wanted = uri.clone();
            let module = progress::with(&uri.to_string(), |bar| async move {
                let options = LoadOptions {
                    mode,
                    progress: &*bar,
                };
                modules.load_with(&wanted, options).await
            })
            .await?;
            loaded.insert(uri, Ok(module));
        }
    }
    Ok(loaded)
}

/// Sets the permissions of a policy, and prints what it requests but does not get.
fn grant(
    subject: &mut Subject,
    loaded: &LoadedModules,
    allow_context_aware: bool,
    capabilities: Option<&CapabilitySet>,
) -> anyhow::Result<()> {
    let Subject {
        name,
        config,
        names_resources,
    } = subject;
    let guests: Vec<(Option<&str>, &mut GuestConfig)> = match config {
        PolicyConfig::Single(single) => vec![(None, &mut single.guest)],
        PolicyConfig::Group(group) => group
            .members
            .iter_mut()
            .map(|(member, guest)| (Some(member.as_str()), guest))
            .collect(),
    };
    for (member, guest) in guests {
        let module = module_of(loaded, name, member, guest)?;
        if !*names_resources {
            let metadata = module.metadata();
            guest.resources = metadata
                .map(|metadata| metadata.context_aware_resources.clone())
                .unwrap_or_default();
        }
        if let Some(capabilities) = capabilities {
            guest.capabilities = Some(capabilities.clone());
        }
        if !allow_context_aware && !guest.resources.is_empty() {
            let kinds: Vec<String> = std::mem::take(&mut guest.resources)
                .into_iter()
                .map(|kind| format!("{}/{}", kind.api_version, kind.kind))
                .collect();
            let member = member
                .map(|member| format!("/{member}"))
                .unwrap_or_default();
            eprintln!(
                "warning: {name}{member} wants to read {} from the cluster, and may not; allow it with --allow-context-aware",
                kinds.join(", ")
            );
        }
    }
    Ok(())
}

/// The cluster that the policy may ask about. Without one, questions about it are answered by an error.
async fn cluster(client: &ClientArgs, is_needed: bool) -> anyhow::Result<Option<Cluster>> {
    let client = if is_needed {
        crate::connect(client).await.map_err(with_replay_hint)?
    } else {
        match polity_runtime::client::connect(client).await {
            Ok(client) => client,
            Err(_) => return Ok(None),
        }
    };
    let limits = ClusterLimits::default();
    Ok(Some(Cluster::new(client, limits, Clock::system())))
}

fn with_replay_hint(error: anyhow::Error) -> anyhow::Error {
    let hint = hint_of(&error).unwrap_or_else(|| "pass --kubeconfig FILE".to_owned());
    let hint =
        format!("{hint}; or play a recording back with --replay-host-capabilities-interactions");
    Hinted::new(in_words(&error), hint).into()
}

/// Asks every guest whether its settings are good, on a thread that may block.
async fn prepare_all(
    subjects: Vec<Subject>,
    loaded: LoadedModules,
    environment: Environment,
    raw: bool,
) -> anyhow::Result<Vec<Ready>> {
    let prepare = move || -> anyhow::Result<Vec<Ready>> {
        subjects
            .into_iter()
            .map(|Subject { name, config, .. }| {
                let policy = Policy::prepare(&name, &config, &environment, |member, guest| {
                    module_of(&loaded, &name, member, guest)
                })
                .with_context(|| format!("{name} is not ready"))?;
                let is_raw = raw || policy.modules().any(wants_raw);
                Ok(Ready {
                    name,
                    policy,
                    is_raw,
                })
            })
            .collect()
    };
    tokio::task::spawn_blocking(prepare).await?
}

fn wants_raw(module: &Module) -> bool {
    module
        .metadata()
        .is_some_and(|metadata| metadata.policy_type == PolicyType::Raw)
}
