//! The allowed dependencies between crates. A new dependency is a new, reviewed line in these tables.

use serde_json::Value;

use super::Problem;

/// The crates of the workspace with their allowed dependencies. `polity-core` is always allowed.
const ARROWS: &[(&str, &[&str])] = &[
    ("workspace-hack", &[]),
    ("polity-core", &[]),
    ("polity-merge", &[]),
    ("polity-kinds", &["polity-merge"]),
    (
        "polity-attach",
        &["polity-api", "polity-kinds", "polity-merge"],
    ),
    ("polity-rollout", &[]),
    (
        "polity-govern",
        &["polity-api", "polity-merge", "polity-rollout"],
    ),
    ("polity-report", &["polity-api"]),
    ("polity-template", &[]),
    (
        "polity-comply",
        &["polity-api", "polity-merge", "polity-template"],
    ),
    ("polity-api", &[]),
    ("polity-wasm", &[]),
    ("polity-cel", &[]),
    ("polity-eval", &["polity-cel", "polity-wasm"]),
    ("polity-pki", &[]),
    ("polity-fetch", &[]),
    ("polity-store", &[]),
    ("polity-runtime", &[]),
    ("polity-reconcile", &["polity-runtime"]),
    (
        "polity-host",
        &[
            "polity-eval",
            "polity-fetch",
            "polity-pki",
            "polity-runtime",
            "polity-wasm",
        ],
    ),
    (
        "polity-admission",
        &[
            "polity-api",
            "polity-eval",
            "polity-fetch",
            "polity-host",
            "polity-pki",
            "polity-reconcile",
            "polity-report",
            "polity-runtime",
        ],
    ),
    (
        "polity-lifecycle",
        &[
            "polity-api",
            "polity-attach",
            "polity-cel",
            "polity-pki",
            "polity-reconcile",
            "polity-runtime",
        ],
    ),
    (
        "polity-fleet",
        &[
            "polity-api",
            "polity-comply",
            "polity-govern",
            "polity-reconcile",
            "polity-rollout",
            "polity-runtime",
            "polity-source",
            "polity-template",
        ],
    ),
    ("polity-auth", &["polity-kinds", "polity-pki"]),
    (
        "polity-webhooks",
        &[
            "polity-auth",
            "polity-cel",
            "polity-kinds",
            "polity-merge",
            "polity-pki",
        ],
    ),
    (
        "polity-apiserver",
        &[
            "polity-auth",
            "polity-cel",
            "polity-kinds",
            "polity-merge",
            "polity-pki",
            "polity-runtime",
            "polity-store",
            "polity-webhooks",
        ],
    ),
    (
        "polity-local",
        &["polity-api", "polity-reconcile", "polity-runtime"],
    ),
    (
        "polity-source",
        &[
            "polity-api",
            "polity-attach",
            "polity-cel",
            "polity-comply",
            "polity-govern",
            "polity-kinds",
            "polity-merge",
            "polity-pki",
            "polity-report",
            "polity-rollout",
            "polity-runtime",
            "polity-template",
        ],
    ),
    (
        "polity-cli",
        &[
            "polity-api",
            "polity-attach",
            "polity-comply",
            "polity-eval",
            "polity-fetch",
            "polity-govern",
            "polity-host",
            "polity-merge",
            "polity-pki",
            "polity-report",
            "polity-rollout",
            "polity-runtime",
            "polity-source",
            "polity-store",
            "polity-template",
        ],
    ),
    (
        "polity",
        &[
            "polity-admission",
            "polity-api",
            "polity-apiserver",
            "polity-cli",
            "polity-lifecycle",
            "polity-local",
            "polity-reconcile",
            "polity-runtime",
            "polity-store",
        ],
    ),
    (
        "polity-testing",
        &[
            "polity-api",
            "polity-apiserver",
            "polity-attach",
            "polity-comply",
            "polity-govern",
            "polity-merge",
            "polity-report",
            "polity-rollout",
            "polity-runtime",
            "polity-template",
        ],
    ),
    ("peers", &[]),
    ("xtask", &["peers"]),
];

/// The e2e tests may depend on every crate.
const SEES_ALL: &str = "e2e";

/// Dependencies that every crate may have.
const FOR_ALL: &[&str] = &["polity-core", "workspace-hack"];

/// Dependencies that only tests may have.
const FOR_TESTS: &[&str] = &["polity-testing", "peers"];

