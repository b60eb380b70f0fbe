//! The paths of the files in the shared cache.
//!
//! A module's directory is `<host[:port]>/<repo>/<tag or digest>/<first 16 hex of its sha256>`, or
//! `_url/<sha256 of the URI>/<…>` for all other references. It has the files `original.wasm`,
//! `optimized-kw-v<server version>-<compat hash>.wasm` for each build that runs it, and a `.sig` for each.

use polity_fetch::{Digest, ModuleUri, RegistryUri};
use uuid::Uuid;

const ORIGINAL: &str = "original.wasm";
const OPTIMIZED: &str = "optimized-kw-v";
const WASM: &str = ".wasm";
const SIGNATURE: &str = ".sig";
const TEMPORARY: &str = ".polity-";
const BY_HASH: &str = "_url";
/// The longest file name that file systems allow.
const MAX_SEGMENT: usize = 255;
/// How many hexadecimal digits of a module's digest are the name of its directory.
const DIGEST_DIGITS: usize = 16;

/// The directory of one module, as the segments of its path below the root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ModuleDirectory(Vec<String>);

impl ModuleDirectory {
    /// The directory of a module.
    pub(super) fn of(uri: &ModuleUri, digest: &Digest) -> Self {
        let mut segments = match uri {
            ModuleUri::Registry(registry) => named(registry),
            ModuleUri::Web(_) | ModuleUri::File(_) => None,
        }
        .unwrap_or_else(|| {
            let hash = Digest::of(uri.to_string().as_bytes()).hex();
            vec![BY_HASH.to_owned(), hash]
        });
        segments.push(digest_directory(digest));
        Self(segments)
    }

    pub(super) fn segments(&self) -> &[String] {
        &self.0
    }
}

/// The segments of a registry reference; `None` if one of them is not a plain directory name.
fn named(uri: &RegistryUri) -> Option<Vec<String>> {
    // If there are both, the digest decides and the tag has no meaning.
    let version = uri.digest.as_deref().unwrap_or(uri.tag_or_latest());
    let segments: Vec<&str> = std::iter::once(uri.host.as_str())
        .chain(uri.repository.split('/'))
        .chain([version])
        .collect();
    let plain = segments.iter().all(|segment| is_plain(segment));
    plain.then(|| segments.into_iter().map(str::to_owned).collect())
}

/// Whether a part of a reference can be a directory name: it must not leave the directory or equal one of the cache's
/// own file names. A tag may be `original.wasm`, and its directory would be in the way of a file.
fn is_plain(segment: &str) -> bool {
    !segment.is_empty()
        && segment.len() <= MAX_SEGMENT
        && !segment.starts_with('.')
        && !segment.contains(['/', '\\', '\0'])
        && !segment.ends_with(WASM)
        && !segment.ends_with(SIGNATURE)
        && segment != BY_HASH
}

/// The last segment of a module's directory.
pub(super) fn digest_directory(digest: &Digest) -> String {
    let mut hex = digest.hex();
    hex.truncate(DIGEST_DIGITS);
    hex
}

/// Whether a name is that of a module's directory.
pub(super) fn is_digest_directory(name: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.len() == DIGEST_DIGITS && name.bytes().all(is_digit)
}

/// The form of a file in a module's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form<'a> {
    Original,
    Optimized {
        server_version: &'a str,
        compat_hash: &'a str,
    },
}

impl<'a> Form<'a> {
    /// The form for a file name; `None` for names that are not of the cache.
    pub(super) fn of_name(name: &'a str) -> Option<Self> {
        if name == ORIGINAL {
            return Some(Self::Original);
        }
        let build = name.strip_prefix(OPTIMIZED)?.strip_suffix(WASM)?;
        // The version may contain dashes.
        let (server_version, compat_hash) = build.rsplit_once('-')?;
        Some(Self::Optimized {
            server_version,
            compat_hash,
        })
    }

    /// The name of the file.
    pub(super) fn file_name(&self) -> String {
        match self {
            Self::Original => ORIGINAL.to_owned(),
            Self::Optimized {
                server_version,
                compat_hash,
            } => format!("{OPTIMIZED}{server_version}-{compat_hash}{WASM}"),
        }
    }
}

