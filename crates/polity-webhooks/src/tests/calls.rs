//! The requests to webhooks, their connections, and the handling of responses.

use super::*;

#[tokio::test]
async fn a_review_has_the_content_of_a_real_one() {
    let hooks = Hooks::start(|_, _| allow()).await;
    let cluster = Cluster::new();
    let mut given = Given::create();
    let configs = one("Mutating", &hooks.webhook("h.x.y", "/p"));
    given.mutate(&configs, &cluster).await.0.unwrap();
    given.operation = Operation::Update;
    given.subresource = "status";
    given.old_object =
        Some(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}));
    given.dry_run = true;
    given.mutate(&configs, &cluster).await.0.unwrap();

    let seen = hooks.seen();
    assert_eq!(seen[0].path, "/p?timeout=5s");
    let mut review = seen[0].body.clone();
    let uid = review["request"]["uid"].take();
    assert_eq!(uid.as_str().unwrap().len(), 36);
    let gvk = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    let gvr = json!({"group": "apps", "version": "v1", "resource": "deployments"});
    let expected = json!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": null, "kind": gvk, "resource": gvr, "requestKind": gvk, "requestResource": gvr,
            "name": "d", "namespace": "ns", "operation": "CREATE", "userInfo": {"username": "u", "groups": ["g"]},
            "object": given.object, "oldObject": null, "dryRun": false, "options": given.options,
        },
    });
    assert_eq!(review, expected);
    let second = &seen[1].body["request"];
    assert_ne!(second["uid"], uid, "every call has its own uid");
    assert_eq!(
        (&second["subResource"], &second["requestSubResource"]),
        (&json!("status"), &json!("status"))
    );
    assert_eq!(second["oldObject"], given.old_object.unwrap());
    assert_eq!(second["dryRun"], json!(true));
    assert_eq!(
        seen[0].connection, seen[1].connection,
        "connections are used again"
    );
}

#[tokio::test]
async fn v1beta1_is_spoken_where_it_is_asked_for_first() {
    let answer = json!({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "response": {"allowed": true}});
    let hooks = Hooks::start(move |_, _| CannedResponse::json(&answer)).await;
    let mut webhook = hooks.webhook("h.x.y", "/");
    webhook["admissionReviewVersions"] = json!(["v2", "v1beta1", "v1"]);
    Given::create()
        .validate(&one("Validating", &webhook), &Cluster::new())
        .await
        .0
        .unwrap();
    assert_eq!(
        hooks.seen()[0].body["apiVersion"],
        json!("admission.k8s.io/v1beta1")
    );
    webhook["admissionReviewVersions"] = json!(["v2"]);
    let (result, _) = Given::create()
        .validate(&one("Validating", &webhook), &Cluster::new())
        .await;
    assert_eq!(
        message(result).1,
        "Internal error occurred: failed calling webhook \"h.x.y\": could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
    );
}

