//! Keys and certificates. The host parses and creates them. The order of checks and their messages are those of sprig.

use std::rc::Rc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::strings::made;
use crate::arg::{int, text};
use crate::function::{CERTIFICATE, Failure, Function, Outcome, Type, function};
use crate::host::{CertificateRequest, KeyKind};
use crate::print::plain;
use crate::run::Run;
use crate::value::{Struct, Value};

const T: Type = Type::Text;
const I: Type = Type::Int;
const L: Type = Type::List;
const C: Type = Type::Certificate;

/// The cost in steps of creating a key or a certificate, and of parsing one.
const KEY_STEPS: u64 = 100_000;
const READ_STEPS: u64 = 10_000;

pub(crate) const TABLE: &[(&str, Function)] = &[
    (
        "genPrivateKey",
        function(&[T], None, |run, v| {
            let kind = match text(&v[0]) {
                "" | "rsa" => KeyKind::Rsa4096,
                "ecdsa" => KeyKind::Ecdsa,
                "ed25519" => KeyKind::Ed25519,
                other => return made(format!("Unknown type {other}")),
            };
            run.spend(KEY_STEPS)?;
            run.noticed.volatile = true;
            match run.host.private_key(kind) {
                Ok(pem) => made(pem),
                Err(error) => made(format!("failed to generate private key: {error}")),
            }
        }),
    ),
    ("buildCustomCert", function(&[T, T], None, build_custom)),
    (
        "genCA",
        function(&[T, I], None, |run, v| {
            certificate(
                run,
                Wanted {
                    is_authority: true,
                    ..wanted(&v[0], None, &v[1])
                },
            )
        }),
    ),
    (
        "genCAWithKey",
        function(&[T, I, T], None, |run, v| {
            certificate(
                run,
                Wanted {
                    is_authority: true,
                    key: Some(&v[2]),
                    ..wanted(&v[0], None, &v[1])
                },
            )
        }),
    ),
    (
        "genSelfSignedCert",
        function(&[T, L, L, I], None, |run, v| {
            certificate(run, wanted(&v[0], Some((&v[1], &v[2])), &v[3]))
        }),
    ),
    (
        "genSelfSignedCertWithKey",
        function(&[T, L, L, I, T], None, |run, v| {
            certificate(
                run,
                Wanted {
                    key: Some(&v[4]),
                    ..wanted(&v[0], Some((&v[1], &v[2])), &v[3])
                },
            )
        }),
    ),
    (
        "genSignedCert",
        function(&[T, L, L, I, C], None, |run, v| {
            certificate(
                run,
                Wanted {
                    signer: Some(&v[4]),
                    ..wanted(&v[0], Some((&v[1], &v[2])), &v[3])
                },
            )
        }),
    ),
    (
        "genSignedCertWithKey",
        function(&[T, L, L, I, C, T], None, |run, v| {
            let signed = Wanted {
                signer: Some(&v[4]),
                key: Some(&v[5]),
                ..wanted(&v[0], Some((&v[1], &v[2])), &v[3])
            };
            certificate(run, signed)
        }),
    ),
];

/// The certificate that a template requests.
struct Wanted<'v> {
    common_name: &'v Value,
    /// Addresses and names.
    alternatives: Option<(&'v Value, &'v Value)>,
    days: &'v Value,
    is_authority: bool,
    key: Option<&'v Value>,
    signer: Option<&'v Value>,
}

fn wanted<'v>(
    common_name: &'v Value,
    alternatives: Option<(&'v Value, &'v Value)>,
    days: &'v Value,
) -> Wanted<'v> {
    Wanted {
        common_name,
        alternatives,
        days,
        is_authority: false,
        key: None,
        signer: None,
    }
}

fn certificate(run: &mut Run<'_>, wanted: Wanted<'_>) -> Outcome {
    run.spend(KEY_STEPS)?;
    run.noticed.volatile = true;
    let key = wanted.key.map(text);
    if let Some(key) = key {
        check_key(run, key).map_err(|error| format!("parsing private key: {error}"))?;
    }
    let signer = match wanted.signer {
        Some(Value::Struct(pair)) => {
            let field = |name: &str| pair.field(name).map(text).unwrap_or_default();
            Some((field("Cert"), field("Key")))
        }
        _ => None,
    };
    if let Some((certificate, key)) = signer {
        check_pair(run, certificate, key, "decodedSignerCert.Bytes")?;
    }
    let (addresses, names) = match wanted.alternatives {
        Some((addresses, names)) => (ip_addresses(addresses)?, dns_names(names)?),
        None => (Vec::new(), Vec::new()),
    };
    let request = CertificateRequest {
        common_name: text(wanted.common_name),
        addresses,
        names,
        days: int(wanted.days),
        is_authority: wanted.is_authority,
        key,
        signer,
    };
    let pair = run
        .host
        .certificate(&request)
        .map_err(|error| format!("error creating certificate: {error}"))?;
    Ok(pair_value(pair.certificate, pair.key))
}

