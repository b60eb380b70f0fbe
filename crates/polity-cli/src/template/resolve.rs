//! `polity template resolve`: what a policy becomes, with its templates resolved as hub and managed cluster
//! would do it.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use polity_core::yaml_out::to_yaml;
use polity_template::policy::{has_hub_templates, resolve_hub, resolve_managed};
use polity_template::{
    Context, Host as _, Limits, LookupScope, PolicyMetadata, Query, Resolver, Rules, Side,
    has_template,
};
use serde_json::Value;

use crate::exit::{Exit, Hinted};
use crate::manifests::load_with_warnings;
use jiff::Timestamp;
use polity_runtime::args::ClientArgs;
use polity_runtime::clock::Clock;
use polity_source::cluster::{ClusterModel, LiveReader, ObjectCache, TemplateHost};
use polity_source::{Document, Manifests};
use tokio::runtime::Handle;

/// Resolve the templates in a policy
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Managed templates against objects in files
  polity template resolve policy.yaml --resources cluster/

  # Hub templates for one cluster, then its own
  polity template resolve policy.yaml --cluster-name c1 \\
      --hub-resources hub/ --resources cluster/

  # The same against two running clusters
  polity template resolve policy.yaml --cluster-name c1 \\
      --hub-kubeconfig ~/.kube/hub --kubeconfig ~/.kube/c1

  # Any text with templates
  polity template resolve notes.txt --resources cluster/

Without --cluster-name hub templates are left as they are. Lookups of hub
templates are limited to the namespace of the policy, unless it names a service
account in spec.hubTemplateOptions.")]
pub(super) struct ResolveArgs {
    /// A Policy, ConfigurationPolicy, OperatorPolicy or any text; `-` is standard input
    #[arg(value_name = "FILE|-")]
    file: PathBuf,
    /// The managed cluster for which hub templates are resolved
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    /// Objects of the hub, for lookups of hub templates
    #[arg(long, value_name = "DIR|FILE", conflicts_with = "hub_kubeconfig")]
    hub_resources: Vec<PathBuf>,
    /// The hub itself
    #[arg(long, value_name = "PATH")]
    hub_kubeconfig: Option<PathBuf>,
    /// The context to use of the hub's kubeconfig
    #[arg(long, value_name = "NAME", requires = "hub_kubeconfig")]
    hub_context: Option<String>,
    /// Objects of the managed cluster, for lookups of its templates
    #[arg(long, value_name = "DIR|FILE", conflicts_with = "kubeconfig")]
    resources: Vec<PathBuf>,
    /// The managed cluster itself
    #[arg(long, value_name = "PATH")]
    kubeconfig: Option<PathBuf>,
    /// The context to use of the managed cluster's kubeconfig
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,
    /// `.ObjectNamespace` of managed templates
    #[arg(long, value_name = "NAMESPACE")]
    object_namespace: Option<String>,
    /// `.ObjectName` of managed templates
    #[arg(long, value_name = "NAME")]
    object_name: Option<String>,
    /// A function that templates may not use, besides those that are always refused
    #[arg(long, value_name = "FUNCTION")]
    deny_function: Vec<String>,
    /// Print JSON instead of YAML
    #[arg(long)]
    json: bool,
}

impl ResolveArgs {
    pub(super) async fn run(self) -> anyhow::Result<Exit> {
        let Self {
            file,
            cluster_name,
            hub_resources,
            hub_kubeconfig,
            hub_context,
            resources,
            kubeconfig,
            context,
            object_namespace,
            object_name,
            deny_function,
            json,
        } = self;
        let hub = cluster(&hub_resources, hub_kubeconfig, hub_context).await?;
        let managed = cluster(&resources, kubeconfig, context).await?;
        let resolution = Resolution {
            hub,
            managed,
            now: Clock::system().now(),
            cluster_name,
            object: Context::Managed {
                namespace: object_namespace,
                name: object_name,
                object: None,
            },
            denied_functions: deny_function,
        };
        let (name, text) = read(&file)?;
        let text = resolution.text(&name, &text, json)?;
        std::io::stdout().lock().write_all(text.as_bytes())?;
        Ok(Exit::Fine)
    }
}

/// The objects to look up: those of a running cluster, or those of files.
async fn cluster(
    resources: &[PathBuf],
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
) -> anyhow::Result<ClusterModel> {
    if let Some(kubeconfig) = kubeconfig {
        return live_cluster(kubeconfig, context).await;
    }
    let manifests = load_with_warnings(resources)?;
    Ok(ClusterModel::new(ObjectCache::from_manifests(&manifests)))
}

