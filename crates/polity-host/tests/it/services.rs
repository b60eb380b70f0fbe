//! The services as guests call them: blocking, with a deadline, and with a message for every failure.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::Duration;

use peers::Tool;
use peers::registry::{Registry, Setup};
use polity_eval::{CapabilityRequest, Deadline, Services};
use polity_fetch::{Digest, Fetcher, Sources};
use polity_host::{HostServices, ServicesOptions};
use polity_runtime::Clock;
use serde_json::{Value, json};

use crate::{MODULE, fetcher};

fn services(fetcher: Fetcher) -> HostServices {
    HostServices::new(ServicesOptions {
        cluster: None,
        fetcher,
        runtime: tokio::runtime::Handle::current(),
        clock: Clock::system(),
    })
}

/// Calls a service from a blocking thread, as a guest does.
async fn ask(
    services: HostServices,
    call: (&str, &str, Value),
    limit: Duration,
) -> (HostServices, Result<Value, String>) {
    let (namespace, operation, payload) = call;
    let payload = payload.to_string();
    let request = CapabilityRequest::parse(namespace, operation, payload.as_bytes()).unwrap();
    tokio::task::spawn_blocking(move || {
        let answer = services
            .call(&request, Deadline::after(limit))
            .map(|bytes| serde_json::from_slice(&bytes).unwrap());
        (services, answer)
    })
    .await
    .unwrap()
}

const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn without_a_cluster_the_response_is_an_error() {
    let (_directory, fetcher) = fetcher();
    let mut services = services(fetcher);
    let pods = json!({"api_version": "v1", "kind": "Pod", "namespace": "a", "name": "p"});
    let access = json!({"subject_access_review": {"user": "u", "resource_attributes": {"verb": "get", "resource": "pods"}}});
    for (operation, payload) in [
        ("list_resources_all", pods.clone()),
        ("list_resources_by_namespace", pods.clone()),
        ("get_resource", pods),
        ("can_i", access),
    ] {
        let answer;
        (services, answer) = ask(services, ("kubernetes", operation, payload), LONG).await;
        assert_eq!(
            answer,
            Err(format!(
                "kubernetes/{operation} needs a cluster, and there is none"
            ))
        );
    }
}

#[tokio::test]
async fn no_image_is_trusted_without_a_check() {
    let (_directory, fetcher) = fetcher();
    let payload = json!({"type": "SigstorePubKeyVerify", "image": "i", "pub_keys": []});
    let (_, answer) = ask(services(fetcher), ("oci", "v2/verify", payload), LONG).await;
    assert!(
        answer
            .unwrap_err()
            .starts_with("signatures cannot be checked yet")
    );
}

#[tokio::test]
async fn names_are_looked_up() {
    let (_directory, fetcher) = fetcher();
    let call = |host: &str| ("net", "v1/dns_lookup_host", json!(host));
    let (services, answer) = ask(services(fetcher), call("localhost"), LONG).await;
    let ips = answer.unwrap()["ips"].clone();
    let ips = ips.as_array().unwrap().clone();
    assert!(
        ips.contains(&json!("127.0.0.1")) || ips.contains(&json!("::1")),
        "{ips:?}"
    );
    let (_, answer) = ask(services, call("no such host"), LONG).await;
    let error = answer.unwrap_err();
    assert!(
        error.starts_with("cannot look up \"no such host\""),
        "{error}"
    );
}

#[tokio::test]
async fn a_silent_server_is_not_waited_for() {
    // It accepts connections and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = format!("{}", silent.local_addr().unwrap());
    let (_directory, mut fetcher) = fetcher();
    fetcher.sources = insecure(&host);
    let call = (
        "oci",
        "v1/manifest_digest",
        json!(format!("{host}/image:v1")),
    );
    let (_, answer) = ask(services(fetcher), call, Duration::from_millis(50)).await;
    assert_eq!(
        answer,
        Err("oci/v1/manifest_digest got no response in time".to_owned())
    );
}

fn insecure(host: &str) -> Sources {
    Sources {
        insecure_sources: [host.to_owned()].into(),
        ..Sources::default()
    }
}

#[tokio::test]
async fn registries_describe_images() {
    if Tool::Registry.or_skip().is_none() {
        return;
    }
    let registry = Registry::start(Setup::default()).unwrap();
    let (_directory, mut fetcher) = fetcher();
    fetcher.sources = insecure(registry.host());
    let image = format!("{}/policies/one:v1", registry.host());
    let module = std::fs::read(MODULE).unwrap();
    let annotations = BTreeMap::from([("title".to_owned(), "one".to_owned())]);
    let pushed = fetcher
        .push(&image.parse().unwrap(), &module, &annotations)
        .await
        .unwrap();
    let digest = pushed.manifest.to_string();

    let call = |operation| ("oci", operation, json!(image));
    let (services, answer) = ask(services(fetcher), call("v1/manifest_digest"), LONG).await;
    assert_eq!(answer.unwrap(), json!({ "digest": digest }));
    let (services, answer) = ask(services, call("v1/oci_manifest"), LONG).await;
    let manifest = answer.unwrap();
    assert_eq!(manifest["schemaVersion"], 2);
    assert_eq!(manifest["annotations"], json!({"title": "one"}));
    assert_eq!(
        manifest["layers"][0]["digest"],
        Digest::of(&module).to_string()
    );
    let (services, answer) = ask(services, call("v1/oci_manifest_config"), LONG).await;
    let answer = answer.unwrap();
    assert_eq!(
        answer,
        json!({"manifest": manifest, "digest": digest, "config": {}})
    );

    let missing = json!(format!("{}/none:v1", registry.host()));
    let (services, answer) = ask(services, ("oci", "v1/oci_manifest", missing), LONG).await;
    let error = answer.unwrap_err();
    assert!(error.contains("answered 404"), "{error}");
    let (_, answer) = ask(
        services,
        ("oci", "v1/oci_manifest", json!("NOT AN IMAGE")),
        LONG,
    )
    .await;
    let error = answer.unwrap_err();
    assert!(
        error.starts_with("\"NOT AN IMAGE\" is not an image"),
        "{error}"
    );
}
