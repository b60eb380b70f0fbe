//! A full disk: writes are refused with a clear Status, reads keep working, and no acknowledged write is lost.

use std::process::Command;

use e2e::polity::{self, Polity};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ListParams, PostParams};
use polity_testing::objects::config_map;

use crate::test_namespace::{block_on, connect};

/// Maximum file size in blocks of 512 bytes. A write beyond it fails instead of killing the process.
const LIMIT: &str = "20480";

#[test]
fn a_full_disk_refuses_writes_and_serves_reads() {
    let folder = polity::folder();
    let data = folder.path().join("data");
    let arguments = ["--listen", "127.0.0.1:0", "--data-dir"];
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "trap '' XFSZ; ulimit -f \"$0\"; exec \"$@\"", LIMIT])
        .arg(polity::binary())
        .arg("apiserver")
        .args(arguments)
        .arg(&data)
        .env("HOME", folder.path());
    let server = Polity::start(&mut limited).unwrap_or_else(|ended| panic!("{ended:?}"));
    let mut stored = Vec::new();
    block_on(async {
        let maps: Api<ConfigMap> = Api::default_namespaced(connect(server.kubeconfig()).await);
        let filler = "x".repeat(500_000);
        let refusal = loop {
            let name = format!("m{}", stored.len());
            match maps
                .create(&PostParams::default(), &config_map(&name, [("k", &filler)]))
                .await
            {
                Ok(map) => stored.push(map),
                Err(kube::Error::Api(status)) => break status,
                Err(error) => panic!("a refusal is a Status: {error:?}"),
            }
            assert!(stored.len() < 100, "the limit holds");
        };
        assert_eq!(refusal.code, 507, "{refusal:?}");
        assert!(
            refusal
                .message
                .contains("no space left in the data directory"),
            "{refusal:?}"
        );
        assert!(!stored.is_empty());
        // The server keeps running: reads succeed, and writes are refused, repeatedly.
        for map in &stored {
            assert_eq!(
                &maps
                    .get(map.metadata.name.as_deref().unwrap())
                    .await
                    .unwrap(),
                map
            );
        }
        let again = maps
            .create(
                &PostParams::default(),
                &config_map("again", [("k", &filler)]),
            )
            .await;
        assert!(matches!(again, Err(kube::Error::Api(_))), "{again:?}");
        assert_eq!(
            maps.get_opt("again").await.unwrap(),
            None,
            "nothing is half written"
        );
    });
    drop(server);
    // With free space again, all objects exist and writes succeed.
    let server = Polity::apiserver(&data);
    block_on(async {
        let maps: Api<ConfigMap> = Api::default_namespaced(connect(server.kubeconfig()).await);
        for map in &stored {
            assert_eq!(
                &maps
                    .get(map.metadata.name.as_deref().unwrap())
                    .await
                    .unwrap(),
                map
            );
        }
        maps.create(&PostParams::default(), &config_map("more", []))
            .await
            .unwrap();
        let all = maps
            .list(&ListParams::default().fields("metadata.name!=kube-root-ca.crt"))
            .await
            .unwrap();
        assert_eq!(all.items.len(), stored.len() + 1);
    });
}