async fn live_cluster(
    kubeconfig: PathBuf,
    context: Option<String>,
) -> anyhow::Result<ClusterModel> {
    let args = ClientArgs {
        kubeconfig: Some(kubeconfig),
        context,
        ..ClientArgs::default()
    };
    let client = crate::connect(&args).await?;
    Ok(ClusterModel::live(LiveReader::new(
        client,
        Handle::current(),
    )))
}

/// A file and what to call it.
pub(super) fn read(file: &Path) -> anyhow::Result<(String, String)> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("reading standard input")?;
        return Ok(("stdin".to_owned(), text));
    }
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {name}"))?;
    Ok((name, text))
}

/// How templates are resolved.
struct Resolution {
    hub: ClusterModel,
    managed: ClusterModel,
    now: Timestamp,
    cluster_name: Option<String>,
    object: Context,
    denied_functions: Vec<String>,
}

impl Resolution {
    /// A file of policies, or any other text.
    fn text(&self, name: &str, text: &str, json: bool) -> anyhow::Result<String> {
        let manifests = Manifests::from_text(name, text);
        let are_policies = !manifests.documents.is_empty();
        let values = if are_policies {
            if let Some(problem) = manifests.problems.first() {
                anyhow::bail!("{problem}");
            }
            let documents = manifests.documents.iter();
            documents
                .map(|document| {
                    let place = || {
                        let Document { origin, kind, .. } = document;
                        format!("{origin}: resolving {} {}", kind.kind, document.name())
                    };
                    self.policy(&document.object).with_context(place)
                })
                .collect::<anyhow::Result<Vec<Value>>>()?
        } else {
            vec![self.raw(text).with_context(|| name.to_owned())?]
        };
        let written: Vec<String> = values
            .iter()
            .map(|value| {
                if json {
                    Ok(serde_json::to_string_pretty(value)? + "\n")
                } else {
                    Ok(to_yaml(value))
                }
            })
            .collect::<anyhow::Result<_>>()?;
        Ok(written.join(if json { "" } else { "---\n" }))
    }

    fn rules(&self, side: Side) -> Rules {
        Rules {
            denied_functions: self.denied_functions.clone(),
            ..Rules::of(side)
        }
    }

    fn raw(&self, text: &str) -> anyhow::Result<Value> {
        let rules = self.rules(Side::Managed);
        let resolver = Resolver {
            host: &TemplateHost::new(&self.managed, self.now),
            rules: &rules,
            limits: Limits::default(),
        };
        Ok(resolver.resolve_text(text, &self.object)?.value)
    }

    fn policy(&self, object: &Value) -> anyhow::Result<Value> {
        if object["kind"] != "Policy" {
            return self.member(object);
        }
        let mut policy = match &self.cluster_name {
            Some(cluster_name) => self.hub_policy(object, cluster_name)?,
            None => {
                if has_hub_templates(object) {
                    eprintln!(
                        "hint: hub templates, and the others of the same definition, are left as they are; --cluster-name resolves them"
                    );
                }
                object.clone()
            }
        };
        let templates = policy
            .pointer_mut("/spec/policy-templates")
            .and_then(Value::as_array_mut);
        for template in templates.into_iter().flatten() {
            if let Some(definition) = template.get_mut("objectDefinition") {
                *definition = self.member(definition)?;
            }
        }
        Ok(policy)
    }