/// The messages of a 1.37 server for these responses, except for those of Go's JSON parser.
#[tokio::test]
async fn improper_answers_are_call_failures() {
    let hooks = Hooks::start(|request, uid| {
        let response = |response: Value| {
            CannedResponse::json(&json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))
        };
        match request {
            "/500" => CannedResponse { status: 500, content_type: "text/plain", body: b"boom".to_vec(), ..CannedResponse::default() },
            "/404" => CannedResponse { status: 404, ..CannedResponse::default() },
            "/garbage" => CannedResponse { body: b"hello".to_vec(), ..CannedResponse::default() },
            "/empty" => CannedResponse::default(),
            "/list" => CannedResponse::json(&json!([])),
            "/object" => CannedResponse::json(&json!({})),
            "/pod" => CannedResponse::json(&json!({"apiVersion": "v1", "kind": "Pod"})),
            "/beta" => CannedResponse::json(&json!({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview"})),
            "/nokind" => CannedResponse::json(&json!({"response": {"uid": uid, "allowed": true}})),
            "/uid" => response(json!({"uid": "x", "allowed": true})),
            "/yes" => response(json!({"uid": uid, "allowed": "yes"})),
            "/patch" => response(json!({"uid": uid, "allowed": true, "patch": "W10="})),
            "/type" => response(json!({"uid": uid, "allowed": true, "patchType": "JSONPatch"})),
            "/base64" => response(json!({"uid": uid, "allowed": true, "patch": "!!!", "patchType": "JSONPatch"})),
            "/nopatch" => response(json!({"uid": uid, "allowed": true, "patch": "bm9wZQ==", "patchType": "JSONPatch"})),
            "/merge" => response(json!({"uid": uid, "allowed": true, "patch": "W3sib3AiOiJhZGQiLCJwYXRoIjoiL2EiLCJ2YWx1ZSI6MX1d", "patchType": "Merge"})),
            "/huge" => CannedResponse { body: vec![b' '; 20 << 20], ..CannedResponse::default() },
            "/drop" => CannedResponse { drop_connection: true, ..CannedResponse::default() },
            _ => CannedResponse { cut_short: true, body: b"{}".to_vec(), ..CannedResponse::default() },
        }
    })
    .await;
    let called = "failed to call webhook:";
    let invalid = "received invalid webhook response:";
    let cases = [
        (
            "/500",
            format!(
                "{called} an error on the server (\"boom\") has prevented the request from succeeding"
            ),
        ),
        (
            "/404",
            format!("{called} the server could not find the requested resource"),
        ),
        (
            "/garbage",
            format!("{called} couldn't get version/kind; json parse error: "),
        ),
        (
            "/empty",
            format!(
                "{called} 0-length response with status code: 200 and content type: application/json"
            ),
        ),
        (
            "/list",
            format!("{called} couldn't get version/kind; json parse error: "),
        ),
        ("/object", format!("{invalid} webhook response was absent")),
        (
            "/pod",
            format!(
                "{called} no kind \"Pod\" is registered for version \"v1\" in scheme \"pkg/runtime/scheme.go:111\""
            ),
        ),
        (
            "/beta",
            format!(
                "{called} converting (v1beta1.AdmissionReview) to (v1.AdmissionReview): unknown conversion"
            ),
        ),
        (
            "/nokind",
            format!(
                "{invalid} expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="
            ),
        ),
        ("/uid", format!("{invalid} expected response.uid=\"")),
        ("/yes", format!("{called} json: ")),
        (
            "/patch",
            format!("{invalid} webhook returned response.patch but not response.patchType"),
        ),
        (
            "/type",
            format!("{invalid} webhook returned response.patchType but not response.patch"),
        ),
        (
            "/base64",
            format!("{called} illegal base64 data at input byte 0"),
        ),
        (
            "/nopatch",
            "received undecodable patch in webhook response: ".to_owned(),
        ),
        ("/merge", "unsupported patch type \"Merge\"".to_owned()),
        (
            "/huge",
            format!("{called} the answer is larger than 16777216 bytes"),
        ),
        (
            "/drop",
            format!("{called} Post \"{}/drop?timeout=5s\": EOF", hooks.origin()),
        ),
        (
            "/half",
            format!(
                "{called} unexpected error when reading response body. Please retry. Original error: unexpected EOF"
            ),
        ),
    ];
    let cluster = Cluster::new();
    for (path, why) in cases {
        let mut webhook = hooks.webhook("h.x.y", path);
        let (result, _) = Given::create()
            .mutate(&one("Mutating", &webhook), &cluster)
            .await;
        let error = result.unwrap_err();
        let expected = format!("Internal error occurred: failed calling webhook \"h.x.y\": {why}");
        assert!(
            error.message.starts_with(&expected),
            "{path}: {}",
            error.message
        );
        assert_eq!(
            (error.code.as_u16(), error.reason.as_str()),
            (500, "InternalError"),
            "{path}"
        );

        webhook["failurePolicy"] = json!("Ignore");
        let (result, _) = Given::create()
            .mutate(&one("Mutating", &webhook), &cluster)
            .await;
        assert!(!result.unwrap().changed, "{path}: failing open");
    }
    for (path, why) in [
        ("/nopatch", "response.patch"),
        ("/type", "response.patchType"),
    ] {
        let (result, _) = Given::create()
            .validate(&one("Validating", &hooks.webhook("h.x.y", path)), &cluster)
            .await;
        assert!(
            message(result)
                .1
                .ends_with(&format!("validating webhook may not return {why}")),
            "{path}"
        );
    }
}

#[tokio::test]
async fn webhooks_that_cannot_be_reached_are_call_failures() {
    let hooks = Hooks::start(|_, _| allow()).await;
    let cluster = Cluster::new();
    let port = hooks.address().port();
    let cases = [
        // No process listens on port 1.
        (json!({"url": "https://127.0.0.1:1/x"}), "Post \"https://127.0.0.1:1/x?timeout=5s\": dial tcp 127.0.0.1:1: connect: connection refused".to_owned()),
        (
            json!({"url": format!("https://127.0.0.1:{port}/x")}),
            format!("Post \"https://127.0.0.1:{port}/x?timeout=5s\": tls: failed to verify certificate: x509: certificate signed by unknown authority"),
        ),
        (
            json!({"url": format!("https://[::ffff:7f00:1]:{port}/x"), "caBundle": hooks.bundle()}),
            format!("Post \"https://[::ffff:7f00:1]:{port}/x?timeout=5s\": tls: failed to verify certificate: x509: certificate is valid for 127.0.0.1, not ::ffff:7f00:1"),
        ),
        (
            json!({"service": {"namespace": "n", "name": "absent", "path": "/p"}, "caBundle": hooks.bundle()}),
            "Post \"https://absent.n.svc:443/p?timeout=5s\": service \"absent\" not found".to_owned(),
        ),
    ];
    for (client, why) in cases {
        let webhook = json!({"name": "h.x.y", "clientConfig": client});
        let (result, _) = Given::create()
            .validate(&one("Validating", &webhook), &cluster)
            .await;
        let expected = format!(
            "Internal error occurred: failed calling webhook \"h.x.y\": failed to call webhook: {why}"
        );
        assert_eq!(message(result), (500, expected), "{client}");
    }
}

#[tokio::test]
async fn services_are_called_at_their_endpoints_by_their_own_name() {
    let hooks = Hooks::start(|_, _| allow()).await;
    let mut cluster = Cluster::new();
    cluster
        .services
        .insert("hooks/svc:443".into(), vec![hooks.address()]);
    cluster
        .services
        .insert("hooks/wrong:443".into(), vec![hooks.address()]);
    let webhook = |name: &str| {
        json!({"name": "h.x.y", "clientConfig": {
            "service": {"namespace": "hooks", "name": name, "path": "/p"}, "caBundle": hooks.bundle(),
        }})
    };
    Given::create()
        .validate(&one("Validating", &webhook("svc")), &cluster)
        .await
        .0
        .unwrap();
    assert_eq!(
        (hooks.seen()[0].host.as_str(), hooks.seen()[0].path.as_str()),
        ("svc.hooks.svc:443", "/p?timeout=5s")
    );
    let (result, _) = Given::create()
        .validate(&one("Validating", &webhook("wrong")), &cluster)
        .await;
    assert!(
        message(result).1.ends_with(
            "x509: certificate is valid for localhost, svc.hooks.svc, not wrong.hooks.svc"
        ),
    );
}

#[tokio::test]
async fn an_endpoint_that_takes_no_connections_is_passed_over() {
    let hooks = Hooks::start(|_, _| allow()).await;
    let dead = std::net::TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .unwrap();
    let webhook = json!({"name": "h.x.y", "clientConfig": {
        "service": {"namespace": "hooks", "name": "svc"}, "caBundle": hooks.bundle(),
    }});
    let validate = async |endpoints: Vec<SocketAddr>| {
        let mut cluster = Cluster::new();
        cluster.services.insert("hooks/svc:443".into(), endpoints);
        let configs = one("Validating", &webhook);
        Given::create().validate(&configs, &cluster).await.0
    };
    // Whichever comes first.
    for _ in 0..16 {
        validate(vec![dead, hooks.address(), dead]).await.unwrap();
    }
    assert_eq!(hooks.seen().len(), 16, "one of them sees the review");
    let why = message(validate(vec![dead, dead]).await).1;
    assert!(why.ends_with("connect: connection refused"), "{why}");
}

#[tokio::test]
async fn a_certificate_in_the_bundle_itself_is_trusted() {
    let hooks = Hooks::start_self_signed(|_, _| allow()).await;
    Given::create()
        .validate(
            &one("Validating", &hooks.webhook("h.x.y", "/")),
            &Cluster::new(),
        )
        .await
        .0
        .unwrap();
}

#[tokio::test]
async fn one_deadline_covers_the_whole_call() {
    let hooks = Hooks::start(|path, _| match path {
        "/hang" => CannedResponse {
            delay: Duration::from_mins(10),
            ..CannedResponse::default()
        },
        _ => CannedResponse {
            status: 503,
            retry_after: Some(1),
            ..CannedResponse::default()
        },
    })
    .await;
    let call = |path: &'static str| {
        let mut webhook = hooks.webhook("h.x.y", path);
        webhook["timeoutSeconds"] = json!(1);
        async move {
            message(
                Given::create()
                    .validate(&one("Validating", &webhook), &Cluster::new())
                    .await
                    .0,
            )
        }
    };
    let (hung, busy) = futures::join!(call("/hang"), call("/busy"));
    for (path, (code, text)) in [("/hang", hung), ("/busy", busy)] {
        let url = format!("{}{path}?timeout=1s", hooks.origin());
        let why = format!(
            "failed calling webhook \"h.x.y\": failed to call webhook: Post {url:?}: context deadline exceeded"
        );
        assert_eq!(
            (code, text),
            (500, format!("Internal error occurred: {why}"))
        );
    }
}

#[tokio::test]
async fn a_busy_webhook_is_asked_again_with_the_same_uid() {
    let attempts = std::sync::atomic::AtomicUsize::new(0);
    let hooks = Hooks::start(move |_, _| {
        match attempts.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => CannedResponse {
                status: 429,
                retry_after: Some(0),
                ..CannedResponse::default()
            },
            1 => CannedResponse {
                status: 500,
                retry_after: Some(0),
                ..CannedResponse::default()
            },
            _ => allow(),
        }
    })
    .await;
    Given::create()
        .validate(
            &one("Validating", &hooks.webhook("h.x.y", "/")),
            &Cluster::new(),
        )
        .await
        .0
        .unwrap();
    let seen = hooks.seen();
    assert_eq!(seen.len(), 3);
    assert!(
        seen.iter()
            .all(|request| request.body["request"]["uid"] == seen[0].body["request"]["uid"])
    );
}

