//! Service account tokens: claims, signing, and validation.
//!
//! A token is only valid with its issuer and key, so the tokens of one cluster are not valid in another.

mod bound;
mod request;

use std::collections::HashSet;
use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jiff::{SignedDuration, Timestamp};
use jsonwebtoken::jwk::{Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use polity_pki::TokenKey;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use bound::{BoundKind, Objects};
pub use request::{TokenRequest, issue_token};

use super::rbac::quoted_list;
use super::{Secret, UserInfo};

/// How far two clocks may differ.
const LEEWAY: SignedDuration = SignedDuration::from_secs(60);

/// The claims of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    pub iss: String,
    pub sub: String,
    #[serde(default)]
    pub aud: Vec<String>,
    pub exp: i64,
    pub iat: i64,
    pub nbf: i64,
    #[serde(default)]
    pub jti: String,
    #[serde(rename = "kubernetes.io")]
    pub kubernetes: KubernetesClaims,
}

/// The part of a token that names objects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubernetesClaims {
    pub namespace: String,
    pub serviceaccount: ObjectClaim,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<ObjectClaim>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<ObjectClaim>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<ObjectClaim>,
    /// When an extended token should have been renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warnafter: Option<i64>,
}

/// One object a token names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectClaim {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

/// Why a token is not accepted. The messages are those a TokenReview shows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Neither a token of this issuer nor a static token.
    #[error("invalid bearer token")]
    Unrecognized,
    #[error("invalid signature, no keys found")]
    UnknownKey,
    #[error("go-jose/go-jose: error in cryptographic primitive")]
    Signature,
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    NotValidYet,
    #[error("service account token is issued in the future")]
    IssuedInTheFuture,
    #[error(
        "token audiences {} is invalid for the target audiences {}",
        quoted_list(.token),
        quoted_list(.wanted)
    )]
    Audience {
        token: Vec<String>,
        wanted: Vec<String>,
    },
    #[error("serviceaccounts {name:?} not found")]
    NoServiceAccount { name: String },
    #[error("service account {namespace}/{name} has been deleted")]
    ServiceAccountDeleted { namespace: String, name: String },
    #[error("{kind} UID ({actual}) does not match {claim} ({claimed})")]
    OtherUid {
        kind: &'static str,
        actual: String,
        claim: &'static str,
        claimed: String,
    },
    #[error("service account token has been invalidated")]
    Invalidated,
}

/// A token could not be created.
#[derive(Debug, thiserror::Error)]
#[error("the token key cannot be used")]
pub struct SigningError(#[from] jsonwebtoken::errors::Error);

/// Signs and verifies the tokens of one cluster.
#[derive(Clone)]
pub struct TokenIssuer {
    issuer: String,
    audiences: Vec<String>,
    key_id: String,
    signing: EncodingKey,
    verifying: DecodingKey,
    public: Jwk,
}

impl fmt::Debug for TokenIssuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenIssuer")
            .field("issuer", &self.issuer)
            .field("audiences", &self.audiences)
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

impl TokenIssuer {
    /// An issuer (a URL that is this cluster's alone), the audiences that mean this API server, and the
    /// key.
    pub fn new(issuer: &str, audiences: &[String], key: &TokenKey) -> Result<Self, SigningError> {
        let signing = EncodingKey::from_ec_pem(key.private_pem().as_bytes())?;
        let verifying = DecodingKey::from_ec_pem(key.public_pem().as_bytes())?;
        let mut public = Jwk::from_encoding_key(&signing, Algorithm::ES256)?;
        public.common.key_id = Some(key.key_id());
        public.common.key_algorithm = Some(KeyAlgorithm::ES256);
        public.common.public_key_use = Some(PublicKeyUse::Signature);
        Ok(Self {
            issuer: issuer.to_owned(),
            audiences: audiences.to_vec(),
            key_id: key.key_id(),
            signing,
            verifying,
            public,
        })
    }

    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The audiences that mean this API server.
    pub fn audiences(&self) -> &[String] {
        &self.audiences
    }

    /// Signs the claims of a token.
    pub fn sign(&self, claims: &Claims) -> Result<Secret, SigningError> {
        // Kubernetes omits `typ`.
        let header = Header {
            kid: Some(self.key_id.clone()),
            typ: None,
            ..Header::new(Algorithm::ES256)
        };
        Ok(Secret::new(jsonwebtoken::encode(
            &header,
            claims,
            &self.signing,
        )?))
    }

    /// Checks signature, time and audience. Returns the claims and the valid ones of the `wanted` audiences.
    /// [`TokenIssuer::authenticate`] checks that the objects in the claims still exist.
    pub fn verify(
        &self,
        token: &str,
        wanted: &[String],
        now: Timestamp,
    ) -> Result<(Claims, Vec<String>), TokenError> {
        if unverified_issuer(token).as_deref() != Some(self.issuer.as_str()) {
            return Err(TokenError::Unrecognized);
        }
        let header = jsonwebtoken::decode_header(token).map_err(|_| TokenError::Unrecognized)?;
        if header.kid.is_some_and(|kid| kid != self.key_id) {
            return Err(TokenError::UnknownKey);
        }
        let claims = jsonwebtoken::decode::<Claims>(token, &self.verifying, &signature_only())
            .map_err(|_| TokenError::Signature)?
            .claims;
        let is_wanted: HashSet<&String> = wanted.iter().collect();
        let audiences: Vec<String> = claims
            .aud
            .iter()
            .filter(|audience| is_wanted.contains(audience))
            .cloned()
            .collect();
        if audiences.is_empty() {
            return Err(TokenError::Audience {
                token: claims.aud,
                wanted: wanted.to_vec(),
            });
        }
        check_time(&claims, now)?;
        Ok((claims, audiences))
    }

    /// The user of a token whose objects all still exist, and the audiences for which it is valid.
    pub fn authenticate(
        &self,
        token: &str,
        wanted: &[String],
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<(UserInfo, Vec<String>), TokenError> {
        let (claims, audiences) = self.verify(token, wanted, now)?;
        let user = bound::user_of(&claims, objects, now)?;
        Ok((user, audiences))
    }

    /// The document at `/openid/v1/jwks`.
    pub fn jwks(&self) -> Value {
        json!({"keys": [self.public]})
    }

    /// The document at `/.well-known/openid-configuration`.
    pub fn openid_configuration(&self, jwks_uri: &str) -> Value {
        json!({
            "issuer": self.issuer,
            "jwks_uri": jwks_uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
        })
    }
}

/// Time and audience are checked separately, because the library would use the system clock.
fn signature_only() -> Validation {
    let mut validation = Validation::new(Algorithm::ES256);
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    validation.required_spec_claims.clear();
    validation
}

fn unverified_issuer(token: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Issuer {
        iss: String,
    }
    let mut parts = token.split('.');
    let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let payload = BASE64_URL_SAFE_NO_PAD.decode(payload).ok()?;
    serde_json::from_slice::<Issuer>(&payload)
        .ok()
        .map(|issuer| issuer.iss)
}

fn check_time(claims: &Claims, now: Timestamp) -> Result<(), TokenError> {
    let (now, leeway) = (now.as_second(), LEEWAY.as_secs());
    if now + leeway < claims.nbf {
        return Err(TokenError::NotValidYet);
    }
    if now - leeway > claims.exp {
        return Err(TokenError::Expired);
    }
    if now + leeway < claims.iat {
        return Err(TokenError::IssuedInTheFuture);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
