//! Turns a revision into a policy. The leader resolves references to digests and records them; replicas load the recorded
//! digests.

pub(super) mod config;
pub(super) mod failure;

use std::sync::Arc;

use arc_swap::ArcSwap;
use futures::StreamExt as _;
use polity_api::policies::v1::ResolvedModule;
use polity_eval::{CapabilitySet, Environment, InitError, Module, Policy, PolicyConfig};
use polity_fetch::{Digest, ModuleUri};
use polity_runtime::Clock;

use crate::managed::cache::modules::{ModuleLoader, Purpose, Scope, Wanted};
use crate::managed::cache::vault::Pinned;
use crate::managed::prepare::config::config_of;
use crate::managed::prepare::failure::{Fault, PrepareError};
use crate::managed::revision::Revision;
use crate::metrics::{Phase, ServerMetrics};
use crate::table::PolicyEntry;

/// How many modules of one revision are prepared at once.
const MODULES_AT_ONCE: usize = 4;

/// Turns revisions into policies. Clones share the modules.
#[derive(Clone)]
pub(crate) struct Preparer {
    pub(crate) modules: ModuleLoader,
    /// The environment in which guests validate their settings.
    pub(crate) environment: Environment,
    /// The capabilities that namespaced policies have.
    pub(crate) namespaced: Arc<ArcSwap<CapabilitySet>>,
    pub(crate) metrics: ServerMetrics,
    pub(crate) clock: Clock,
}

/// A revision whose modules are fetched and not compiled yet.
pub(crate) struct Gathered {
    config: PolicyConfig,
    parts: Vec<Part>,
}

/// One module of a revision.
struct Part {
    member: Option<String>,
    /// The reference as it is written in the policy.
    uri: String,
    wanted: Wanted,
}

/// A policy that is ready to serve.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) entry: PolicyEntry,
    id: Arc<str>,
    config: PolicyConfig,
}

impl Preparer {
    /// The first step of the leader: resolves the references of a revision to digests. Digests that are recorded
    /// already, by an earlier leader or for the generation that it rolls back to, stay.
    pub(crate) async fn gather(
        &self,
        revision: &Revision,
        earlier: Option<&Revision>,
    ) -> Result<Gathered, PrepareError> {
        let config = self.config(revision)?;
        let scope = scope(revision);
        let wanted: Vec<_> = config
            .guests()
            .map(|(member, guest)| (member.map(str::to_owned), guest.module.clone()))
            .collect();
        let parts = futures::stream::iter(wanted).map(|(member, uri)| async move {
            let earlier = earlier.map_or(&[][..], Revision::modules);
            let pinned = pinned(revision.modules(), member.as_deref(), &uri)
                .or_else(|| pinned(earlier, member.as_deref(), &uri));
            let wanted = match pinned {
                Some(module) => Ok(Wanted {
                    module,
                    scope,
                    bytes: None,
                }),
                None => self.resolve(&uri, scope).await,
            };
            match wanted {
                Ok(wanted) => Ok(Part {
                    member,
                    uri,
                    wanted,
                }),
                Err(failure) => Err(failure.of_member(member.as_deref())),
            }
        });
        let parts = all(parts.buffered(MODULES_AT_ONCE).collect().await)?;
        Ok(Gathered { config, parts })
    }

    /// The second step of the leader: compiles and stores the modules, and lets the guests validate their settings.
    /// Returns the modules to record.
    pub(crate) async fn initialize(
        &self,
        revision: &Revision,
        gathered: Gathered,
    ) -> Result<Vec<ResolvedModule>, PrepareError> {
        let Gathered { config, parts } = gathered;
        let modules = self.load_all(&parts, Purpose::Initialize).await?;
        let failures: Vec<PrepareError> = parts
            .iter()
            .zip(&modules)
            .filter_map(|(part, module)| {
                let failure = check_capabilities(module).err()?;
                Some(failure.of_member(part.member.as_deref()))
            })
            .collect();
        if let Some(failure) = PrepareError::all(failures) {
            return Err(failure);
        }
        let resolved = parts
            .iter()
            .zip(&modules)
            .map(|(part, module)| part.resolved(module))
            .collect();
        self.prepare(revision, config, &parts, modules).await?;
        Ok(resolved)
    }

    /// The step of a replica: loads the recorded modules and builds a policy.
    pub(crate) async fn load(&self, revision: &Revision) -> Result<Loaded, PrepareError> {
        let config = self.config(revision)?;
        let parts: Vec<Result<Part, PrepareError>> = config
            .guests()
            .map(|(member, guest)| {
                let module =
                    pinned(revision.modules(), member, &guest.module).ok_or_else(|| {
                        let message = format!("no digest was recorded for {}", guest.module);
                        PrepareError::new(Fault::Changed, message).of_member(member)
                    })?;
                Ok(Part {
                    member: member.map(str::to_owned),
                    uri: guest.module.clone(),
                    wanted: Wanted {
                        module,
                        scope: scope(revision),
                        bytes: None,
                    },
                })
            })
            .collect();
        let parts = all(parts)?;
        let modules = self.load_all(&parts, Purpose::Serve).await?;
        let (config, policy) = self.prepare(revision, config, &parts, modules).await?;
        let policy = policy.owned_by(&revision.policy_uid);
        Ok(Loaded {
            entry: PolicyEntry::new(revision.id.clone(), &config, Ok(policy)),
            id: revision.id.clone(),
            config,
        })
    }

