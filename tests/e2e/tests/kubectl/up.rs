//! `polity up` and the commands around it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use e2e::polity::{self, folder};
use e2e::{Kubectl, Polity};
use peers::Tool;
use polity_runtime::procfs::{self, Stat};
use serde_json::Value;

/// Runs a subcommand on the instance in a folder. Returns the exit code, standard output and standard error.
fn run(folder: &Path, line: &str) -> (Option<i32>, String, String) {
    let data_dir = folder.join("data");
    let arguments = line
        .split(' ')
        .chain(["--data-dir", data_dir.to_str().unwrap()]);
    let Output {
        status,
        stdout,
        stderr,
    } = polity::run(folder, arguments);
    (
        status.code(),
        String::from_utf8_lossy(&stdout).into_owned(),
        String::from_utf8_lossy(&stderr).into_owned(),
    )
}

/// Stops a detached instance when the test ends for any reason.
struct Detached<'a>(&'a Path);

impl Drop for Detached<'_> {
    fn drop(&mut self) {
        run(self.0, "down");
    }
}

#[test]
fn up_status_doctor_down_reset() {
    let folder = folder();
    let home = folder.path();
    let (code, printed, _) = run(home, "status");
    assert_eq!(code, Some(1));
    assert!(
        printed.contains("not running") && printed.contains("polity up"),
        "{printed}"
    );

    let _ended = Detached(home);
    let (code, _, printed) = run(home, "up -d");
    assert_eq!(code, Some(0), "{printed}");
    let export = printed
        .lines()
        .find_map(|line| line.trim().strip_prefix("export KUBECONFIG="))
        .unwrap();
    assert_eq!(Path::new(export), home.join("data/kubeconfig"));
    let (code, printed, _) = run(home, "status");
    assert_eq!(code, Some(0), "{printed}");
    assert!(
        printed.contains("hub") && printed.contains("ready"),
        "{printed}"
    );
    let (code, printed, _) = run(home, "status -o json");
    let status: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((code, &status["running"]), (Some(0), &Value::Bool(true)));
    let (code, printed, _) = run(home, "doctor");
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("answers as v1.37"), "{printed}");
    let (code, _, printed) = run(home, "up -d");
    assert_eq!(code, Some(2), "{printed}");
    assert!(
        printed.contains("already runs") && printed.contains("hint: "),
        "{printed}"
    );
    let (code, _, printed) = run(home, "reset --yes");
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains("polity down"), "{printed}");

    if let Some(program) = Tool::Kubectl.or_skip() {
        let k = Kubectl::new(&program, Path::new(export));
        assert!(
            k.ok("api-resources --api-group=policies.kubewarden.io -o name")
                .contains("clusteradmissionpolicies.policies.kubewarden.io")
        );
        k.ok("get clusteradmissionpolicies");
        k.ok("create configmap kept");
    }
    let (code, _, printed) = run(home, "down");
    assert_eq!(
        (code, printed.contains("stopped")),
        (Some(0), true),
        "{printed}"
    );
    let (code, _, printed) = run(home, "down");
    assert_eq!(
        (code, printed.contains("is not running")),
        (Some(0), true),
        "{printed}"
    );
    let (code, printed, _) = run(home, "doctor");
    assert_eq!(code, Some(0), "{printed}");
    assert!(
        printed.contains("not running") && printed.contains("polity up"),
        "{printed}"
    );

    let (code, _, printed) = run(home, "up --detach");
    assert_eq!(code, Some(0), "{printed}");
    if let Some(program) = Tool::Kubectl.or_skip() {
        Kubectl::new(&program, Path::new(export)).ok("get configmap kept");
    }
    run(home, "down");
    let (code, _, printed) = run(home, "reset");
    assert_eq!(code, Some(2), "no terminal to ask on: {printed}");
    assert!(home.join("data").exists());
    let (code, _, printed) = run(home, "reset --yes");
    assert_eq!(code, Some(0), "{printed}");
    assert!(!home.join("data").exists());
}

