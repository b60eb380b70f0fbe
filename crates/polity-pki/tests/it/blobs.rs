//! Signed files are accepted only if they are unchanged and the signer is trusted and valid.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::{Timestamp, ToSpan};
use polity_pki::{
    Authority, BlobKind, BlobPredicate, BlobRefusal, BlobSigner, BlobTrust, Certificate,
    CheckError, ClientIdentity, Issued, PrivateKey, SignerError,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{DAY, authority, localhost, now};

const URI: &str = "kubewarden://polity/policy-server/default/cache";
const NAME: &str = "original.wasm";
const CONTENT: &[u8] = b"\0asm\x01\0\0\0 and so on";

fn predicate() -> BlobPredicate {
    BlobPredicate {
        uri: "registry://h.example/p:v1".to_owned(),
        original_digest: "sha256:00".to_owned(),
        manifest_digest: None,
        verification: String::new(),
        kind: BlobKind::Original,
        server_version: "1.2.3".to_owned(),
        compat_hash: "0a1b2c3d".to_owned(),
        target: "x86_64-linux".to_owned(),
    }
}

fn issue(ca: &Authority, uri: &str) -> Issued {
    ca.issue_code_signer("cache", uri, 30 * DAY, now()).unwrap()
}

fn signer(issued: &Issued) -> BlobSigner {
    BlobSigner::from_pem(&issued.certificate.to_pem(), &issued.key.to_pem()).unwrap()
}

fn trust(ca: &Authority, accepted: &[&Issued]) -> BlobTrust {
    BlobTrust {
        authorities: vec![ca.certificate().clone()],
        accepted: accepted
            .iter()
            .map(|issued| issued.certificate.clone())
            .collect(),
        uri: URI.to_owned(),
    }
}

fn signed(issued: &Issued) -> Vec<u8> {
    signer(issued).sign(NAME, CONTENT, &predicate()).unwrap()
}

/// Runs both verification steps.
fn check(
    trust: &BlobTrust,
    envelope: &[u8],
    name: &str,
    content: &[u8],
    now: Timestamp,
) -> Result<BlobPredicate, BlobRefusal> {
    let blob = trust.open(envelope, now)?;
    blob.check(name, content)?;
    Ok(blob.predicate().clone())
}

#[test]
fn signed_files_are_accepted() {
    let ca = authority();
    let issued = issue(&ca, URI);
    let trust = trust(&ca, &[&issued]);
    let envelope = signed(&issued);
    assert_eq!(
        check(&trust, &envelope, NAME, CONTENT, now()),
        Ok(predicate())
    );
    let blob = trust.open(&envelope, now()).unwrap();
    assert_eq!(blob.signer(), &issued.certificate);
    assert_eq!(blob.sha256().len(), 64);
    assert_eq!(blob.size(), CONTENT.len() as u64);
}

#[test]
fn the_form_is_dsse_around_an_in_toto_statement() {
    let issued = issue(&authority(), URI);
    let envelope: Value = serde_json::from_slice(&signed(&issued)).unwrap();
    assert_eq!(envelope["payloadType"], "application/vnd.in-toto+json");
    assert_eq!(
        envelope["signatures"][0]["keyid"],
        issued.certificate.fingerprint()
    );
    let enclosed = envelope["signatures"][0]["cert"].as_str().unwrap();
    assert_eq!(Certificate::from_pem(enclosed).unwrap(), issued.certificate);
    let payload = BASE64_STANDARD
        .decode(envelope["payload"].as_str().unwrap())
        .unwrap();
    let statement: Value = serde_json::from_slice(&payload).unwrap();
    assert_eq!(
        statement,
        json!({
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{
                "name": NAME,
                "digest": {"sha256": statement["subject"][0]["digest"]["sha256"]},
                "annotations": {"size": CONTENT.len()},
            }],
            "predicateType": "https://polity.dev/module-cache/v1",
            "predicate": {
                "uri": "registry://h.example/p:v1", "originalDigest": "sha256:00", "verification": "",
                "kind": "original", "serverVersion": "1.2.3", "compatHash": "0a1b2c3d", "target": "x86_64-linux",
            },
        })
    );
}

