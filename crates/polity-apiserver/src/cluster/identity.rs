//! The keys of a cluster: its client CA, its token key, its administrator's token.
//!
//! Each cluster has its own, so that the credentials of one are not valid in another.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use polity_pki::{Authority, Certificate, TokenKey};
use serde_json::Value;
use uuid::Uuid;

use polity_auth::authn::StaticToken;
use polity_auth::token::TokenIssuer;
use polity_auth::{Authenticator, MASTERS, Secret, UserInfo};
use polity_runtime::files::{self, FileError};

/// Ten years: a laptop cluster is thrown away long before.
pub const AUTHORITY_LIFE: Duration = Duration::from_hours(10 * 365 * 24);

/// How a private key begins in a file.
const KEY_HEADER: &str = "-----BEGIN PRIVATE KEY-----";

/// The keys could not be created or read.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("the keys in {storage} cannot be used: {why}")]
    Unusable { storage: String, why: String },
}

/// The location of the keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyStorage {
    /// In memory, as long as the process runs.
    Memory,
    /// In files only their owner can read.
    Directory(PathBuf),
}

impl KeyStorage {
    /// The text stored under a name. It is created on the first call.
    pub fn keep(
        &self,
        name: &str,
        make: impl FnOnce() -> Result<String, String>,
    ) -> Result<String, IdentityError> {
        let unusable = |why: String| IdentityError::Unusable {
            storage: self.to_string(),
            why,
        };
        match self {
            Self::Memory => make().map_err(unusable),
            Self::Directory(directory) => {
                let path = directory.join(name);
                if let Some(text) = files::read_private(&path)? {
                    return Ok(text);
                }
                let text = make().map_err(unusable)?;
                files::write_private(&path, text.as_bytes())?;
                Ok(text)
            }
        }
    }

    /// A certificate authority kept under a name.
    pub fn keep_authority(
        &self,
        name: &str,
        common_name: &str,
        now: Timestamp,
    ) -> Result<Authority, IdentityError> {
        let unusable = |why: String| IdentityError::Unusable {
            storage: self.to_string(),
            why,
        };
        // One file holds both, so that a crash cannot leave a certificate without its key.
        let both = self.keep(name, || {
            let authority = Authority::create(common_name, AUTHORITY_LIFE, now)
                .map_err(|error| error.to_string())?;
            Ok(format!(
                "{}{}",
                authority.certificate().to_pem(),
                authority.key().to_pem()
            ))
        })?;
        let key_at = both
            .find(KEY_HEADER)
            .ok_or_else(|| unusable(format!("{name}: there is no private key in it")))?;
        let (certificate, key) = both.split_at(key_at);
        Authority::from_pem(certificate, key).map_err(|error| unusable(format!("{name}: {error}")))
    }
}

impl std::fmt::Display for KeyStorage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Memory => f.write_str("memory"),
            Self::Directory(directory) => write!(f, "{}", directory.display()),
        }
    }
}

/// A cluster's side of authentication.
#[derive(Debug, Clone)]
pub struct Identity {
    serving_authority: String,
    client_authority: Option<Certificate>,
    authenticator: Authenticator,
    admin_token: Secret,
}

impl Identity {
    /// Loads the keys of a cluster and creates missing ones.
    ///
    /// `serving_authority` is the CA with which clients verify the server, as PEM. It is empty without TLS.
    pub fn load(
        cluster: &str,
        storage: &KeyStorage,
        serving_authority: &str,
        now: Timestamp,
    ) -> Result<Self, IdentityError> {
        let unusable = |why: String| IdentityError::Unusable {
            storage: storage.to_string(),
            why,
        };
        let client_authority =
            storage.keep_authority("client-ca.pem", &format!("polity {cluster} clients"), now)?;
        let key = storage.keep("service-accounts.key", || {
            Ok(TokenKey::generate()
                .map_err(|error| error.to_string())?
                .private_pem())
        })?;
        let key = TokenKey::from_pem(&key).map_err(|error| unusable(error.to_string()))?;
        let token = storage.keep("admin.token", || {
            Ok(format!(
                "{}{}",
                Uuid::new_v4().simple(),
                Uuid::new_v4().simple()
            ))
        })?;
        let issuer_url = format!("https://{cluster}.polity.dev/{}", key.key_id());
        let issuer = TokenIssuer::new(&issuer_url, std::slice::from_ref(&issuer_url), &key)
            .map_err(|error| unusable(error.to_string()))?;
        let admin = UserInfo {
            username: "kubernetes-admin".into(),
            groups: vec![MASTERS.into()],
            ..UserInfo::default()
        };
        let admin_token = Secret::new(token.trim());
        let tokens = vec![StaticToken {
            token: admin_token.clone(),
            user: admin,
        }];
        Ok(Self {
            serving_authority: serving_authority.to_owned(),
            client_authority: Some(client_authority.certificate().clone()),
            authenticator: Authenticator::new(tokens, issuer),
            admin_token,
        })
    }

    /// The CA clients check the server with.
    pub fn authority_pem(&self) -> &str {
        &self.serving_authority
    }

    /// The CA of client certificates.
    pub fn client_authority(&self) -> Option<&Certificate> {
        self.client_authority.as_ref()
    }

    pub fn authenticator(&self) -> &Authenticator {
        &self.authenticator
    }

    /// The token of the administrator, in group `system:masters`.
    pub fn admin_token(&self) -> &Secret {
        &self.admin_token
    }

    pub fn openid_configuration(&self) -> Value {
        let issuer = self.authenticator.issuer();
        issuer.openid_configuration(&format!("{}/openid/v1/jwks", issuer.issuer()))
    }

    pub fn jwks(&self) -> Value {
        self.authenticator.issuer().jwks()
    }
}

/// The directory of a cluster's own files.
pub fn directory_of(data_dir: &Path, cluster: &str) -> PathBuf {
    data_dir.join("clusters").join(cluster)
}
