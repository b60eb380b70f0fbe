//! Host calls: which ones a guest may make, the error when it may not, and recordings (docs/spec/admission.md#12).

use std::sync::{Arc, Mutex};

use polity_eval::{
    CapabilityRequest, Deadline, Environment, Module, Origin, Policy, Recorder, Replay, Services,
    recording_to_yaml,
};

use crate::support::{POD, environment, escaped, evaluate, policy, review, wapc, with_services};

/// A guest that makes one host call and rejects with the response, or the error, as its message. Both must not contain
/// quotes.
fn calling(binding: &str, namespace: &str, operation: &str, payload: &str) -> Module {
    let texts = [binding, namespace, operation, payload];
    let mut data = String::new();
    let mut arguments = String::new();
    let mut at = 1000;
    for text in texts {
        data.push_str(&format!("(data (i32.const {at}) \"{}\")\n", escaped(text)));
        arguments.push_str(&format!("(i32.const {at}) (i32.const {}) ", text.len()));
        at += 500;
    }
    let head = r#"{"accepted":false,"message":""#;
    wapc(&format!(
        r#"{data}
        (data (i32.const 3000) "{}")
        (func $validate (local $len i32)
          (if (call $host_call {arguments})
            (then (local.set $len (call $host_response_len)) (call $host_response (i32.const {answer})))
            (else (local.set $len (call $host_error_len)) (call $host_error (i32.const {answer}))))
          (i32.store8 (i32.add (i32.const {answer}) (local.get $len)) (i32.const 34))
          (i32.store8 (i32.add (i32.const {}) (local.get $len)) (i32.const 125))
          (call $response (i32.const 3000) (i32.add (local.get $len) (i32.const {}))))"#,
        escaped(head),
        3000 + head.len() + 1,
        head.len() + 2,
        answer = 3000 + head.len(),
    ))
}

/// Responds to every call with its own arguments, without quotes.
#[derive(Default, Clone)]
struct Parrot(Arc<Mutex<Vec<String>>>);

impl Services for Parrot {
    fn call(&self, request: &CapabilityRequest, deadline: Deadline) -> Result<Vec<u8>, String> {
        assert!(deadline.remaining().is_some(), "every call has a deadline");
        let text = format!("{} {}", request.tag(), request.arguments()).replace('"', "'");
        self.0.lock().unwrap().push(text.clone());
        if text.contains("broken") {
            Err("it is broken".to_owned())
        } else {
            Ok(text.into_bytes())
        }
    }
}

fn said(policy: &Policy, environment: &Environment) -> String {
    let evaluation = evaluate(policy, environment, &review("Pod", POD), Origin::Validate);
    evaluation
        .response
        .message()
        .unwrap_or("(nothing)")
        .to_owned()
}

/// The response that a guest gets to a call, with the given grants.
fn heard(call: (&str, &str, &str, &str), grants: &str) -> String {
    let (binding, namespace, operation, payload) = call;
    let policy = policy(&calling(binding, namespace, operation, payload), grants);
    said(&policy, &with_services(Parrot::default()))
}

const GET_POD: &str = r#"{"api_version":"v1","kind":"Pod","name":"n","disable_cache":false}"#;
const READS_PODS: &str = "contextAwareResources: [{apiVersion: v1, kind: Pod}]";

