//! Where other tools of the ecosystem look for a module: `<scheme>/<host[:port]>/<path…>/<file or name:tag>`.

use std::path::{Component, Path, PathBuf};

use crate::uri::ModuleUri;

/// The place of a module below the root; none for what has no place there.
pub(super) fn path(uri: &ModuleUri) -> Option<PathBuf> {
    let path = match uri {
        ModuleUri::File(_) => return None,
        ModuleUri::Registry(registry) => {
            let name = match (&registry.tag, &registry.digest) {
                (_, Some(digest)) => format!("{}@{digest}", registry.repository),
                (_, None) => format!("{}:{}", registry.repository, registry.tag_or_latest()),
            };
            Path::new("registry").join(&registry.host).join(name)
        }
        ModuleUri::Web(url) => Path::new(url.scheme())
            .join(uri.host()?)
            .join(url.path().trim_start_matches('/')),
    };
    // A URL may say `..` or be empty where a file name should be; neither leads out of the store.
    let is_below = path.components().count() > 2
        && path
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
    is_below.then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_ecosystem() {
        for (uri, expected) in [
            (
                "registry://ghcr.io/kubewarden/policies/psp:v1",
                Some("registry/ghcr.io/kubewarden/policies/psp:v1"),
            ),
            (
                "registry://localhost:5000/psp",
                Some("registry/localhost:5000/psp:latest"),
            ),
            (
                "https://example.com:8443/a/b.wasm",
                Some("https/example.com:8443/a/b.wasm"),
            ),
            ("https://example.com/", None),
            ("file:///a/b.wasm", None),
        ] {
            let place = path(&uri.parse().unwrap());
            assert_eq!(place.as_deref(), expected.map(Path::new), "{uri}");
        }
    }
}
