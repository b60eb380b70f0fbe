//! What policies of namespaces may not do, and what host calls of any policy may not reach.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::response::Redirect;
use axum::routing::get;
use polity_testing::eventually;
use serde_json::json;

use super::test_cluster::{Replica, TestCluster, revision};
use crate::support::{METADATA, answering, module, wapc, write_guest};

/// A guest that accepts if it may look up a name.
fn looking_up() -> String {
    wapc(
        r#"(data (i32.const 0) "kubewarden")
  (data (i32.const 16) "net")
  (data (i32.const 32) "v1/dns_lookup_host")
  (data (i32.const 64) "\"localhost\"")
  (data (i32.const 128) "{\"accepted\":true}")
  (data (i32.const 160) "{\"accepted\":false}")
  (func $validate
    (if (call $host_call (i32.const 0) (i32.const 10) (i32.const 16) (i32.const 3) (i32.const 32) (i32.const 18)
          (i32.const 64) (i32.const 11))
      (then (call $response (i32.const 128) (i32.const 17)))
      (else (call $response (i32.const 160) (i32.const 18)))))"#,
    )
}

/// A guest that accepts if a registry gives it the digest of an image. The registry is 21 characters long.
fn asking_for_digest(registry: SocketAddr) -> String {
    let image = format!("\\\"{registry}/image:v1\\\"");
    let n_payload = image.len() - 2;
    wapc(&format!(
        r#"(data (i32.const 0) "kubewarden")
  (data (i32.const 16) "oci")
  (data (i32.const 32) "v1/manifest_digest")
  (data (i32.const 64) "{image}")
  (data (i32.const 128) "{{\"accepted\":true}}")
  (data (i32.const 160) "{{\"accepted\":false}}")
  (func $validate
    (if (call $host_call (i32.const 0) (i32.const 10) (i32.const 16) (i32.const 3) (i32.const 32) (i32.const 18)
          (i32.const 64) (i32.const {n_payload}))
      (then (call $response (i32.const 128) (i32.const 17)))
      (else (call $response (i32.const 160) (i32.const 18)))))"#
    ))
}

/// A registry on this machine with an image in it, and the number of requests to it.
async fn registry() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let n_asked = Arc::new(AtomicUsize::new(0));
    let count = n_asked.clone();
    let router = Router::new().fallback(async move || {
        count.fetch_add(1, Ordering::SeqCst);
        let digest = format!("sha256:{}", "a".repeat(64));
        ([("docker-content-digest", digest)], "{}")
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, n_asked)
}

