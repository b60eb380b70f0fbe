//! Private keys for templates, in the forms that Go programs write.

use aws_lc_rs::encoding::{AsDer as _, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use polity_template::KeyKind;

/// A new private key as PEM.
pub(super) fn private_key(kind: KeyKind) -> Result<String, String> {
    let random = SystemRandom::new();
    match kind {
        KeyKind::Rsa2048 => rsa(KeySize::Rsa2048),
        KeyKind::Rsa4096 => rsa(KeySize::Rsa4096),
        KeyKind::Ecdsa => {
            let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random)
                .map_err(|error| error.to_string())?;
            Ok(pem("EC PRIVATE KEY", inner(key.as_ref())?))
        }
        KeyKind::Ed25519 => {
            let key =
                Ed25519KeyPair::generate_pkcs8v1(&random).map_err(|error| error.to_string())?;
            Ok(pem("PRIVATE KEY", key.as_ref()))
        }
    }
}

fn rsa(size: KeySize) -> Result<String, String> {
    let key = KeyPair::generate(size).map_err(|error| error.to_string())?;
    let der: Pkcs8V1Der<'_> = key.as_der().map_err(|error| error.to_string())?;
    Ok(pem("RSA PRIVATE KEY", inner(der.as_ref())?))
}

/// The key inside of PKCS#8: version, algorithm, and then the octets wanted.
fn inner(pkcs8: &[u8]) -> Result<&[u8], String> {
    let find = || {
        let (_, outer, _) = element(pkcs8)?;
        let (_, _, rest) = element(outer)?;
        let (_, _, rest) = element(rest)?;
        let (tag, octets, _) = element(rest)?;
        (tag == 0x04).then_some(octets)
    };
    find().ok_or_else(|| "the key is no PKCS#8".to_owned())
}

/// The first element of DER: its tag, its content, and what follows.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        let length = length
            .iter()
            .fold(0usize, |length, byte| (length << 8) | usize::from(*byte));
        (length, rest)
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

fn pem(label: &str, der: &[u8]) -> String {
    let encoded = STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in encoded.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_labels_that_go_gives_them() {
        for (kind, label) in [
            (KeyKind::Rsa2048, "RSA PRIVATE KEY"),
            (KeyKind::Ecdsa, "EC PRIVATE KEY"),
            (KeyKind::Ed25519, "PRIVATE KEY"),
        ] {
            let key = private_key(kind).unwrap();
            assert!(
                key.starts_with(&format!("-----BEGIN {label}-----\n")),
                "{key}"
            );
            assert!(key.ends_with(&format!("-----END {label}-----\n")), "{key}");
        }
    }
}
