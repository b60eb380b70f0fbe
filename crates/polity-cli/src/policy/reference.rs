//! How people name modules on a command line: by a file, by the beginning of a digest, by where they come from.

use std::path::Path;

use anyhow::{Context as _, bail};
use polity_fetch::{LocalStore, ModuleUri, Stored};

use crate::exit::Hinted;

/// Shorter beginnings of a digest are more likely a mistake.
const MIN_PREFIX: usize = 4;

/// Where the module is that somebody means.
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
            "name a module by a file, registry://host/name:tag, https://…, or the beginning of its SHA-256 from `polity policy policies`",
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
    Ok(text.parse()?)
}

fn file(text: &str) -> anyhow::Result<ModuleUri> {
    let path = std::path::absolute(text).with_context(|| format!("finding {text}"))?;
    Ok(ModuleUri::File(path))
}

fn looks_like_a_file(text: &str) -> bool {
    let has_extension = Path::new(text)
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("wasm"));
    text.starts_with(['.', '/', '~']) || (has_extension && !text.contains(':'))
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
