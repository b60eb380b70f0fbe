//! Any bytes may lie beside a cached module as its signature; none of them are taken, and none cause a panic.
//!
//! Nobody is trusted here, so that what gets through the parser ends at the first check of its certificate.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polity_pki::{BlobRefusal, BlobTrust};

fuzz_target!(|envelope: &[u8]| {
    let trust = BlobTrust {
        authorities: Vec::new(),
        accepted: Vec::new(),
        uri: String::new(),
    };
    let refused = trust.open(envelope, jiff::Timestamp::UNIX_EPOCH).unwrap_err();
    assert!(matches!(refused, BlobRefusal::Envelope | BlobRefusal::NotAccepted), "{refused}");
});
