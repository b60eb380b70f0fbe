//! From a revision to a policy: for the leader, who decides which bytes it is made of, and for replicas, who load them.

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
use crate::managed::prepare::failure::{Fault, Trouble};
use crate::managed::revision::Revision;
use crate::metrics::{Phase, ServerMetrics};
use crate::table::Whole;

/// How many modules of one revision are worked on at once.
const MODULES_AT_ONCE: usize = 4;

/// Makes policies. Clones share everything.
#[derive(Clone)]
pub(crate) struct Preparer {
    pub(crate) modules: ModuleLoader,
    /// What settings are checked in.
    pub(crate) environment: Environment,
    /// What policies of namespaces may call.
    pub(crate) namespaced: Arc<ArcSwap<CapabilitySet>>,
    pub(crate) metrics: ServerMetrics,
    pub(crate) clock: Clock,
}

/// A revision whose modules are here, which nobody has compiled yet.
pub(crate) struct Gathered {
    config: PolicyConfig,
    parts: Vec<Part>,
}

/// One module of a revision.
struct Part {
    member: Option<String>,
    /// As the policy spells it.
    uri: String,
    wanted: Wanted,
}

/// A policy that can serve.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub(crate) whole: Whole,
    id: Arc<str>,
    config: PolicyConfig,
}

impl Preparer {
    /// The leader's first half: finds out which bytes a revision is made of. Those that were found out before, by an
    /// earlier leader or for the generation it returns to, stay what they are.
    pub(crate) async fn gather(
        &self,
        revision: &Revision,
        earlier: Option<&Revision>,
    ) -> Result<Gathered, Trouble> {
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
                Err(trouble) => Err(trouble.of_member(member.as_deref())),
            }
        });
        let parts = all(parts.buffered(MODULES_AT_ONCE).collect().await)?;
        Ok(Gathered { config, parts })
    }

    /// The leader's second half: compiles, keeps, and has the guests check their settings. Answers what is recorded.
    pub(crate) async fn initialize(
        &self,
        revision: &Revision,
        gathered: Gathered,
    ) -> Result<Vec<ResolvedModule>, Trouble> {
        let Gathered { config, parts } = gathered;
        let modules = self.load_all(&parts, Purpose::Initialize).await?;
        let troubles: Vec<Trouble> = parts
            .iter()
            .zip(&modules)
            .filter_map(|(part, module)| {
                let trouble = asks_for_nothing_unknown(module).err()?;
                Some(trouble.of_member(part.member.as_deref()))
            })
            .collect();
        if let Some(trouble) = Trouble::all(troubles) {
            return Err(trouble);
        }
        let resolved = parts
            .iter()
            .zip(&modules)
            .map(|(part, module)| part.resolved(module))
            .collect();
        self.prepare(revision, config, &parts, modules).await?;
        Ok(resolved)
    }

    /// A replica's part: the modules that were recorded, and a policy made of them.
    pub(crate) async fn load(&self, revision: &Revision) -> Result<Loaded, Trouble> {
        let config = self.config(revision)?;
        let parts: Vec<Result<Part, Trouble>> = config
            .guests()
            .map(|(member, guest)| {
                let module =
                    pinned(revision.modules(), member, &guest.module).ok_or_else(|| {
                        let message = format!("no digest was recorded for {}", guest.module);
                        Trouble::new(Fault::Changed, message).of_member(member)
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
            whole: Whole::new(revision.id.clone(), &config, Ok(policy)),
            id: revision.id.clone(),
            config,
        })
    }

    fn config(&self, revision: &Revision) -> Result<PolicyConfig, Trouble> {
        config_of(revision, &self.namespaced.load())
            .map_err(|error| Trouble::new(Fault::Module, error.to_string()))
    }

    async fn resolve(&self, uri: &str, scope: Scope) -> Result<Wanted, Trouble> {
        let uri: ModuleUri = uri
            .parse()
            .map_err(|error: polity_fetch::UriError| Trouble::of_reference(error))?;
        self.modules.resolve(&uri, scope).await
    }

    /// All modules in the order of their parts. Every one is tried, so that all that is wrong is said at once.
    async fn load_all(&self, parts: &[Part], purpose: Purpose) -> Result<Vec<Module>, Trouble> {
        let loads: Vec<_> = parts
            .iter()
            .map(|part| self.load_one(part, purpose))
            .collect();
        let loads = futures::stream::iter(loads).buffered(MODULES_AT_ONCE);
        all(loads.collect().await)
    }

    async fn load_one(&self, part: &Part, purpose: Purpose) -> Result<Module, Trouble> {
        let loaded = self.modules.load(&part.wanted, purpose).await;
        loaded.map_err(|trouble| trouble.of_member(part.member.as_deref()))
    }

    /// Guests look at their settings, so this runs on a thread that may block.
    async fn prepare(
        &self,
        revision: &Revision,
        config: PolicyConfig,
        parts: &[Part],
        modules: Vec<Module>,
    ) -> Result<(PolicyConfig, Policy), Trouble> {
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
            Ok((_, Err(error))) => Err(Trouble::of_policy(&error)),
            Err(_) => Err(Trouble::new(
                Fault::Settings,
                "checking the settings was given up",
            )),
        }
    }
}

impl Gathered {
    /// The modules it is made of.
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
            .whole
            .policy()
            .map(|policy| policy.with_capabilities(capabilities));
        match policy {
            Some(policy) => Self {
                whole: Whole::new(self.id.clone(), &self.config, Ok(policy)),
                ..self.clone()
            },
            None => self.clone(),
        }
    }
}

fn scope(revision: &Revision) -> Scope {
    if revision.kind.is_namespaced {
        Scope::Namespace
    } else {
        Scope::Cluster
    }
}

/// The module that was recorded for a member under the same reference.
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

/// What a module asks for must exist; whether it gets it is another matter.
fn asks_for_nothing_unknown(module: &Module) -> Result<(), Trouble> {
    let asked = module
        .metadata()
        .and_then(|all| all.host_capabilities.as_ref());
    match asked.map(CapabilitySet::parse) {
        Some(Err(error)) => Err(Trouble::new(Fault::Capability, error.to_string())),
        Some(Ok(_)) | None => Ok(()),
    }
}

/// All of them, or all that is wrong.
fn all<T>(results: Vec<Result<T, Trouble>>) -> Result<Vec<T>, Trouble> {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(value) => good.push(value),
            Err(trouble) => bad.push(trouble),
        }
    }
    Trouble::all(bad).map_or(Ok(good), Err)
}
