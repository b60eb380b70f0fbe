//! A policy that reads a cluster: live, recorded, and replayed without a cluster.

use std::fs;

use e2e::Polity;
use serde_json::json;

use crate::support::{TestHome, module, request};

#[test]
fn cluster_reads_can_be_recorded_and_replayed() {
    let Some(hosts) = module("unique-ingress-hosts") else {
        return;
    };
    let home = TestHome::new();
    let data = home.path().join("data");
    let server = Polity::apiserver(&data);
    let kubeconfig = server.kubeconfig().to_str().unwrap().to_owned();
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {"rules": [{"host": "shop.example"}]},
    });
    create(&kubeconfig, ingress);

    let object =
        json!({"metadata": {"name": "new"}, "spec": {"rules": [{"host": "shop.example"}]}});
    let request = home.write("request.json", request("Ingress", object).to_string());
    let talk = home.path().join("talk.yml");
    let talk = talk.to_str().unwrap();
    let run = ["run", &hosts, "-r", &request, "--allow-context-aware"];
    let live = [
        "--kubeconfig",
        &kubeconfig,
        "--record-host-capabilities-interactions",
        talk,
    ];
    let output = home.policy(&[&run[..], &live].concat());
    let message = "host shop.example belongs to Ingress default/shop";
    assert_eq!(output.json()["status"]["message"], message, "{output:?}");
    assert!(
        fs::read_to_string(talk)
            .unwrap()
            .contains("!KubernetesListResourceAll")
    );

    server.interrupt();
    let replayed = ["--replay-host-capabilities-interactions", talk];
    let output = home.policy(&[&run[..], &replayed].concat());
    assert_eq!(output.json()["status"]["message"], message, "{output:?}");
    let output = home.policy(&run);
    assert_eq!(output.code, 2, "there is no cluster: {output:?}");
    assert!(output.err.contains("hint: "), "{output:?}");
}

fn create(kubeconfig: &str, object: serde_json::Value) {
    use kube::api::{Api, DynamicObject, PostParams};
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let args = polity_runtime::args::ClientArgs {
            kubeconfig: Some(kubeconfig.into()),
            ..polity_runtime::args::ClientArgs::default()
        };
        let client = polity_runtime::client::connect(&args).await.unwrap();
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let kind = kube::api::GroupVersionKind::gvk("networking.k8s.io", "v1", "Ingress");
        let resource = kube::api::ApiResource::from_gvk_with_plural(&kind, "ingresses");
        let api: Api<DynamicObject> = Api::namespaced_with(client, "default", &resource);
        api.create(&PostParams::default(), &object).await.unwrap();
    });
}
