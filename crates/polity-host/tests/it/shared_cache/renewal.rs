//! Certificates are renewed and revoked, and files are valid exactly as long as their certificates.

use jiff::{Timestamp, ToSpan as _};
use polity_host::{AbsentReason, SignerFiles};
use polity_pki::{BlobRefusal, CheckError};

use super::{
    CODE, Controller, OTHER_WASM, VERSION, Volume, WASM, cache, facts, facts_of, look, now,
    optimized_name,
};

fn days(n: i64) -> Timestamp {
    now() + (24 * n).hours()
}

fn all_found() -> [Result<Vec<u8>, AbsentReason>; 2] {
    [Ok(WASM.to_vec()), Ok(CODE.to_vec())]
}

fn refused(refusal: BlobRefusal) -> [Result<Vec<u8>, AbsentReason>; 2] {
    [Err(refusal.clone().into()), Err(refusal.into())]
}

#[test]
fn a_renewal_costs_no_pull() {
    let volume = Volume::filled();
    // Code of another version, which still runs on some replica.
    let signer = volume.controller.files(&volume.issued);
    let older = cache(volume.directory.path(), "1.0.0", signer);
    older.store_optimized(&facts(), &super::code()).unwrap();

    // Ten months later: a new certificate, the old one beside it.
    let renewed_at = days(300);
    let renewed = volume.controller.issue("default", renewed_at);
    let mut texts = volume.controller.texts(&renewed);
    texts.previous = Some(volume.issued.certificate.to_pem());
    let during = SignerFiles::parse(&texts).unwrap();
    volume.cache.set_signer(during.clone());
    assert_eq!(look(&volume.cache, renewed_at), all_found());
    let all = [facts(), facts()];
    assert_eq!(volume.cache.sign_anew(&all, renewed_at).unwrap(), 3);
    assert_eq!(volume.cache.sign_anew(&all, renewed_at).unwrap(), 0);
    assert_eq!(look(&volume.cache, renewed_at), all_found());

    // Eight days later the old one is dropped, and every pod is a new one.
    let after = || volume.controller.files(&renewed);
    let later = days(308);
    for version in [VERSION, "1.0.0"] {
        let started = cache(volume.directory.path(), version, after());
        assert_eq!(look(&started, later), all_found(), "{version}");
    }
    // And when the old one would have expired, too.
    let started = cache(volume.directory.path(), VERSION, after());
    assert_eq!(look(&started, days(400)), all_found());
    // A replica that missed the renewal rejects content that was signed after it.
    assert_eq!(
        look(&volume.restarted(), later),
        refused(BlobRefusal::NotAccepted)
    );
}

#[test]
fn without_signing_anew_files_end_with_their_certificate() {
    let volume = Volume::filled();
    let not_after = volume.issued.certificate.not_after();
    assert_eq!(look(&volume.cache, not_after), all_found());
    let expired = BlobRefusal::NotValid(CheckError::Expired { not_after });
    assert_eq!(
        look(&volume.cache, not_after + 1.second()),
        refused(expired)
    );
    let not_before = volume.issued.certificate.not_before();
    let early = BlobRefusal::NotValid(CheckError::NotYetValid { not_before });
    assert_eq!(look(&volume.cache, not_before - 1.second()), refused(early));
}

#[test]
fn a_deleted_secret_withdraws_everything_at_once() {
    let volume = Volume::filled();
    let issued_anew = volume.controller.issue("default", now());
    let files = volume.controller.files(&issued_anew);
    volume.cache.set_signer(files);
    assert_eq!(volume.look(), refused(BlobRefusal::NotAccepted));
    let signed = volume.cache.sign_anew(&[facts()], now()).unwrap();
    assert_eq!(signed, 0, "nothing withdrawn is signed again");
    assert_eq!(volume.look(), refused(BlobRefusal::NotAccepted));
    volume.assert_heals("pulled again");
}

#[test]
fn only_valid_files_are_signed_again() {
    let volume = Volume::filled();
    let other = facts_of("registry://h.example/policies/q:v1", OTHER_WASM);
    volume.cache.store_original(&other, OTHER_WASM).unwrap();
    let optimized = volume.file(&optimized_name(VERSION));
    std::fs::write(&optimized, b"bad code of one ...").unwrap();
    // A name that promises another build than was signed.
    for suffix in ["", ".sig"] {
        let (from, to) = ("original.wasm", optimized_name("9.9.9"));
        let from = volume.file(&format!("{from}{suffix}"));
        std::fs::copy(from, volume.file(&format!("{to}{suffix}"))).unwrap();
    }
    let renewed = volume.controller.issue("default", now());
    let mut texts = volume.controller.texts(&renewed);
    texts.previous = Some(volume.issued.certificate.to_pem());
    volume.cache.set_signer(SignerFiles::parse(&texts).unwrap());

    let signed = volume.cache.sign_anew(&[facts()], now()).unwrap();
    assert_eq!(signed, 1, "original.wasm of what is referred to");
    let [original, optimized] = volume.look();
    assert_eq!(original, Ok(WASM.to_vec()));
    assert_eq!(optimized, Err(BlobRefusal::Content.into()));
}

#[test]
fn an_exchanged_authority_is_accepted_while_the_secret_has_it() {
    let volume = Volume::filled();
    let new_authority = Controller::new();
    let renewed = new_authority.issue("default", now());
    let mut texts = new_authority.texts(&renewed);
    texts.previous = Some(volume.issued.certificate.to_pem());
    volume.cache.set_signer(SignerFiles::parse(&texts).unwrap());
    assert_eq!(volume.look(), refused(BlobRefusal::UnknownAuthority));

    texts.old_authority = Some(volume.controller.texts(&renewed).authority);
    volume.cache.set_signer(SignerFiles::parse(&texts).unwrap());
    assert_eq!(volume.look(), all_found());
    assert_eq!(volume.cache.sign_anew(&[facts()], now()).unwrap(), 2);
    volume.cache.set_signer(new_authority.files(&renewed));
    assert_eq!(volume.look(), all_found());
}
