//! `cargo xtask gateway-api`: writes the CRDs of Gateway API that `polity up --gateway-api` installs.
//!
//! They come from the Go module of Gateway API. Descriptions are removed; schemas, rules and annotations are
//! unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use peers::modules::{self, GATEWAY_API};
use serde_json::Value;

use crate::shell;

/// The folder in the module with the CRDs of the standard channel.
const STANDARD: &str = "config/crd/standard";
const FOLDER: &str = "config/gateway-api";
const GROUP_PREFIX: &str = "gateway.networking.k8s.io_";

#[derive(clap::Args)]
pub(crate) struct Args {}

impl Args {
    #[expect(clippy::unused_self, reason = "commands are alike")]
    pub(crate) fn run(self) -> Result<()> {
        let Some(module) = modules::module_or_skip(GATEWAY_API) else {
            bail!("{GATEWAY_API} is not available");
        };
        let folder = shell::root().join(FOLDER);
        fs::create_dir_all(&folder)?;
        let files = files(&module)?;
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == "yaml") {
                fs::remove_file(path)?;
            }
        }
        for (name, text) in files {
            fs::write(folder.join(&name), text)?;
            eprintln!("  wrote {FOLDER}/{name}");
        }
        Ok(())
    }
}

/// The files to write, by name.
fn files(module: &Path) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(module.join(STANDARD))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(name) = name.strip_prefix(GROUP_PREFIX) else {
            continue;
        };
        let text = fs::read_to_string(&path)?;
        let what = || format!("reading {}", path.display());
        // The folder also contains an admission policy, which is skipped.
        if !text
            .lines()
            .any(|line| line == "kind: CustomResourceDefinition")
        {
            continue;
        }
        let mut definition: Value = serde_saphyr::from_str(&text).with_context(what)?;
        for version in definition["spec"]["versions"]
            .as_array_mut()
            .into_iter()
            .flatten()
        {
            strip_schema(&mut version["schema"]["openAPIV3Schema"]);
            for column in version["additionalPrinterColumns"]
                .as_array_mut()
                .into_iter()
                .flatten()
            {
                remove(column, "description");
            }
            // Remove the key: a null entry differs from a missing one.
            if version["additionalPrinterColumns"].is_null() {
                remove(version, "additionalPrinterColumns");
            }
        }
        remove(&mut definition, "status");
        let body = serde_saphyr::to_string(&definition).with_context(what)?;
        files.insert(
            name.to_owned(),
            format!("# Written by `cargo xtask gateway-api`.\n{body}"),
        );
    }
    Ok(files)
}

/// Removes the descriptions of a schema. A property that is called `description` stays.
fn strip_schema(schema: &mut Value) {
    remove(schema, "description");
    for key in ["properties", "patternProperties", "definitions"] {
        let Some(Value::Object(named)) = schema.get_mut(key) else {
            continue;
        };
        named.values_mut().for_each(strip_schema);
    }
    for key in ["items", "additionalProperties", "not"] {
        if let Some(inner @ Value::Object(_)) = schema.get_mut(key) {
            strip_schema(inner);
        }
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        if let Some(Value::Array(list)) = schema.get_mut(key) {
            list.iter_mut().for_each(strip_schema);
        }
    }
}

fn remove(value: &mut Value, key: &str) {
    if let Value::Object(fields) = value {
        fields.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn descriptions_go_and_properties_of_that_name_stay() {
        let mut schema = json!({
            "description": "a", "type": "object",
            "properties": {
                "description": {"type": "string", "description": "b"},
                "list": {"type": "array", "items": {"anyOf": [{"description": "c", "type": "string"}]}},
                "map": {"additionalProperties": {"description": "d", "type": "string"}},
            },
            "x-kubernetes-validations": [{"rule": "true", "message": "kept"}],
        });
        strip_schema(&mut schema);
        let expected = json!({
            "type": "object",
            "properties": {
                "description": {"type": "string"},
                "list": {"type": "array", "items": {"anyOf": [{"type": "string"}]}},
                "map": {"additionalProperties": {"type": "string"}},
            },
            "x-kubernetes-validations": [{"rule": "true", "message": "kept"}],
        });
        assert_eq!(schema, expected);
    }

    #[test]
    fn the_files_in_the_tree_are_those_of_the_module() {
        let Some(module) = modules::module_or_skip(GATEWAY_API) else {
            return;
        };
        let folder = shell::root().join(FOLDER);
        for (name, text) in files(&module).unwrap() {
            let stored = fs::read_to_string(folder.join(&name)).unwrap_or_default();
            assert!(
                stored == text,
                "{name} is stale; run: cargo xtask gateway-api"
            );
        }
    }
}
