//! The sample policies that this program brings along: modules, and policies that use them to watch.

use std::path::Path;

use anyhow::Context as _;
use polity_runtime::files;
use serde_json::{Value, json};

/// Modules by name, as `build.rs` found them.
const MODULES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/samples.rs"));

/// The policies: the module, which is also the name, and the settings.
fn settings(module: &str) -> Option<Value> {
    match module {
        "pod-privileged" | "host-namespaces" => Some(json!({})),
        "trusted-registries" => Some(json!({"rejected_tags": ["latest"]})),
        _ => None,
    }
}

/// The samples there are.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let names = MODULES.iter().map(|(name, _)| *name);
    names.filter(|name| settings(name).is_some())
}

/// Writes the modules below the data directory; the policies that use them.
///
/// They only watch, and a server that is not there is no reason to refuse anything.
pub(crate) fn unpack(data_dir: &Path) -> anyhow::Result<Vec<Value>> {
    let folder = data_dir.join("samples");
    let mut policies = Vec::new();
    for (name, module) in MODULES {
        let Some(settings) = settings(name) else {
            continue;
        };
        files::create_private_dir(&folder)?;
        let path = folder.join(name).with_extension("wasm");
        if std::fs::read(&path).ok().as_deref() != Some(module) {
            files::write_private(&path, module).context("unpacking a sample policy")?;
        }
        policies.push(policy(name, &path, settings));
    }
    Ok(policies)
}

fn policy(name: &str, module: &Path, settings: Value) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "module": format!("file://{}", module.display()),
            "settings": settings,
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"],
                "operations": ["CREATE", "UPDATE"],
            }],
            "mutating": false,
            "mode": "monitor",
            "failurePolicy": "Ignore",
            "policyServer": "default",
        },
    })
}

#[cfg(test)]
mod tests {
    use polity_api::policies::v1::ClusterAdmissionPolicy;

    use super::*;

    #[test]
    fn samples_watch_and_their_modules_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let policies = unpack(folder.path()).unwrap();
        assert_eq!(policies, unpack(folder.path()).unwrap());
        for policy in policies {
            let module = policy["spec"]["module"].as_str().unwrap();
            let path = Path::new(module.strip_prefix("file://").unwrap());
            assert!(path.is_file(), "{module}");
            assert_eq!(policy["spec"]["mode"], "monitor");
            serde_json::from_value::<ClusterAdmissionPolicy>(policy).unwrap();
        }
    }

    #[test]
    fn a_policy_has_the_shape_of_its_kind() {
        let policy = policy("x", Path::new("/m.wasm"), json!({}));
        serde_json::from_value::<ClusterAdmissionPolicy>(policy).unwrap();
    }
}
