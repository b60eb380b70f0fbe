//! `polity apiserver` as a process: persistence, invalid configuration and shutdown.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use e2e::polity::{self, folder};
use e2e::{Kubectl, Polity};
use peers::Tool;
use serde_json::Value;

/// kubectl, or `None` if it is not installed.
fn kubectl(kubeconfig: &Path) -> Option<Kubectl> {
    Some(Kubectl::new(&Tool::Kubectl.or_skip()?, kubeconfig))
}

/// Restarts the server at the address in the kubeconfig.
fn start_again(data_dir: &Path, kubeconfig: &str) -> Polity {
    let server = kubeconfig.split("https://").nth(1).unwrap();
    let address = server.split(['"', '\n', '/']).next().unwrap();
    let data_dir = data_dir.to_str().unwrap();
    let arguments = ["apiserver", "--data-dir", data_dir, "--listen", address];
    Polity::start(polity::command(Path::new(data_dir)).args(arguments)).unwrap()
}

/// All objects with uid and resource version.
fn everything(k: &Kubectl) -> Vec<(String, String, String)> {
    let text = k.ok("get cm,secret,sa,svc,ns,clusterrole,crd,deploy -A -o json");
    let list: Value = serde_json::from_str(&text).unwrap();
    let field = |item: &Value, path: &str| {
        item.pointer(path)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            let name = format!(
                "{} {}/{}",
                field(item, "/kind"),
                field(item, "/metadata/namespace"),
                field(item, "/metadata/name")
            );
            (
                name,
                field(item, "/metadata/uid"),
                field(item, "/metadata/resourceVersion"),
            )
        })
        .collect()
}

#[test]
fn a_restart_is_the_same_cluster() {
    let folder = folder();
    let server = Polity::apiserver(folder.path());
    let kubeconfig = fs::read_to_string(server.kubeconfig()).unwrap();
    // A copy, because the old credentials must keep working, not only those of a new kubeconfig.
    let copy = folder.path().join("copy");
    fs::write(&copy, &kubeconfig).unwrap();
    let Some(k) = kubectl(&copy) else { return };
    k.ok("create configmap a --from-literal=x=1");
    k.ok("create deployment web --image=nginx:1");
    k.ok("create namespace other");
    k.ok("create serviceaccount robot");
    let token = k.ok("create token robot");
    k.in_namespace("other")
        .ok("create secret generic s --from-literal=a=b");
    e2e::eventually("the new namespace is complete", || {
        let seen = k
            .in_namespace("other")
            .ok("get sa/default cm/kube-root-ca.crt --ignore-not-found -o name");
        (seen.lines().count() == 2).then_some(())
    });
    let before = everything(&k);

    let exit = server.interrupt();
    assert!(exit.status.success(), "{exit:?}");
    let server = start_again(folder.path(), &kubeconfig);
    assert_eq!(
        fs::read_to_string(server.kubeconfig()).unwrap(),
        kubeconfig,
        "same CA, same credentials"
    );
    assert_eq!(everything(&k), before);
    let robot = k.with(&format!("--token {token}"));
    assert_eq!(
        robot.json("auth whoami")["status"]["userInfo"]["username"],
        "system:serviceaccount:default:robot"
    );
    k.ok("delete configmap a");
    k.ok("create configmap b");
    let newest = |objects: &[(String, String, String)]| {
        objects
            .iter()
            .map(|(_, _, version)| version.parse::<u64>().unwrap())
            .max()
    };
    let after = everything(&k);
    assert!(newest(&after) > newest(&before), "versions go on");

    server.kill();
    let _server = start_again(folder.path(), &kubeconfig);
    assert_eq!(
        everything(&k),
        after,
        "nothing acknowledged is lost, nothing deleted is back"
    );
}

