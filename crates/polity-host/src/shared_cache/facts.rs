//! The facts that a signature states: the policy server, the build and the module.

use polity_fetch::{Digest, ModuleUri};
use polity_pki::{BlobKind, BlobPredicate};

use super::layout::Form;

/// The policy server that owns the cache. Only its signatures are accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheIdentity {
    /// The namespace of the policy server.
    pub namespace: String,
    /// The name of the policy server.
    pub server: String,
}

impl CacheIdentity {
    /// The name in the certificate that signs this server's files.
    pub fn uri(&self) -> String {
        let Self { namespace, server } = self;
        format!("kubewarden://{namespace}/policy-server/{server}/cache")
    }
}

/// The build of this server. It can only run native code of a compatible build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheBuild {
    server_version: String,
    compat_hash: String,
    target: String,
}

impl CacheBuild {
    /// The build with a server version and the compatibility hash of native code
    /// ([`polity_wasm::Engine::compatibility`]). Both are part of file names: characters that are not allowed there
    /// become `_`.
    pub fn new(server_version: &str, compatibility: &str) -> Self {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '+' | '-');
        let replaced = server_version.chars().take(64);
        let mut compat_hash = Digest::of(compatibility.as_bytes()).hex();
        compat_hash.truncate(8);
        Self {
            server_version: replaced.map(|c| if fits(c) { c } else { '_' }).collect(),
            compat_hash,
            target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        }
    }

    pub(super) fn server_version(&self) -> &str {
        &self.server_version
    }

    /// The form of native code that this build can run.
    pub(super) fn optimized(&self) -> Form<'_> {
        Form::Optimized {
            server_version: &self.server_version,
            compat_hash: &self.compat_hash,
        }
    }

    /// Whether a file was created by a compatible build.
    pub(super) fn made(&self, predicate: &BlobPredicate) -> bool {
        predicate.server_version == self.server_version
            && predicate.compat_hash == self.compat_hash
            && predicate.target == self.target
    }
}

/// A module as the status of its revision records it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModuleFacts {
    /// The reference of the module.
    pub uri: ModuleUri,
    /// The digest of the content.
    pub digest: Digest,
    /// The digest of the manifest that it was pulled by, if it has one.
    pub manifest_digest: Option<Digest>,
    /// The SHA-256 of the verification config in force; empty without one.
    pub verification: String,
}

impl ModuleFacts {
    /// The statement that is signed for a file of this module.
    pub(super) fn predicate(&self, kind: BlobKind, build: &CacheBuild) -> BlobPredicate {
        BlobPredicate {
            uri: self.uri.to_string(),
            original_digest: self.digest.to_string(),
            manifest_digest: self.manifest_digest.map(|digest| digest.to_string()),
            verification: self.verification.clone(),
            kind,
            server_version: build.server_version.clone(),
            compat_hash: build.compat_hash.clone(),
            target: build.target.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_in_the_certificate_is_that_of_the_server() {
        let identity = CacheIdentity {
            namespace: "kubewarden".to_owned(),
            server: "default".to_owned(),
        };
        assert_eq!(
            identity.uri(),
            "kubewarden://kubewarden/policy-server/default/cache"
        );
    }

    #[test]
    fn a_build_always_makes_a_file_name() {
        for (version, expected) in [
            ("1.2.3-rc.1+5", "1.2.3-rc.1+5"),
            ("../../x", ".._.._x"),
            ("", ""),
        ] {
            let build = CacheBuild::new(version, "engine");
            assert_eq!(build.server_version(), expected);
            let name = build.optimized().file_name();
            assert_eq!(Form::of_name(&name), Some(build.optimized()));
        }
    }
}
