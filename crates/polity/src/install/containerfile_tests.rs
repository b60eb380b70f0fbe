//! `Containerfile` fits this repository and the manifests: no machine that runs these tests needs a container engine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use polity_lifecycle::install::Installation;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

/// The instructions, continued lines joined and comments left out.
fn instructions() -> Vec<String> {
    let text = read("Containerfile").replace("\\\n", " ");
    let lines = text.lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

/// The rest of the instructions of a kind.
fn of(kind: &str) -> Vec<String> {
    let all = instructions();
    let ours = all
        .iter()
        .filter_map(|line| line.strip_prefix(&format!("{kind} ")));
    ours.map(str::to_owned).collect()
}

/// The sources that are copied from the repository.
fn copied() -> BTreeSet<String> {
    let copies = of("COPY")
        .into_iter()
        .filter(|line| !line.starts_with("--from"));
    copies
        .flat_map(|line| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            words[..words.len() - 1].to_vec()
        })
        .collect()
}

#[test]
fn what_is_copied_exists_and_is_the_whole_workspace() {
    let copied = copied();
    for source in &copied {
        assert!(root().join(source).exists(), "{source} does not exist");
    }
    let manifest = read("Cargo.toml");
    let members = manifest
        .lines()
        .find_map(|line| line.strip_prefix("members = ["))
        .unwrap();
    for member in members.trim_end_matches(']').split(", ") {
        let folder = member.trim_matches('"').split('/').next().unwrap();
        assert!(
            copied.contains(folder),
            "{member} is a member of the workspace"
        );
    }
    let ignored = read(".dockerignore");
    for source in &copied {
        assert!(
            !ignored.lines().any(|line| line == source),
            "{source} is ignored"
        );
    }
}

#[test]
fn the_compiler_is_the_one_that_the_workspace_asks_for() {
    let manifest = read("Cargo.toml");
    let wanted = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "))
        .unwrap();
    let wanted = wanted.trim_matches('"');
    let images = of("FROM");
    let expected = format!("rust:{wanted}-slim-bookworm AS build");
    assert_eq!(images[0], expected);
    assert_eq!(
        images[1], "debian:bookworm-slim",
        "the C library that the program was linked with"
    );
}

#[test]
fn the_program_has_all_its_names() {
    let steps = of("RUN").join("\n");
    let package = env!("CARGO_PKG_NAME");
    assert!(steps.contains(&format!(
        "cargo build --locked --profile dist --package {package}"
    )));
    assert!(steps.contains("cp target/dist/polity /image/usr/local/bin/polity"));
    for name in ["kubectl-polity", "policy-server", "kwctl"] {
        let link = format!("ln -s polity /image/usr/local/bin/{name}");
        assert!(steps.contains(&link), "{link}");
    }
    assert_eq!(of("COPY").last().unwrap(), "--from=build /image/ /");
    assert_eq!(of("ENTRYPOINT"), [r#"["/usr/local/bin/polity"]"#]);
}

#[test]
fn the_user_satisfies_the_manifests() {
    let users = of("USER");
    let [user] = users.as_slice() else {
        panic!("one user: {users:?}");
    };
    let (user, group) = user.split_once(':').unwrap();
    for id in [user, group] {
        assert_ne!(id.parse::<u32>().unwrap(), 0, "{id} is not root");
    }
    let installation = Installation {
        namespace: "kubewarden".into(),
        image: "polity".into(),
        replicas: 1,
    };
    let manifests = installation.controller();
    let deployment = manifests
        .iter()
        .find(|one| one["kind"] == "Deployment")
        .unwrap();
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let container = &pod["containers"][0];
    for context in [&pod["securityContext"], &container["securityContext"]] {
        let asked = &context["runAsUser"];
        assert!(
            asked.is_null() || asked.as_u64() == user.parse().ok(),
            "{asked}"
        );
    }
    assert_eq!(
        container["command"][0], "polity",
        "found on the search path of the image"
    );
}
