//! Standalone mode with configuration files of every format, with and without a cluster.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;

use serde_json::json;

use crate::client::pod;
use crate::server::{Home, answering, ours};

/// A file from before host capabilities, one in the format of the Kubewarden controller, and one in the current
/// format.
fn files_of_each_era(module: &str) -> [String; 3] {
    [
        format!(
            "p: {{module: '{module}', policyMode: protect, allowedToMutate: false, settings: null}}"
        ),
        json!({"p": {
            "module": module, "policyMode": "protect", "allowedToMutate": true, "settings": {},
            "contextAwareResources": [], "namespacedName": {"Namespace": "", "Name": "p"},
        }})
        .to_string(),
        format!("p: {{module: '{module}', hostCapabilities: ['*'], timeoutEvalSeconds: 5}}"),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_no_policy_reads_is_not_asked() {
    let cluster = TcpListener::bind("127.0.0.1:0").unwrap();
    cluster.set_nonblocking(true).unwrap();
    let home = Home::new("");
    let yes = home.write_guest("yes.wasm", &answering(r#"{"accepted":true}"#));
    let kubeconfig = home.path("kubeconfig");
    let server = format!("http://{}", cluster.local_addr().unwrap());
    fs::write(
        &kubeconfig,
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": ""}}],
        })
        .to_string(),
    )
    .unwrap();
    let kubeconfig = kubeconfig.display().to_string();
    let mut home = Some(home);
    for file in files_of_each_era(&yes) {
        let here = home.take().unwrap();
        here.write_policies(&file);
        let server = here.start_with(&[], &[("KUBECONFIG", &kubeconfig)]);
        let response = server.client().response("p", &pod("nginx:1", false)).await;
        assert_eq!(response["allowed"], true, "{file}");
        drop(server.process);
        home = Some(server.home);
    }
    let asked = cluster.accept().map(|(_, from)| from);
    assert_eq!(asked.unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_that_reads_a_cluster_can_do_without_where_that_is_said() {
    let Some(reading) = ours("unique-ingress-hosts") else {
        return;
    };
    let home = Home::new("");
    let yes = home.write_guest("yes.wasm", &answering(r#"{"accepted":true}"#));
    home.write_policies(&format!(
        "p: {{module: '{yes}'}}
hosts:
  module: '{reading}'
  contextAwareResources: [{{apiVersion: networking.k8s.io/v1, kind: Ingress}}]"
    ));
    let command = &mut home.command(&[]);
    let exit = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&exit.stderr).into_owned();
    assert_eq!(exit.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("cluster"), "{stderr}");

    let server = home.start(&["--ignore-kubernetes-connection-failure"]);
    let client = server.client();
    let response = client.response("p", &pod("nginx:1", false)).await;
    assert_eq!(response["allowed"], true, "{response}");
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "i"},
        "spec": {"rules": [{"host": "shop.example"}]},
    });
    let response = client.response("hosts", &ingress).await;
    assert_eq!(response["allowed"], false, "{response}");
    assert!(
        response
            .to_string()
            .contains("needs a cluster, and there is none"),
        "{response}"
    );
}
