//! What policies of namespaces may not do: sections 12.2 and 16 (acceptance 33).

use std::net::SocketAddr;

use axum::Router;
use axum::response::Redirect;
use axum::routing::get;
use polity_testing::eventually;
use serde_json::json;

use super::world::{Replica, World, revision};
use crate::support::{METADATA, answering, module, wapc};

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

impl World {
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
        options.modules.sources = Some(sources);
        Replica::start(options).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_server_is_not_asked_about_itself() {
    let world = World::start().await;
    let address = web_server().await;
    let other = web_server().await;
    let replica = world.replica_with_source(address).await;
    let secret = world.folder.path().join("tls.key");
    std::fs::write(&secret, "SECRET").unwrap();
    for (name, module, words) in [
        (
            "file",
            format!("file://{}", secret.display()),
            "a policy of a namespace cannot name a file",
        ),
        (
            "loopback",
            format!("http://{other}/yes.wasm"),
            "is on the policy server's own machine or link",
        ),
        (
            "link-local",
            "http://169.254.169.254/latest/meta-data".to_owned(),
            "is on the policy server's own machine or link",
        ),
        (
            "registry",
            format!("registry://{other}/p:v1"),
            "is on the policy server's own machine or link",
        ),
        (
            "redirect",
            format!("http://{address}/away.wasm"),
            "sent the download elsewhere: to another scheme, out of reach, or too often",
        ),
    ] {
        let revision = world.add_namespaced(name, &module).await;
        world
            .until_told(
                &revision,
                "Scheduled=True/PolicyScheduled Initialized=False/PullError",
            )
            .await;
        let said = world
            .condition(&revision, "Initialized")
            .await
            .unwrap()
            .message;
        assert!(said.contains(words) && !said.contains("SECRET"), "{said}");
    }
    let listed = world
        .add_namespaced("listed", &format!("http://{address}/yes.wasm"))
        .await;
    world
        .until_answer(&replica, "namespaced-tenant-listed/1", (200, Some(true)))
        .await;
    assert!(world.told(&listed).await.contains("Initialized=True"));
    let cluster = world.add("c", 1, &world.guest("yes.wasm", true)).await;
    world
        .until_answer(&replica, "clusterwide-c/1", (200, Some(true)))
        .await;
    assert!(world.told(&cluster).await.contains("Initialized=True"));
    replica.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_capability_that_is_taken_away_is_refused_at_once() {
    let world = World::start().await;
    let address = web_server().await;
    let file = world.folder.path().join("server.yml");
    let grant = |list: &str| {
        std::fs::write(
            &file,
            format!("{{\"namespacedPoliciesCapabilities\":{list}}}"),
        )
        .unwrap();
    };
    grant(r#"["net/*"]"#);
    let replica = world.replica_with_source(address).await;
    let uri = format!("http://{address}/looking-up.wasm");
    world.add_namespaced("p", &uri).await;
    world.add("c", 1, &uri).await;
    world
        .until_answer(&replica, "namespaced-tenant-p/1", (200, Some(true)))
        .await;
    world
        .until_answer(&replica, "clusterwide-c/1", (200, Some(true)))
        .await;

    grant(r#"["oci/*"]"#);
    world
        .until_answer(&replica, "namespaced-tenant-p/1", (200, Some(false)))
        .await;
    assert_eq!(
        world.ask(&replica, "clusterwide-c/1").await,
        (200, Some(true)),
        "cluster kinds have all of them"
    );
    grant(r#"["*"]"#);
    eventually("it is granted again", || async {
        world.ask(&replica, "namespaced-tenant-p/1").await == (200, Some(true))
    })
    .await;
    replica.stop().await;
}