#[test]
fn the_kubeconfig_is_for_its_owner_alone() {
    let folder = folder();
    let out = folder.path().join("elsewhere/kubeconfig");
    fs::create_dir(folder.path().join("elsewhere")).unwrap();
    let data_dir = folder.path().join("data");
    let arguments = [
        "apiserver",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        data_dir.to_str().unwrap(),
        "--kubeconfig-out",
        out.to_str().unwrap(),
    ];
    let server = Polity::start(polity::command(folder.path()).args(arguments)).unwrap();
    assert_eq!(server.kubeconfig(), out);
    assert_eq!(
        fs::metadata(&out).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(
        fs::metadata(&data_dir).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let Some(k) = kubectl(&out) else { return };
    assert_eq!(k.ok("auth can-i '*' '*'"), "yes");
}

#[test]
fn a_directory_has_one_process() {
    let folder = folder();
    let _server = Polity::apiserver(folder.path());
    let data_dir = folder.path().to_str().unwrap();
    for command in ["apiserver", "up"] {
        let second = polity::run(
            folder.path(),
            [command, "--data-dir", data_dir, "--listen", "127.0.0.1:0"],
        );
        let stderr = String::from_utf8_lossy(&second.stderr).into_owned();
        assert_eq!(second.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(&format!("runs on {data_dir}")), "{stderr}");
        assert!(stderr.contains("hint: "), "{stderr}");
    }
}

#[test]
fn nothing_in_memory_outlives_the_process() {
    let folder = folder();
    let out = folder.path().join("kubeconfig");
    let arguments = [
        "apiserver",
        "--in-memory",
        "--listen",
        "127.0.0.1:0",
        "--kubeconfig-out",
        out.to_str().unwrap(),
    ];
    let start = || Polity::start(polity::command(folder.path()).args(arguments)).unwrap();
    let server = start();
    let Some(k) = kubectl(&out) else { return };
    k.ok("create configmap a");
    server.interrupt();
    let files: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(files, ["kubeconfig"], "nothing else was written");
    let _server = start();
    assert_eq!(k.ok("get configmap a --ignore-not-found"), "");
}

#[test]
fn always_allow_permits_every_request() {
    let folder = folder();
    let out = folder.path().join("kubeconfig");
    let arguments = [
        "apiserver",
        "--in-memory",
        "--authorization-mode",
        "AlwaysAllow",
        "--listen",
        "127.0.0.1:0",
        "--kubeconfig-out",
        out.to_str().unwrap(),
    ];
    let _server = Polity::start(polity::command(folder.path()).args(arguments)).unwrap();
    let Some(k) = kubectl(&out) else { return };
    assert_eq!(k.ok("auth can-i delete nodes --as nobody"), "yes");
}

#[test]
fn wrong_usage_exits_64_before_anything_is_bound() {
    let folder = folder();
    let cases: [&[&str]; 6] = [
        &["apiserver", "--unknown"],
        &["apiserver", "--listen", "nowhere"],
        &["apiserver", "--authorization-mode", "Maybe"],
        &["apiserver", "--in-memory", "--data-dir", "x"],
        &["up", "--clusters", "many"],
        &["frobnicate"],
    ];
    for arguments in cases {
        let output = polity::run(folder.path(), arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("error: "), "{arguments:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_unusable_data_directory_is_named() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let below_a_file = file.join("data");
    for (data_dir, named) in [
        (below_a_file.as_path(), "file"),
        (Path::new("/proc/polity"), "/proc/polity"),
    ] {
        let data_dir = data_dir.to_str().unwrap();
        let output = polity::run(
            folder.path(),
            [
                "apiserver",
                "--listen",
                "127.0.0.1:0",
                "--data-dir",
                data_dir,
            ],
        );
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(
            stderr.starts_with("error: ") && stderr.contains(named),
            "{stderr}"
        );
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

#[test]
fn a_taken_address_is_named() {
    let folder = folder();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let data_dir = folder.path().to_str().unwrap();
    let output = polity::run(
        folder.path(),
        ["apiserver", "--data-dir", data_dir, "--listen", &address],
    );
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains(&address), "{stderr}");
}

/// Ctrl-C closes open watches, and the process exits long before its shutdown timeout.
#[test]
fn an_interrupt_ends_watches_cleanly() {
    let folder = folder();
    let server = Polity::apiserver(folder.path());
    let Some(k) = kubectl(server.kubeconfig()) else {
        return;
    };
    k.ok("create configmap a");
    let watch = k.start("get configmap a --watch -o name");
    assert_eq!(watch.line(), "configmap/a");
    let other = k.start("get namespaces --watch");
    assert!(other.line().starts_with("NAME"));
    let exit = server.interrupt();
    assert!(exit.status.success(), "{exit:?}");
    assert!(
        !exit.stderr.contains("ERROR") && !exit.stderr.contains("panicked"),
        "{}",
        exit.stderr
    );
    watch.finish();
    other.finish();
}
