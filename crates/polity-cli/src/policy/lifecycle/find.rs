//! Finds the policy that a name means, among four kinds and with whatever rights there are.

use anyhow::Context as _;
use futures::future::join_all;
use kube::api::{DynamicObject, ListParams, PartialObjectMeta};
use kube::{Api, Client, ResourceExt as _};
use polity_api::policies::api_resource;
use polity_runtime::args::ClientArgs;

use super::kind::{self, NAMESPACED_FIRST, PolicyKind};
use super::policy::Policy;
use crate::edits;
use crate::exit::Hinted;

/// How many names are looked at for one that is meant.
const NAMES: u32 = 500;
/// How many names are offered.
const OFFERED: usize = 4;

/// Which policy.
#[derive(Debug, clap::Args)]
pub(super) struct NamedPolicy {
    /// The policy or policy group; `KIND/NAME` and `KIND NAME` work as in kubectl
    #[arg(value_name = "[KIND/]NAME")]
    name: String,
    /// The name, if the first argument is the kind.
    #[arg(value_name = "NAME", hide = true, conflicts_with = "kind")]
    name_after_kind: Option<String>,
    /// Its namespace, for namespaced kinds [default: that of the kubeconfig]
    #[arg(short = 'n', long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Its kind [default: the kind that has a policy of this name]
    #[arg(long, value_name = "KIND", value_parser = kind::value_parser(), ignore_case = true)]
    kind: Option<PolicyKind>,
    #[command(flatten)]
    client: ClientArgs,
}

/// A policy, and how to reach it.
pub(super) struct Found {
    pub(super) client: Client,
    pub(super) api: Api<DynamicObject>,
    pub(super) policy: Policy,
}

impl NamedPolicy {
    pub(super) async fn find(&self) -> anyhow::Result<Found> {
        let client = crate::connect(&self.client).await?;
        self.find_with(client).await
    }

    pub(super) async fn find_with(&self, client: Client) -> anyhow::Result<Found> {
        let namespace = self.namespace.clone();
        let (kind, name) = self.kind_and_name()?;
        let search = Search {
            name,
            namespace: namespace.unwrap_or_else(|| client.default_namespace().to_owned()),
            kinds: match (kind, &self.namespace) {
                (Some(kind), _) => vec![kind],
                // A namespace rules out the kinds of the cluster.
                (None, Some(_)) => vec![
                    PolicyKind::AdmissionPolicy,
                    PolicyKind::AdmissionPolicyGroup,
                ],
                (None, None) => NAMESPACED_FIRST.to_vec(),
            },
            client,
        };
        search.run().await
    }
}

impl NamedPolicy {
    /// The kind, if one is named, and the name.
    fn kind_and_name(&self) -> Result<(Option<PolicyKind>, &str), Hinted> {
        let (kind, name) = match (&self.name_after_kind, self.name.split_once('/')) {
            (Some(name), _) => (self.name.as_str(), name.as_str()),
            (None, Some((kind, name))) => (kind, name),
            (None, None) => return Ok((self.kind, &self.name)),
        };
        let Some(kind) = kind::parse(kind) else {
            let shorts = NAMESPACED_FIRST.map(PolicyKind::short);
            return Err(Hinted::new(
                format!("{kind:?} is no kind of admission policy"),
                format!("the kinds are {}", shorts.join(", ")),
            ));
        };
        match self.kind {
            Some(other) if other != kind => Err(Hinted::new(
                format!(
                    "two kinds are given: {} and {}",
                    kind.as_str(),
                    other.as_str()
                ),
                "leave out --kind",
            )),
            _ => Ok((Some(kind), name)),
        }
    }
}

struct Search<'a> {
    client: Client,
    name: &'a str,
    namespace: String,
    kinds: Vec<PolicyKind>,
}

/// What a look at one kind gave.
enum Looked {
    Found(Box<Found>),
    Absent,
    /// In the words of the API server.
    Refused(String),
}

