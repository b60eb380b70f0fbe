//! Malicious input: the right Status, nothing stored, and other clients are not affected.

use std::time::Duration;

use http::Method;
use http::header::CONTENT_TYPE;
use kube::client::Body;
use polity_testing::http::{json as with_body, request};
use polity_testing::{Http, HttpResponse, TestServer};
use rustls_pki_types::pem::PemObject as _;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

async fn raw(
    http: &Http,
    method: Method,
    path: &str,
    content_type: &str,
    body: Vec<u8>,
) -> HttpResponse {
    let mut request = request(method, path, Body::from(body));
    request
        .headers_mut()
        .insert(CONTENT_TYPE, content_type.parse().unwrap());
    http.send(request).await
}

#[tokio::test]
async fn bodies_above_three_mebibytes() {
    let (_server, http) = start().await;
    let body = |size: usize| {
        let mut body = json!({"metadata": {"name": "big"}, "data": {"k": ""}}).to_string();
        let filler = "x".repeat(size - body.len());
        body.insert_str(body.len() - 3, &filler);
        body.into_bytes()
    };
    let limit = 3 * 1024 * 1024;
    let answer = raw(
        &http,
        Method::POST,
        MAPS,
        "application/json",
        body(limit + 1),
    )
    .await;
    assert_eq!(answer.refusal(), (413, "RequestEntityTooLarge"));
    let answer = raw(&http, Method::POST, MAPS, "application/json", body(limit)).await;
    assert_eq!(
        answer.refusal(),
        (422, "Invalid"),
        "read, and too much for a ConfigMap"
    );
    let answer = raw(
        &http,
        Method::PATCH,
        &one(MAPS, "big"),
        "application/merge-patch+json",
        body(limit + 1),
    )
    .await;
    assert_eq!(answer.refusal(), (413, "RequestEntityTooLarge"));
    assert_eq!(http.get(&one(MAPS, "big")).await.code, 404);
}

#[tokio::test]
async fn bodies_that_are_no_object() {
    let (_server, http) = start().await;
    let deep = |open: &str, close: &str| {
        format!(
            "{{\"metadata\":{{\"name\":\"x\"}},\"data\":{}1{}}}",
            open.repeat(10_000),
            close.repeat(10_000)
        )
    };
    let bomb = format!(
        "a: &a [x,x,x,x,x,x,x,x,x]\n{}",
        (0..9)
            .map(|n| format!(
                "{}: &{} [*{},*{},*{},*{},*{},*{},*{},*{}]\n",
                char::from(b'b' + n),
                char::from(b'b' + n),
                char::from(b'a' + n),
                char::from(b'a' + n),
                char::from(b'a' + n),
                char::from(b'a' + n),
                char::from(b'a' + n),
                char::from(b'a' + n),
                char::from(b'a' + n),
                char::from(b'a' + n)
            ))
            .collect::<String>()
    );
    for (content_type, body, code) in [
        ("application/json", String::new(), 400),
        ("application/json", "null".into(), 422),
        ("application/json", "[]".into(), 400),
        ("application/json", "7".into(), 400),
        ("application/json", "{".into(), 400),
        ("application/json", "{}{}".into(), 400),
        ("application/json", "{\"metadata\":[]}".into(), 400),
        (
            "application/json",
            "{\"metadata\":{\"name\":7}}".into(),
            400,
        ),
        (
            "application/json",
            "{\"metadata\":{\"name\":\"x\",\"labels\":{\"a\":1}}}".into(),
            400,
        ),
        (
            "application/json",
            "{\"metadata\":{\"name\":\"x\"},\"data\":{\"k\":1}}".into(),
            400,
        ),
        (
            "application/json",
            "{\"metadata\":{\"name\":\"x\"},\"data\":[]}".into(),
            400,
        ),
        ("application/json", deep("[", "]"), 400),
        ("application/json", deep("{\"a\":", "}"), 400),
        ("application/yaml", "a: [".into(), 400),
        ("application/yaml", deep("[", "]"), 400),
        ("application/yaml", bomb, 400),
        ("application/yaml", "--- {}\n--- {}\n".into(), 400),
        ("application/vnd.kubernetes.protobuf", "k8s\0".into(), 400),
        (
            "application/vnd.kubernetes.protobuf",
            "k8s\0\u{a}\u{7f}".into(),
            400,
        ),
        ("application/vnd.kubernetes.protobuf", "{}".into(), 400),
        ("application/cbor", "{}".into(), 415),
        ("text/html", "{}".into(), 415),
    ] {
        let answer = raw(
            &http,
            Method::POST,
            MAPS,
            content_type,
            body.clone().into_bytes(),
        )
        .await;
        assert_eq!(
            answer.code, code,
            "{content_type} {body:.60}: {}",
            answer.text
        );
        assert_eq!(
            (&answer.body["kind"], &answer.body["code"]),
            (&json!("Status"), &json!(code)),
            "{body:.60}"
        );
    }
    let answer = raw(
        &http,
        Method::POST,
        MAPS,
        "application/json",
        vec![0xff, 0xfe, b'{', b'}'],
    )
    .await;
    assert_eq!(answer.code, 400);
    assert!(
        !names(&http.get(MAPS).await.expect(200)).contains(&"x"),
        "nothing is half written"
    );
}

