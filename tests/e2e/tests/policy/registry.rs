//! `push`, `pull`, `digest`, `policies` and `rm` against a real registry, with TLS and a password.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use base64::Engine as _;
use e2e::polity;
use peers::Tool;
use peers::registry::{PASSWORD, Registry, Setup, USER};
use serde_json::json;

use crate::support::{DEFAULT_NAMESPACE, Home, Said, pod};

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

#[test]
fn a_credential_helper_knows_the_password() {
    if Tool::Registry.or_leave_out().is_none() {
        return;
    }
    let registry = Registry::start(Setup {
        tls: false,
        password: true,
    })
    .unwrap();
    let home = Home::new();
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
    let said = Said::of(command.output().unwrap());
    assert_eq!(said.code, 0, "{said:?}");
    let asked = fs::read_to_string(asked).unwrap();
    assert_eq!(asked, format!("{}get\n", registry.host()), "{asked}");
    assert!(!said.err.contains(PASSWORD), "{said:?}");
}
