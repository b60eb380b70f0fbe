//! Which binary an image stands for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The images that are run here. A workload of any other image is left alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Images {
    binaries: BTreeMap<String, PathBuf>,
    by_name: BTreeMap<String, PathBuf>,
}

impl Images {
    /// Adds an image: a whole reference, or a repository, which stands for all its tags.
    #[must_use]
    pub fn with(mut self, image: impl Into<String>, binary: impl Into<PathBuf>) -> Self {
        self.binaries.insert(image.into(), binary.into());
        self
    }

    /// Adds all repositories whose last word this is, of whatever registry: a mirror has the same images.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>, binary: impl Into<PathBuf>) -> Self {
        self.by_name.insert(name.into(), binary.into());
        self
    }

    /// The binary of an image. A whole reference counts before its repository, and that before its name.
    pub fn binary(&self, image: &str) -> Option<&Path> {
        let repository = repository(image);
        let name = repository.rsplit('/').next().unwrap_or_default();
        let found = self.binaries.get(image);
        let found = found.or_else(|| self.binaries.get(repository));
        let found = found.or_else(|| self.by_name.get(name));
        found.map(PathBuf::as_path)
    }
}

/// A reference without tag and digest. A colon before the last slash belongs to a port.
fn repository(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    match image.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_references_count_before_repositories() {
        let images = Images::default()
            .with("host:5000/polity", "/bin/polity")
            .with("host:5000/polity:v1", "/old/polity")
            .with_name("policy-server", "/bin/server");
        let cases = [
            ("host:5000/polity", Some("/bin/polity")),
            ("host:5000/polity:v2", Some("/bin/polity")),
            ("host:5000/polity:v1", Some("/old/polity")),
            ("host:5000/polity:v2@sha256:00", Some("/bin/polity")),
            ("host:5000/other", None),
            ("polity", None),
            ("policy-server", Some("/bin/server")),
            ("policy-server:v1", Some("/bin/server")),
            ("mirror:5000/x/policy-server:v1", Some("/bin/server")),
            ("my-policy-server", None),
            ("", None),
        ];
        for (image, expected) in cases {
            assert_eq!(images.binary(image), expected.map(Path::new), "{image}");
        }
    }
}
