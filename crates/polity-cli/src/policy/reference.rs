//! How people name modules on a command line: by a file, by the beginning of a digest, by where they come from.

use std::path::Path;

use anyhow::{Context as _, bail};
use polity_fetch::{LocalStore, ModuleUri, Stored};

use crate::exit::Hinted;

/// Shorter beginnings of a digest are more likely a mistake.
const MIN_PREFIX: usize = 4;

/// The source of a module that was named.
pub(super) fn module(text: &str, store: &LocalStore) -> anyhow::Result<ModuleUri> {
    if text.contains("://") {
        return Ok(text.parse()?);
    }
    if Path::new(text).exists() {
        return file(text);
    }
    if let Some(stored) = by_digest(text, store)? {
        return Ok(stored.uri.parse()?);
    }
    if looks_like_a_file(text) {
        return Err(Hinted::new(
            format!("there is no file {text}"),
            "name a module by a file, registry://host/name:tag, https://…, or the beginning of its SHA-256 from `polity policy modules`",
        )
        .into());
    }
    Ok(text.parse()?)
}

/// A module in the store, by its reference or the beginning of its digest.
pub(super) fn stored(text: &str, store: &LocalStore) -> anyhow::Result<ModuleUri> {
    if !text.contains("://")
        && let Some(stored) = by_digest(text, store)?
    {
        return Ok(stored.uri.parse()?);
    }
    text.parse().map_err(|_| not_stored(text).into())
}

/// The error for a module that was never fetched.
pub(super) fn not_stored(module: &str) -> Hinted {
    Hinted::new(
        format!("{module} is not in the store"),
        "`polity policy modules` lists the modules in the store",
    )
}

fn file(text: &str) -> anyhow::Result<ModuleUri> {
    let path = std::path::absolute(text).with_context(|| format!("finding {text}"))?;
    Ok(ModuleUri::File(path))
}

fn looks_like_a_file(text: &str) -> bool {
    let has_extension = Path::new(text)
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("wasm"));
    let is_plain_name = !text.contains(['/', ':']);
    is_plain_name || text.starts_with(['.', '/', '~']) || (has_extension && !text.contains(':'))
}

/// The one module whose digest begins so. Several references to it are fine, several modules are not.
fn by_digest(text: &str, store: &LocalStore) -> anyhow::Result<Option<Stored>> {
    let prefix = text.to_ascii_lowercase();
    if prefix.len() < MIN_PREFIX || !prefix.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(None);
    }
    let mut matching: Vec<Stored> = store
        .list()?
        .into_iter()
        .filter(|stored| stored.digest.hex().starts_with(&prefix))
        .collect();
    matching.dedup_by_key(|stored| stored.digest);
    if matching.len() > 1 {
        let names: Vec<String> = matching
            .iter()
            .map(|stored| format!("{} ({})", stored.digest.hex(), stored.uri))
            .collect();
        bail!(
            "{text} is the beginning of several modules: {}",
            names.join(", ")
        );
    }
    Ok(matching.pop())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_slash_and_colon_is_a_file_name() {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalStore::new(folder.path().to_owned());
        for typed in ["nope", "nope.wasm", "./nope", "no/such.wasm", "abcd1234"] {
            let error = module(typed, &store).unwrap_err();
            assert_eq!(error.to_string(), format!("there is no file {typed}"));
        }
        let reference = module("ghcr.io/kubewarden/policies/pod-privileged:v1", &store);
        assert!(matches!(reference.unwrap(), ModuleUri::Registry(_)));
    }

    #[test]
    fn a_module_that_is_not_stored_is_named_as_it_was_typed() {
        let folder = tempfile::tempdir().unwrap();
        let store = LocalStore::new(folder.path().to_owned());
        for typed in ["nope", "NO PE", "abcd1234"] {
            let shown = match stored(typed, &store) {
                Ok(_) => not_stored(typed).to_string(),
                Err(error) => error.to_string(),
            };
            assert_eq!(shown, format!("{typed} is not in the store"));
        }
    }
}
