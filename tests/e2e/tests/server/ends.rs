//! Start and shutdown of a policy server: invalid configuration, requests in flight, and reuse of compiled modules.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use e2e::polity;
use rustix::process::{Pid, Signal};

use crate::client::{Client, pod};
use crate::server::{Home, answering, wapc};

/// A folder with a slow policy and a fast one.
fn home() -> Home {
    let home = Home::new("");
    let yes = home.write_guest("yes.wasm", &answering(r#"{"accepted":true}"#));
    let slow = home.write_guest("slow.wasm", &wapc("(func $validate (loop $l (br $l)))"));
    home.write_policies(&format!(
        "p: {{module: '{yes}'}}\nslow: {{module: '{slow}', timeoutEvalSeconds: 2}}"
    ));
    home
}

fn output(command: &mut Command) -> (i32, String) {
    let Output { status, stderr, .. } = command.output().unwrap();
    let printed = String::from_utf8_lossy(&stderr).into_owned();
    (status.code().unwrap_or(-1), printed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_finishes_what_is_in_flight() {
    let server = home().start(&[]);
    let client = server.client();
    client.response("p", &pod("nginx:1", false)).await;
    let in_flight = tokio::spawn({
        let client = client.clone();
        async move { client.response("slow", &pod("nginx:1", false)).await }
    });
    // The metrics show when the server has received the slow request. The log has no line about it until it is
    // complete.
    let metrics = format!("http://{}/metrics", server.readiness);
    loop {
        let text = reqwest::get(&metrics).await.unwrap().text().await.unwrap();
        if text.contains("polity_evaluation_queue_seconds_count 2") {
            break;
        }
    }
    server.process.signal(Signal::TERM);
    let answer = in_flight.await.unwrap();
    assert_eq!(answer["status"]["code"], 500, "{answer}");
    let exit = server.process.wait();
    assert_eq!(exit.status.code(), Some(0), "{}", exit.stderr);
}

#[tokio::test]
async fn after_kill_it_starts_again_from_compiled_code() {
    let server = home().start(&["--log-level", "debug"]);
    let (process, home) = (server.process, server.home);
    process.kill();
    let compiled = files_below(&home.path("store/.polity/compiled"));
    assert_eq!(compiled.len(), 2, "{compiled:?}");
    let written = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let before: Vec<_> = compiled.iter().map(|path| written(path)).collect();
    // A truncated file, as a machine crash may leave it, is compiled again. All others are reused.
    let half = fs::read(&compiled[0]).unwrap();
    fs::write(&compiled[0], &half[..half.len() / 2]).unwrap();
    let server = home.start(&[]);
    let response = server.client().response("p", &pod("nginx:1", false)).await;
    assert_eq!(response["allowed"], true);
    let after: Vec<_> = compiled.iter().map(|path| written(path)).collect();
    assert_eq!(before[1], after[1], "what was good was compiled again");
    assert_eq!(fs::read(&compiled[0]).unwrap().len(), half.len());
}

fn files_below(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files.extend(files_below(&path)),
            false => files.push(path),
        }
    }
    files.sort();
    files
}

#[test]
fn policies_that_require_verification_are_not_served_unverified() {
    let home = home();
    for arguments in [
        &["--verification-path", "/v.yml"][..],
        &["--sigstore-trust-config", "/t.json"],
        &["--enable-pprof"],
    ] {
        let (code, printed) = output(&mut home.command(arguments));
        assert_eq!(code, 64, "{printed}");
        assert!(
            printed.contains(&format!("error: {}: ", arguments[0])) && printed.contains("hint: "),
            "{printed}"
        );
    }
    let mut command = home.command(&[]);
    command.env("KUBEWARDEN_VERIFICATION_CONFIG_PATH", "/v.yml");
    assert_eq!(output(&mut command).0, 64);
}

#[test]
fn a_policy_that_is_not_ready_ends_the_start() {
    let home = home();
    home.write_policies("p: {module: 'file:///no/such.wasm'}");
    let (code, printed) = output(&mut home.command(&[]));
    assert_eq!(code, 2, "{printed}");
    assert!(
        printed.contains("Error while downloading policy 'p' from file:///no/such.wasm"),
        "{printed}"
    );
}

/// The binary called as `policy-server`, with the environment variables of existing containers.
#[tokio::test]
async fn todays_command_line_works_under_todays_name() {
    let home = home();
    let link = home.path("policy-server");
    std::os::unix::fs::symlink(polity::binary(), &link).unwrap();
    let mut command = Command::new(link);
    command
        .env_clear()
        .env("HOME", home.path(""))
        .env("KUBEWARDEN_PORT", "0")
        .env("KUBEWARDEN_BIND_ADDRESS", "127.0.0.1")
        .env("KUBEWARDEN_READINESS_PROBE_PORT", "0")
        .env("KUBEWARDEN_POLICIES", home.path("policies.yml"))
        .env("KUBEWARDEN_POLICIES_DOWNLOAD_DIR", home.path("store"))
        .env("KUBEWARDEN_SIGSTORE_CACHE_DIR", home.path("sigstore"))
        .env("KUBEWARDEN_CERT_FILE", home.path("tls.crt"))
        .env("KUBEWARDEN_KEY_FILE", home.path("tls.key"))
        .env("KUBEWARDEN_ENABLE_METRICS", "true")
        .env("KUBEWARDEN_IGNORE_KUBERNETES_CONNECTION_FAILURE", "true")
        .env("KUBEWARDEN_LOG_LEVEL", "info")
        .env("KUBEWARDEN_LOG_FMT", "json")
        .args(["--workers", "2"]);
    let (process, address) = polity::Polity::start_until(&mut command, |line| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        line["fields"]["address"].as_str()?.parse().ok()
    })
    .unwrap();
    let client = Client::new(address, &home.authority);
    let response = client.response("p", &pod("nginx:1", false)).await;
    assert_eq!(response["allowed"], true);
    drop(process);
}

#[tokio::test]
async fn a_daemon_is_left_running_with_its_pid_in_a_file() {
    let home = home();
    let (pid, log) = (home.path("server.pid"), home.path("server.log"));
    let mut command = home.command(&["--daemon"]);
    command.arg("--daemon-pid-file").arg(&pid);
    command.arg("--daemon-stderr-file").arg(&log);
    let readiness = polity::free_port();
    command.args(["--readiness-probe-port", &readiness.to_string()]);
    let (code, printed) = output(&mut command);
    assert_eq!(code, 0, "{printed}");
    let number: i32 = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    let process = Pid::from_raw(number).unwrap();
    let _cleanup = e2e::cleanup::CleanupGuard::process(number as u32).unwrap();
    let url = format!("http://127.0.0.1:{readiness}/readiness");
    assert_eq!(reqwest::get(&url).await.unwrap().status(), 200);
    rustix::process::kill_process(process, Signal::TERM).unwrap();
    e2e::eventually("the daemon has stopped", || {
        fs::read_to_string(&log)
            .unwrap()
            .contains("\"stopped\"")
            .then_some(())
    });
}
