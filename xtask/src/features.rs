//! `cargo xtask features`: keeps the features of third-party crates equal for every selection of packages.
//!
//! Cargo unifies features over the packages that a command selects. `cargo test -p polity-store` would therefore
//! compile crates again that `cargo test --workspace` has compiled with more features. `crates/workspace-hack`
//! prevents that: it enables the features of the whole workspace, and every member depends on it. This module writes
//! its manifest and checks that it is complete.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::shell;

const HACK: &str = "workspace-hack";
const MANIFEST: &str = "crates/workspace-hack/Cargo.toml";
/// The members that do not depend on workspace-hack, because they must compile within seconds after a fresh clone.
const WITHOUT: [&str; 3] = [HACK, "peers", "xtask"];
/// The feature with the crates that no light member uses.
const FULL: &str = "full";
/// The members that depend on workspace-hack without that feature, so that testing one of them compiles no HTTP stack.
const LIGHT: [&str; 5] = [
    "polity-comply",
    "polity-core",
    "polity-merge",
    "polity-report",
    "polity-template",
];

const EDGES: &str = "normal,build,dev";
/// Dependency edges to crates that are compiled for the target, not for the build.
const TARGET_EDGES: &str = "normal,dev,no-proc-macro";
/// Dependency edges of a build without tests.
const BUILD_EDGES: &str = "normal,build";

/// Several rounds, because unifying the features of one crate can change those of another.
const ROUNDS: usize = 5;

/// A third-party crate in one version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Crate {
    name: String,
    version: String,
}

type Features = BTreeSet<String>;

/// The crates of a build with their feature sets. A crate has two sets if build scripts and macros use it with other
/// features.
type Tree = BTreeMap<Crate, BTreeSet<Features>>;

/// The dependencies and features to write into the manifest.
#[derive(Debug, Default)]
struct Wanted {
    /// Features of crates that are compiled for the target, and whether a light member uses the crate.
    target: BTreeMap<Crate, (Features, bool)>,
    /// Features of crates that build scripts and macros use.
    host: BTreeMap<Crate, Features>,
}

/// The crates that `package` alone compiles with other features than the workspace does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) package: String,
    pub(crate) crates: Vec<String>,
}

#[derive(clap::Args)]
pub(crate) struct Args {}

impl Args {
    #[expect(clippy::unused_self, reason = "every command is called the same way")]
    pub(crate) fn run(self) -> Result<()> {
        shell::with_progress("writing crates/workspace-hack", "up to a minute", write)
    }
}

/// Writes the manifest from scratch.
fn write() -> Result<()> {
    let mut wanted = Wanted::default();
    write_manifest(&wanted)?;
    let mut of_light = BTreeSet::new();
    for member in LIGHT {
        of_light.extend(tree(&["--package", member], EDGES)?.into_keys());
    }
    for _ in 0..ROUNDS {
        let workspace = tree(&["--workspace"], EDGES)?;
        let target = tree(&["--workspace"], TARGET_EDGES)?;
        let mut differing = BTreeSet::new();
        for member in members()? {
            let own = tree(&["--package", &member], EDGES)?;
            differing.extend(differences(&own, &workspace));
            let built = tree(&["--package", &member], BUILD_EDGES)?;
            differing.extend(differences(&built, &workspace));
            // Separate trees, because a complete tree does not show which side a feature belongs to.
            let own_target = tree(&["--package", &member], TARGET_EDGES)?;
            differing.extend(differences(&own_target, &target));
        }
        if differing.is_empty() {
            return Ok(());
        }
        for found in differing {
            let for_target = target.get(&found).and_then(BTreeSet::first);
            let is_listed = wanted.target.contains_key(&found);
            match for_target {
                Some(features) if !is_listed => {
                    let is_of_light = of_light.contains(&found);
                    wanted.target.insert(found, (features.clone(), is_of_light));
                }
                // The crate is listed for the target already, so the host side differs.
                _ => {
                    let all = &workspace[&found];
                    let for_host = all.iter().find(|features| Some(*features) != for_target);
                    let features = for_host.or(for_target).cloned().unwrap_or_default();
                    wanted.host.insert(found, features);
                }
            }
        }
        write_manifest(&wanted)?;
    }
    bail!("features still differ after {ROUNDS} rounds")
}

/// Returns the members that compile crates with other features than the workspace does.
pub(crate) fn check() -> Result<Vec<Difference>> {
    let workspace = tree(&["--workspace"], EDGES)?;
    let mut found = Vec::new();
    for package in members()? {
        let own = tree(&["--package", &package], EDGES)?;
        let crates = differences(&own, &workspace);
        if !crates.is_empty() {
            let crates = crates.into_iter().map(|found| found.name).collect();
            found.push(Difference { package, crates });
        }
    }
    Ok(found)
}

fn members() -> Result<Vec<String>> {
    let metadata = shell::metadata(false)?;
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    let names = packages
        .iter()
        .filter_map(|package| package["name"].as_str());
    Ok(names
        .filter(|name| !WITHOUT.contains(name))
        .map(str::to_owned)
        .collect())
}

/// Returns the crates of `own` with a feature set that no build of the crate in `workspace` has.
fn differences(own: &Tree, workspace: &Tree) -> Vec<Crate> {
    let differs = |found: &Crate, features: &BTreeSet<Features>| {
        let all = workspace.get(found);
        all.is_none_or(|all| !features.is_subset(all))
    };
    own.iter()
        .filter(|(found, features)| differs(found, features))
        .map(|(found, _)| found.clone())
        .collect()
}

