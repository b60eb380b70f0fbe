//! Authentication: from a request's credentials to its user.

use std::collections::BTreeMap;

use jiff::Timestamp;
use polity_pki::ClientIdentity;

use super::token::{Objects, TokenError, TokenIssuer};
use super::{ANONYMOUS, AUTHENTICATED, Secret, UserInfo};
use polity_kinds::status::ApiError;

/// The credentials of a request.
#[derive(Debug, Clone, Copy, Default)]
pub struct Credentials<'a> {
    /// The client certificate's subject, once the certificate was verified.
    pub certificate: Option<&'a ClientIdentity>,
    /// The `Authorization` header.
    pub authorization: Option<&'a str>,
}

/// A user, and the audiences of their token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authenticated {
    pub user: UserInfo,
    pub audiences: Vec<String>,
}

/// A static token with its user.
#[derive(Debug, Clone)]
pub struct StaticToken {
    pub token: Secret,
    pub user: UserInfo,
}

/// Verifies the credentials of one cluster.
#[derive(Debug, Clone)]
pub struct Authenticator {
    static_tokens: Vec<StaticToken>,
    issuer: TokenIssuer,
    /// Whether a request without credentials has a user at all.
    allows_anonymous: bool,
}

impl Authenticator {
    /// An authenticator that passes anonymous requests to authorization.
    pub fn new(static_tokens: Vec<StaticToken>, issuer: TokenIssuer) -> Self {
        Self {
            static_tokens,
            issuer,
            allows_anonymous: true,
        }
    }

    /// The same, answering 401 to requests without credentials.
    #[must_use]
    pub fn without_anonymous(self) -> Self {
        Self {
            allows_anonymous: false,
            ..self
        }
    }

    /// The issuer of this cluster's service-account tokens.
    pub fn issuer(&self) -> &TokenIssuer {
        &self.issuer
    }