/// Crates that even tests do not depend on, except through the table above. Tests use their API objects or the binary.
const ENDS: &[&str] = &[
    "polity",
    "polity-admission",
    "polity-apiserver",
    "polity-cli",
    "polity-fleet",
    "polity-lifecycle",
    "polity-local",
    "e2e",
    "xtask",
];

/// Third-party crates that only the named crates may use. Tests may use them anywhere.
const ALONE: &[(&str, &[&str])] = &[
    ("docker_credential", &["polity-fetch"]),
    ("fjall", &["polity-store"]),
    ("gotmpl", &["polity-template"]),
    ("kube-cel", &["polity-cel"]),
    ("notify", &["polity-runtime"]),
    ("oci-client", &["polity-fetch"]),
    ("opentelemetry-otlp", &["polity-runtime"]),
    ("opentelemetry-prometheus", &["polity-runtime"]),
    ("opentelemetry_sdk", &["polity-runtime"]),
    ("prometheus", &["polity-runtime"]),
    // `peers` creates the certificates of the reference cluster, which must not depend on the code under test.
    ("rcgen", &["polity-pki", "peers"]),
    ("redb", &["polity-store"]),
    ("sigstore-trust-root", &["polity-fetch"]),
    ("sigstore-verify", &["polity-fetch"]),
    ("tracing-opentelemetry", &["polity-runtime"]),
    ("tracing-subscriber", &["polity-runtime"]),
    ("wasmtime", &["polity-wasm"]),
    ("wasmtime-wasi", &["polity-wasm"]),
    ("x509-parser", &["polity-pki"]),
];

/// Crates of pure functions.
const ENGINES: &[&str] = &[
    "polity-core",
    "polity-merge",
    "polity-kinds",
    "polity-attach",
    "polity-rollout",
    "polity-govern",
    "polity-report",
    "polity-template",
    "polity-comply",
];

/// Crates with a runtime, sockets, files, a clock or randomness.
const IMPURE: &[&str] = &[
    "axum",
    "futures",
    "getrandom",
    "hyper",
    "hyper-util",
    "kube",
    "notify",
    "rand",
    "reqwest",
    "rustix",
    "rustls",
    "tempfile",
    "tokio",
    "tokio-util",
    "tower",
    "uuid",
];

/// A crate of the workspace with the dependencies in its manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Dependency {
    name: String,
    is_ours: bool,
    /// Whether it is a dependency of tests, examples and benchmarks only.
    is_dev: bool,
}

impl Package {
    /// The members of the workspace.
    pub(super) fn from_metadata(metadata: &Value) -> Vec<Self> {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let members = list(&metadata["workspace_members"]);
        let packages = list(&metadata["packages"]);
        let packages = packages
            .iter()
            .filter(|package| members.contains(&package["id"]));
        let dependency = |dependency: &Value| Dependency {
            name: text(&dependency["name"]),
            is_ours: !dependency["path"].is_null(),
            is_dev: dependency["kind"] == "dev",
        };
        packages
            .map(|package| Self {
                name: text(&package["name"]),
                dependencies: list(&package["dependencies"])
                    .iter()
                    .map(dependency)
                    .collect(),
            })
            .collect()
    }
}

pub(super) fn check(packages: &[Package]) -> Vec<Problem> {
    packages.iter().flat_map(check_package).collect()
}

fn check_package(package: &Package) -> Vec<Problem> {
    let allowed = ARROWS
        .iter()
        .find(|(name, _)| *name == package.name)
        .map(|(_, allowed)| *allowed);
    if allowed.is_none() && package.name != SEES_ALL {
        return vec![problem(
            package,
            "is not in the table of crates",
            "add it to ARROWS in xtask/src/tidy/arrows.rs with its allowed dependencies",
        )];
    }
    package
        .dependencies
        .iter()
        .filter_map(|dependency| check_dependency(package, dependency, allowed))
        .collect()
}

