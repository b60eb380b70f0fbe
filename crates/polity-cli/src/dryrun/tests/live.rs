//! `--from-cluster` against an API server: what it confirms, and that files of the same objects say the same.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use polity_testing::{TestServer, eventually, objects};
use serde_json::Value;

use super::super::generate;
use super::*;

/// A server with a few objects, how to reach it, and the same objects in a file.
struct Cluster {
    runtime: tokio::runtime::Runtime,
    server: TestServer,
    folder: tempfile::TempDir,
}

impl Cluster {
    fn new() -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let server = runtime.block_on(async {
            let server = TestServer::start().await;
            let client = server.client().await;
            let all = PostParams::default();
            let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
            let web = objects::deployment("web", 1);
            let web = deployments.create(&all, &web).await.unwrap();
            let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
            let sizes = objects::config_map("sizes", [("web", "1")]);
            let sizes = maps.create(&all, &sizes).await.unwrap();
            let stored = [
                object("apps/v1", "Deployment", &web),
                object("v1", "ConfigMap", &sizes),
            ];
            let text = stored.map(|object| object.to_string()).join("\n---\n");
            std::fs::write(folder.path().join("state.yaml"), text).unwrap();
            server
        });
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(kubeconfig, server.kubeconfig()).unwrap();
        Self {
            runtime,
            server,
            folder,
        }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// What the cluster says of a definition, and what the file says.
    fn both(&self, definition: &str) -> (String, String) {
        let policy = format!(
            "apiVersion: policy.open-cluster-management.io/v1\nkind: ConfigurationPolicy\nmetadata: {{name: p}}\nspec:\n\
             \x20 remediationAction: inform\n  object-templates:\n  - complianceType: musthave\n    objectDefinition: {definition}\n"
        );
        std::fs::write(self.path("policy.yaml"), policy).unwrap();
        let run = |flags: &[&str]| {
            let policy = self.path("policy.yaml");
            let flags: Vec<&str> = ["-p", &policy].iter().chain(flags).copied().collect();
            dryrun(&flags).unwrap_or_else(|error| format!("error: {error:#}"))
        };
        let kubeconfig = self.path("kubeconfig");
        let live = run(&["--from-cluster", "--kubeconfig", &kubeconfig]);
        (live, run(&[&self.path("state.yaml")]))
    }

    fn stop(self) {
        self.runtime.block_on(self.server.stop());
    }
}

/// A stored object with its kind, which typed clients leave out.
fn object(api_version: &str, kind: &str, object: &impl serde::Serialize) -> Value {
    let mut object = serde_json::to_value(object).unwrap();
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object
}

#[test]
fn a_cluster_and_files_of_it_say_the_same() {
    let cluster = Cluster::new();
    let web = |spec: &str| {
        format!(
            "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web, namespace: default}}, spec: {spec}}}"
        )
    };
    for (definition, expected) in [
        // As it was written, and as the server completed it.
        (
            web("{replicas: 1}"),
            "Compliant; notification - deployments [web] found as specified in namespace default\n[exit 0]",
        ),
        (
            web(
                "{paused: false, strategy: {type: RollingUpdate}, template: {spec: {hostNetwork: false, restartPolicy: Always}}}",
            ),
            "Compliant; notification - deployments [web] found as specified in namespace default\n[exit 0]",
        ),
        (
            web("{replicas: 3}"),
            "NonCompliant; violation - deployments [web] found but not as specified in namespace default\n[exit 2]",
        ),
        (
            web("{replicsa: 3}"),
            "strict decoding error: unknown field \"spec.replicsa\"",
        ),
        // A template looks a number up.
        (
            web(r#"{replicas: '{{ fromConfigMap "default" "sizes" "web" | toInt }}'}"#),
            "Compliant; notification - deployments [web] found as specified in namespace default\n[exit 0]",
        ),
        (
            "{apiVersion: v1, kind: Widget, metadata: {name: w}}".to_owned(),
            "[exit 2]",
        ),
    ] {
        let (live, files) = cluster.both(&definition);
        assert!(live.contains(expected), "{definition}: {live}");
        assert_eq!(essence(&live), essence(&files), "{definition}");
    }
    cluster.stop();
}

/// The answer without the lines around differences: a file has lost what only a server gives.
fn essence(text: &str) -> Vec<&str> {
    let is_context = |line: &str| line.starts_with(' ') || line.starts_with("@@");
    text.lines().filter(|line| !is_context(line)).collect()
}

#[test]
fn kinds_are_generated_from_discovery() {
    let cluster = Cluster::new();
    let text = cluster.runtime.block_on(async {
        let client = cluster.server.client().await;
        let definitions = Api::all(client.clone());
        let definition = objects::widget_definition();
        let all = PostParams::default();
        definitions.create(&all, &definition).await.unwrap();
        eventually("the kinds of the definition are served", || async {
            let text = generate::mappings_of(&client).await.unwrap();
            text.contains("Kind: Widget").then_some(text)
        })
        .await
    });
    for expected in [
        "- Group: \"\"\n  Kind: Pod\n  Plural: pods\n  Scope: namespace\n  Singular: pod\n  Version: v1\n",
        "- Group: apps\n  Kind: Deployment\n  Plural: deployments\n",
    ] {
        assert!(text.contains(expected), "{text}");
    }
    assert!(!text.contains('/'), "no subresources: {text}");
    cluster.stop();
}

#[test]
fn a_cluster_that_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig").display().to_string();
    let policy = samples().join("differs/policy.yaml").display().to_string();
    let error =
        dryrun(&["-p", &policy, "--from-cluster", "--kubeconfig", &kubeconfig]).unwrap_err();
    assert!(format!("{error:#}").contains("kubeconfig"), "{error:#}");
}
