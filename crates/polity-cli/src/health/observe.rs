//! Reads the installation in a cluster, and asks its processes for a response.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client, ResourceExt as _};
use polity_api::policies::v1::PolicyServer;
use polity_api::policies::{api_resource, names};
use polity_pki::Certificate;
use polity_runtime::client::describe;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Finding;
use super::cluster::{
    List, ObservedCertificate, ObservedCluster, ObservedController, ObservedReplica,
    ObservedServer, ObservedWebhook, Probe, Unread,
};
use super::probe::{self, Endpoint};
use super::reach::{ReachedCluster, reachable};
use crate::policy::lifecycle::{Policy, PolicyKind};

/// How long one list may take.
const LIST_LIMIT: Duration = Duration::from_secs(10);
/// Where an installation is unless its webhooks say otherwise.
const DEFAULT_NAMESPACE: &str = "kubewarden";
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// What a cluster responds with, and the installation in it. Without a response, only that finding: every
/// list would wait for its time limit.
pub(crate) async fn observe_reachable(
    client: &Client,
    cluster: ReachedCluster<'_>,
    started: Option<Timestamp>,
) -> Result<(Finding, ObservedCluster), Finding> {
    let reachable = reachable(client, cluster).await;
    if reachable.is_problem() {
        return Err(reachable);
    }
    Ok((reachable, observe(client, started).await))
}

/// Reads everything that the checks need.
pub(crate) async fn observe(client: &Client, started: Option<Timestamp>) -> ObservedCluster {
    let mut reader = Reader {
        client: client.clone(),
        unread: Vec::new(),
    };
    let servers = match reader
        .all::<PolicyServer>(List::PolicyServers, "PolicyServers")
        .await
    {
        Listed::NotServed => return ObservedCluster::default(),
        Listed::Items(servers) => servers,
    };
    // A policy and its webhook cannot be read in one step: between two equal readings of a policy, its webhook is the
    // one that belongs to it.
    let policies = reader.policies().await;
    let (webhooks, mut controller, service) = reader.webhooks().await;
    let changing = changed(&policies, &reader.again().policies().await);
    let namespace = service.as_ref().map_or_else(
        || DEFAULT_NAMESPACE.to_owned(),
        |(namespace, _)| namespace.clone(),
    );
    let is_registered = !webhooks.is_empty() || service.is_some();
    if !is_registered && servers.is_empty() {
        controller.is_absent = reader.is_namespace_absent(&namespace).await;
    }
    let workloads = Workloads::read(&mut reader, &namespace).await;
    let certificates = reader.certificates(&namespace, &servers).await;
    let probing = servers
        .iter()
        .map(|server| workloads.server(client, &namespace, server, &webhooks));
    if let Some((_, service)) = service {
        controller.endpoints = workloads
            .controller(&namespace, &service, &controller.ca_bundle)
            .await;
    }
    ObservedCluster {
        is_installed: true,
        servers: join_all(probing).await,
        namespace,
        started,
        policies,
        changing,
        webhooks,
        controller,
        certificates,
        unread: reader.unread,
    }
}

enum Listed<K> {
    Items(Vec<K>),
    NotServed,
}

impl<K> Listed<K> {
    fn items(self) -> Vec<K> {
        match self {
            Self::Items(items) => items,
            Self::NotServed => Vec::new(),
        }
    }
}

struct Reader {
    client: Client,
    unread: Vec<Unread>,
}

impl Reader {
    /// A reader of the same cluster that starts without unread lists.
    fn again(&self) -> Self {
        Self {
            client: self.client.clone(),
            unread: Vec::new(),
        }
    }

    async fn all<K>(&mut self, list: List, what: &str) -> Listed<K>
    where
        K: kube::Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
    {
        let api = Api::all(self.client.clone());
        self.list(list, what, &api, &ListParams::default()).await
    }

