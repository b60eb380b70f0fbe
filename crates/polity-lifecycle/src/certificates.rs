//! Our certificates as a plan over the time: one authority, a serving certificate for each server, and one
//! that signs its cache. What is stored and the time go in, what to store instead comes out.
//!
//! A successor is made when less than sixty days are left. The old authority stays in every bundle until it expires or
//! the next one comes, so that nothing signed by it is refused in between.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use polity_pki::{Authority, AuthorityError, Certificate, Issued, PrivateKey, ServerNames};

/// The Secret of the authority.
pub const CA_SECRET: &str = polity_api::policies::names::CA_SECRET;
/// The Secret of the controller's own webhooks.
pub const WEBHOOK_SECRET: &str = polity_api::policies::names::WEBHOOK_SECRET;
/// How often certificates are looked at.
pub const CHECK_EVERY: Duration = Duration::from_hours(12);

const CA_NAME: &str = "kubewarden-controller-ca";
const CA_LIFE: Duration = Duration::from_hours(10 * 365 * 24);
const LEAF_LIFE: Duration = Duration::from_hours(365 * 24);
/// What must be left of a certificate.
const RENEW_BEFORE: Duration = Duration::from_hours(60 * 24);
/// How long the predecessor of a signing certificate is accepted.
const PREVIOUS_SIGNER_LIFE: Duration = Duration::from_hours(7 * 24);

/// The contents of a Secret.
pub type Contents = BTreeMap<String, String>;

/// The authority, and the one before it.
#[derive(Debug, Clone)]
pub struct Authorities {
    current: Authority,
    old: Option<Certificate>,
}

impl Authorities {
    /// The authority to use from now on: the stored one, or a successor when it is about to end, or a new one when
    /// there is none that can be read.
    pub fn due(stored: Option<&Contents>, now: Timestamp) -> Result<Self, AuthorityError> {
        let Some(stored) = stored.and_then(Self::read) else {
            return Ok(Self {
                current: Authority::create(CA_NAME, CA_LIFE, now)?,
                old: None,
            });
        };
        let Self { current, old } = stored;
        let old = old.filter(|old| old.check_valid(now).is_ok());
        if is_fresh(current.certificate(), now) {
            return Ok(Self { current, old });
        }
        Ok(Self {
            old: Some(current.certificate().clone()).filter(|old| old.check_valid(now).is_ok()),
            current: Authority::create(CA_NAME, CA_LIFE, now)?,
        })
    }

    fn read(contents: &Contents) -> Option<Self> {
        let current = Authority::from_pem(contents.get("ca.crt")?, contents.get("ca.key")?).ok()?;
        let old = contents.get("old-ca.crt");
        Some(Self {
            current,
            old: old.and_then(|pem| Certificate::from_pem(pem).ok()),
        })
    }

    /// What to store.
    pub fn contents(&self) -> Contents {
        let mut contents = Contents::from([
            ("ca.crt".to_owned(), self.current.certificate().to_pem()),
            ("ca.key".to_owned(), key_pem(self.current.key())),
        ]);
        if let Some(old) = &self.old {
            contents.insert("old-ca.crt".to_owned(), old.to_pem());
        }
        contents
    }

    /// What API servers and replicas trust: the authority, and the one before it.
    pub fn bundle(&self) -> String {
        let old = self.old.as_ref().map(Certificate::to_pem);
        self.current.certificate().to_pem() + &old.unwrap_or_default()
    }

    /// Whether somebody with this bundle takes what the authority signs now.
    pub fn are_trusted_by(&self, bundle: &str) -> bool {
        bundle.contains(&self.current.certificate().to_pem())
    }

    /// A serving certificate for this DNS name, if the stored one is not good any more.
    pub fn serving_due(
        &self,
        stored: Option<&Contents>,
        dns_name: &str,
        now: Timestamp,
    ) -> Result<Option<Contents>, AuthorityError> {
        let is_good = self
            .stored_leaf(stored, now)
            .is_some_and(|leaf| leaf.dns_names().iter().any(|name| name == dns_name));
        if is_good {
            return Ok(None);
        }
        let names = ServerNames::new(dns_name).dns(dns_name);
        let issued = self.current.issue_server(&names, LEAF_LIFE, now)?;
        Ok(Some(pair(&issued)))
    }