#[test]
fn another_file_is_not_the_one_that_was_signed() {
    let ca = authority();
    let issued = issue(&ca, URI);
    let trust = trust(&ca, &[&issued]);
    let envelope = signed(&issued);
    let truncated = &CONTENT[..CONTENT.len() - 1];
    for (what, name, content, expected) in [
        ("other name", "other.wasm", CONTENT, BlobRefusal::FileName),
        ("other content", NAME, &b"other"[..], BlobRefusal::Content),
        ("truncated", NAME, truncated, BlobRefusal::Content),
        ("empty", NAME, b"", BlobRefusal::Content),
    ] {
        let refused = check(&trust, &envelope, name, content, now());
        assert_eq!(refused, Err(expected), "{what}");
    }
}

/// Each requirement on the signer fails separately.
#[test]
fn untrusted_signers_are_refused_with_the_reason() {
    let (ca, other_ca) = (authority(), authority());
    let issued = issue(&ca, URI);
    let foreign = issue(&ca, "kubewarden://polity/policy-server/other/cache");
    let stranger = issue(&other_ca, URI);
    let names = localhost();
    let server = ca.issue_server(&names, DAY, now()).unwrap();
    let client = ClientIdentity::new(URI, [""; 0]);
    let client = ca.issue_client(&client, DAY, now()).unwrap();
    let all = [&issued, &foreign, &stranger, &server, &client];
    let everybody = trust(&ca, &all);

    for (what, who, trust, expected) in [
        (
            "no certificate is accepted",
            &issued,
            trust(&ca, &[]),
            BlobRefusal::NotAccepted,
        ),
        (
            "another server's key",
            &foreign,
            trust(&ca, &[&issued]),
            BlobRefusal::NotAccepted,
        ),
        (
            "another server's name",
            &foreign,
            everybody.clone(),
            BlobRefusal::Name,
        ),
        (
            "another authority",
            &stranger,
            everybody.clone(),
            BlobRefusal::UnknownAuthority,
        ),
        (
            "a serving certificate",
            &server,
            everybody.clone(),
            BlobRefusal::Purpose,
        ),
        (
            "a client certificate",
            &client,
            everybody.clone(),
            BlobRefusal::Purpose,
        ),
    ] {
        let refused = check(&trust, &signed(who), NAME, CONTENT, now());
        assert_eq!(refused, Err(expected), "{what}");
    }
}

#[test]
fn the_certificate_must_be_valid_now_and_not_when_it_signed() {
    let ca = authority();
    let issued = issue(&ca, URI);
    let trust = trust(&ca, &[&issued]);
    let envelope = signed(&issued);
    let (from, until) = (
        issued.certificate.not_before(),
        issued.certificate.not_after(),
    );
    let early = BlobRefusal::NotValid(CheckError::NotYetValid { not_before: from });
    let late = BlobRefusal::NotValid(CheckError::Expired { not_after: until });
    for (at, expected) in [
        (from - 1.second(), Err(early)),
        (from, Ok(predicate())),
        (until, Ok(predicate())),
        (until + 1.second(), Err(late)),
    ] {
        assert_eq!(
            check(&trust, &envelope, NAME, CONTENT, at),
            expected,
            "{at}"
        );
    }
}

#[test]
fn an_authority_that_was_replaced_is_good_while_it_is_given() {
    let (old, new) = (authority(), authority());
    let issued = issue(&old, URI);
    let envelope = signed(&issued);
    let mut trust = trust(&new, &[&issued]);
    let refused = check(&trust, &envelope, NAME, CONTENT, now());
    assert_eq!(refused, Err(BlobRefusal::UnknownAuthority));
    trust.authorities.push(old.certificate().clone());
    let taken = check(&trust, &envelope, NAME, CONTENT, now());
    assert_eq!(taken, Ok(predicate()));
}