fn check_dependency(
    package: &Package,
    dependency: &Dependency,
    allowed: Option<&[&str]>,
) -> Option<Problem> {
    let Dependency {
        name,
        is_ours,
        is_dev,
    } = dependency;
    let name = name.as_str();
    if *is_ours {
        if FOR_TESTS.contains(&name) {
            let listed =
                allowed.is_some_and(|allowed| allowed.contains(&name)) || package.name == SEES_ALL;
            return (!is_dev && !listed).then(|| {
                problem(
                    package,
                    &format!("uses {name}, which is for tests"),
                    "move it to [dev-dependencies]",
                )
            });
        }
        let listed =
            FOR_ALL.contains(&name) || allowed.is_none_or(|allowed| allowed.contains(&name));
        let fine = listed || (*is_dev && !ENDS.contains(&name));
        return (!fine).then(|| {
            problem(
                package,
                &format!("may not use {name}"),
                "remove the dependency, or propose a new line in xtask/src/tidy/arrows.rs",
            )
        });
    }
    if *is_dev {
        return None;
    }
    if let Some((_, owners)) = ALONE.iter().find(|(alone, _)| *alone == name)
        && !owners.contains(&package.name.as_str())
    {
        let why = format!("may not use {name}, which only {} uses", owners[0]);
        return Some(problem(
            package,
            &why,
            &format!("use the API of {}", owners[0]),
        ));
    }
    (ENGINES.contains(&package.name.as_str()) && IMPURE.contains(&name)).then(|| {
        let why = format!("is pure and may not use {name}");
        problem(
            package,
            &why,
            "pass the values as arguments, or move the code to a service",
        )
    })
}

fn problem(package: &Package, why: &str, fix: &str) -> Problem {
    Problem {
        place: package.name.clone(),
        why: why.to_owned(),
        fix: fix.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(name: &str) -> Dependency {
        Dependency {
            name: name.to_owned(),
            is_ours: true,
            is_dev: false,
        }
    }

    fn theirs(name: &str) -> Dependency {
        Dependency {
            is_ours: false,
            ..ours(name)
        }
    }

    fn dev(dependency: Dependency) -> Dependency {
        Dependency {
            is_dev: true,
            ..dependency
        }
    }

    #[test]
    fn arrows_hold() {
        let cases = [
            ("polity-merge", ours("polity-core"), None),
            (
                "polity-core",
                ours("polity-merge"),
                Some("may not use polity-merge"),
            ),
            (
                "polity-store",
                ours("polity-api"),
                Some("may not use polity-api"),
            ),
            ("polity-comply", ours("polity-api"), None),
            (
                "polity-core",
                ours("polity-api"),
                Some("may not use polity-api"),
            ),
            ("polity-apiserver", ours("polity-store"), None),
            (
                "polity-apiserver",
                ours("polity-cli"),
                Some("may not use polity-cli"),
            ),
            (
                "polity-apiserver",
                ours("polity-testing"),
                Some("is for tests"),
            ),
            ("polity-apiserver", dev(ours("polity-testing")), None),
            ("polity-api", dev(ours("peers")), None),
            ("polity-runtime", dev(ours("polity-pki")), None),
            (
                "polity-runtime",
                dev(ours("polity-cli")),
                Some("may not use polity-cli"),
            ),
            ("e2e", ours("polity-testing"), None),
            (
                "polity-cli",
                theirs("wasmtime"),
                Some("which only polity-wasm uses"),
            ),
            (
                "polity-api",
                theirs("kube-cel"),
                Some("which only polity-cel uses"),
            ),
            ("polity-api", dev(theirs("kube-cel")), None),
            ("polity-store", theirs("redb"), None),
            ("polity-merge", theirs("tokio"), Some("is pure")),
            ("polity-merge", dev(theirs("tempfile")), None),
            ("polity-new", ours("polity-core"), Some("not in the table")),
        ];
        for (name, dependency, word) in cases {
            let package = Package {
                name: name.to_owned(),
                dependencies: vec![dependency.clone()],
            };
            let problems = check(&[package]);
            match word {
                None => assert_eq!(problems, [], "{name} {dependency:?}"),
                Some(word) => assert!(
                    problems.len() == 1 && problems[0].why.contains(word),
                    "{name} {dependency:?}: {problems:?}"
                ),
            }
        }
    }

    #[test]
    fn the_tables_are_sound() {
        let names: Vec<_> = ARROWS.iter().map(|(name, _)| *name).collect();
        for (name, allowed) in ARROWS {
            for target in *allowed {
                assert!(
                    names.contains(target),
                    "{name} may use {target}, which is not a crate"
                );
                let is_service_or_end = ["polity", "polity-cli", "xtask"].contains(target);
                assert!(
                    !is_service_or_end || *name == "polity",
                    "{name} may use {target}"
                );
            }
        }
        for engine in ENGINES {
            let (_, allowed) = ARROWS.iter().find(|(name, _)| name == engine).unwrap();
            assert!(
                allowed
                    .iter()
                    .all(|target| ENGINES.contains(target) || *target == "polity-api"),
                "{engine} uses a crate that is neither an engine nor the wire types"
            );
        }
    }
}
