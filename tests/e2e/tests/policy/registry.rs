//! `push`, `pull`, `digest`, `policies` and `rm` against a real registry, with TLS and a password.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use e2e::polity;
use peers::Tool;
use peers::registry::{PASSWORD, Registry, Setup, USER};
use serde_json::json;

use crate::support::{CommandOutput, DEFAULT_NAMESPACE, TestHome, pod};

#[test]
fn a_policy_is_published_fetched_run_and_removed() {
    if Tool::Registry.or_skip().is_none() {
        return;
    }
    let registry = Registry::start(Setup {
        tls: true,
        password: true,
    })
    .unwrap();
    let home = TestHome::new();
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
    let output = home.policy(&["push", DEFAULT_NAMESPACE, &uri, "--sources-path", &sources]);
    assert_eq!(output.code, 2, "without a password: {output:?}");
    assert!(
        output.err.contains("asks for other credentials"),
        "{output:?}"
    );

    let output = ask(&["push", DEFAULT_NAMESPACE, &uri, "-o", "json"]);
    assert_eq!(output.code, 0, "{output:?}");
    let pinned = output.json()["immutable_ref"].as_str().unwrap().to_owned();
    let digest = pinned.split_once('@').unwrap().1;

    let output = ask(&["digest", &uri]);
    assert_eq!(output.out, format!("{uri}@{digest}\n"), "{output:?}");

    let copy = home.path().join("copy.wasm");
    let output = ask(&["pull", &uri, "-o", copy.to_str().unwrap()]);
    assert_eq!(output.code, 0, "{output:?}");
    let sha256 = output
        .out
        .trim()
        .strip_prefix("sha256:")
        .unwrap()
        .to_owned();
    assert_eq!(
        fs::read(copy).unwrap(),
        fs::read(DEFAULT_NAMESPACE).unwrap()
    );

    let output = home.policy(&["policies", "-o", "json"]);
    let listed = output.json();
    assert_eq!(listed[0]["uri"], uri.as_str(), "{output:?}");
    assert_eq!(
        (&listed[0]["sha256"], &listed[0]["manifest"]),
        (&json!(sha256), &json!(digest))
    );
    let output = home.policy(&["policies"]);
    assert!(output.out.contains(&sha256[..12]), "{output:?}");

    // The registry is gone now, but the module is in the local store under all of its names.
    drop(registry);
    let request = home.write("request.json", pod(json!({"image": "i"})).to_string());
    for name in [&uri[..], &sha256[..10], &sha256] {
        let output = home.policy(&["run", name, "-r", &request]);
        assert!(output.out.contains("\"allowed\""), "{name}: {output:?}");
        assert_eq!(home.policy(&["inspect", name]).code, 0);
    }
    assert_eq!(home.policy(&["rm", &sha256[..12]]).code, 0);
    assert_eq!(home.policy(&["policies", "-o", "json"]).json(), json!([]));
    let output = home.policy(&["run", &uri, "-r", &request]);
    assert_eq!(output.code, 2, "{output:?}");
    assert!(output.err.contains("cannot reach"), "{output:?}");
}

#[test]
fn a_credential_helper_knows_the_password() {
    if Tool::Registry.or_skip().is_none() {
        return;
    }
    let registry = Registry::start(Setup {
        tls: false,
        password: true,
    })
    .unwrap();
    let home = TestHome::new();
    let sources = home.write(
        "sources.yml",
        json!({"insecure_sources": [registry.host()]}).to_string(),
    );
    let answer = json!({"ServerURL": registry.host(), "Username": USER, "Secret": PASSWORD});
    let asked = home.path().join("asked");
    let helper = home.write(
        "docker-credential-vault",
        format!(
            "#!/bin/sh\ncat > '{}'\necho \"$1\" >> '{}'\necho '{answer}'\n",
            asked.display(),
            asked.display()
        ),
    );
    fs::set_permissions(helper, fs::Permissions::from_mode(0o700)).unwrap();
    home.write(
        "config.json",
        json!({"credHelpers": {registry.host(): "vault"}}).to_string(),
    );
    let uri = format!("registry://{}/policies/p:v1", registry.host());
    let folder = home.path().to_str().unwrap();
    let mut command = polity::command(home.path());
    command.env("PATH", format!("{folder}:/usr/bin:/bin"));
    command.args(["policy", "push", DEFAULT_NAMESPACE, &uri]);
    command.args(["--sources-path", &sources]);
    command.args(["--docker-config-json-path", folder]);
    let output = CommandOutput::of(command.output().unwrap());
    assert_eq!(output.code, 0, "{output:?}");
    let asked = fs::read_to_string(asked).unwrap();
    assert_eq!(asked, format!("{}get\n", registry.host()), "{asked}");
    assert!(!output.err.contains(PASSWORD), "{output:?}");
}