fn ip_addresses(values: &Value) -> Result<Vec<std::net::IpAddr>, Failure> {
    let address = |value: &Value| -> Result<std::net::IpAddr, Failure> {
        let Value::Text(address) = value else {
            return Err(format!("error parsing ip: {} is not a string", plain(value)?).into());
        };
        let parsed: Result<std::net::IpAddr, _> = address.parse();
        // An IPv4 address written as IPv6 is an IPv4 address to Go.
        parsed
            .map(|address| address.to_canonical())
            .map_err(|_| format!("error parsing ip: {address}").into())
    };
    list(values).iter().map(address).collect()
}

fn dns_names(values: &Value) -> Result<Vec<String>, Failure> {
    let name = |value: &Value| match value {
        Value::Text(name) => Ok(name.to_string()),
        _ => Err(format!(
            "error processing alternate dns name: {} is not a string",
            plain(value)?
        )
        .into()),
    };
    list(values).iter().map(name).collect()
}

fn list(value: &Value) -> &[Value] {
    match value {
        Value::List(list) => &list.items,
        _ => &[],
    }
}

fn pair_value(certificate: String, key: String) -> Value {
    Value::Struct(Rc::new(Struct {
        type_name: CERTIFICATE,
        fields: vec![
            ("Cert", Value::text(certificate)),
            ("Key", Value::text(key)),
        ],
    }))
}

fn build_custom(run: &mut Run<'_>, values: &[Value]) -> Outcome {
    let decoded = |value: &Value, what: &str| {
        let bytes = STANDARD.decode(text(value)).ok();
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        text.ok_or_else(|| format!("unable to decode base64 {what}"))
    };
    let certificate = decoded(&values[0], "certificate")?;
    let key = decoded(&values[1], "private key")?;
    run.spend(READ_STEPS)?;
    check_pair(run, &certificate, &key, "decodedCert.Bytes")?;
    Ok(pair_value(certificate, key))
}

/// Checks that these are a certificate and a key. It does not check that they belong together.
fn check_pair(run: &Run<'_>, certificate: &str, key: &str, variable: &str) -> Result<(), Failure> {
    if pem_label(certificate).is_none() {
        return Err("unable to decode certificate".into());
    }
    run.host
        .check_certificate(certificate)
        .map_err(|error| format!("error parsing certificate: {variable}: {error}"))?;
    check_key(run, key).map_err(|error| format!("error parsing private key: {error}").into())
}

fn check_key(run: &Run<'_>, key: &str) -> Result<(), String> {
    let label = pem_label(key).ok_or("no PEM data in input")?;
    let reading = match label.strip_suffix("PRIVATE KEY") {
        Some("") => "decoding PEM as PKCS#8",
        Some("RSA ") => "parsing RSA private key from PEM",
        Some("EC ") => "parsing EC private key from PEM",
        Some(other) if other.ends_with(' ') => {
            return Err(format!("invalid private key type {label}"));
        }
        _ => return Err(format!("no private key data in PEM block of type {label}")),
    };
    run.host
        .check_private_key(key)
        .map_err(|error| format!("{reading}: {error}"))
}

/// The label of the first valid PEM section of a text.
fn pem_label(text: &str) -> Option<&str> {
    const BEGIN: &str = "-----BEGIN ";
    let mut rest = text;
    loop {
        rest = match rest.strip_prefix(BEGIN) {
            Some(section) => section,
            None => rest.split_once("\n-----BEGIN ")?.1,
        };
        let (label, section) = rest.split_once("-----")?;
        let (body, after) = section.split_once("\n-----END ")?;
        let ends = after
            .strip_prefix(label)
            .is_some_and(|end| end.starts_with("-----"));
        let letters: String = body.split_ascii_whitespace().collect();
        if ends && !label.contains('\n') && STANDARD.decode(letters).is_ok() {
            return Some(label);
        }
        rest = after;
    }
}
