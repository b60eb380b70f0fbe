//! What every request brings along: ids and metrics.

use http::Method;

use crate::support::{Running, Server, answering, request, review};

fn server() -> Running {
    let file = "p: {module: content}\nq: {module: opposed, policyMode: monitor}\nbroken: {module: elsewhere}";
    Server::new(
        file,
        &[
            ("content", &answering(r#"{"accepted":true}"#)),
            ("opposed", &answering(r#"{"accepted":false,"code":403}"#)),
        ],
    )
    .start()
}

#[tokio::test]
async fn requests_have_an_id() {
    let server = server();
    let id = async |given: Option<&str>| {
        let mut request = request(Method::POST, "/validate/p", review(""));
        if let Some(given) = given {
            let value = given.parse().unwrap();
            request.headers_mut().insert("x-request-id", value);
        }
        let answer = server.send(request).await;
        answer.headers["x-request-id"].to_str().unwrap().to_owned()
    };
    assert_eq!(id(Some("abc-1")).await, "abc-1");
    let (one, other) = (id(None).await, id(None).await);
    assert!(one != other && !one.is_empty(), "{one} {other}");
    assert_ne!(id(Some("with space")).await, "with space");
    let long = "x".repeat(129);
    assert_ne!(id(Some(&long)).await, long);
}

#[tokio::test]
async fn requests_are_counted_under_the_names_that_dashboards_use() {
    let server = server();
    for path in ["/validate/p", "/validate/q", "/audit/q"] {
        server.judge(path).await;
    }
    server.judge("/validate_raw/q").await;
    let text = server.metrics.render().unwrap();
    for line in [
        r#"kubewarden_policy_evaluations_total{accepted="true",mutated="false",policy_mode="protect",policy_name="p",request_origin="validate",resource_kind="Pod",resource_namespace="default",resource_request_operation="CREATE"} 1"#,
        r#"kubewarden_policy_evaluations_total{accepted="false",error_code="403",mutated="false",policy_mode="monitor",policy_name="q",request_origin="validate",resource_kind="Pod",resource_namespace="default",resource_request_operation="CREATE"} 1"#,
        r#"kubewarden_policy_evaluations_total{accepted="false",error_code="403",mutated="false",policy_mode="monitor",policy_name="q",request_origin="audit",resource_kind="Pod",resource_namespace="default",resource_request_operation="CREATE"} 1"#,
        r#"kubewarden_policy_evaluations_total{accepted="false",error_code="403",mutated="false",policy_mode="monitor",policy_name="q"} 1"#,
        r#"kubewarden_policy_evaluation_latency_milliseconds_count{accepted="true",mutated="false",policy_mode="protect",policy_name="p",request_origin="validate",resource_kind="Pod",resource_namespace="default",resource_request_operation="CREATE"} 1"#,
        "polity_evaluation_queue_seconds_count 4",
    ] {
        assert!(
            text.lines().any(|found| found == line),
            "{line}\nis not in\n{text}"
        );
    }
}