    fn config(&self, revision: &Revision) -> Result<PolicyConfig, PrepareError> {
        config_of(revision, &self.namespaced.load())
            .map_err(|error| PrepareError::new(Fault::Module, error.to_string()))
    }

    async fn resolve(&self, uri: &str, scope: Scope) -> Result<Wanted, PrepareError> {
        let uri: ModuleUri = uri
            .parse()
            .map_err(|error: polity_fetch::UriError| PrepareError::of_reference(error))?;
        self.modules.resolve(&uri, scope).await
    }

    /// All modules in the order of their parts. Every one is tried, so that all failures are reported at once.
    async fn load_all(
        &self,
        parts: &[Part],
        purpose: Purpose,
    ) -> Result<Vec<Module>, PrepareError> {
        let loads: Vec<_> = parts
            .iter()
            .map(|part| self.load_one(part, purpose))
            .collect();
        let loads = futures::stream::iter(loads).buffered(MODULES_AT_ONCE);
        all(loads.collect().await)
    }

    async fn load_one(&self, part: &Part, purpose: Purpose) -> Result<Module, PrepareError> {
        let loaded = self.modules.load(&part.wanted, purpose).await;
        loaded.map_err(|failure| failure.of_member(part.member.as_deref()))
    }

    /// Builds the policy on a blocking thread, because its guests validate their settings.
    async fn prepare(
        &self,
        revision: &Revision,
        config: PolicyConfig,
        parts: &[Part],
        modules: Vec<Module>,
    ) -> Result<(PolicyConfig, Policy), PrepareError> {
        let started = self.clock.moment();
        let (environment, id) = (self.environment.clone(), revision.id.clone());
        let names: Vec<Option<String>> = parts.iter().map(|part| part.member.clone()).collect();
        let prepared = tokio::task::spawn_blocking(move || {
            let policy = Policy::prepare(&id, &config, &environment, |member, _| {
                let position = names.iter().position(|name| name.as_deref() == member);
                let module = position.and_then(|position| modules.get(position));
                module
                    .cloned()
                    .ok_or_else(|| InitError::Load("its module is not there".to_owned()))
            });
            (config, policy)
        });
        let prepared = prepared.await;
        self.metrics
            .revision_phase(Phase::Settings, self.clock.moment().since(started));
        match prepared {
            Ok((config, Ok(policy))) => Ok((config, policy)),
            Ok((_, Err(error))) => Err(PrepareError::of_policy(&error)),
            Err(_) => Err(PrepareError::new(
                Fault::Settings,
                "checking the settings was given up",
            )),
        }
    }
}

impl Gathered {
    /// The digests of its modules.
    pub(crate) fn digests(&self) -> Vec<Digest> {
        let parts = self.parts.iter();
        parts.map(|part| part.wanted.module.digest).collect()
    }
}

impl Part {
    fn resolved(&self, module: &Module) -> ResolvedModule {
        ResolvedModule {
            member: self.member.clone(),
            uri: self.uri.clone(),
            digest: self.wanted.module.digest.to_string(),
            manifest_digest: self.wanted.module.manifest.map(|digest| digest.to_string()),
            size: i64::try_from(module.inspection().size).unwrap_or(i64::MAX),
        }
    }
}

impl Loaded {
    /// The same policy with other capabilities.
    pub(crate) fn with_capabilities(&self, capabilities: &CapabilitySet) -> Self {
        let policy = self
            .entry
            .policy()
            .map(|policy| policy.with_capabilities(capabilities));
        match policy {
            Some(policy) => Self {
                entry: PolicyEntry::new(self.id.clone(), &self.config, Ok(policy)),
                ..self.clone()
            },
            None => self.clone(),
        }
    }
}

fn scope(revision: &Revision) -> Scope {
    if revision.kind.is_namespaced() {
        Scope::Namespace
    } else {
        Scope::Cluster
    }
}

/// The digest that was recorded for a member and the same reference.
fn pinned(recorded: &[ResolvedModule], member: Option<&str>, uri: &str) -> Option<Pinned> {
    let found = recorded
        .iter()
        .find(|module| module.member.as_deref() == member && module.uri == uri)?;
    Some(Pinned {
        uri: uri.parse().ok()?,
        digest: found.digest.parse().ok()?,
        manifest: match &found.manifest_digest {
            Some(digest) => Some(digest.parse().ok()?),
            None => None,
        },
    })
}

/// Checks that every capability that a module asks for exists. Whether it is granted is decided elsewhere.
fn check_capabilities(module: &Module) -> Result<(), PrepareError> {
    let asked = module
        .metadata()
        .and_then(|all| all.host_capabilities.as_ref());
    match asked.map(CapabilitySet::parse) {
        Some(Err(error)) => Err(PrepareError::new(Fault::Capability, error.to_string())),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// All values, or all failures as one.
fn all<T>(results: Vec<Result<T, PrepareError>>) -> Result<Vec<T>, PrepareError> {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(value) => good.push(value),
            Err(failure) => bad.push(failure),
        }
    }
    PrepareError::all(bad).map_or(Ok(good), Err)
}