#[test]
fn permissions_are_checked_in_order() {
    for (call, grants, expected) in [
        (
            ("other", "oci", "v1/verify", ""),
            "hostCapabilities: []",
            "unknown binding: other",
        ),
        (
            ("kubewarden", "magic", "wand", ""),
            "hostCapabilities: [oci/*]",
            "Policy has not been granted access to the 'magic/wand' host capability. The violation has been reported.",
        ),
        (
            ("kubewarden", "magic", "wand", ""),
            "",
            "unknown namespace: magic",
        ),
        (("kubewarden", "oci", "v9", ""), "", "unknown operation: v9"),
        (
            ("kubewarden", "net", "v1/dns_lookup_host", "\"h\""),
            "hostCapabilities: [oci/*]",
            "Policy has not been granted access to the 'net/v1/dns_lookup_host' host capability. The violation has been reported.",
        ),
        (
            ("kubewarden", "net", "v1/dns_lookup_host", "\"h\""),
            "hostCapabilities: [net/*]",
            "DNSLookupHost {'host':'h'}",
        ),
        (
            ("kubewarden", "kubernetes", "get_resource", GET_POD),
            "",
            "Policy has not been granted access to Kubernetes v1/Pod resources. The violation has been reported.",
        ),
        (
            ("kubewarden", "kubernetes", "get_resource", GET_POD),
            "contextAwareResources: [{apiVersion: v1, kind: Pod}], hostCapabilities: [kubernetes/can_i]",
            "Policy has not been granted access to the 'kubernetes/get_resource' host capability. The violation has been reported.",
        ),
        (
            ("kubewarden", "kubernetes", "get_resource", GET_POD),
            READS_PODS,
            "KubernetesGetResource {'api_version':'v1','disable_cache':false,'kind':'Pod','name':'n'}",
        ),
        (
            ("kubewarden", "net", "v1/dns_lookup_host", "\"broken\""),
            "",
            "Callback evaluation failure: it is broken",
        ),
        (
            ("kubewarden", "net", "v1/dns_lookup_host", "3"),
            "",
            "Callback evaluation failure: cannot read the payload: invalid type: integer `3`, expected a string at line 1 column 1",
        ),
        (
            ("kubewarden", "tracing", "log", "malformed"),
            "hostCapabilities: []",
            "",
        ),
        (
            ("kubewarden", "tracing", "log", r#"{"level":"INFO"}"#),
            "hostCapabilities: []",
            "",
        ),
    ] {
        assert_eq!(heard(call, grants), expected, "{call:?} with {grants}");
    }
}

#[test]
fn refused_calls_reach_no_service() {
    let parrot = Parrot::default();
    let policy = policy(
        &calling("kubewarden", "kubernetes", "get_resource", GET_POD),
        "",
    );
    said(&policy, &with_services(parrot.clone()));
    assert!(parrot.0.lock().unwrap().is_empty());
}

#[test]
fn a_server_without_services_returns_an_error() {
    let policy = policy(
        &calling("kubewarden", "kubernetes", "get_resource", GET_POD),
        READS_PODS,
    );
    assert_eq!(
        said(&policy, &environment()),
        "Callback evaluation failure: kubernetes/get_resource is not available here"
    );
}

#[test]
fn guests_keep_things_between_requests() {
    let environment = environment();
    // The response contains quotes, so the guest's own response is malformed, and its text is in the error.
    let call = |operation: &str, payload: &str| {
        let policy = policy(&calling("kubewarden", "cache", operation, payload), "");
        let body = review("Pod", POD);
        evaluate(&policy, &environment, &body, Origin::Validate)
            .response
            .message()
            .unwrap()
            .to_owned()
    };
    for (operation, payload) in [
        ("get", r#"{"key":"k"}"#),
        ("set", r#"{"key":"k","value":[1,2],"ttl":60}"#),
        ("get", r#"{"key":"k"}"#),
        (
            "set",
            r#"{"key":"kubewarden_internal_x","value":[],"ttl":1}"#,
        ),
    ] {
        assert!(
            call(operation, payload).contains("Cannot deserialize"),
            "{operation} {payload}"
        );
    }
    assert!(call("set", "{}").starts_with("Callback evaluation failure: cannot read the payload"));
}

#[test]
fn a_conversation_is_recorded_and_played_back() {
    let recorder = Arc::new(Recorder::new(Parrot::default()));
    struct Shared(Arc<Recorder<Parrot>>);
    impl Services for Shared {
        fn call(&self, request: &CapabilityRequest, deadline: Deadline) -> Result<Vec<u8>, String> {
            self.0.call(request, deadline)
        }
    }
    let policies = [
        policy(
            &calling("kubewarden", "net", "v1/dns_lookup_host", "\"h\""),
            "",
        ),
        policy(
            &calling("kubewarden", "net", "v1/dns_lookup_host", "\"broken\""),
            "",
        ),
        policy(
            &calling("kubewarden", "kubernetes", "get_resource", GET_POD),
            READS_PODS,
        ),
    ];
    let recording = with_services(Shared(recorder.clone()));
    let live = policies.each_ref().map(|policy| said(policy, &recording));
    let yaml = recording_to_yaml(&recorder.exchanges());
    let replaying = with_services(Replay::parse(&yaml).expect(&yaml));
    let replayed = policies.each_ref().map(|policy| said(policy, &replaying));
    assert_eq!(live, replayed);
}
