//! `push`, `pull`, `digest`, `policies` and `rm` against a real registry, with TLS and a password.

use std::fs;

use base64::Engine as _;
use peers::Tool;
use peers::registry::{PASSWORD, Registry, Setup, USER};
use serde_json::json;

use crate::support::{DEFAULT_NAMESPACE, Home, pod};

#[test]
fn a_policy_is_published_fetched_run_and_removed() {
    if Tool::Registry.or_leave_out().is_none() {
        return;
    }
    let registry = Registry::start(Setup {
        tls: true,
        password: true,
    })
    .unwrap();
    let home = Home::new();
    let authority = home.write("ca.pem", registry.authority().unwrap());
    let sources = home.write(
        "sources.yml",
        json!({"source_authorities": {registry.host(): [{"type": "Path", "path": authority}]}})
            .to_string(),
    );
    let auth = base64::engine::general_purpose::STANDARD.encode(format!("{USER}:{PASSWORD}"));
    fs::create_dir(home.path().join("docker")).unwrap();
    home.write(
        "docker/config.json",
        json!({"auths": {registry.host(): {"auth": auth}}}).to_string(),
    );
    let docker = home.path().join("docker");
    let docker = docker.to_str().unwrap();
    let access = [
        "--sources-path",
        &sources,
        "--docker-config-json-path",
        docker,
    ];
    let ask = |arguments: &[&str]| home.policy(&[arguments, &access].concat());

    let uri = format!(
        "registry://{}/policies/default-namespace:v1",
        registry.host()
    );
    let said = home.policy(&["push", DEFAULT_NAMESPACE, &uri, "--sources-path", &sources]);
    assert_eq!(said.code, 2, "without a password: {said:?}");
    assert!(said.err.contains("asks for other credentials"), "{said:?}");

    let said = ask(&["push", DEFAULT_NAMESPACE, &uri, "-o", "json"]);
    assert_eq!(said.code, 0, "{said:?}");
    let pinned = said.json()["immutable_ref"].as_str().unwrap().to_owned();
    let digest = pinned.split_once('@').unwrap().1;

    let said = ask(&["digest", &uri]);
    assert_eq!(said.out, format!("{uri}@{digest}\n"), "{said:?}");

    let copy = home.path().join("copy.wasm");
    let said = ask(&["pull", &uri, "-o", copy.to_str().unwrap()]);
    assert_eq!(said.code, 0, "{said:?}");
    let sha256 = said.out.trim().strip_prefix("sha256:").unwrap().to_owned();
    assert_eq!(
        fs::read(copy).unwrap(),
        fs::read(DEFAULT_NAMESPACE).unwrap()
    );

    let said = home.policy(&["policies", "-o", "json"]);
    let listed = said.json();
    assert_eq!(listed[0]["uri"], uri.as_str(), "{said:?}");
    assert_eq!(
        (&listed[0]["sha256"], &listed[0]["manifest"]),
        (&json!(sha256), &json!(digest))
    );
    let said = home.policy(&["policies"]);
    assert!(said.out.contains(&sha256[..12]), "{said:?}");

    // From here on nobody is asked: the registry is gone, and the module is here, whatever it is called.
    drop(registry);
    let request = home.write("request.json", pod(json!({"image": "i"})).to_string());
    for name in [&uri[..], &sha256[..10], &sha256] {
        let said = home.policy(&["run", name, "-r", &request]);
        assert!(said.out.contains("\"allowed\""), "{name}: {said:?}");
        assert_eq!(home.policy(&["inspect", name]).code, 0);
    }
    assert_eq!(home.policy(&["rm", &sha256[..12]]).code, 0);
    assert_eq!(home.policy(&["policies", "-o", "json"]).json(), json!([]));
    let said = home.policy(&["run", &uri, "-r", &request]);
    assert_eq!(said.code, 2, "{said:?}");
    assert!(said.err.contains("cannot reach"), "{said:?}");
}