/// A hub and three clusters on one listener, each with its own context. The credentials of one are not valid for
/// another.
#[test]
fn clusters_share_a_listener_and_nothing_else() {
    let Some(program) = Tool::Kubectl.or_skip() else {
        return;
    };
    let folder = folder();
    let data_dir = folder.path().to_str().unwrap();
    let arguments = [
        "up",
        "--clusters",
        "3",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        data_dir,
    ];
    let server = Polity::start(polity::command(folder.path()).args(arguments)).unwrap();
    let k = Kubectl::new(&program, server.kubeconfig());
    let contexts = k.ok("config get-contexts -o name");
    let contexts: Vec<&str> = contexts.lines().collect();
    assert_eq!(contexts.len(), 4, "{contexts:?}");
    for (n, context) in contexts.iter().enumerate() {
        let here = k.with(&format!("--context {context}"));
        here.ok(&format!("create configmap from-{n}"));
        assert_eq!(
            here.ok("get cm -o name --field-selector=metadata.name!=kube-root-ca.crt"),
            format!("configmap/from-{n}")
        );
        here.ok("get clusteradmissionpolicies");
    }
    let config: Value = serde_json::from_str(&k.ok("config view --raw -o json")).unwrap();
    let strangers = folder.path().join("strangers");
    for context in config["contexts"].as_array().unwrap() {
        for other in config["contexts"].as_array().unwrap() {
            let mut mixed = config.clone();
            mixed["contexts"] = serde_json::json!([{"name": "mixed", "context": {"cluster": context["context"]["cluster"], "user": other["context"]["user"]}}]);
            mixed["current-context"] = "mixed".into();
            fs::write(&strangers, mixed.to_string()).unwrap();
            let outcome = k
                .with(&format!("--kubeconfig {}", strangers.display()))
                .run("get namespaces", "");
            let own = context == other;
            assert_eq!(
                outcome.code,
                Some(i32::from(!own)),
                "{} as {}: {outcome:?}",
                context["name"],
                other["name"]
            );
            assert_eq!(
                outcome.stderr.contains("Unauthorized") || outcome.stderr.contains("logged in"),
                !own,
                "{outcome:?}"
            );
        }
    }
    let exit = server.interrupt();
    assert!(exit.status.success(), "{exit:?}");
    let server = Polity::start(polity::command(folder.path()).args(arguments)).unwrap();
    let last =
        Kubectl::new(&program, server.kubeconfig()).with(&format!("--context {}", contexts[3]));
    last.ok("get configmap from-3");
}

/// `polity up` chooses the first free port and keeps it across a restart, so that the kubeconfig stays valid.
#[test]
fn up_takes_the_next_free_port_and_keeps_it() {
    let folder = folder();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let start = |data_dir: &Path| {
        Polity::start(polity::command(folder.path()).args([
            "up",
            "--data-dir",
            data_dir.to_str().unwrap(),
        ]))
        .unwrap()
    };
    let port = |server: &Polity| {
        let text = fs::read_to_string(server.kubeconfig()).unwrap();
        let digits = text.split("https://127.0.0.1:").nth(1).unwrap();
        digits
            .split(|c: char| !c.is_ascii_digit())
            .next()
            .unwrap()
            .parse::<u16>()
            .unwrap()
    };
    let (one, two) = (start(&first), start(&second));
    assert_ne!(port(&one), port(&two));
    assert!((6443..6543).contains(&port(&one)) && (6443..6543).contains(&port(&two)));
    let kept = port(&two);
    one.interrupt();
    two.interrupt();
    let two = start(&second);
    assert_eq!(port(&two), kept);
    let printed = two.interrupt().stderr;
    assert!(printed.contains("kubectl get namespaces"), "{printed}");
}

#[test]
fn a_crash_is_distinguished_from_a_stop() {
    let folder = folder();
    let data_dir = folder.path().join("data");
    let arguments = [
        "up",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        data_dir.to_str().unwrap(),
    ];
    Polity::start(polity::command(folder.path()).args(arguments))
        .unwrap()
        .kill();
    let (code, printed, _) = run(folder.path(), "status");
    assert_eq!(code, Some(1));
    assert!(printed.contains("stopped unexpectedly"), "{printed}");
    let (code, printed, _) = run(folder.path(), "doctor");
    assert_eq!(code, Some(1));
    assert!(
        printed.contains("the last run ended unexpectedly"),
        "{printed}"
    );
    Polity::start(polity::command(folder.path()).args(arguments))
        .unwrap()
        .interrupt();
    let (_, printed, _) = run(folder.path(), "status");
    assert!(printed.contains("polity is not running"), "{printed}");
}