/// A web server with modules, on this machine.
async fn web_server() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let yes = module(METADATA, &answering(r#"{"accepted":true}"#));
    let looking_up = module(METADATA, &looking_up());
    let router = Router::new()
        .route("/yes.wasm", get(async move || yes))
        .route("/looking-up.wasm", get(async move || looking_up))
        .route(
            "/away.wasm",
            get(async || Redirect::temporary("http://169.254.169.254/secret")),
        );
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

impl TestCluster {
    async fn add_namespaced(&self, policy: &str, module: &str) -> String {
        let spec = json!({
            "module": module,
            "contextAwareResources": [{"apiVersion": "v1", "kind": "Secret"}],
        });
        self.add_object(revision("AdmissionPolicy", policy, 1, spec))
            .await
    }

    async fn replica_with_source(&self, address: SocketAddr) -> Replica {
        let sources = self.folder.path().join("sources.yml");
        std::fs::write(&sources, format!("insecure_sources: [\"{address}\"]")).unwrap();
        let mut options = self.options(0, self.client.clone());
        options.server.modules.sources = Some(sources);
        Replica::start(options).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_server_is_not_asked_about_itself() {
    let cluster = TestCluster::start().await;
    let address = web_server().await;
    let other = web_server().await;
    let replica = cluster.replica_with_source(address).await;
    let secret = cluster.folder.path().join("tls.key");
    std::fs::write(&secret, "SECRET").unwrap();
    for (name, module, reason, words) in [
        (
            "file",
            format!("file://{}", secret.display()),
            "ModuleInvalid",
            "a policy of a namespace cannot name a file",
        ),
        (
            "loopback",
            format!("http://{other}/yes.wasm"),
            "PullError",
            "is on this machine, its link",
        ),
        (
            "link-local",
            "http://169.254.169.254/latest/meta-data".to_owned(),
            "PullError",
            "is on this machine, its link",
        ),
        (
            "registry",
            format!("registry://{other}/p:v1"),
            "PullError",
            "is on this machine, its link",
        ),
        (
            "redirect",
            format!("http://{address}/away.wasm"),
            "PullError",
            "169.254.169.254 is on this machine, its link",
        ),
    ] {
        let revision = cluster.add_namespaced(name, &module).await;
        cluster
            .until_conditions(
                &revision,
                &format!("Scheduled=True/PolicyScheduled Initialized=False/{reason}"),
            )
            .await;
        let said = cluster
            .condition(&revision, "Initialized")
            .await
            .unwrap()
            .message;
        assert!(said.contains(words) && !said.contains("SECRET"), "{said}");
    }
    let listed = cluster
        .add_namespaced("listed", &format!("http://{address}/yes.wasm"))
        .await;
    cluster
        .until_answer(&replica, "namespaced-tenant-listed/1", (200, Some(true)))
        .await;
    assert!(
        cluster
            .conditions(&listed)
            .await
            .contains("Initialized=True")
    );
    let clusterwide = cluster.add("c", 1, &cluster.guest("yes.wasm", true)).await;
    cluster
        .until_answer(&replica, "clusterwide-c/1", (200, Some(true)))
        .await;
    assert!(
        cluster
            .conditions(&clusterwide)
            .await
            .contains("Initialized=True")
    );
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_capability_that_is_taken_away_is_refused_at_once() {
    let cluster = TestCluster::start().await;
    let address = web_server().await;
    let file = cluster.folder.path().join("server.yml");
    let grant = |list: &str| {
        std::fs::write(
            &file,
            format!("{{\"namespacedPoliciesCapabilities\":{list}}}"),
        )
        .unwrap();
    };
    grant(r#"["net/*"]"#);
    let replica = cluster.replica_with_source(address).await;
    let uri = format!("http://{address}/looking-up.wasm");
    cluster.add_namespaced("p", &uri).await;
    cluster.add("c", 1, &uri).await;
    cluster
        .until_answer(&replica, "namespaced-tenant-p/1", (200, Some(true)))
        .await;
    cluster
        .until_answer(&replica, "clusterwide-c/1", (200, Some(true)))
        .await;

    grant(r#"["oci/*"]"#);
    cluster
        .until_answer(&replica, "namespaced-tenant-p/1", (200, Some(false)))
        .await;
    assert_eq!(
        cluster.ask(&replica, "clusterwide-c/1").await,
        (200, Some(true)),
        "cluster kinds have all of them"
    );
    grant(r#"["*"]"#);
    eventually("it is granted again", || async {
        cluster.ask(&replica, "namespaced-tenant-p/1").await == (200, Some(true))
    })
    .await;
    replica.stop().await;
}

/// Whoever creates an object chooses the image that a policy asks about, so the limit holds for policies of all kinds.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn host_calls_do_not_reach_this_machine() {
    let cluster = TestCluster::start().await;
    let (listed, n_listed) = registry().await;
    let (hidden, n_hidden) = registry().await;
    let replica = cluster.replica_with_source(listed).await;
    for (policy, registry, is_reached) in [("listed", listed, true), ("hidden", hidden, false)] {
        let guest = asking_for_digest(registry);
        let name = format!("{policy}.wasm");
        let uri = write_guest(cluster.folder.path(), &name, METADATA, &guest);
        cluster.add(policy, 1, &uri).await;
        let path = format!("clusterwide-{policy}/1");
        cluster
            .until_answer(&replica, &path, (200, Some(is_reached)))
            .await;
    }
    assert!(n_listed.load(Ordering::SeqCst) > 0);
    assert_eq!(n_hidden.load(Ordering::SeqCst), 0);
    replica.stop().await;
}
