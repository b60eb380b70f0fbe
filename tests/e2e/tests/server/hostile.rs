//! Malicious guests: each gets an error that names the cause, and other policies are not affected.

use std::time::Duration;

use crate::client::pod;
use crate::server::{Home, answering, wapc};

/// The name, the code of the guest, and a part of the error message.
const HOSTILE: &[(&str, &str, &str)] = &[
    (
        "endless",
        "(func $validate (loop $l (br $l)))",
        "Policy execution interrupted because it exceeded the allowed execution time",
    ),
    (
        "greedy",
        "(func $validate (loop $l (br_if $l (i32.ne (memory.grow (i32.const 64)) (i32.const -1)))) unreachable)",
        "internal server error: guest ran out of memory",
    ),
    (
        "deep",
        "(func $validate (call $validate) (call $validate))",
        "internal server error: guest exhausted its call stack",
    ),
    (
        "garbage",
        "(func $validate (call $response (i32.const 70000) (i32.const 100)))",
        "internal server error: Cannot deserialize policy validation response",
    ),
    ("silent", "(func $validate)", "internal server error: "),
    (
        "outside",
        "(func $validate (call $response (i32.const 131000) (i32.const 1000000)))",
        "internal server error: guest passed an address outside its memory",
    ),
    (
        "trapping",
        "(func $validate unreachable)",
        "internal server error: guest trapped",
    ),
    (
        "talkative",
        r#"(data (i32.const 0) "kubewardentracinglog{\"level\":\"info\",\"message\":\"hello\"}")
        (func $validate (loop $l
          (drop (call $host_call (i32.const 0) (i32.const 10) (i32.const 10) (i32.const 7) (i32.const 17) (i32.const 3)
            (i32.const 20) (i32.const 34)))
          (br $l)))"#,
        "internal server error: guest made more than",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_guests_hurt_nobody_else() {
    let home = Home::new("");
    let good = home.write_guest("good.wasm", &answering(r#"{"accepted":true}"#));
    let mut policies = format!("good: {{module: '{good}'}}\n");
    for (name, functions, _) in HOSTILE {
        let module = home.write_guest(&format!("{name}.wasm"), &wapc(functions));
        policies.push_str(&format!(
            "{name}: {{module: '{module}', timeoutEvalSeconds: 1}}\n"
        ));
    }
    home.write_policies(&policies);
    let server = home.start(&["--workers", "2", "--max-host-calls", "100"]);
    let client = server.client();
    let pod = pod("nginx:1", false);

    // Each guest alone, to check its message.
    for (name, _, expected) in HOSTILE {
        let response = client.response(name, &pod).await;
        let message = response["status"]["message"].as_str().unwrap_or_default();
        assert!(message.starts_with(expected), "{name}: {response}");
        assert_eq!(response["status"]["code"], 500, "{name}: {response}");
    }

    // All guests together, repeatedly, while a good policy serves requests.
    let hostile: Vec<_> = (0..3)
        .flat_map(|_| HOSTILE)
        .map(|(name, ..)| {
            let (client, pod) = (client.clone(), pod.clone());
            tokio::spawn(async move { client.response(name, &pod).await })
        })
        .collect();
    let asked = tokio::time::timeout(Duration::from_secs(20), async {
        for _ in 0..200 {
            assert_eq!(client.response("good", &pod).await["allowed"], true);
        }
    });
    asked.await.expect("a good policy is served all the time");
    for response in hostile {
        assert_eq!(response.await.unwrap()["allowed"], false);
    }
    let exit = server.process.interrupt();
    assert!(exit.status.success());
}