    /// The items of a list. One that cannot be read is noted as unread, and has no items.
    async fn list<K>(
        &mut self,
        list: List,
        what: &str,
        api: &Api<K>,
        params: &ListParams,
    ) -> Listed<K>
    where
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        let why = match tokio::time::timeout(LIST_LIMIT, api.list(params)).await {
            Ok(Ok(list)) => return Listed::Items(list.items),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => return Listed::NotServed,
            Ok(Err(error)) => describe(&error).message,
            Err(_) => format!("no response within {} s", LIST_LIMIT.as_secs()),
        };
        self.unread.push(Unread {
            list,
            what: what.to_owned(),
            why,
        });
        Listed::Items(Vec::new())
    }

    async fn policies(&mut self) -> Vec<Policy> {
        let mut policies = Vec::new();
        for kind in PolicyKind::ALL {
            let resource = api_resource(kind);
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
            let what = format!("{} objects", kind.as_str());
            let objects = self
                .list(List::Policies, &what, &api, &ListParams::default())
                .await
                .items();
            for object in objects {
                match Policy::read(kind, &object) {
                    Ok(policy) => policies.push(policy),
                    Err(error) => self.unread.push(Unread {
                        list: List::Policies,
                        what: format!("{} {}", kind.as_str(), object.name_any()),
                        why: error.to_string(),
                    }),
                }
            }
        }
        policies
    }

    /// The webhooks of policies, those of the controller, and the Service of the controller by namespace and name.
    async fn webhooks(
        &mut self,
    ) -> (
        Vec<ObservedWebhook>,
        ObservedController,
        Option<(String, String)>,
    ) {
        let n_unread = self.unread.len();
        let validating = self
            .all::<ValidatingWebhookConfiguration>(
                List::Webhooks,
                "ValidatingWebhookConfigurations",
            )
            .await
            .items();
        let mutating = self
            .all::<MutatingWebhookConfiguration>(List::Webhooks, "MutatingWebhookConfigurations")
            .await
            .items();
        let validating = validating.iter().map(serde_json::to_value);
        let mutating = mutating.iter().map(serde_json::to_value);
        let all: Vec<Value> = validating.chain(mutating).filter_map(Result::ok).collect();
        let own = [
            names::CONTROLLER_VALIDATING_WEBHOOKS,
            names::CONTROLLER_MUTATING_WEBHOOKS,
        ];
        let named = |name: &str| all.iter().find(|one| one["metadata"]["name"] == name);
        let mut controller = ObservedController::default();
        // What could not be listed is not missing.
        if self.unread.len() == n_unread {
            controller.missing = own
                .into_iter()
                .filter(|name| named(name).is_none())
                .collect();
        }
        let mut service = None;
        if let Some(hook) = own.iter().find_map(|name| named(name)?["webhooks"].get(0)) {
            controller.ca_bundle = ca_bundle(hook);
            let text = |field: &str| {
                let value = &hook["clientConfig"]["service"][field];
                value.as_str().map(str::to_owned)
            };
            service = text("namespace").zip(text("name"));
        }
        (
            all.iter().filter_map(webhook).collect(),
            controller,
            service,
        )
    }

    /// Whether it is certain that this namespace does not exist.
    async fn is_namespace_absent(&self, name: &str) -> bool {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let read = tokio::time::timeout(LIST_LIMIT, namespaces.get_metadata_opt(name)).await;
        matches!(read, Ok(Ok(None)))
    }

    /// The certificates of the installation. Those in Secrets that this user may not read are left out.
    async fn certificates(
        &self,
        namespace: &str,
        servers: &[PolicyServer],
    ) -> Vec<ObservedCertificate> {
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let of_servers = servers
            .iter()
            .map(|server| names::policy_server(&server.name_any()));
        let wanted = [names::CA_SECRET, names::WEBHOOK_SECRET]
            .map(str::to_owned)
            .into_iter()
            .chain(of_servers);
        let reads = wanted.map(async |secret| {
            let read = tokio::time::timeout(LIST_LIMIT, secrets.get_opt(&secret)).await;
            let data = read.ok()?.ok()??.data?;
            let pem = data.get("tls.crt").or_else(|| data.get("ca.crt"))?;
            let pem = String::from_utf8_lossy(&pem.0);
            Some(ObservedCertificate {
                certificate: Certificate::from_pem(&pem).map_err(|error| error.to_string()),
                secret,
            })
        });
        join_all(reads).await.into_iter().flatten().collect()
    }
}