#[tokio::test]
async fn huge_numbers_of_keys_are_bounded() {
    let (_server, http) = start().await;
    let many = |n: usize| -> Value {
        (0..n)
            .map(|key| (format!("k{key}"), json!("a dozen byte")))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    // 100,000 values of a dozen bytes each are more than a ConfigMap holds.
    let answer = http
        .post(
            MAPS,
            &json!({"metadata": {"name": "x"}, "data": many(100_000)}),
        )
        .await;
    assert_eq!(answer.refusal(), (422, "Invalid"));
    let answer = http
        .post(
            MAPS,
            &json!({"metadata": {"name": "x", "annotations": many(60_000)}}),
        )
        .await;
    assert_eq!(answer.refusal(), (422, "Invalid"));
    let unknown = http
        .post(
            &format!("{MAPS}?fieldValidation=Warn"),
            &json!({"metadata": {"name": "x"}, "nonsense": many(10_000)}),
        )
        .await;
    assert_eq!(unknown.code, 201);
    let mut strange = serde_json::Map::new();
    for n in 0..2_000 {
        strange.insert(format!("unknown{n}"), json!(n));
    }
    strange.insert("metadata".into(), json!({"name": "y"}));
    let warned = http
        .post(
            &format!("{MAPS}?fieldValidation=Warn"),
            &strange.clone().into(),
        )
        .await;
    assert_eq!(warned.code, 201);
    let total: usize = warned
        .headers
        .get_all("warning")
        .iter()
        .map(http::HeaderValue::len)
        .sum();
    assert!(total < 16 * 1024, "{total} bytes of warnings");
    let strict = http
        .post(&format!("{MAPS}?fieldValidation=Strict"), &strange.into())
        .await;
    assert_eq!(strict.refusal(), (400, "BadRequest"));
}

/// Bodies that any authenticated user may send, of the maximum size and with as many findings as possible. Each of
/// these took minutes when findings copied their path and were looked up in a list.
#[tokio::test]
async fn findings_of_large_bodies_are_counted_and_few_are_kept() {
    let (_server, http) = start().await;
    let members = |n: usize, member: &dyn Fn(usize) -> String| -> String {
        let all: Vec<String> = (0..n).map(member).collect();
        all.join(",")
    };
    let twice = |n: usize| format!("\"k{n}\":1,\"k{n}\":1");
    let long_name = "x".repeat(800_000);
    let bodies = [
        format!(
            "{{\"metadata\":{{\"name\":\"f\"}},{}}}",
            members(120_000, &twice)
        ),
        format!(
            "{{\"metadata\":{{\"name\":\"f\"}},\"{long_name}\":{{{}}}}}",
            members(80_000, &twice)
        ),
        format!(
            "{{\"metadata\":{{\"name\":\"f\",\"{long_name}\":1,{}}}}}",
            members(120_000, &|n| format!("\"unknown{n}\":1"))
        ),
    ];
    for body in bodies {
        let send = |path: String, body: String| {
            let http = http.clone();
            async move { raw(&http, Method::POST, &path, "application/json", body.into()).await }
        };
        let strict = send(format!("{MAPS}?fieldValidation=Strict"), body.clone()).await;
        assert_eq!(strict.refusal(), (400, "BadRequest"));
        let message = strict.message();
        assert!(
            message.contains("strict decoding error: "),
            "{message:.300}"
        );
        assert!(message.ends_with(" more"), "{message:.300}");
        assert!(message.len() < 1 << 20);
        let warned = send(
            format!("{MAPS}?fieldValidation=Warn&dryRun=All"),
            body.clone(),
        )
        .await;
        assert_eq!(warned.code, 201);
        let warnings: Vec<_> = warned.headers.get_all("warning").iter().collect();
        assert!(warnings.len() <= 65, "{}", warnings.len());
        let last = warnings.last().unwrap().to_str().unwrap();
        assert!(last.ends_with(" more warnings\""), "{last}");
        let review = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let reviewed = send(review.to_owned(), body).await;
        assert!(
            matches!(reviewed.code, 201 | 400 | 422),
            "{}",
            reviewed.code
        );
    }
}

/// The list of errors is short, no matter how much is wrong.
#[tokio::test]
async fn errors_about_large_objects_are_counted_and_few_are_kept() {
    let (_server, http) = start().await;
    let finalizers: Vec<String> = (0..100_000).map(|n| format!("-{n}")).collect();
    let refused = http
        .post(
            MAPS,
            &json!({"metadata": {"name": "x", "finalizers": finalizers}}),
        )
        .await;
    assert_eq!(refused.refusal(), (422, "Invalid"));
    let causes = refused.body["details"]["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 100);
    assert!(
        refused.message().ends_with(" more errors"),
        "{:.300}",
        refused.message()
    );
    let owner = |n: usize| json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": n.to_string(), "controller": true});
    let owners: Vec<Value> = (0..20_000).map(owner).collect();
    let refused = http
        .post(
            MAPS,
            &json!({"metadata": {"name": "x", "ownerReferences": owners}}),
        )
        .await;
    assert_eq!(refused.refusal(), (422, "Invalid"));
    assert!(refused.body["details"]["causes"].as_array().unwrap().len() <= 3);
}

#[tokio::test]
async fn patches_that_cannot_be() {
    let (_server, http) = start().await;
    create(
        &http,
        MAPS,
        &json!({"metadata": {"name": "m"}, "data": {"k": "v"}}),
    )
    .await;
    let before = http.get(&one(MAPS, "m")).await.expect(200);
    let operation = json!({"op": "add", "path": "/data/k", "value": "v"});
    // Each copy doubles the document.
    let doubling: Vec<Value> = (0..40).flat_map(|_| [json!({"op": "copy", "from": "/metadata/annotations", "path": "/metadata/annotations/x"}), json!({"op": "copy", "from": "/data", "path": "/data/x"})]).collect();
    for (kind, body, code) in [
        (
            "json-patch+json",
            json!(vec![operation.clone(); 10_001]),
            413,
        ),
        ("json-patch+json", json!(doubling), 422),
        (
            "json-patch+json",
            json!([{"op": "test", "path": "/data/k", "value": "w"}]),
            422,
        ),
        (
            "json-patch+json",
            json!([{"op": "remove", "path": "/data/none"}]),
            422,
        ),
        (
            "json-patch+json",
            json!([{"op": "replace", "path": "", "value": 1}]),
            422,
        ),
        (
            "json-patch+json",
            json!([{"op": "launch", "path": "/data"}]),
            422,
        ),
        ("json-patch+json", json!({"op": "add"}), 400),
        (
            "json-patch+json",
            json!([{"op": "replace", "path": "/metadata/name", "value": "n"}]),
            400,
        ),
        ("merge-patch+json", json!([]), 400),
        ("merge-patch+json", json!(null), 400),
        ("merge-patch+json", json!({"metadata": null}), 400),
        (
            "merge-patch+json",
            json!({"metadata": {"name": "other"}}),
            400,
        ),
        (
            "merge-patch+json",
            json!({"metadata": {"namespace": "other"}}),
            400,
        ),
        ("merge-patch+json", json!({"kind": "Secret"}), 422),
        ("merge-patch+json", json!({"data": "text"}), 422),
        (
            "strategic-merge-patch+json",
            json!({"data": {"$patch": "nonsense"}}),
            500,
        ),
        (
            "strategic-merge-patch+json",
            json!({"metadata": {"ownerReferences": [{"name": "no key"}]}}),
            422,
        ),
        (
            "apply-patch+yaml",
            json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m"}}),
            422,
        ),
    ] {
        let answer = http
            .send(with_body(
                Method::PATCH,
                &one(MAPS, "m"),
                &format!("application/{kind}"),
                &body,
            ))
            .await;
        let shown = body.to_string();
        assert_eq!(answer.code, code, "{kind} {shown:.80}: {}", answer.text);
    }
    let answer = raw(
        &http,
        Method::PATCH,
        &one(MAPS, "m"),
        "application/json-patch+json",
        b"[{".to_vec(),
    )
    .await;
    assert_eq!(answer.refusal(), (400, "BadRequest"));
    let answer = raw(
        &http,
        Method::PATCH,
        &one(MAPS, "m"),
        "application/json",
        b"{}".to_vec(),
    )
    .await;
    assert_eq!(answer.refusal(), (415, "UnsupportedMediaType"));
    let after = http.get(&one(MAPS, "m")).await.expect(200);
    assert_eq!(after, before, "nothing was half written");
}

#[tokio::test]
async fn paths_methods_and_parameters() {
    let (_server, http) = start().await;
    for path in [
        "/",
        "/nowhere",
        "/api/v2",
        "/api/v1/nothings",
        "/apis/nowhere.example/v1",
        "/api/v1/namespaces/default/nothings/x",
        "/api/v1/watch/configmaps",
        "/api/v1/namespaces/default/configmaps/a/b/c",
        "/api/v1/namespaces/default/configmaps/a/nosub",
    ] {
        let answer = http.get(path).await;
        assert!(
            answer.code == 404 || (path == "/" && answer.code == 200),
            "{path}: {} {}",
            answer.code,
            answer.text
        );
    }
    for (method, path) in [
        (Method::PUT, MAPS.to_owned()),
        (Method::POST, one(MAPS, "a")),
        (Method::PATCH, MAPS.to_owned()),
        (Method::DELETE, NAMESPACES.to_owned()),
    ] {
        let answer = http
            .send(with_body(
                method.clone(),
                &path,
                "application/json",
                &json!({}),
            ))
            .await;
        assert_eq!(
            answer.refusal(),
            (405, "MethodNotAllowed"),
            "{method} {path}"
        );
    }
    for query in [
        "limit=abc",
        "limit=1&limit=x",
        "timeoutSeconds=x&watch=1",
        "resourceVersion=-1",
        "dryRun=All&limit=99999999999999999999999",
    ] {
        let answer = http.get(&format!("{MAPS}?{query}")).await;
        assert!(
            [200, 400].contains(&answer.code),
            "{query}: {}",
            answer.text
        );
    }
    http.get(&format!("{MAPS}?nonsense=1&%ff=%fe&=&&"))
        .await
        .expect(200);
    for name in [
        "..",
        ".",
        "a%2Fb",
        "%00",
        "%ff%fe",
        "a%0Ab",
        &"x".repeat(5_000),
    ] {
        let answer = http.get(&format!("{MAPS}/{name}")).await;
        assert!(
            [400, 404].contains(&answer.code),
            "{name}: {} {}",
            answer.code,
            answer.text
        );
    }
    for name in [
        "..",
        "a/b",
        "a%b",
        "A",
        "",
        "a..b",
        "a\nb",
        &"x".repeat(254),
    ] {
        let answer = http.post(MAPS, &named(name)).await;
        assert_eq!(
            answer.refusal(),
            (422, "Invalid"),
            "{name}: {}",
            answer.text
        );
    }
    for options in [
        json!({"dryRun": ["Some"]}),
        json!({"propagationPolicy": "Sideways"}),
        json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
    ] {
        assert_eq!(
            http.delete_with(&one(MAPS, "none"), &options).await.code,
            422,
            "{options}"
        );
    }
    for query in ["dryRun=Some", "fieldValidation=Perhaps", "fieldManager=%01"] {
        assert_eq!(
            http.post(&format!("{MAPS}?{query}"), &named("q"))
                .await
                .refusal(),
            (422, "Invalid"),
            "{query}"
        );
    }
    for accept in [
        "text/html",
        "application/cbor",
        "application/vnd.kubernetes.protobuf",
        "application/json;as=Picture;v=v1;g=meta.k8s.io",
    ] {
        assert_eq!(http.get_as(MAPS, accept).await.code, 406, "{accept}");
    }
    let many = vec!["x/y;q=0.1"; 2_000].join(",");
    assert_eq!(http.get_as(MAPS, &many).await.code, 406);
}

/// A raw connection, to send bytes that no client would send.
async fn connect(server: &TestServer) -> tokio_rustls::client::TlsStream<tokio::net::TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in
        rustls_pki_types::CertificateDer::pem_slice_iter(server.authority_pem().as_bytes())
    {
        roots.add(certificate.unwrap()).unwrap();
    }
    let config = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let tcp = tokio::net::TcpStream::connect(server.address())
        .await
        .unwrap();
    connector
        .connect("localhost".try_into().unwrap(), tcp)
        .await
        .unwrap()
}

/// A client that sends its body very slowly does not delay other clients.
#[tokio::test]
async fn a_slow_client_does_not_delay_others() {
    let (server, http) = start().await;
    let mut slow = connect(&server).await;
    let body = json!({"metadata": {"name": "slow"}}).to_string();
    let token = server.hub().identity().admin_token().expose().to_owned();
    let head = format!(
        "POST {SECRETS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    slow.write_all(head.as_bytes()).await.unwrap();
    for byte in body.as_bytes() {
        slow.write_all(&[*byte]).await.unwrap();
        slow.flush().await.unwrap();
        tokio::time::timeout(Duration::from_secs(5), http.get(SECRETS))
            .await
            .unwrap()
            .expect(200);
    }
    create(&http, SECRETS, &named("quick")).await;
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 Created\r\n"), "{answer}");
}

/// A client that breaks off within its body leaves nothing behind.
#[tokio::test]
async fn a_body_that_breaks_off_is_not_stored() {
    let (server, http) = start().await;
    let token = server.hub().identity().admin_token().expose().to_owned();
    for body in ["", "{\"metadata\":{\"name\":\"half\"}}"] {
        let mut broken = connect(&server).await;
        let head = format!(
            "POST {SECRETS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: 1000\r\n\r\n{body}"
        );
        broken.write_all(head.as_bytes()).await.unwrap();
        broken.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _ = broken.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
            "{answer}"
        );
    }
    for garbage in [
        "\0\u{1}\u{2}\r\n\r\n".to_owned(),
        "GET\r\n\r\n".to_owned(),
        format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(200_000)),
    ] {
        let mut stranger = connect(&server).await;
        let _ = stranger.write_all(garbage.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(Duration::from_secs(20), stranger.read_to_end(&mut answer))
            .await
            .expect("it is answered or cut off");
        let answer = String::from_utf8_lossy(&answer);
        assert!(
            answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
            "{answer}"
        );
    }
    assert_eq!(names(&http.get(SECRETS).await.expect(200)), [] as [&str; 0]);
}
