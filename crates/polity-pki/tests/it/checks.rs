//! The certificate checks, and the extensions that RFC 5280 requires.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::ToSpan;
use polity_pki::{
    Authority, AuthorityError, Certificate, CheckError, ClientIdentity, ParseError, ServerNames,
};
use x509_parser::prelude::{FromDer, ParsedExtension, X509Certificate};

use crate::{DAY, authority, localhost, now};

#[test]
fn expiry_is_judged_to_the_second() {
    let leaf = authority()
        .issue_server(&localhost(), DAY, now())
        .unwrap()
        .certificate;
    assert_eq!(leaf.not_before(), now() - 5.minutes());
    assert_eq!(leaf.not_after(), now() + 24.hours());

    let too_early = leaf.not_before() - 1.nanosecond();
    let last_moment = leaf.not_after() + 999.milliseconds();
    let too_late = leaf.not_after() + 1.second();
    for (at, expected) in [
        (
            too_early,
            Err(CheckError::NotYetValid {
                not_before: leaf.not_before(),
            }),
        ),
        (leaf.not_before(), Ok(())),
        (now(), Ok(())),
        (last_moment, Ok(())),
        (
            too_late,
            Err(CheckError::Expired {
                not_after: leaf.not_after(),
            }),
        ),
    ] {
        assert_eq!(leaf.check_valid(at), expected, "at {at}");
    }
}

#[test]
fn only_the_signer_is_the_signer() {
    let (ca, same_name) = (authority(), authority());
    let other_name = Authority::create("someone-else", 100 * DAY, now()).unwrap();
    let leaf = ca
        .issue_server(&localhost(), 200 * DAY, now())
        .unwrap()
        .certificate;
    let late = ca.certificate().not_after() + 1.second();

    for (what, authority, at, expected) in [
        ("its authority", ca.certificate(), now(), Ok(())),
        (
            "same name, other key",
            same_name.certificate(),
            now(),
            Err(CheckError::NotSignedBy),
        ),
        (
            "other name",
            other_name.certificate(),
            now(),
            Err(CheckError::NotSignedBy),
        ),
        ("itself", &leaf, now(), Err(CheckError::NotAnAuthority)),
        (
            "its authority, after its time",
            ca.certificate(),
            late,
            Err(CheckError::Expired {
                not_after: ca.certificate().not_after(),
            }),
        ),
    ] {
        assert_eq!(leaf.check_signed_by(authority, at), expected, "{what}");
    }
}

#[test]
fn a_leaf_ends_with_its_authority() {
    let ca = authority();
    let leaf = ca.issue_server(&localhost(), 500 * DAY, now()).unwrap();
    assert_eq!(leaf.certificate.not_after(), ca.certificate().not_after());

    let late = ca.certificate().not_after() + 1.second();
    let refused = ca.issue_server(&localhost(), DAY, late);
    assert!(matches!(
        refused,
        Err(AuthorityError::NotValid(CheckError::Expired { .. }))
    ));
}

#[test]
fn rotation_is_due_after_two_thirds() {
    let leaf = authority()
        .issue_server(&localhost(), 30 * DAY, now())
        .unwrap()
        .certificate;
    assert!(!leaf.needs_rotation(now() + (19 * 24).hours()));
    assert!(leaf.needs_rotation(now() + (20 * 24).hours()));
    assert!(leaf.needs_rotation(leaf.not_after() + 1.hour()));
}

#[test]
fn client_identities_come_back_from_der() {
    let ca = authority();
    let many: Vec<String> = (0..40).map(|n| format!("group-{n}")).collect();
    for identity in [
        ClientIdentity::new("admin", ["system:masters"]),
        ClientIdentity::new("jürgen", ["team:a", "team:b", "team:a"]),
        ClientIdentity::new("alone", [""; 0]),
        ClientIdentity::new("everywhere", many),
    ] {
        let leaf = ca.issue_client(&identity, DAY, now()).unwrap().certificate;
        assert_eq!(
            leaf.check_signed_by(ca.certificate(), now()),
            Ok(()),
            "{identity:?}"
        );
        assert_eq!(
            ClientIdentity::from_der(leaf.der()).unwrap(),
            Some(identity)
        );
    }
    let nobody = ca
        .issue_client(&ClientIdentity::new("", ["g"]), DAY, now())
        .unwrap();
    assert_eq!(nobody.certificate.client_identity(), None);
}

#[test]
fn names_are_in_the_certificate() {
    let leaf = authority()
        .issue_server(&localhost(), DAY, now())
        .unwrap()
        .certificate;
    assert_eq!(leaf.dns_names(), ["localhost"]);
    assert_eq!(
        leaf.ip_addresses(),
        [
            "127.0.0.1".parse().unwrap(),
            "::1".parse::<std::net::IpAddr>().unwrap()
        ]
    );

    let refused = authority().issue_server(&ServerNames::new("x").dns("größe"), DAY, now());
    assert!(matches!(refused, Err(AuthorityError::BadDnsName { name }) if name == "größe"));
    let refused = authority().issue_server(&ServerNames::new("x").dns(""), DAY, now());
    assert!(matches!(refused, Err(AuthorityError::BadDnsName { .. })));
}

