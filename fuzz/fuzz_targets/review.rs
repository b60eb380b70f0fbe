//! Any bytes may come as a review: they are refused with a client error, or what the guest gets is what was read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use polity_eval::{AdmissionReview, RawReview};

fuzz_target!(|data: &[u8]| {
    match AdmissionReview::parse(data) {
        Ok(review) => {
            let request = serde_json::to_string(&review.request).expect("what was read can be written");
            let body = format!("{{\"request\":{request}}}");
            let again = AdmissionReview::parse(body.as_bytes()).expect("what was written can be read");
            assert_eq!(again.request.uid, review.request.uid);
            assert_eq!(
                again.request.object.map(|object| object.get()),
                review.request.object.map(|object| object.get())
            );
        }
        Err(error) => assert!(matches!(error.http_status(), 400 | 422)),
    }
    if let Ok(review) = RawReview::parse(data) {
        let _ = review.uid();
    }
});