fn tree(selection: &[&str], edges: &str) -> Result<Tree> {
    let mut command = shell::cargo(["tree", "--prefix", "none", "--format", "{p}|{f}"]);
    command.args(["--edges", edges]).args(selection);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .context("running cargo tree")?;
    if !output.status.success() {
        bail!("cargo tree failed");
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// Parses lines such as `syn v2.0.1|default,full (*)`. Workspace members, which have a path, are skipped.
fn parse(text: &str) -> Tree {
    let mut tree = Tree::new();
    for line in text.lines() {
        let line = line.strip_suffix(" (*)").unwrap_or(line);
        let Some((package, features)) = line.split_once('|') else {
            continue;
        };
        let mut words = package.split(' ');
        let (Some(name), Some(version)) = (words.next(), words.next()) else {
            continue;
        };
        if package.contains("(/") {
            continue;
        }
        let found = Crate {
            name: name.to_owned(),
            version: version.trim_start_matches('v').to_owned(),
        };
        let features = features.split(',').filter(|feature| !feature.is_empty());
        let features = features.map(str::to_owned).collect();
        tree.entry(found).or_default().insert(features);
    }
    tree
}

fn write_manifest(wanted: &Wanted) -> Result<()> {
    fs::write(shell::root().join(MANIFEST), manifest(wanted)).context("writing its manifest")
}

fn manifest(wanted: &Wanted) -> String {
    let mut text = String::from(
        "# Written by `cargo xtask features`: the features of third-party crates that differ between selections of packages.\n\
         # See xtask/src/features.rs.\n\n\
         [package]\nname = \"workspace-hack\"\nversion.workspace = true\nedition.workspace = true\n\
         rust-version.workspace = true\nlicense.workspace = true\npublish.workspace = true\n\n\
         [lints]\nworkspace = true\n",
    );
    let keys = keys(wanted);
    let optional = wanted.target.iter().filter(|(_, (_, in_light))| !in_light);
    let optional: Vec<_> = optional
        .map(|(found, _)| format!("    \"dep:{}\",\n", keys[found]))
        .collect();
    text.push_str("\n[features]\n# The crates that only members with more dependencies use.\n");
    text.push_str(&format!("{FULL} = [\n{}]\n", optional.concat()));
    text.push_str("\n[dependencies]\n");
    for (found, (features, in_light)) in &wanted.target {
        text.push_str(&line(&keys[found], found, features, !in_light));
    }
    text.push_str("\n[build-dependencies]\n");
    for (found, features) in &wanted.host {
        text.push_str(&line(&keys[found], found, features, false));
    }
    text
}

/// The dependency names: those of the crates, with a number if a crate has two versions.
fn keys(wanted: &Wanted) -> BTreeMap<&Crate, String> {
    let all: BTreeSet<&Crate> = wanted.target.keys().chain(wanted.host.keys()).collect();
    let key = |found: &Crate| {
        let n_versions = all.iter().filter(|other| other.name == found.name).count();
        match n_versions {
            1 => found.name.clone(),
            _ => format!("{}-{}", found.name, found.version.replace('.', "-")),
        }
    };
    all.iter().map(|found| (*found, key(found))).collect()
}

fn line(key: &str, found: &Crate, features: &Features, is_optional: bool) -> String {
    let Crate { name, version } = found;
    let package = if key == name {
        String::new()
    } else {
        format!("package = \"{name}\", ")
    };
    let features: Vec<_> = features.iter().map(|name| format!("\"{name}\"")).collect();
    let optional = if is_optional { ", optional = true" } else { "" };
    // Build metadata, such as that of `1.0.0+2`, is not part of a version requirement.
    let version = version.split('+').next().unwrap_or_default();
    format!(
        "{key} = {{ {package}version = \"{version}\", default-features = false, features = [{}]{optional} }}\n",
        features.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(features: &str) -> Features {
        features.split_whitespace().map(str::to_owned).collect()
    }

    fn found(name: &str, version: &str) -> Crate {
        Crate {
            name: name.to_owned(),
            version: version.to_owned(),
        }
    }

    #[test]
    fn trees_hold_the_features_of_third_party_crates() {
        let text = "polity-core v0.1.0 (/src/crates/polity-core)|\nsyn v2.0.1|default,full\n\n\
                    serde_derive v1.0.1 (proc-macro)|default\nsyn v2.0.1|default (*)\nsyn v3.0.0|\n";
        let tree = parse(text);
        assert_eq!(tree.len(), 3);
        assert_eq!(
            tree[&found("syn", "2.0.1")],
            [set("default full"), set("default")].into()
        );
        assert_eq!(tree[&found("syn", "3.0.0")], [set("")].into());
    }

    #[test]
    fn a_crate_with_fewer_features_differs() {
        let workspace = parse("a v1.0.0|x,y\nb v1.0.0|x\n");
        let own = parse("a v1.0.0|x\nb v1.0.0|x\n");
        assert_eq!(differences(&own, &workspace), [found("a", "1.0.0")]);
        assert_eq!(differences(&workspace, &workspace), []);
    }

    #[test]
    fn the_manifest_names_versions_and_features() {
        let wanted = Wanted {
            target: [
                (found("syn", "2.0.1"), (set("full"), true)),
                (found("tokio", "1.5.0+x"), (set("net rt"), false)),
            ]
            .into(),
            host: [(found("syn", "3.0.0"), set("visit"))].into(),
        };
        let text = manifest(&wanted);
        for expected in [
            "full = [\n    \"dep:tokio\",\n]\n",
            "syn-2-0-1 = { package = \"syn\", version = \"2.0.1\", default-features = false, features = [\"full\"] }\n",
            "tokio = { version = \"1.5.0\", default-features = false, features = [\"net\", \"rt\"], optional = true }\n",
            "[build-dependencies]\nsyn-3-0-0 = { package = \"syn\", version = \"3.0.0\"",
        ] {
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }
}