    /// The user of a request, or 401. A certificate takes precedence over a token; a wrong token is refused even
    /// where none is needed.
    pub fn authenticate(
        &self,
        credentials: &Credentials<'_>,
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<UserInfo, ApiError> {
        if let Some(user) = credentials.certificate.and_then(certified) {
            return Ok(user);
        }
        match credentials.authorization.and_then(bearer_token) {
            Some(token) => self
                .authenticate_token(token, self.issuer.audiences(), objects, now)
                .map(|authenticated| authenticated.user)
                .map_err(|_| ApiError::unauthorized()),
            None if self.allows_anonymous => Ok(UserInfo::anonymous()),
            None => Err(ApiError::unauthorized()),
        }
    }

    /// The user of a token, for a TokenReview.
    pub fn authenticate_token(
        &self,
        token: &str,
        wanted: &[String],
        objects: &dyn Objects,
        now: Timestamp,
    ) -> Result<Authenticated, TokenError> {
        if let Some(user) = self.static_user(token) {
            // A static token is only valid for this API server.
            let audiences: Vec<_> = self
                .issuer
                .audiences()
                .iter()
                .filter(|audience| wanted.contains(audience))
                .cloned()
                .collect();
            return if audiences.is_empty() {
                Err(TokenError::Unrecognized)
            } else {
                Ok(Authenticated { user, audiences })
            };
        }
        let (user, audiences) = self.issuer.authenticate(token, wanted, objects, now)?;
        Ok(Authenticated { user, audiences })
    }

    fn static_user(&self, token: &str) -> Option<UserInfo> {
        // All tokens are compared, so that the response time does not disclose which one is similar.
        let mut found = None;
        for known in &self.static_tokens {
            if known.token.is(token) {
                found = Some(known);
            }
        }
        found.map(|known| authenticated(known.user.clone()))
    }
}

/// The token of an `Authorization: Bearer …` header. Other schemes are ignored.
pub fn bearer_token(authorization: &str) -> Option<&str> {
    let mut words = authorization.trim().splitn(3, ' ');
    let scheme = words.next()?;
    let token = words.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

fn certified(identity: &ClientIdentity) -> Option<UserInfo> {
    if identity.common_name.is_empty() {
        return None;
    }
    Some(authenticated(UserInfo {
        username: identity.common_name.clone(),
        uid: String::new(),
        groups: identity.organizations.clone(),
        extra: BTreeMap::new(),
    }))
}

fn authenticated(mut user: UserInfo) -> UserInfo {
    if user.username != ANONYMOUS && !user.is_in(AUTHENTICATED) {
        user.groups.push(AUTHENTICATED.to_owned());
    }
    user
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use polity_pki::TokenKey;
    use serde_json::{Value, json};

    use super::*;
    use crate::token::{BoundKind, TokenRequest, issue_token};
    use crate::{MASTERS, UNAUTHENTICATED};

    const US: &str = "https://us";

    fn authenticator() -> Authenticator {
        let issuer =
            TokenIssuer::new(US, &[US.to_owned()], &TokenKey::generate().unwrap()).unwrap();
        let user = UserInfo {
            username: "admin".into(),
            groups: vec![MASTERS.into()],
            ..UserInfo::default()
        };
        Authenticator::new(
            vec![StaticToken {
                token: Secret::new("hunter2"),
                user,
            }],
            issuer,
        )
    }

    fn objects(kind: BoundKind, _: &str, name: &str) -> Option<Arc<Value>> {
        (kind == BoundKind::ServiceAccount && name == "robot")
            .then(|| Arc::new(json!({"metadata": {"uid": "u"}})))
    }

    fn now() -> Timestamp {
        "2026-11-15T12:00:00Z".parse().unwrap()
    }

    #[test]
    fn credentials_make_the_user() {
        let authenticator = authenticator();
        let body = json!({});
        let request = TokenRequest {
            namespace: "ns",
            name: "robot",
            body: &body,
            token_id: "1",
            now: now(),
        };
        let answer = issue_token(authenticator.issuer(), &objects, &request).unwrap();
        let robot = format!("Bearer {}", answer["status"]["token"].as_str().unwrap());
        let alice = ClientIdentity::new("alice", ["team"]);
        let nobody = ClientIdentity::new("", ["team"]);

        for (certificate, authorization, expected) in [
            (
                None,
                None,
                Some(("system:anonymous", vec![UNAUTHENTICATED])),
            ),
            (
                None,
                Some("Bearer hunter2"),
                Some(("admin", vec![MASTERS, AUTHENTICATED])),
            ),
            (
                None,
                Some("bearer hunter2 "),
                Some(("admin", vec![MASTERS, AUTHENTICATED])),
            ),
            (None, Some("Bearer hunter3"), None),
            (None, Some("Bearer hunter"), None),
            (
                None,
                Some("Bearer "),
                Some(("system:anonymous", vec![UNAUTHENTICATED])),
            ),
            (
                None,
                Some("Basic aHVudGVyMg=="),
                Some(("system:anonymous", vec![UNAUTHENTICATED])),
            ),
            (
                Some(&alice),
                None,
                Some(("alice", vec!["team", AUTHENTICATED])),
            ),
            (
                Some(&alice),
                Some("Bearer wrong"),
                Some(("alice", vec!["team", AUTHENTICATED])),
            ),
            (
                Some(&nobody),
                None,
                Some(("system:anonymous", vec![UNAUTHENTICATED])),
            ),
            (
                None,
                Some(robot.as_str()),
                Some((
                    "system:serviceaccount:ns:robot",
                    vec![
                        "system:serviceaccounts",
                        "system:serviceaccounts:ns",
                        AUTHENTICATED,
                    ],
                )),
            ),
        ] {
            let credentials = Credentials {
                certificate,
                authorization,
            };
            match (
                authenticator.authenticate(&credentials, &objects, now()),
                expected,
            ) {
                (Ok(user), Some((name, groups))) => {
                    assert_eq!(
                        (user.username.as_str(), user.groups),
                        (name, groups.iter().map(ToString::to_string).collect())
                    );
                }
                (Err(error), None) => assert_eq!(
                    (error.code.as_u16(), error.message.as_str()),
                    (401, "Unauthorized")
                ),
                (result, expected) => {
                    panic!("{authorization:?}: {result:?}, expected {expected:?}")
                }
            }
        }
    }

    #[test]
    fn anonymous_requests_can_be_refused() {
        let strict = authenticator().without_anonymous();
        let error = strict
            .authenticate(&Credentials::default(), &objects, now())
            .unwrap_err();
        assert_eq!(error, ApiError::unauthorized());
    }

    #[test]
    fn a_static_token_is_good_for_this_server_only() {
        let authenticator = authenticator();
        let ask = |audience: &str| {
            authenticator.authenticate_token("hunter2", &[audience.to_owned()], &objects, now())
        };
        assert_eq!(ask(US).unwrap().audiences, [US]);
        assert_eq!(ask("vault"), Err(TokenError::Unrecognized));
        assert!(!format!("{authenticator:?}").contains("hunter2"));
    }
}