    /// What a policy server signs its cache with, if what is stored is not good any more. The predecessor of a renewed
    /// certificate is accepted for a week, in which the leader signs everything anew.
    pub fn signer_due(
        &self,
        stored: Option<&Contents>,
        namespace: &str,
        server: &str,
        now: Timestamp,
    ) -> Result<Option<Contents>, AuthorityError> {
        let uri = signer_uri(namespace, server);
        let leaf = self
            .stored_leaf(stored, now)
            .filter(|leaf| leaf.uris().contains(&uri));
        let mut contents = match (leaf, stored) {
            (Some(leaf), Some(stored)) => {
                let mut contents = stored.clone();
                let since = now.duration_since(leaf.not_before());
                if Duration::try_from(since).is_ok_and(|since| since > PREVIOUS_SIGNER_LIFE) {
                    contents.remove("previous.crt");
                }
                contents
            }
            _ => {
                let name = format!("{server}-cache");
                let issued = self
                    .current
                    .issue_code_signer(&name, &uri, LEAF_LIFE, now)?;
                let mut contents = pair(&issued);
                let previous = stored.and_then(|stored| stored.get("tls.crt"));
                if let Some(previous) = previous.filter(|pem| self.trusts(pem, &uri, now)) {
                    contents.insert("previous.crt".to_owned(), previous.clone());
                }
                contents
            }
        };
        contents.insert("ca.crt".to_owned(), self.current.certificate().to_pem());
        match &self.old {
            Some(old) => contents.insert("old-ca.crt".to_owned(), old.to_pem()),
            None => contents.remove("old-ca.crt"),
        };
        Ok((Some(&contents) != stored).then_some(contents))
    }

    /// The stored leaf, if it belongs to its key, was signed by an authority we know, and has time left.
    fn stored_leaf(&self, stored: Option<&Contents>, now: Timestamp) -> Option<Certificate> {
        let stored = stored?;
        let leaf = Certificate::from_pem(stored.get("tls.crt")?).ok()?;
        let key = PrivateKey::from_pem(stored.get("tls.key")?).ok()?;
        let is_good = leaf.public_der() == key.public_der()
            && is_fresh(&leaf, now)
            && self.has_signed(&leaf, now);
        is_good.then_some(leaf)
    }

    fn has_signed(&self, leaf: &Certificate, now: Timestamp) -> bool {
        let authorities = [Some(self.current.certificate()), self.old.as_ref()];
        authorities
            .into_iter()
            .flatten()
            .any(|authority| leaf.check_signed_by(authority, now).is_ok())
    }

    fn trusts(&self, pem: &str, uri: &String, now: Timestamp) -> bool {
        let leaf = Certificate::from_pem(pem);
        leaf.is_ok_and(|leaf| leaf.uris().contains(uri) && self.has_signed(&leaf, now))
    }
}

/// Who signs the cache of a policy server.
pub fn signer_uri(namespace: &str, server: &str) -> String {
    format!("kubewarden://{namespace}/policy-server/{server}/cache")
}

fn is_fresh(certificate: &Certificate, now: Timestamp) -> bool {
    let left = certificate.not_after().duration_since(now);
    certificate.check_valid(now).is_ok()
        && Duration::try_from(left).is_ok_and(|left| left >= RENEW_BEFORE)
}

fn pair(issued: &Issued) -> Contents {
    Contents::from([
        ("tls.crt".to_owned(), issued.certificate.to_pem()),
        ("tls.key".to_owned(), key_pem(&issued.key)),
    ])
}