/// The name of the signature beside a file.
pub(super) fn signature_name(file_name: &str) -> String {
    format!("{file_name}{SIGNATURE}")
}

/// The file that a signature belongs to; the name itself for everything else.
pub(super) fn without_signature(name: &str) -> &str {
    name.strip_suffix(SIGNATURE).unwrap_or(name)
}

/// A unique name for an unfinished file or an obstacle.
pub(super) fn temporary_name() -> String {
    format!("{TEMPORARY}{}", Uuid::new_v4().simple())
}

/// Whether a name is that of an unfinished file or an obstacle.
pub(super) fn is_temporary(name: &str) -> bool {
    name.starts_with(TEMPORARY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(uri: &ModuleUri) -> String {
        ModuleDirectory::of(uri, &Digest::of(b"abc"))
            .segments()
            .join("/")
    }

    /// The layout is part of the contract between versions (docs/spec/admission.md#19-9).
    #[test]
    fn a_module_lies_where_it_came_from() {
        let pinned = format!("sha256:{}", "a".repeat(64));
        for (uri, expected) in [
            (
                "registry://ghcr.io/kubewarden/policies/safe-labels:v1.0.0",
                "ghcr.io/kubewarden/policies/safe-labels/v1.0.0/ba7816bf8f01cfea",
            ),
            (
                "localhost:5000/p",
                "localhost:5000/p/latest/ba7816bf8f01cfea",
            ),
            (
                &format!("h.example/p:v1@{pinned}"),
                &format!("h.example/p/{pinned}/ba7816bf8f01cfea"),
            ),
        ] {
            let found = place(&uri.parse().unwrap());
            assert_eq!(found, expected, "{uri}");
        }
        for uri in ["https://example.com/p.wasm", "file:///a/p.wasm"] {
            let expected = format!("_url/{}/ba7816bf8f01cfea", Digest::of(uri.as_bytes()).hex());
            assert_eq!(place(&uri.parse().unwrap()), expected);
        }
    }

    #[test]
    fn no_reference_leads_out_of_the_cache_or_into_the_place_of_a_file() {
        let reference = |host: &str, repository: &str, tag: &str| {
            ModuleUri::Registry(RegistryUri {
                host: host.to_owned(),
                repository: repository.to_owned(),
                tag: Some(tag.to_owned()),
                digest: None,
            })
        };
        let long = "x".repeat(300);
        for (host, repository, tag) in [
            ("..", "p", "v1"),
            ("h.example", "../p", "v1"),
            ("h.example", "a//p", "v1"),
            ("h.example", "./p", "v1"),
            ("h.example", "p", ".."),
            ("h.example", "p", "a/b"),
            ("h.example", "p", "a\\b"),
            ("h.example", "p", "a\0b"),
            ("h.example", "p", ""),
            ("h.example", "p", &long),
            ("h.example", "p/0123456789abcdef", "original.wasm"),
            ("h.example", "p", "original.wasm.sig"),
            ("_url", "p", "v1"),
        ] {
            let uri = reference(host, repository, tag);
            let found = place(&uri);
            assert!(found.starts_with("_url/"), "{uri}: {found}");
            assert_eq!(found.split('/').count(), 3, "{uri}: {found}");
        }
    }

    #[test]
    fn file_names_are_read_as_they_are_written() {
        let optimized = Form::Optimized {
            server_version: "1.28.1-rc-2",
            compat_hash: "0a1b2c3d",
        };
        for (form, name) in [
            (Form::Original, "original.wasm"),
            (optimized, "optimized-kw-v1.28.1-rc-2-0a1b2c3d.wasm"),
        ] {
            assert_eq!(form.file_name(), name);
            assert_eq!(Form::of_name(name), Some(form));
            assert_eq!(without_signature(&signature_name(name)), name);
        }
        for foreign in [
            "",
            "original",
            "optimized-kw-v1.wasm",
            "optimized-kw-v1-2",
            "x.wasm",
        ] {
            assert_eq!(Form::of_name(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn temporary_names_are_never_those_of_modules() {
        let name = temporary_name();
        assert!(is_temporary(&name) && !is_plain(&name));
        assert_ne!(name, temporary_name());
    }
}