#[test]
fn helps_and_completes() {
    let folder = folder();
    let out = |arguments: &[&str]| {
        let output = polity::run(folder.path(), arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let help = out(&["--help"]);
    for command in [
        "up",
        "down",
        "status",
        "reset",
        "doctor",
        "apiserver",
        "version",
        "completion",
    ] {
        assert!(
            help.contains(&format!("\n  {command} ")),
            "{command} in {help}"
        );
        let of_command = out(&[command, "--help"]);
        assert!(
            of_command.contains("Examples:\n  ")
                && of_command.contains(&format!("polity {command}")),
            "{of_command}"
        );
    }
    for (shell, sign) in [
        ("bash", "complete -F _polity"),
        ("zsh", "#compdef polity"),
        ("fish", "complete -c polity"),
    ] {
        let script = out(&["completion", shell]);
        assert!(
            script.contains(sign) && script.contains("apiserver"),
            "{shell}: {script}"
        );
    }
    let version: Value = serde_json::from_str(&out(&["version", "-o", "json"])).unwrap();
    let text = out(&["version"]);
    assert!(
        version
            .as_object()
            .unwrap()
            .values()
            .filter_map(Value::as_str)
            .all(|value| text.contains(value)),
        "{version} {text}"
    );
    assert!(version.to_string().contains("v1.37"), "{version}");
}

#[test]
fn a_closed_output_pipe_is_not_an_error() {
    for arguments in [&["completion", "bash"][..], &["markdown-help"]] {
        let mut child = Command::new(polity::binary())
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The reader closes the pipe, whether the process has begun to write or not.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let printed = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*printed), (Some(141), ""));
    }
}

/// The policy server processes of an instance.
fn replicas(instance: i64) -> Vec<rustix::process::Pid> {
    let is_child = |id: &i32| Stat::read(id).is_some_and(|stat| i64::from(stat.parent) == instance);
    let is_server = |id: &i32| {
        let arguments = procfs::arguments(id).unwrap_or_default();
        arguments.iter().any(|argument| argument == "server")
    };
    let ids = procfs::ids().into_iter().filter(is_child).filter(is_server);
    ids.filter_map(rustix::process::Pid::from_raw).collect()
}

/// A process that is suspended keeps its ports open and does not respond.
#[cfg(target_os = "linux")]
#[test]
fn a_frozen_replica_is_reported() {
    use rustix::process::{Signal, kill_process};

    let folder = folder();
    let home = folder.path();
    let _ended = Detached(home);
    let (code, _, printed) = run(home, "up -d");
    assert_eq!(code, Some(0), "{printed}");
    let status = || -> Value {
        let (_, printed, _) = run(home, "status -o json");
        serde_json::from_str(&printed).unwrap_or_default()
    };
    let instance = e2e::eventually("the replica answers", || {
        let status = status();
        let answering = status["policyServers"][0]["answering"].as_i64();
        status["pid"].as_i64().filter(|_| answering == Some(1))
    });
    let (code, printed, _) = run(home, "doctor");
    assert_eq!(code, Some(0), "{printed}");

    let replicas = replicas(instance);
    assert!(!replicas.is_empty(), "the replica is a child of {instance}");
    for replica in &replicas {
        kill_process(*replica, Signal::STOP).unwrap();
    }
    for command in ["doctor", "status"] {
        let (code, printed, _) = run(home, command);
        assert_eq!(code, Some(1), "{command}: {printed}");
        assert!(
            printed.contains("replica policy-server-default-0 does not answer"),
            "{command}: {printed}"
        );
    }
    for replica in &replicas {
        kill_process(*replica, Signal::CONT).ok();
    }
}

#[test]
fn commands_find_the_running_instance_and_name_a_server_that_is_gone() {
    let folder = folder();
    let home = folder.path();
    let printed = |output: Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let data = home.join(".local/share/polity");
    let output = polity::run(home, ["policy", "status", "none"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(printed(output).contains("hint: pass --kubeconfig FILE"));

    // A separate port: another instance may take the default one after this one has exited.
    let listen = format!("127.0.0.1:{}", polity::free_port());
    let up = polity::run(home, ["up", "-d", "--listen", &listen]);
    assert!(up.status.success(), "{up:?}");
    let output = polity::run(home, ["policy", "status", "none"]);
    let words = printed(output);
    assert!(
        words.contains("using the local instance at https://127.0.0.1:"),
        "{words}"
    );
    assert!(
        words.contains("error: there is no policy \"none\""),
        "{words}"
    );

    assert!(polity::run(home, ["down"]).status.success());
    let kubeconfig = data.join("kubeconfig");
    let kubeconfig = kubeconfig.to_str().unwrap();
    for command in [
        &["policy", "status", "none"][..],
        &["explain", "pod/none"],
        &["get", "policies"],
        &["report", "view"],
    ] {
        let mut program = polity::command(home);
        program.args(command).args(["--kubeconfig", kubeconfig]);
        let output = program.output().unwrap();
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(
            text.contains("cannot reach the Kubernetes API at https://127.0.0.1:")
                && text.contains("connection refused")
                && !text.contains("WARN")
                && !text.contains("ServiceError"),
            "{command:?}: {text}"
        );
    }
}