/// The form that tools of the ecosystem write, where the kind of key has it.
fn key_pem(key: &PrivateKey) -> String {
    key.to_traditional_pem().unwrap_or_else(|_| key.to_pem())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "policy-server-a.kubewarden.svc";
    const DAY: Duration = Duration::from_hours(24);

    fn start() -> Timestamp {
        "2026-11-16T12:00:00Z".parse().unwrap()
    }

    fn days(n: u32) -> Timestamp {
        start() + DAY * n
    }

    #[test]
    fn an_authority_is_made_once_and_kept() {
        let made = Authorities::due(None, start()).unwrap();
        let contents = made.contents();
        assert_eq!(contents.keys().collect::<Vec<_>>(), ["ca.crt", "ca.key"]);
        assert!(contents["ca.key"].starts_with("-----BEGIN EC PRIVATE KEY-----"));
        for day in [0, 1, 3589] {
            let kept = Authorities::due(Some(&contents), days(day)).unwrap();
            assert_eq!(kept.contents(), contents, "day {day}");
        }
        let broken = Contents::from([("ca.crt".to_owned(), "nonsense".to_owned())]);
        assert_ne!(
            Authorities::due(Some(&broken), start()).unwrap().contents(),
            broken
        );
    }

    #[test]
    fn a_rotation_keeps_the_old_authority_until_it_expires() {
        let first = Authorities::due(None, start()).unwrap().contents();
        let rotated = Authorities::due(Some(&first), days(3591)).unwrap();
        let contents = rotated.contents();
        assert_ne!(contents["ca.crt"], first["ca.crt"]);
        assert_eq!(contents["old-ca.crt"], first["ca.crt"]);
        assert_eq!(
            rotated.bundle(),
            format!("{}{}", contents["ca.crt"], first["ca.crt"])
        );
        let later = Authorities::due(Some(&contents), days(3649)).unwrap();
        assert_eq!(later.contents(), contents);
        let expired = Authorities::due(Some(&contents), days(3651)).unwrap();
        assert_eq!(expired.bundle(), contents["ca.crt"]);
    }

    #[test]
    fn serving_certificates_are_renewed_in_time_and_when_they_do_not_fit() {
        let ca = Authorities::due(None, start()).unwrap();
        let leaf = ca.serving_due(None, NAME, start()).unwrap().unwrap();
        let due = |stored: &Contents, name: &str, now| {
            ca.serving_due(Some(stored), name, now).unwrap().is_some()
        };
        assert!(!due(&leaf, NAME, days(304)));
        assert!(due(&leaf, NAME, days(306)));
        assert!(due(&leaf, "policy-server-b.kubewarden.svc", start()));
        let stranger = Authorities::due(None, start()).unwrap();
        assert!(
            stranger
                .serving_due(Some(&leaf), NAME, start())
                .unwrap()
                .is_some()
        );
        let other = ca.serving_due(None, NAME, start()).unwrap().unwrap();
        let mut mixed = leaf.clone();
        mixed.insert("tls.key".to_owned(), other["tls.key"].clone());
        assert!(due(&mixed, NAME, start()), "another's key");
        let certificate = Certificate::from_pem(&leaf["tls.crt"]).unwrap();
        assert_eq!(certificate.dns_names(), [NAME]);
    }

    #[test]
    fn a_signer_is_named_by_its_server_and_its_predecessor_lives_a_week() {
        let ca = Authorities::due(None, start()).unwrap();
        let due =
            |stored: Option<&Contents>, now| ca.signer_due(stored, "kubewarden", "a", now).unwrap();
        let first = due(None, start()).unwrap();
        let certificate = Certificate::from_pem(&first["tls.crt"]).unwrap();
        assert_eq!(
            certificate.uris(),
            ["kubewarden://kubewarden/policy-server/a/cache"]
        );
        assert_eq!(
            first.keys().collect::<Vec<_>>(),
            ["ca.crt", "tls.crt", "tls.key"]
        );
        assert_eq!(due(Some(&first), days(304)), None);
        let renewed = due(Some(&first), days(306)).unwrap();
        assert_eq!(renewed["previous.crt"], first["tls.crt"]);
        assert_eq!(due(Some(&renewed), days(312)), None);
        let without = due(Some(&renewed), days(314)).unwrap();
        assert!(!without.contains_key("previous.crt"));
        assert_eq!(without["tls.crt"], renewed["tls.crt"]);
        let other = ca
            .signer_due(Some(&first), "kubewarden", "b", start())
            .unwrap()
            .unwrap();
        assert!(
            !other.contains_key("previous.crt"),
            "what another server signed is not accepted"
        );
    }

    #[test]
    fn a_rotated_authority_reaches_the_signers() {
        let first = Authorities::due(None, start()).unwrap();
        let signer = first
            .signer_due(None, "kubewarden", "a", days(3400))
            .unwrap()
            .unwrap();
        let rotated = Authorities::due(Some(&first.contents()), days(3591)).unwrap();
        let updated = rotated
            .signer_due(Some(&signer), "kubewarden", "a", days(3591))
            .unwrap()
            .unwrap();
        assert_eq!(updated["ca.crt"], rotated.contents()["ca.crt"]);
        assert_eq!(updated["old-ca.crt"], signer["ca.crt"]);
        // No leaf outlives its authority, so this one was due as well.
        assert_eq!(updated["previous.crt"], signer["tls.crt"]);
    }
}
