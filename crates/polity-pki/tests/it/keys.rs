//! Private keys and token keys.

use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use polity_pki::{Authority, AuthorityError, PrivateKey, TokenKey, key_id};

use crate::{DAY, authority, now};

#[test]
fn debug_output_shows_nothing_of_a_key() {
    let ca = authority();
    let token_key = TokenKey::generate().unwrap();
    assert_eq!(format!("{:?}", ca.key()), "PrivateKey(..)");
    assert_eq!(format!("{token_key:?}"), "TokenKey { key: PrivateKey(..) }");
    assert!(format!("{ca:#?}").contains("PrivateKey(..)"));
}

#[test]
fn an_authority_survives_its_pem_files() {
    let ca = authority();
    let again = Authority::from_pem(&ca.certificate().to_pem(), &ca.key().to_pem()).unwrap();
    assert_eq!(again.certificate(), ca.certificate());
    let leaf = again.issue_server(&crate::localhost(), DAY, now()).unwrap();
    assert_eq!(
        leaf.certificate.check_signed_by(ca.certificate(), now()),
        Ok(())
    );
}

#[test]
fn wrong_files_are_distinguished() {
    let ca = authority();
    let certificate = ca.certificate().to_pem();
    let other_key = PrivateKey::generate().unwrap().to_pem();
    let leaf = ca.issue_server(&crate::localhost(), DAY, now()).unwrap();
    let leaf_pem = leaf.certificate.to_pem();

    assert!(matches!(
        Authority::from_pem(&certificate, &other_key),
        Err(AuthorityError::KeyMismatch)
    ));
    assert!(matches!(
        Authority::from_pem(&leaf_pem, &leaf.key.to_pem()),
        Err(AuthorityError::NotAnAuthority)
    ));
    assert!(matches!(
        Authority::from_pem("", &other_key),
        Err(AuthorityError::Certificate(_))
    ));
    assert!(matches!(
        Authority::from_pem(&certificate, "nonsense"),
        Err(AuthorityError::Key(_))
    ));
}

#[test]
fn token_keys_sign_and_verify_es256() {
    let key = TokenKey::generate().unwrap();
    let again = TokenKey::from_pem(&key.private_pem()).unwrap();
    assert_eq!(again.key_id(), key.key_id());

    let claims = serde_json::json!({ "sub": "system:serviceaccount:default:default" });
    let header = Header {
        kid: Some(key.key_id()),
        ..Header::new(Algorithm::ES256)
    };
    let signing = EncodingKey::from_ec_pem(again.private_pem().as_bytes()).unwrap();
    let token = jsonwebtoken::encode(&header, &claims, &signing).unwrap();

    let mut validation = Validation::new(Algorithm::ES256);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    let verifying = DecodingKey::from_ec_pem(key.public_pem().as_bytes()).unwrap();
    let verified =
        jsonwebtoken::decode::<serde_json::Value>(&token, &verifying, &validation).unwrap();
    assert_eq!(verified.claims, claims);

    let stranger = TokenKey::generate().unwrap();
    let stranger = DecodingKey::from_ec_pem(stranger.public_pem().as_bytes()).unwrap();
    assert!(jsonwebtoken::decode::<serde_json::Value>(&token, &stranger, &validation).is_err());
}

#[test]
fn a_key_id_is_the_url_safe_hash_of_the_public_key() {
    // `printf '' | sha256sum | xxd -r -p | basenc --base64url`, without its padding.
    assert_eq!(key_id(b""), "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU");
    assert_eq!(TokenKey::generate().unwrap().key_id().len(), 43);
}
