//! Registry credentials from a docker `config.json`, credential helpers included.

use std::path::{Path, PathBuf};

use docker_credential::{CredentialRetrievalError, DockerCredential};
use oci_client::secrets::RegistryAuth;
use serde_json::Value;

use crate::regular_file;

/// The most that is read of a docker configuration.
const MAX_CONFIG: u64 = 1 << 20;

/// The source of credentials.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    config: Option<PathBuf>,
}

impl Credentials {
    /// No credentials: every request is anonymous.
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// The credentials in `config.json` of a directory.
    pub fn from_directory(directory: &Path) -> Self {
        Self {
            config: Some(directory.join("config.json")),
        }
    }

    /// The credentials for a registry; anonymous if there are none that can be used.
    pub(crate) fn for_host(&self, host: &str) -> RegistryAuth {
        let Some(config) = &self.config else {
            return RegistryAuth::Anonymous;
        };
        let Ok(Some(text)) = regular_file::read(config, MAX_CONFIG) else {
            return RegistryAuth::Anonymous;
        };
        if !names_plain_helpers(&text) {
            tracing::warn!(
                host,
                "the docker configuration names a credential helper by a path, asking anonymously"
            );
            return RegistryAuth::Anonymous;
        }
        for key in lookup_keys(host) {
            match docker_credential::get_credential_from_reader(text.as_slice(), &key) {
                Ok(DockerCredential::UsernamePassword(user, password)) => {
                    return RegistryAuth::Basic(user, password);
                }
                Ok(DockerCredential::IdentityToken(_)) => {
                    tracing::warn!(
                        host,
                        "identity tokens are not supported, asking anonymously"
                    );
                    return RegistryAuth::Anonymous;
                }
                Err(
                    CredentialRetrievalError::NoCredentialConfigured
                    | CredentialRetrievalError::ConfigNotFound,
                ) => {}
                // The output of the helper may contain a secret, so only its failure is logged.
                Err(CredentialRetrievalError::HelperFailure { helper, .. }) => {
                    tracing::warn!(host, helper, "the credential helper failed");
                }
                Err(error) => {
                    tracing::warn!(host, error = %error, "the docker configuration cannot be used");
                }
            }
        }
        RegistryAuth::Anonymous
    }
}

/// Whether the name of every credential helper is a plain word. It becomes part of the name of a program, and a slash
/// in it would run any program that the configuration names.
fn names_plain_helpers(config: &[u8]) -> bool {
    let Ok(config) = serde_json::from_slice::<Value>(config) else {
        return true;
    };
    let helpers = config["credHelpers"].as_object().into_iter().flatten();
    let helpers = helpers.map(|(_, helper)| helper);
    let mut names = helpers
        .chain([&config["credsStore"]])
        .filter_map(Value::as_str);
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    names.all(|name| name.chars().all(is_plain))
}

/// The keys of a registry in the file.
fn lookup_keys(host: &str) -> Vec<String> {
    let mut keys = vec![
        host.to_owned(),
        format!("https://{host}"),
        format!("https://{host}/v1/"),
        format!("https://{host}/v2/"),
    ];
    if host == "docker.io" || host == "index.docker.io" || host == "registry-1.docker.io" {
        keys.push("https://index.docker.io/v1/".to_owned());
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auth(config: &str, host: &str) -> String {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("config.json"), config).unwrap();
        match Credentials::from_directory(directory.path()).for_host(host) {
            RegistryAuth::Basic(user, password) => format!("{user}:{password}"),
            RegistryAuth::Anonymous => "anonymous".to_owned(),
            RegistryAuth::Bearer(_) => "bearer".to_owned(),
        }
    }

    #[test]
    fn entries_are_found_under_every_spelling() {
        // user:pass
        for key in ["h:5000", "https://h:5000", "https://h:5000/v1/"] {
            let config = format!(r#"{{"auths":{{"{key}":{{"auth":"dXNlcjpwYXNz"}}}}}}"#);
            assert_eq!(auth(&config, "h:5000"), "user:pass", "{key}");
        }
        let config = r#"{"auths":{"https://index.docker.io/v1/":{"username":"u","password":"p"}}}"#;
        assert_eq!(auth(config, "docker.io"), "u:p");
    }

    #[test]
    fn a_helper_that_is_named_by_a_path_is_not_run() {
        let directory = tempfile::tempdir().unwrap();
        let trace = directory.path().join("trace");
        let program = directory.path().join("run");
        std::fs::write(&program, format!("#!/bin/sh\ntouch {}\n", trace.display())).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&program, mode).unwrap();
        // `docker-credential-x` must be a directory for the path to lead anywhere.
        std::fs::create_dir(directory.path().join("docker-credential-x")).unwrap();
        let path = directory.path().join("docker-credential-x/../run");
        let from_root = path.to_str().unwrap();
        for name in ["x/../run", from_root, "../run"] {
            for config in [
                format!(r#"{{"credsStore":"{name}","auths":{{"h":{{}}}}}}"#),
                format!(r#"{{"credHelpers":{{"h":"{name}"}}}}"#),
            ] {
                assert!(!names_plain_helpers(config.as_bytes()), "{config}");
                assert_eq!(auth(&config, "h"), "anonymous", "{config}");
            }
        }
        assert!(!trace.exists());
        for name in ["desktop", "ecr-login", "osx_keychain2"] {
            let config = format!(r#"{{"credsStore":"{name}"}}"#);
            assert!(names_plain_helpers(config.as_bytes()), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_used_leaves_a_stranger() {
        for config in [
            "{}",
            "not json",
            r#"{"auths":{"other":{"auth":"dXNlcjpwYXNz"}}}"#,
            r#"{"auths":{"h":{"auth":"!!!"}}}"#,
            r#"{"auths":{"h":{"identitytoken":"t"}}}"#,
            r#"{"credHelpers":{"h":"no-such-helper"}}"#,
        ] {
            assert_eq!(auth(config, "h"), "anonymous", "{config}");
        }
        assert!(matches!(
            Credentials::anonymous().for_host("h"),
            RegistryAuth::Anonymous
        ));
    }
}
