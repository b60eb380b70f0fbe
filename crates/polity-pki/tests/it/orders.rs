//! Certificates as others want them, and the forms of keys.

use jiff::{SignedDuration, Timestamp};
use polity_pki::{AuthorityError, Certificate, ClientIdentity, KeyKind, Order, PrivateKey, Signer};

use crate::{DAY, authority, now};

fn order(common_name: &str) -> Order {
    Order {
        common_name: common_name.to_owned(),
        dns_names: vec!["web.example.com".to_owned(), "*.example.com".to_owned()],
        ip_addresses: vec!["192.0.2.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
        not_before: now(),
        not_after: now() + SignedDuration::from_hours(24),
        is_authority: false,
    }
}

const KINDS: [(KeyKind, &str); 3] = [
    (KeyKind::Rsa2048, "RSA PRIVATE KEY"),
    (KeyKind::EcdsaP256, "EC PRIVATE KEY"),
    (KeyKind::Ed25519, "PRIVATE KEY"),
];

#[test]
fn every_kind_of_key_can_be_signed_and_sign() {
    for (ca_kind, _) in KINDS {
        let ca_key = PrivateKey::generate_kind(ca_kind).unwrap();
        let ca = Order {
            is_authority: true,
            ..order("ca")
        };
        let ca = ca.self_signed(&ca_key).unwrap();
        assert!(ca.is_ca());
        let signer = Signer {
            certificate: &ca,
            key: &ca_key,
        };
        for (kind, _) in KINDS {
            let key = PrivateKey::generate_kind(kind).unwrap();
            let leaf = order("web").signed_by(&key, signer).unwrap();
            assert_eq!(
                leaf.check_signed_by(&ca, now()),
                Ok(()),
                "{ca_kind:?} {kind:?}"
            );
            assert_eq!(leaf.public_der(), key.public_der());
            assert!(!leaf.is_ca());
            let Order {
                dns_names,
                ip_addresses,
                not_before,
                not_after,
                ..
            } = order("web");
            assert_eq!(leaf.dns_names(), dns_names);
            assert_eq!(leaf.ip_addresses(), ip_addresses);
            assert_eq!(
                (leaf.not_before(), leaf.not_after()),
                (not_before, not_after)
            );
        }
    }
}

/// rcgen cannot write such a name: it keeps one organization.
#[test]
fn the_issuer_is_named_as_it_names_itself() {
    let user = ClientIdentity::new("jane", ["devs", "ops", "audit"]);
    let jane = authority().issue_client(&user, DAY, now()).unwrap();
    let signer = Signer {
        certificate: &jane.certificate,
        key: &jane.key,
    };
    let key = PrivateKey::generate().unwrap();
    let signed = order("web").signed_by(&key, signer).unwrap();
    let count = |text: &str| {
        let der = signed.der().windows(text.len());
        der.filter(|window| *window == text.as_bytes()).count()
    };
    assert_eq!(
        [count("devs"), count("ops"), count("audit"), count("jane")],
        [1, 1, 1, 1]
    );
}

#[test]
fn a_signer_needs_its_own_key() {
    let ca = authority();
    let other = PrivateKey::generate().unwrap();
    let signer = Signer {
        certificate: ca.certificate(),
        key: &other,
    };
    assert!(matches!(
        order("web").signed_by(&other, signer),
        Err(AuthorityError::KeyMismatch)
    ));
}

#[test]
fn any_life_can_be_ordered() {
    let key = PrivateKey::generate().unwrap();
    for (not_before, not_after) in [
        ("1900-01-01T00:00:00Z", "1969-12-31T23:59:59Z"),
        ("2026-11-15T12:00:00Z", "2026-11-14T12:00:00Z"),
        ("2049-12-31T23:59:59Z", "2050-01-01T00:00:00Z"),
    ] {
        let [not_before, not_after]: [Timestamp; 2] =
            [not_before, not_after].map(|text| text.parse().unwrap());
        let made = Order {
            not_before,
            not_after,
            ..order("web")
        }
        .self_signed(&key)
        .unwrap();
        assert_eq!(
            (made.not_before(), made.not_after()),
            (not_before, not_after)
        );
    }
}

#[test]
fn a_name_of_no_letters_is_refused() {
    let key = PrivateKey::generate().unwrap();
    let unnamed = Order {
        dns_names: vec![String::new()],
        ..order("")
    };
    assert!(matches!(
        unnamed.self_signed(&key),
        Err(AuthorityError::BadDnsName { .. })
    ));
    let nobody = Order {
        dns_names: Vec::new(),
        ..order("")
    };
    assert_eq!(nobody.self_signed(&key).unwrap().client_identity(), None);
}

#[test]
fn keys_keep_their_identity_in_every_form() {
    for (kind, label) in KINDS {
        let key = PrivateKey::generate_kind(kind).unwrap();
        let older = key.to_traditional_pem().unwrap();
        assert!(
            older.starts_with(&format!("-----BEGIN {label}-----\n")),
            "{kind:?}"
        );
        assert!(
            older.ends_with(&format!("\n-----END {label}-----\n")),
            "{kind:?}"
        );
        let again = PrivateKey::from_pem(&older).unwrap();
        assert_eq!(again.public_der(), key.public_der(), "{kind:?}");
        assert_eq!(again.to_traditional_pem().unwrap(), older, "{kind:?}");
    }
    for algorithm in [
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ECDSA_P521_SHA512,
    ] {
        let pair = rcgen::KeyPair::generate_for(algorithm).unwrap();
        let key = PrivateKey::from_pem(&pair.serialize_pem()).unwrap();
        let older = key.to_traditional_pem().unwrap();
        let again = PrivateKey::from_pem(&older).unwrap();
        assert_eq!(again.public_der(), key.public_der());
        let made: Certificate = order("web").self_signed(&again).unwrap();
        assert_eq!(made.public_der(), key.public_der());
    }
}