    fn hub_policy(&self, policy: &Value, cluster_name: &str) -> anyhow::Result<Value> {
        let text = |path: &str| {
            policy
                .pointer(path)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let namespace = text("/metadata/namespace");
        let mut rules = self.rules(Side::Hub);
        if text("/spec/hubTemplateOptions/serviceAccountName").is_empty() {
            rules.scope = Some(LookupScope {
                namespace: namespace.to_owned(),
                cluster_name: cluster_name.to_owned(),
            });
        }
        let context = Context::Hub {
            cluster_name: cluster_name.to_owned(),
            cluster_labels: self.cluster_labels(cluster_name)?,
            policy: PolicyMetadata {
                name: text("/metadata/name").to_owned(),
                namespace: namespace.to_owned(),
                labels: texts(&policy["metadata"]["labels"]),
                annotations: texts(&policy["metadata"]["annotations"]),
            },
        };
        let resolver = Resolver {
            host: &TemplateHost::new(&self.hub, self.now),
            rules: &rules,
            limits: Limits::default(),
        };
        let resolution = resolve_hub(policy, &resolver, &context);
        for secret in &resolution.noticed.plain_secrets {
            eprintln!(
                "warning: lookup gives the content of secret {secret} in plain text, fromSecret encrypts it"
            );
        }
        if let Some((index, error)) = resolution.errors.into_iter().next() {
            return Err(anyhow::Error::from(error)
                .context(format!("hub templates of policy-templates[{index}]")));
        }
        Ok(resolution.policy)
    }

    fn cluster_labels(&self, cluster_name: &str) -> anyhow::Result<BTreeMap<String, String>> {
        let query = Query {
            api_version: "cluster.open-cluster-management.io/v1",
            kind: "ManagedCluster",
            namespace: "",
            selector: "",
        };
        let hub = TemplateHost::new(&self.hub, self.now);
        let cluster = hub.get(&query, cluster_name)?;
        if cluster.is_none() {
            eprintln!("warning: the hub has no ManagedCluster {cluster_name}, so it has no labels");
        }
        Ok(cluster
            .map(|cluster| texts(&cluster["metadata"]["labels"]))
            .unwrap_or_default())
    }

    /// A policy of the managed cluster. What still holds hub templates cannot be resolved further.
    fn member(&self, definition: &Value) -> anyhow::Result<Value> {
        let still_hub = has_template(&definition.to_string(), Side::Hub, false);
        if still_hub && self.cluster_name.is_some() {
            return Err(Hinted::new(
                "a policy of a managed cluster holds hub templates",
                "hub templates are resolved in the policy-templates of a Policy only",
            )
            .into());
        }
        if still_hub {
            return Ok(definition.clone());
        }
        let rules = self.rules(Side::Managed);
        let resolver = Resolver {
            host: &TemplateHost::new(&self.managed, self.now),
            rules: &rules,
            limits: Limits::default(),
        };
        Ok(resolve_managed(definition, &resolver, &self.object)?.0)
    }
}

fn texts(map: &Value) -> BTreeMap<String, String> {
    let map = map.as_object().into_iter().flatten();
    map.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use kube::Api;
    use kube::api::PostParams;
    use polity_api::cluster::v1::ManagedCluster;
    use polity_testing::{TestServer, eventually, objects};

    use super::*;

    fn resolution(hub: &str, managed: &str, cluster_name: Option<&str>) -> Resolution {
        let cluster = |text: &str| {
            let manifests = Manifests::from_text("objects.yaml", text);
            ClusterModel::new(ObjectCache::from_manifests(&manifests))
        };
        Resolution {
            hub: cluster(hub),
            managed: cluster(managed),
            now: Clock::system().now(),
            cluster_name: cluster_name.map(str::to_owned),
            object: Context::default(),
            denied_functions: Vec::new(),
        }
    }

    const HUB: &str = "
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: c1, labels: {zone: north}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: sizes, namespace: policies}
data: {c1: '3'}
";
    const MANAGED: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: here, namespace: default}
data: {colour: green}
";
    const POLICY: &str = "
apiVersion: policy.open-cluster-management.io/v1
kind: Policy
metadata: {name: p, namespace: policies}
spec:
  remediationAction: inform
  disabled: false
  policy-templates:
  - objectDefinition:
      apiVersion: policy.open-cluster-management.io/v1
      kind: ConfigurationPolicy
      metadata: {name: c}
      spec:
        object-templates:
        - complianceType: musthave
          objectDefinition:
            apiVersion: v1
            kind: ConfigMap
            metadata: {name: x, namespace: default}
            data:
              size: '{{hub fromConfigMap \"\" \"sizes\" .ManagedClusterName hub}}'
              zone: '{{hub .ManagedClusterLabels.zone hub}}'
              colour: '{{ fromConfigMap \"default\" \"here\" \"colour\" | upper }}'