/// What runs in the namespace of the installation.
struct Workloads {
    sets: Vec<StatefulSet>,
    pods: Vec<Pod>,
    slices: Vec<EndpointSlice>,
    /// Whether the webhooks, which name the certificate authority of each server, could be read.
    are_webhooks_read: bool,
}

impl Workloads {
    async fn read(reader: &mut Reader, namespace: &str) -> Self {
        let client = reader.client.clone();
        let of_servers = ListParams::default().labels(names::WORKLOAD_POLICY_SERVER);
        let sets = Api::namespaced(client.clone(), namespace);
        let pods = Api::namespaced(client.clone(), namespace);
        let slices = Api::namespaced(client, namespace);
        let mut unread = reader.unread.iter();
        Self {
            are_webhooks_read: !unread.any(|unread| unread.list == List::Webhooks),
            sets: reader
                .list(List::StatefulSets, "StatefulSets", &sets, &of_servers)
                .await
                .items(),
            pods: reader
                .list(List::Pods, "Pods", &pods, &of_servers)
                .await
                .items(),
            slices: reader
                .list(
                    List::EndpointSlices,
                    "EndpointSlices",
                    &slices,
                    &ListParams::default(),
                )
                .await
                .items(),
        }
    }

    async fn server(
        &self,
        client: &Client,
        namespace: &str,
        server: &PolicyServer,
        webhooks: &[ObservedWebhook],
    ) -> ObservedServer {
        let name = server.name_any();
        let is_of_server = |labels: &BTreeMap<String, String>| {
            labels.get(names::WORKLOAD_POLICY_SERVER) == Some(&name)
        };
        let set = self.sets.iter().find(|set| is_of_server(set.labels()));
        let ready = set.map(|set| {
            let status = set.status.as_ref();
            status.and_then(|status| status.ready_replicas).unwrap_or(0)
        });
        let service = names::policy_server(&name);
        let mut called = webhooks
            .iter()
            .filter(|webhook| webhook.server.as_ref() == Some(&name));
        let ca_bundle = called.next().map(|webhook| webhook.ca_bundle.as_str());
        let pods = self
            .pods
            .iter()
            .filter(|pod| is_of_server(pod.labels()) && pod.metadata.deletion_timestamp.is_none());
        let replicas = pods.map(async |pod| ObservedReplica {
            pod: pod.name_any(),
            created: pod.creation_timestamp().map(|time| time.0),
            probe: match (self.local_address(&service, &pod.name_any()), ca_bundle) {
                (Some(address), Some(ca_bundle)) => {
                    probe::endpoint(&Endpoint {
                        address,
                        server_name: format!("{service}.{namespace}.svc"),
                        ca_bundle: ca_bundle.to_owned(),
                    })
                    .await
                }
                (Some(_), None) => Probe::NotAsked(if self.are_webhooks_read {
                    "no webhook calls it".to_owned()
                } else {
                    "its certificate authority is in webhooks that cannot be read".to_owned()
                }),
                (None, _) => {
                    let port = server.spec.readiness_probe_port;
                    probe::through_api_server(client, namespace, &pod.name_any(), port).await
                }
            },
        });
        let failures = server.status.iter().flat_map(|status| &status.conditions);
        let failures = failures.filter(|condition| condition.status == "False");
        ObservedServer {
            is_being_deleted: server.metadata.deletion_timestamp.is_some(),
            created: server.creation_timestamp().map(|time| time.0),
            desired: server.spec.replicas,
            ready,
            replicas: join_all(replicas).await,
            failures: failures
                .map(|condition| (condition.type_.clone(), condition.message.clone()))
                .collect(),
            name,
        }
    }

