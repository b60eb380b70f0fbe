//! How a Pod reaches the API: tokens of its ServiceAccount, bound to it, and a kubeconfig that names them.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccountTokenProjection};
use serde_json::json;

use crate::volumes::{File, Files, Tokens};

/// What a token lasts where nobody says.
const LIFE_SECONDS: i64 = 3600;
/// A token of a long life is renewed after this all the same.
const LONGEST_USE: SignedDuration = SignedDuration::from_hours(24);

/// Where the API is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Api {
    /// Its URL.
    pub server: String,
    /// The CA of its certificate, in PEM.
    pub authority_pem: String,
}

/// Which token: its audience, if it is not the API itself, and its life.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    audience: Option<String>,
    seconds: i64,
}

impl Wanted {
    /// The token of the kubeconfig.
    pub fn own() -> Self {
        Self {
            audience: None,
            seconds: LIFE_SECONDS,
        }
    }

    fn of(projection: &ServiceAccountTokenProjection) -> Self {
        Self {
            audience: projection
                .audience
                .clone()
                .filter(|audience| !audience.is_empty()),
            seconds: projection.expiration_seconds.unwrap_or(LIFE_SECONDS),
        }
    }

    /// Every token a Pod needs.
    pub fn all(pod: &Pod) -> Vec<Self> {
        let volumes = pod
            .spec
            .iter()
            .flat_map(|spec| spec.volumes.iter().flatten());
        let projected = volumes
            .filter_map(|volume| volume.projected.as_ref())
            .flat_map(|projected| projected.sources.iter().flatten())
            .filter_map(|source| source.service_account_token.as_ref())
            .map(Self::of);
        let mut all: Vec<Self> = projected.chain([Self::own()]).collect();
        all.sort();
        all.dedup();
        all
    }

    /// What to ask for: a token that dies with the Pod.
    pub fn request(&self, pod: &Pod) -> TokenRequest {
        TokenRequest {
            spec: Some(TokenRequestSpec {
                audiences: self.audience.clone().map(|audience| vec![audience]),
                expiration_seconds: Some(self.seconds),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".into()),
                    kind: Some("Pod".into()),
                    name: pod.metadata.name.clone(),
                    uid: pod.metadata.uid.clone(),
                }),
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        }
    }
}

/// A token and its time.
#[derive(Clone)]
struct Token {
    text: String,
    renew_at: Timestamp,
}

/// The tokens of one Pod.
#[derive(Clone, Default)]
pub struct Purse {
    tokens: BTreeMap<Wanted, Token>,
}

impl Purse {
    /// Those that are missing or getting old.
    pub fn due(&self, pod: &Pod, now: Timestamp) -> Vec<Wanted> {
        let is_due = |wanted: &Wanted| {
            let token = self.tokens.get(wanted);
            token.is_none_or(|token| token.renew_at <= now)
        };
        Wanted::all(pod).into_iter().filter(is_due).collect()
    }

    /// When the next one gets old.
    pub fn renew_at(&self) -> Option<Timestamp> {
        self.tokens.values().map(|token| token.renew_at).min()
    }

    /// Keeps what was answered to a request.
    pub fn put(&mut self, wanted: Wanted, answer: &TokenRequest, now: Timestamp) {
        let Some(status) = &answer.status else { return };
        let Some(text) = &status.token else { return };
        let expires = status.expiration_timestamp.as_ref().map(|time| time.0);
        let token = Token {
            text: text.clone(),
            renew_at: renew_at(now, expires.unwrap_or(now)),
        };
        self.tokens.insert(wanted, token);
    }

    /// The files of the kubeconfig, for a directory at this place; `None` without a token.
    pub fn kubeconfig(&self, api: &Api, namespace: &str, place: &Path) -> Option<Files> {
        let token = self.tokens.get(&Wanted::own())?;
        // JSON is YAML. The token is a file, so that clients read it again when it has changed.
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "pod",
            "clusters": [{"name": "pod", "cluster": {
                "server": api.server, "certificate-authority": place.join("ca.crt"),
            }}],
            "users": [{"name": "pod", "user": {"tokenFile": place.join("token")}}],
            "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod", "namespace": namespace}}],
        });
        let file = |text: &str| File {
            bytes: text.into(),
            mode: 0o600,
        };
        Some(Files::from([
            ("ca.crt".to_owned(), file(&api.authority_pem)),
            ("kubeconfig".to_owned(), file(&config.to_string())),
            ("token".to_owned(), file(&token.text)),
        ]))
    }
}

impl Tokens for Purse {
    fn token(&self, request: &ServiceAccountTokenProjection) -> Option<String> {
        let token = self.tokens.get(&Wanted::of(request))?;
        Some(token.text.clone())
    }
}

/// As a kubelet: after four fifths of its life, and not later than after a day.
fn renew_at(now: Timestamp, expires: Timestamp) -> Timestamp {
    let life = expires.duration_since(now).max(SignedDuration::ZERO);
    let wait = (life / 5 * 4).min(LONGEST_USE);
    now.checked_add(wait).unwrap_or(expires)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::authentication::v1::TokenRequestStatus;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_763_294_400 + seconds).unwrap()
    }

    #[test]
    fn tokens_are_renewed_in_time() {
        for (life, expected) in [(3600, 2880), (600, 480), (10 * 86_400, 86_400), (-5, 0)] {
            assert_eq!(renew_at(at(0), at(life)), at(expected), "{life}");
        }
    }

    #[test]
    fn a_pod_gets_the_tokens_its_volumes_name_and_its_own() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": "p", "uid": "u"},
            "spec": {"containers": [], "volumes": [{"name": "v", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token"}},
                {"serviceAccountToken": {"path": "vault", "audience": "vault", "expirationSeconds": 600}},
            ]}}]},
        }))
        .unwrap();
        let mut purse = Purse::default();
        let due = purse.due(&pod, at(0));
        assert_eq!(due.len(), 2, "{due:?}");
        let request = due[1].request(&pod).spec.unwrap();
        assert_eq!(request.audiences, Some(vec!["vault".to_owned()]));
        assert_eq!(request.bound_object_ref.unwrap().uid.as_deref(), Some("u"));
        for wanted in due {
            let answer = TokenRequest {
                status: Some(TokenRequestStatus {
                    token: Some("ey".into()),
                    expiration_timestamp: Some(Time(at(wanted.seconds))),
                }),
                ..TokenRequest::default()
            };
            purse.put(wanted, &answer, at(0));
        }
        assert_eq!(purse.due(&pod, at(479)), []);
        assert_eq!(purse.renew_at(), Some(at(480)));
        assert_eq!(purse.due(&pod, at(480)).len(), 1);
        let api = Api {
            server: "https://x".into(),
            authority_pem: "pem".into(),
        };
        let files = purse.kubeconfig(&api, "team", Path::new("/d")).unwrap();
        let config = String::from_utf8(files["kubeconfig"].bytes.clone()).unwrap();
        assert!(config.contains("\"tokenFile\":\"/d/token\"") && !config.contains("ey\""));
    }
}