impl Search<'_> {
    async fn run(&self) -> anyhow::Result<Found> {
        let looks = join_all(self.kinds.iter().map(|kind| self.look(*kind))).await;
        let (mut found, mut refused) = (Vec::new(), Vec::new());
        for (kind, look) in self.kinds.iter().zip(looks) {
            match look? {
                Looked::Found(one) => found.push(*one),
                Looked::Absent => {}
                Looked::Refused(words) => refused.push((*kind, words)),
            }
        }
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => Err(self.absent(&refused).await.into()),
            _ => {
                let policies: Vec<&Policy> = found.iter().map(|found| &found.policy).collect();
                Err(ambiguous(self.name, &policies).into())
            }
        }
    }

    fn api(&self, kind: PolicyKind) -> Api<DynamicObject> {
        let resource = api_resource(kind);
        if kind.is_namespaced() {
            Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        }
    }

    async fn look(&self, kind: PolicyKind) -> anyhow::Result<Looked> {
        let api = self.api(kind);
        match api.get(self.name).await {
            Ok(object) => Ok(Looked::Found(Box::new(Found {
                policy: Policy::read(kind, &object)?,
                client: self.client.clone(),
                api,
            }))),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Looked::Absent),
            Err(kube::Error::Api(status)) if status.is_forbidden() => {
                Ok(Looked::Refused(status.message))
            }
            Err(error) => {
                Err(error).with_context(|| format!("reading {} {}", kind.as_str(), self.name))
            }
        }
    }

    /// Why there is no such policy, with what may have been meant.
    async fn absent(&self, refused: &[(PolicyKind, String)]) -> Hinted {
        if let [(_, words), ..] = refused
            && refused.len() == self.kinds.len()
        {
            let message = format!("{} cannot be read: {words}", self.name);
            return Hinted::new(
                message,
                "ask for the right to get policies, or act --as another user",
            );
        }
        let looked = join_all(self.kinds.iter().map(|kind| self.names(*kind))).await;
        if looked.iter().all(|names| matches!(names, Names::NotServed)) {
            let message = "the cluster serves no kind of admission policy";
            return Hinted::new(
                message,
                "install Polity there, or choose another cluster with --context",
            );
        }
        let mut message = format!("there is no policy {:?} ({})", self.name, self.places());
        for (kind, _) in refused {
            message.push_str(&format!("; reading {} is not allowed", kind.as_str()));
        }
        let known: Vec<(PolicyKind, String)> = self
            .kinds
            .iter()
            .zip(looked)
            .flat_map(|(kind, names)| {
                let Names::Listed(names) = names else {
                    return Vec::new();
                };
                names.into_iter().map(|name| (*kind, name)).collect()
            })
            .collect();
        // Without a namespace and a kind, all kinds were searched; else the name may be one of the others.
        let elsewhere = join_all(NAMESPACED_FIRST.map(|kind| self.elsewhere(kind))).await;
        let elsewhere: Vec<_> = elsewhere.into_iter().flatten().collect();
        Hinted::new(message, self.hint(&known, &elsewhere))
    }

    fn places(&self) -> String {
        let of = |namespaced: bool| {
            let kinds = self.kinds.iter();
            let kinds: Vec<_> = kinds
                .filter(|kind| kind.is_namespaced() == namespaced)
                .map(|kind| kind.as_str())
                .collect();
            kinds.join(", ")
        };
        let parts = [
            Some(of(true))
                .filter(|kinds| !kinds.is_empty())
                .map(|kinds| format!("{kinds} in namespace {}", self.namespace)),
            Some(of(false)).filter(|kinds| !kinds.is_empty()),
        ];
        let parts: Vec<_> = parts.into_iter().flatten().collect();
        format!("looked at {}", parts.join("; "))
    }

    fn hint(
        &self,
        known: &[(PolicyKind, String)],
        elsewhere: &[(PolicyKind, Option<String>)],
    ) -> String {
        let name = self.name;
        match elsewhere {
            [] => {}
            [(kind, None), ..] => {
                return format!(
                    "{name} is cluster-wide ({}): leave out -n and --kind",
                    kind.as_str()
                );
            }
            [(kind, Some(namespace))] => {
                return format!(
                    "there is an {} in namespace {namespace}: -n {namespace}",
                    kind.as_str()
                );
            }
            several => {
                let namespaces = several
                    .iter()
                    .filter_map(|(_, namespace)| namespace.as_ref());
                let options: Vec<String> = namespaces
                    .map(|namespace| format!("-n {namespace}"))
                    .collect();
                return format!(
                    "there are policies of this name in other namespaces: {}",
                    options.join(" or ")
                );
            }
        }
        let near = nearest(name, known);
        if !near.is_empty() {
            return format!("did you mean {}?", near.join(", "));
        }
        let kinds: Vec<_> = self.kinds.iter().map(|kind| kind.short()).collect();
        format!("kubectl get {} -A lists them", kinds.join(","))
    }

    /// The names of a kind, as far as they can be listed.
    async fn names(&self, kind: PolicyKind) -> Names {
        let params = ListParams::default().limit(NAMES);
        match self.api(kind).list_metadata(&params).await {
            Ok(list) => Names::Listed(list.items.iter().map(PartialObjectMeta::name_any).collect()),
            Err(kube::Error::Api(status)) if status.code == 404 => Names::NotServed,
            Err(_) => Names::NotListed,
        }
    }

    /// The namespaces that have such a policy, as far as this user may list it; none for a cluster-wide kind.
    async fn elsewhere(&self, kind: PolicyKind) -> Vec<(PolicyKind, Option<String>)> {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &api_resource(kind));
        let params = ListParams::default().fields(&format!("metadata.name={}", self.name));
        let listed = api.list_metadata(&params).await;
        let items = listed.map(|list| list.items).unwrap_or_default();
        let namespaces = items.into_iter().map(|object| object.metadata.namespace);
        namespaces.map(|namespace| (kind, namespace)).collect()
    }
}