";

    #[test]
    fn hub_templates_are_resolved_before_managed_ones() {
        let text = resolution(HUB, MANAGED, Some("c1"))
            .text("policy.yaml", POLICY, false)
            .unwrap();
        assert!(text.contains("size: \"3\"\n"), "{text}");
        assert!(text.contains("zone: north\n"), "{text}");
        assert!(text.contains("colour: GREEN\n"), "{text}");
        // Without a cluster they stay, and nothing behind them is resolved.
        let text = resolution(HUB, MANAGED, None)
            .text("policy.yaml", POLICY, false)
            .unwrap();
        assert!(
            text.contains("{{hub .ManagedClusterLabels.zone hub}}"),
            "{text}"
        );
    }

    #[test]
    fn any_text_is_resolved_as_yaml() {
        let resolution = resolution("", MANAGED, None);
        let text = "a: {{ fromConfigMap \"default\" \"here\" \"colour\" }}\n";
        assert_eq!(resolution.text("x.txt", text, false).unwrap(), "a: green\n");
        assert_eq!(
            resolution.text("x.txt", text, true).unwrap(),
            "{\n  \"a\": \"green\"\n}\n"
        );
        let error = resolution
            .text("x.txt", "a: {{ fail \"no\" }}", false)
            .unwrap_err();
        assert!(
            format!("{error:#}").contains("error calling fail: no"),
            "{error:#}"
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_the_file() {
        let resolution = resolution("", MANAGED, None);
        for (text, expected) in [
            ("a: [", "x.yaml: "),
            ("a: {{ fail \"no\" }}", "x.yaml: "),
            (
                "# here\napiVersion: policy.open-cluster-management.io/v1\nkind: ConfigurationPolicy\n\
                 metadata: {name: c}\nspec: {object-templates: [{objectDefinition: {a: '{{ fail \"no\" }}'}}]}",
                "x.yaml:2: resolving ConfigurationPolicy c: ",
            ),
        ] {
            let error = resolution.text("x.yaml", text, false).unwrap_err();
            assert!(format!("{error:#}").starts_with(expected), "{error:#}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn lookups_in_running_clusters() {
        let server = TestServer::builder().members(["c1"]).start().await;
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, server.kubeconfig()).unwrap();
        let here = objects::config_map("here", [("colour", "green")]);
        let members: Api<ConfigMap> = Api::default_namespaced(server.client_of("c1").await);
        let all = PostParams::default();
        members.create(&all, &here).await.unwrap();
        let hub = server.client().await;
        let namespaces: Api<Namespace> = Api::all(hub.clone());
        let policies = objects::namespace("policies");
        namespaces.create(&all, &policies).await.unwrap();
        let sizes = objects::config_map("sizes", [("c1", "3")]);
        let maps: Api<ConfigMap> = Api::namespaced(hub.clone(), "policies");
        maps.create(&all, &sizes).await.unwrap();
        install_clusters(&hub).await;

        let cluster = |context: &str| live_cluster(kubeconfig.clone(), Some(context.to_owned()));
        let resolution = Resolution {
            hub: cluster("polity").await.unwrap(),
            managed: cluster("polity-c1").await.unwrap(),
            now: Clock::system().now(),
            cluster_name: Some("c1".to_owned()),
            object: Context::default(),
            denied_functions: Vec::new(),
        };
        let text = resolution.text("policy.yaml", POLICY, false).unwrap();
        for expected in ["size: \"3\"\n", "zone: north\n", "colour: GREEN\n"] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        let missing = "a: {{ (lookup \"v9\" \"Widget\" \"\" \"\").items }}\n";
        let error = resolution.text("x.txt", missing, false).unwrap_err();
        assert!(
            format!("{error:#}")
                .contains("one or more API resources are not installed on the API server"),
            "{error:#}"
        );
        server.stop().await;
    }

    /// The kind ManagedCluster, and the cluster of [`HUB`].
    async fn install_clusters(hub: &kube::Client) {
        let definitions: Api<CustomResourceDefinition> = Api::all(hub.clone());
        let mut known = polity_api::crd::crds().into_iter();
        let definition = known
            .find(|crd| crd.spec.names.kind == "ManagedCluster")
            .unwrap();
        let all = PostParams::default();
        definitions.create(&all, &definition).await.unwrap();
        let clusters: Api<ManagedCluster> = Api::all(hub.clone());
        let manifests = Manifests::from_text("hub.yaml", HUB);
        let mut cluster = manifests.documents[0].object.clone();
        cluster["spec"] = serde_json::json!({"hubAcceptsClient": true});
        let cluster: ManagedCluster = serde_json::from_value(cluster).unwrap();
        eventually("the definition is served", || async {
            clusters.create(&all, &cluster).await.ok()
        })
        .await;
    }
}