    /// The endpoints of the controller on this machine, and whether they answer.
    async fn controller(
        &self,
        namespace: &str,
        service: &str,
        ca_bundle: &str,
    ) -> Vec<(String, Probe)> {
        let addresses = self.addresses(service).map(|(_, address)| address);
        let asked = addresses
            .filter(|address| address.ip().is_loopback())
            .map(async |address| {
                let endpoint = Endpoint {
                    address,
                    server_name: format!("{service}.{namespace}.svc"),
                    ca_bundle: ca_bundle.to_owned(),
                };
                (address.to_string(), probe::endpoint(&endpoint).await)
            });
        join_all(asked).await
    }

    /// Where a Pod is reached for a Service, if that is on this machine.
    fn local_address(&self, service: &str, pod: &str) -> Option<SocketAddr> {
        self.addresses(service)
            .find(|(named, address)| *named == Some(pod) && address.ip().is_loopback())
            .map(|(_, address)| address)
    }

    /// The addresses of a Service at its first port, with the Pod of each.
    fn addresses(&self, service: &str) -> impl Iterator<Item = (Option<&str>, SocketAddr)> {
        let slices = self.slices.iter().filter(move |slice| {
            slice
                .labels()
                .get(SERVICE_NAME)
                .is_some_and(|it| it == service)
        });
        slices.flat_map(|slice| {
            let mut ports = slice.ports.iter().flatten();
            let port = ports.find_map(|port| u16::try_from(port.port?).ok());
            slice
                .endpoints
                .iter()
                .flatten()
                .filter_map(move |endpoint| {
                    let address: IpAddr = endpoint.addresses.first()?.parse().ok()?;
                    let pod = endpoint
                        .target_ref
                        .as_ref()
                        .and_then(|it| it.name.as_deref());
                    Some((pod, SocketAddr::new(address, port?)))
                })
        })
    }
}

/// The uids of policies that are not the same in two readings.
fn changed(before: &[Policy], after: &[Policy]) -> BTreeSet<String> {
    fn versions(policies: &[Policy]) -> BTreeSet<(&str, Option<&str>)> {
        policies
            .iter()
            .map(|policy| (policy.uid.as_str(), policy.resource_version.as_deref()))
            .collect()
    }
    let (before, after) = (versions(before), versions(after));
    let differing = before.symmetric_difference(&after);
    differing.map(|(uid, _)| (*uid).to_owned()).collect()
}

/// The webhook of a policy; others have no such annotation.
fn webhook(configuration: &Value) -> Option<ObservedWebhook> {
    let metadata = &configuration["metadata"];
    let hook = configuration["webhooks"].get(0)?;
    let service = &hook["clientConfig"]["service"];
    let server = service["name"].as_str();
    let generation = service["path"]
        .as_str()
        .and_then(|path| path.rsplit('/').next());
    Some(ObservedWebhook {
        name: metadata["name"].as_str()?.to_owned(),
        policy_uid: metadata["annotations"][names::POLICY_UID]
            .as_str()?
            .to_owned(),
        server: server
            .and_then(|server| server.strip_prefix(&names::policy_server("")))
            .map(str::to_owned),
        generation: generation.and_then(|generation| generation.parse().ok()),
        fails_open: hook["failurePolicy"] == "Ignore",
        ca_bundle: ca_bundle(hook),
    })
}

fn ca_bundle(hook: &Value) -> String {
    use base64::Engine as _;
    let encoded = hook["clientConfig"]["caBundle"]
        .as_str()
        .unwrap_or_default();
    let decoded = base64::engine::general_purpose::STANDARD.decode(encoded);
    String::from_utf8(decoded.unwrap_or_default()).unwrap_or_default()
}