enum Names {
    Listed(Vec<String>),
    /// Not allowed, or not possible now: there is only less to offer.
    NotListed,
    NotServed,
}

fn ambiguous(name: &str, policies: &[&Policy]) -> Hinted {
    let all: Vec<_> = policies.iter().map(ToString::to_string).collect();
    let kinds: Vec<_> = policies
        .iter()
        .map(|policy| format!("--kind {}", policy.kind.short()))
        .collect();
    let message = format!("{name:?} may mean {}", all.join(" or "));
    Hinted::new(message, format!("say which: {}", kinds.join(" or ")))
}

/// The names that may have been meant, the nearest first.
pub(super) fn nearest(asked: &str, known: &[(PolicyKind, String)]) -> Vec<String> {
    let mut near: Vec<_> = known
        .iter()
        .filter_map(|(kind, name)| Some((distance(asked, name)?, name, kind)))
        .collect();
    near.sort_by_key(|(distance, name, kind)| (*distance, *name, kind.as_str()));
    let near = near.into_iter().take(OFFERED);
    near.map(|(_, name, kind)| format!("{} {name}", kind.as_str()))
        .collect()
}

/// How far a name is from what was asked; none if it is not like it.
fn distance(asked: &str, name: &str) -> Option<usize> {
    let begins_alike =
        asked.len().min(name.len()) >= 3 && (asked.starts_with(name) || name.starts_with(asked));
    let (n_asked, n_name) = (asked.chars().count(), name.chars().count());
    if begins_alike {
        return Some(n_asked.abs_diff(n_name));
    }
    // A typing error or two, but not another short word.
    let n_errors = edits(asked, name);
    (n_errors <= 2 && n_errors * 3 <= n_asked).then_some(n_errors)
}
