//! The Go module from which a release of Kubernetes is built.
//!
//! `k8s.io/kubernetes` cannot be required directly: its go.mod replaces its own parts by folders that exist only in
//! its repository. The published modules of the same release are used instead.

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The Go version of our modules: the oldest one that builds [`peers::tools::KUBERNETES`].
const GO: &str = "1.26.0";

/// A release such as `v1.37.1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Release {
    version: String,
    major: String,
    minor: String,
    patch: String,
}

impl Release {
    pub(super) fn parse(version: &str) -> Result<Self> {
        let numbers: Vec<_> = version
            .strip_prefix('v')
            .unwrap_or_default()
            .split('.')
            .collect();
        let is_number =
            |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match numbers.as_slice() {
            [major, minor, patch] if numbers.iter().all(is_number) => Ok(Self {
                version: version.to_owned(),
                major: (*major).to_owned(),
                minor: (*minor).to_owned(),
                patch: (*patch).to_owned(),
            }),
            _ => bail!("{version} is not a release, such as v1.29.6"),
        }
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// The version under which the parts of the release are published: v0.37.1 for v1.37.1.
    fn staging(&self) -> String {
        format!("v0.{}.{}", self.minor, self.patch)
    }

    /// Without these flags the programs report v0.0.0, and clients assume the wrong capabilities.
    pub(super) fn linker_flags(&self) -> String {
        let set =
            |name: &str, value: &str| format!("-X k8s.io/component-base/version.{name}={value}");
        let version = [
            set("gitVersion", &self.version),
            set("gitMajor", &self.major),
            set("gitMinor", &self.minor),
        ];
        format!("-s -w {}", version.join(" "))
    }

    /// The go.mod of a module with `commands` of the release as tools. `upstream` is the go.mod of `k8s.io/kubernetes`
    /// in the format of `go mod edit -json`.
    pub(super) fn go_mod(&self, upstream: &Value, commands: &[&str]) -> Result<String> {
        let staging = self.staging();
        let mut replaced: Vec<_> = upstream["Replace"]
            .as_array()
            .context("the go.mod of k8s.io/kubernetes replaces nothing")?
            .iter()
            .filter(|replace| {
                replace["New"]["Path"]
                    .as_str()
                    .is_some_and(|path| path.starts_with("./staging/"))
            })
            .filter_map(|replace| replace["Old"]["Path"].as_str())
            .map(|path| format!("\t{path} => {path} {staging}\n"))
            .collect();
        replaced.sort();
        let tools: Vec<_> = commands
            .iter()
            .map(|command| format!("\tk8s.io/kubernetes/cmd/{command}\n"))
            .collect();
        let tools = tools.concat();
        let version = &self.version;
        let replaced = replaced.concat();
        Ok(format!(
            "module polity.dev/kube\n\ngo {GO}\n\ntool (\n{tools})\n\n\
             require k8s.io/kubernetes {version}\n\nreplace (\n{replaced})\n"
        ))
    }
}

/// The go.mod for etcd, which has one main package.
pub(super) fn etcd_go_mod(version: &str) -> String {
    let package = super::build::ETCD_PACKAGE;
    format!("module polity.dev/etcd\n\ngo {GO}\n\ntool {package}\n\nrequire {package} {version}\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn releases() {
        assert_eq!(Release::parse("v1.29.6").unwrap().staging(), "v0.29.6");
        for wrong in ["1.29.6", "v1.29", "v1.x.2", "v1.29.6-rc.1", "", "v"] {
            assert!(Release::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn parts_of_the_release_are_replaced_by_what_is_published() {
        let upstream = json!({"Replace": [
            {"Old": {"Path": "k8s.io/client-go"}, "New": {"Path": "./staging/src/k8s.io/client-go"}},
            {"Old": {"Path": "k8s.io/api"}, "New": {"Path": "./staging/src/k8s.io/api"}},
            {"Old": {"Path": "example.com/other"}, "New": {"Path": "example.com/fork"}},
        ]});
        let go_mod = Release::parse("v1.37.1")
            .unwrap()
            .go_mod(&upstream, &["kubectl"])
            .unwrap();
        let expected = "module polity.dev/kube\n\ngo 1.26.0\n\ntool (\n\tk8s.io/kubernetes/cmd/kubectl\n)\n\n\
            require k8s.io/kubernetes v1.37.1\n\nreplace (\n\
            \tk8s.io/api => k8s.io/api v0.37.1\n\tk8s.io/client-go => k8s.io/client-go v0.37.1\n)\n";
        assert_eq!(go_mod, expected);
    }

    #[test]
    fn programs_know_their_version() {
        let flags = Release::parse("v1.37.1").unwrap().linker_flags();
        assert!(flags.contains("version.gitVersion=v1.37.1"), "{flags}");
        assert!(flags.ends_with("version.gitMinor=37"), "{flags}");
    }
}