#[test]
fn validity_past_the_calendar_is_refused() {
    let refused = Authority::create("x", Duration::from_secs(u64::MAX), now());
    assert!(matches!(refused, Err(AuthorityError::BadValidity { .. })));
}

#[test]
fn serial_numbers_differ_and_are_positive() {
    let ca = authority();
    let serials: BTreeSet<Vec<u8>> = (0..50)
        .map(|_| {
            ca.issue_server(&localhost(), DAY, now())
                .unwrap()
                .certificate
                .serial()
                .to_vec()
        })
        .collect();
    assert_eq!(serials.len(), 50);
    assert!(
        serials
            .iter()
            .all(|serial| serial.len() == 16 && serial[0] < 0x80)
    );
}

/// The extensions of a certificate as sorted lines, for comparison.
fn extensions(certificate: &Certificate) -> Vec<String> {
    let (_, parsed) = X509Certificate::from_der(certificate.der()).unwrap();
    let mut lines: Vec<String> = parsed
        .extensions()
        .iter()
        .map(|extension| {
            let what = match extension.parsed_extension() {
                ParsedExtension::BasicConstraints(c) => {
                    format!("CA:{} pathlen:{:?}", c.ca, c.path_len_constraint)
                }
                ParsedExtension::KeyUsage(usage) => format!("usage: {usage}"),
                ParsedExtension::ExtendedKeyUsage(eku) => {
                    format!(
                        "extended usage: server={} client={} any={}",
                        eku.server_auth, eku.client_auth, eku.any
                    )
                }
                ParsedExtension::SubjectKeyIdentifier(id) => {
                    format!("subject key, {} bytes", id.0.len())
                }
                ParsedExtension::AuthorityKeyIdentifier(id) => {
                    format!(
                        "authority key, {} bytes",
                        id.key_identifier.as_ref().unwrap().0.len()
                    )
                }
                ParsedExtension::SubjectAlternativeName(names) => {
                    format!("{} names", names.general_names.len())
                }
                other => format!("{other:?}"),
            };
            format!(
                "{what}{}",
                if extension.critical {
                    " (critical)"
                } else {
                    ""
                }
            )
        })
        .collect();
    lines.sort();
    lines
}

#[test]
fn extensions_are_those_of_rfc_5280() {
    let ca = authority();
    assert_eq!(
        extensions(ca.certificate()),
        [
            "CA:true pathlen:Some(0) (critical)",
            "subject key, 20 bytes",
            "usage: Digital Signature, Key Cert Sign, CRL Sign (critical)",
        ]
    );
    assert_eq!(
        extensions(
            &ca.issue_server(&localhost(), DAY, now())
                .unwrap()
                .certificate
        ),
        [
            "3 names",
            "CA:false pathlen:None (critical)",
            "authority key, 20 bytes",
            "extended usage: server=true client=false any=false",
            "subject key, 20 bytes",
            "usage: Digital Signature (critical)",
        ]
    );
    assert_eq!(
        extensions(
            &ca.issue_client(&ClientIdentity::new("u", ["g"]), DAY, now())
                .unwrap()
                .certificate
        ),
        [
            "CA:false pathlen:None (critical)",
            "authority key, 20 bytes",
            "extended usage: server=false client=true any=false",
            "subject key, 20 bytes",
            "usage: Digital Signature (critical)",
        ]
    );
}

#[test]
fn bad_input_is_an_error() {
    let ca = authority();
    let pem = ca.certificate().to_pem();
    assert!(matches!(Certificate::from_pem(""), Err(ParseError::Empty)));
    assert!(matches!(
        Certificate::from_pem(&ca.key().to_pem()),
        Err(ParseError::Empty)
    ));
    assert!(matches!(
        Certificate::from_pem(&pem.replace("END", "DNE")),
        Err(ParseError::Pem(_))
    ));
    assert!(matches!(
        Certificate::from_der(b"\x30\x03abc"),
        Err(ParseError::Der { .. })
    ));

    let der = ca.certificate().der();
    let trailing = [&der[..], b"x"].concat();
    assert!(matches!(
        Certificate::from_der(&trailing),
        Err(ParseError::Der { .. })
    ));
    for end in 0..der.len() {
        assert!(
            Certificate::from_der(&der[..end]).is_err(),
            "cut off at {end}"
        );
    }

    let both = format!("{pem}{}", authority().certificate().to_pem());
    assert_eq!(Certificate::bundle_from_pem(&both).unwrap().len(), 2);
}

#[test]
fn a_code_signer_is_known_by_its_uri_and_can_do_nothing_else() {
    let ca = authority();
    let uri = "kubewarden://kubewarden/policy-server/a/cache";
    let signer = ca.issue_code_signer("a", uri, DAY, now()).unwrap();
    assert_eq!(signer.certificate.uris(), [uri]);
    assert_eq!(
        signer.certificate.check_signed_by(ca.certificate(), now()),
        Ok(())
    );
    let (_, parsed) = X509Certificate::from_der(signer.certificate.der()).unwrap();
    let usage = parsed.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.code_signing && !usage.server_auth && !usage.client_auth && !usage.any);
    assert!(matches!(
        ca.issue_code_signer("a", "kübewarden://", DAY, now()),
        Err(AuthorityError::BadUri { .. })
    ));
}
