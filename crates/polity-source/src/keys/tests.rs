//! Keys and certificates beside those of the real sprig, in the eyes of openssl too.

use std::path::Path;
use std::process::{Command, Stdio};

use polity_pki::{Certificate, PrivateKey};
use polity_runtime::Clock;
use polity_template::{Limits, Rules, Side, Template};
use serde_json::{Value, json};
use x509_parser::prelude::{FromDer as _, ParsedExtension, X509Certificate};

use super::after;
use crate::cluster::{ClusterModel, TemplateHost};

/// Certificates of every function, each with its key, and signed ones after their signer.
const CERTIFICATES: &str = r#"
{{- define "pair"}}{{.Cert}}{{.Key}}|{{end}}
{{- $ca := genCA "test-ca" 365}}{{template "pair" $ca}}
{{- template "pair" (genSignedCert "web" (list "192.0.2.1" "2001:db8::1" "::ffff:192.0.2.2") (list "web.example.com" "*.web") 30 $ca)}}
{{- template "pair" (genSelfSignedCert "self" nil (list "self.example.com") 10)}}
{{- template "pair" (genSelfSignedCert "" (list) (list "only.example.com") 1)}}
{{- $ec := genCAWithKey "ec-ca" 1 (genPrivateKey "ecdsa")}}{{template "pair" $ec}}
{{- template "pair" (genSignedCertWithKey "ed" nil nil 2 $ec (genPrivateKey "ed25519"))}}
{{- template "pair" (genSelfSignedCertWithKey "past" nil nil -3 (genPrivateKey "ecdsa"))}}
{{- template "pair" (genSelfSignedCertWithKey "wrapped" nil nil 200000 (genPrivateKey "ecdsa"))}}
{{- template "pair" (genSignedCert "again" nil nil 1 (buildCustomCert (b64enc $ca.Cert) (b64enc $ca.Key)))}}
{{- template "pair" (genSignedCert "grandchild" nil nil 1 (genSignedCert "child" nil nil 1 $ca))}}"#;

fn ours(text: &str) -> Result<String, String> {
    let rules = Rules::of(Side::Plain);
    let template = Template::parse("tmpl", text, &rules).map_err(|error| error.0)?;
    let cluster = ClusterModel::default();
    let host = TemplateHost::new(&cluster, Clock::system().now());
    let limits = Limits {
        steps: 100 * Limits::default().steps,
        ..Limits::default()
    };
    template
        .execute((&json!({})).into(), &host, &rules, limits)
        .map(|execution| execution.text)
        .map_err(|error| error.to_string())
}

fn theirs(program: &Path, text: &str) -> Result<String, String> {
    let cases = serde_json::to_vec(&json!([{"template": text, "data": {}}])).unwrap();
    let answer = peers::templates::run_cases(program, &[], cases).unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    match answer["error"].as_str() {
        Some(error) => Err(error.to_owned()),
        None => Ok(answer["output"].as_str().unwrap().to_owned()),
    }
}

/// The certificates of an output with their keys, both PEM.
fn pairs(output: &str) -> Vec<(String, String)> {
    const END: &str = "-----END CERTIFICATE-----\n";
    let pairs = output.split('|').filter(|pair| !pair.is_empty());
    let halves = pairs.map(|pair| {
        let (certificate, key) = pair.split_at(pair.find(END).unwrap() + END.len());
        (certificate.to_owned(), key.to_owned())
    });
    halves.collect()
}

/// What a certificate says, but for what is new every time.
fn described((certificate, key): &(String, String)) -> String {
    let read = Certificate::from_pem(certificate).unwrap();
    let (_, parsed) = X509Certificate::from_der(read.der()).unwrap();
    assert_eq!(
        read.public_der(),
        PrivateKey::from_pem(key).unwrap().public_der(),
        "the key belongs to the certificate"
    );
    // A second more or less depends on when the clock was looked at.
    let life = read.not_after().duration_since(read.not_before());
    let minutes = (life.as_secs() + 30).div_euclid(60);
    let mut lines = vec![
        format!("{} by {}", parsed.subject(), parsed.issuer()),
        format!("{:?} for {minutes} minutes", parsed.version()),
        format!("signed with {}", parsed.signature_algorithm.algorithm),
        format!(
            "{} bits of {}",
            parsed.public_key().parsed().unwrap().key_size(),
            parsed.public_key().algorithm.algorithm
        ),
        key.lines().next().unwrap().to_owned(),
    ];
    let mut extensions: Vec<String> = parsed
        .iter_extensions()
        .map(|extension| {
            let said = match extension.parsed_extension() {
                ParsedExtension::SubjectKeyIdentifier(_)
                | ParsedExtension::AuthorityKeyIdentifier(_) => "a key".to_owned(),
                ParsedExtension::SubjectAlternativeName(names) => {
                    format!("{:?}", names.general_names)
                }
                other => format!("{other:?}"),
            };
            format!("{} {} {said}", extension.oid, extension.critical)
        })
        .collect();
    extensions.sort();
    lines.extend(extensions);
    lines.join("\n")
}