#[tokio::test]
async fn refusals_carry_the_webhooks_status() {
    let hooks = Hooks::start(|path, _| match path {
        "/bare" => deny(&json!(null)),
        "/full" => deny(&json!({"message": "no way", "code": 418, "reason": "Teapot", "details": {"name": "n", "uid": null, "causes": [{"reason": null, "message": "c"}]}})),
        "/reason" => deny(&json!({"reason": "Forbidden"})),
        _ => deny(&json!({"message": "hm", "code": 200})),
    })
    .await;
    let cases = [
        (
            "/bare",
            400,
            "",
            "admission webhook \"h.x.y\" denied the request without explanation",
        ),
        (
            "/full",
            418,
            "Teapot",
            "admission webhook \"h.x.y\" denied the request: no way",
        ),
        (
            "/reason",
            400,
            "Forbidden",
            "admission webhook \"h.x.y\" denied the request: Forbidden",
        ),
        (
            "/200",
            400,
            "",
            "admission webhook \"h.x.y\" denied the request: hm",
        ),
    ];
    for (path, code, reason, text) in cases {
        let mut webhook = hooks.webhook("h.x.y", path);
        // The failure policy plays no part.
        webhook["failurePolicy"] = json!("Ignore");
        let error = Given::create()
            .mutate(&one("Mutating", &webhook), &Cluster::new())
            .await
            .0
            .unwrap_err();
        assert_eq!(
            (
                error.code.as_u16(),
                error.reason.as_str(),
                error.message.as_str()
            ),
            (code, reason, text)
        );
        let (result, _) = Given::create()
            .validate(&one("Validating", &webhook), &Cluster::new())
            .await;
        let error = result.unwrap_err();
        assert_eq!(error.message, text);
        if path == "/full" {
            assert_eq!(
                error.to_value()["details"],
                json!({"name": "n", "causes": [{"message": "c"}]})
            );
        }
    }
}