#[test]
fn parts_of_two_signatures_do_not_make_one() {
    let ca = authority();
    let (one, other) = (issue(&ca, URI), issue(&ca, URI));
    let trust = trust(&ca, &[&one, &other]);
    let [first, second] = [&one, &other].map(|issued| {
        let envelope: Value = serde_json::from_slice(&signed(issued)).unwrap();
        envelope
    });
    let mixed = |payload: &Value, signature: &Value, certificate: &Value| {
        // Text by hand: the order of the keys is part of the one spelling.
        format!(
            r#"{{"payloadType":{},"payload":{},"signatures":[{{"keyid":{},"sig":{},"cert":{}}}]}}"#,
            first["payloadType"],
            payload["payload"],
            certificate["signatures"][0]["keyid"],
            signature["signatures"][0]["sig"],
            certificate["signatures"][0]["cert"],
        )
    };
    let whole = mixed(&first, &first, &first);
    assert_eq!(
        check(&trust, whole.as_bytes(), NAME, CONTENT, now()),
        Ok(predicate())
    );
    for envelope in [
        mixed(&first, &first, &second),
        mixed(&first, &second, &first),
    ] {
        let refused = check(&trust, envelope.as_bytes(), NAME, CONTENT, now());
        assert_eq!(refused, Err(BlobRefusal::Signature));
    }
    // Spellings that other readers would take for the same.
    for envelope in [
        format!(" {whole}"),
        format!("{whole}\n"),
        whole.replacen("\\n", "\\r\\n", 1),
        whole.replacen('{', "{\"more\":1,", 1),
        whole.replacen("\"payload\"", "\"payl\\u006fad\"", 1),
    ] {
        let refused = check(&trust, envelope.as_bytes(), NAME, CONTENT, now());
        assert_eq!(refused, Err(BlobRefusal::Envelope), "{envelope}");
    }
}

#[test]
fn a_signer_is_a_certificate_with_its_own_key() {
    let issued = issue(&authority(), URI);
    let pem = issued.certificate.to_pem();
    let other_key = PrivateKey::generate().unwrap().to_pem();
    assert!(matches!(
        BlobSigner::from_pem(&pem, &other_key),
        Err(SignerError::KeyMismatch)
    ));
    assert!(matches!(
        BlobSigner::from_pem(&pem, "nonsense"),
        Err(SignerError::Key(_))
    ));
    assert!(matches!(
        BlobSigner::from_pem("", &other_key),
        Err(SignerError::Certificate(_))
    ));
}

/// Every byte of the envelope, one bit each: slower than the property below, and complete.
#[test]
fn no_byte_of_an_envelope_can_change() {
    let ca = authority();
    let issued = issue(&ca, URI);
    let trust = trust(&ca, &[&issued]);
    let envelope = signed(&issued);
    for index in 0..envelope.len() {
        for bit in [0, 5] {
            let mut changed = envelope.clone();
            changed[index] ^= 1 << bit;
            assert!(
                trust.open(&changed, now()).is_err(),
                "byte {index}, bit {bit}"
            );
        }
    }
    for length in 0..envelope.len() {
        assert!(trust.open(&envelope[..length], now()).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_changed_byte_is_refused(
        content in proptest::collection::vec(any::<u8>(), 1..200),
        at in any::<prop::sample::Index>(),
        change in 1..=u8::MAX,
    ) {
        let ca = authority();
        let issued = issue(&ca, URI);
        let trust = trust(&ca, &[&issued]);
        let envelope = signer(&issued).sign(NAME, &content, &predicate()).unwrap();
        prop_assert_eq!(check(&trust, &envelope, NAME, &content, now()), Ok(predicate()));

        let mut changed = content.clone();
        changed[at.index(content.len())] ^= change;
        prop_assert_eq!(check(&trust, &envelope, NAME, &changed, now()), Err(BlobRefusal::Content));
        let mut changed = envelope.clone();
        changed[at.index(envelope.len())] ^= change;
        prop_assert!(check(&trust, &changed, NAME, &content, now()).is_err());
    }

    #[test]
    fn any_bytes_are_refused_quietly(envelope in proptest::collection::vec(any::<u8>(), 0..400)) {
        let ca = authority();
        prop_assert_eq!(trust(&ca, &[]).open(&envelope, now()), Err(BlobRefusal::Envelope));
    }
}