#[test]
fn certificates_say_what_those_of_sprig_say() {
    let Some(program) = peers::templates::find() else {
        return;
    };
    let (theirs, ours) = (
        theirs(program, CERTIFICATES).unwrap(),
        ours(CERTIFICATES).unwrap(),
    );
    let (theirs, ours) = (pairs(&theirs), pairs(&ours));
    assert_eq!((theirs.len(), ours.len()), (10, 10));
    for (theirs, ours) in theirs.iter().zip(&ours) {
        assert_eq!(described(ours), described(theirs));
    }
    eprintln!("{} certificates, the same in ours and sprig's", ours.len());
}

/// What Go makes of our keys and certificates, and we of Go's.
#[test]
fn go_reads_our_keys_and_we_read_those_of_go() {
    let Some(program) = peers::templates::find() else {
        return;
    };
    let make = r#"{{$ca := genCA "ca" 1}}{{b64enc $ca.Cert}} {{b64enc $ca.Key}} {{b64enc (genPrivateKey "ecdsa")}} {{b64enc (genPrivateKey "ed25519")}} {{b64enc (genPrivateKey "rsa")}}"#;
    let read = |made: &str| {
        let words: Vec<&str> = made.split(' ').collect();
        let [ca, ca_key, keys @ ..] = &words[..] else {
            panic!("a certificate and keys: {made}");
        };
        let signed = keys.iter().map(|key| {
            format!(
                r#"{{{{(genSignedCertWithKey "x" nil nil 1 (buildCustomCert "{ca}" "{ca_key}") (b64dec "{key}")).Key}}}}"#
            )
        });
        let plain = keys.iter().map(|key| format!(r#"{{{{b64dec "{key}"}}}}"#));
        (
            signed.collect::<Vec<_>>().concat(),
            plain.collect::<Vec<_>>().concat(),
        )
    };
    let (signed, keys) = read(&ours(make).unwrap());
    assert_eq!(
        theirs(program, &signed),
        ours(&keys),
        "Go writes our keys as we do"
    );
    let (signed, keys) = read(&theirs(program, make).unwrap());
    assert_eq!(ours(&signed), ours(&keys), "we write Go's keys as Go does");
}

#[test]
fn chains_hold_in_the_eyes_of_openssl() {
    let made = ours(CERTIFICATES).unwrap();
    let pairs = pairs(&made);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let openssl = |arguments: &[&str], path: &Path| {
        let mut command = Command::new("openssl");
        command.args(arguments).arg(path).stderr(Stdio::null());
        let output = command.output().ok()?;
        Some(String::from_utf8(output.stdout).unwrap())
    };
    for (ca, leaf) in [(0, 1), (4, 5), (0, 8)] {
        let (ca, leaf) = (&pairs[ca].0, &pairs[leaf].0);
        let (ca, leaf) = (file("ca.pem", ca), file("leaf.pem", leaf));
        let Some(said) = openssl(&["verify", "-CAfile", ca.to_str().unwrap()], &leaf) else {
            eprintln!("left out: chains against openssl: it is not there");
            return;
        };
        assert_eq!(said, format!("{}: OK\n", leaf.display()));
    }
    for (_, key) in &pairs {
        let said = openssl(&["pkey", "-noout", "-check", "-in"], &file("key.pem", key));
        assert_eq!(said.as_deref(), Some("Key is valid\n"), "{key}");
    }
}

#[test]
fn what_cannot_be_used_is_told_apart() {
    for (text, expected) in [
        (
            r#"{{$a := genCA "a" 1}}{{$b := genCA "b" 1}}{{genSignedCert "x" nil nil 1 (buildCustomCert (b64enc $a.Cert) (b64enc $b.Key))}}"#,
            "error calling genSignedCert: error creating certificate: the private key does not belong to the authority's certificate",
        ),
        (
            r#"{{buildCustomCert (b64enc "-----BEGIN CERTIFICATE-----\neA==\n-----END CERTIFICATE-----") ""}}"#,
            "error calling buildCustomCert: error parsing certificate: decodedCert.Bytes: decoding a certificate: ",
        ),
        (
            r#"{{genCAWithKey "x" 1 "-----BEGIN PRIVATE KEY-----\neA==\n-----END PRIVATE KEY-----"}}"#,
            "error calling genCAWithKey: parsing private key: decoding PEM as PKCS#8: reading a private key: ",
        ),
        (
            r#"{{genSelfSignedCert "x" nil (list "ö") 1}}"#,
            "error calling genSelfSignedCert: error creating certificate: \"ö\" is not a DNS name",
        ),
    ] {
        let error = ours(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn days_count_as_in_go() {
    let now = "2026-11-16T12:00:00Z".parse().unwrap();
    for (days, expected) in [
        (1, "2026-11-17T12:00:00Z"),
        (0, "2026-11-16T12:00:00Z"),
        (-1, "2026-11-15T12:00:00Z"),
        (106_751, "2319-02-25T12:00:00Z"),
        // One day more than a duration can hold wraps around.
        (106_752, "1734-08-07T12:25:26.290448384Z"),
    ] {
        assert_eq!(after(now, days).to_string(), expected, "{days} days");
    }
}
