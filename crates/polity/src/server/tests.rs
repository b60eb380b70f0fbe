//! The flags and variables of a policy server (docs/spec/admission.md#7-2).

use clap::{CommandFactory as _, FromArgMatches as _, Parser};

use super::*;

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    server: ServerArgs,
}

/// Parses without the environment of whoever runs the tests.
fn parse(args: &[&str]) -> Result<ServerArgs, clap::Error> {
    let command = Program::command().mut_args(|arg| arg.env(None));
    let mut matches = command.try_get_matches_from([&["policy-server"], args].concat())?;
    Program::from_arg_matches_mut(&mut matches).map(|program| program.server)
}

#[test]
fn every_flag_has_the_variable_and_default_that_installations_use() {
    let mut command = Program::command();
    command.build();
    for (flag, variable, default) in [
        ("addr", "KUBEWARDEN_BIND_ADDRESS", "0.0.0.0"),
        ("port", "KUBEWARDEN_PORT", "3000"),
        (
            "readiness-probe-port",
            "KUBEWARDEN_READINESS_PROBE_PORT",
            "8081",
        ),
        ("workers", "KUBEWARDEN_WORKERS", ""),
        ("cert-file", "KUBEWARDEN_CERT_FILE", ""),
        ("key-file", "KUBEWARDEN_KEY_FILE", ""),
        ("client-ca-file", "KUBEWARDEN_CLIENT_CA_FILE", ""),
        ("policies", "KUBEWARDEN_POLICIES", "policies.yml"),
        (
            "policies-download-dir",
            "KUBEWARDEN_POLICIES_DOWNLOAD_DIR",
            ".",
        ),
        (
            "sigstore-cache-dir",
            "KUBEWARDEN_SIGSTORE_CACHE_DIR",
            "sigstore-data",
        ),
        (
            "sigstore-trust-config",
            "KUBEWARDEN_SIGSTORE_TRUST_CONFIG_PATH",
            "",
        ),
        ("sources-path", "KUBEWARDEN_SOURCES_PATH", ""),
        (
            "verification-path",
            "KUBEWARDEN_VERIFICATION_CONFIG_PATH",
            "",
        ),
        (
            "docker-config-json-path",
            "KUBEWARDEN_DOCKER_CONFIG_JSON_PATH",
            "",
        ),
        ("enable-metrics", "KUBEWARDEN_ENABLE_METRICS", "false"),
        (
            "always-accept-admission-reviews-on-namespace",
            "KUBEWARDEN_ALWAYS_ACCEPT_ADMISSION_REVIEWS_ON_NAMESPACE",
            "",
        ),
        (
            "disable-timeout-protection",
            "KUBEWARDEN_DISABLE_TIMEOUT_PROTECTION",
            "false",
        ),
        ("policy-timeout", "KUBEWARDEN_POLICY_TIMEOUT", "2"),
        ("daemon", "KUBEWARDEN_DAEMON", "false"),
        (
            "daemon-pid-file",
            "KUBEWARDEN_DAEMON_PID_FILE",
            "policy-server.pid",
        ),
        ("daemon-stdout-file", "KUBEWARDEN_DAEMON_STDOUT_FILE", ""),
        ("daemon-stderr-file", "KUBEWARDEN_DAEMON_STDERR_FILE", ""),
        (
            "ignore-kubernetes-connection-failure",
            "KUBEWARDEN_IGNORE_KUBERNETES_CONNECTION_FAILURE",
            "false",
        ),
        ("enable-pprof", "KUBEWARDEN_ENABLE_PPROF", "false"),
        (
            "continue-on-errors",
            "KUBEWARDEN_CONTINUE_ON_ERRORS",
            "false",
        ),
        ("standalone", "KUBEWARDEN_STANDALONE", "false"),
        ("max-body-size", "KUBEWARDEN_MAX_BODY_SIZE", "8Mi"),
    ] {
        let arg = command
            .get_arguments()
            .find(|arg| arg.get_long() == Some(flag))
            .unwrap_or_else(|| panic!("--{flag} is missing"));
        let found = arg
            .get_env()
            .map(|name| name.to_string_lossy().into_owned());
        assert_eq!(found.as_deref(), Some(variable), "--{flag}");
        let found: Vec<_> = arg
            .get_default_values()
            .iter()
            .map(|value| value.to_string_lossy())
            .collect();
        assert_eq!(found.join(","), default, "--{flag}");
    }
}

#[test]
fn what_cannot_be_heeded_is_refused() {
    for (args, flag) in [
        (&["--verification-path", "v.yml"][..], "--verification-path"),
        (
            &["--sigstore-trust-config", "t.json"],
            "--sigstore-trust-config",
        ),
        (&["--enable-pprof"], "--enable-pprof"),
        (&["--port", "8081"], "--readiness-probe-port"),
    ] {
        let refusal = parse(args).unwrap().refusal();
        assert_eq!(refusal.map(|refusal| refusal.flag), Some(flag), "{args:?}");
    }
    for args in [
        &[][..],
        &["--standalone", "--enable-metrics"],
        &["--sigstore-cache-dir", "/s"],
        &["--port", "0", "--readiness-probe-port", "0"],
    ] {
        assert_eq!(parse(args).unwrap().refusal(), None, "{args:?}");
    }
}

#[test]
fn wrong_command_lines_are_errors() {
    for args in [
        &["--cert-file", "c"][..],
        &["--client-ca-file", "c"],
        &["--workers", "0"],
        &["--policy-timeout", "0"],
        &["--addr", "nowhere"],
        &["--max-body-size", "much"],
        &["docs"],
    ] {
        assert!(parse(args).is_err(), "{args:?}");
    }
}

#[test]
fn flags_become_options() {
    let args = parse(&[
        "--addr",
        "127.0.0.1",
        "--port",
        "1",
        "--workers",
        "3",
        "--disable-timeout-protection",
        "--max-guest-memory",
        "1Mi",
        "--ignore-kubernetes-connection-failure",
    ])
    .unwrap();
    let workers = args.workers();
    let options = args.standalone(workers, Metrics::new().unwrap());
    assert_eq!(options.server.listen.to_string(), "127.0.0.1:1");
    assert_eq!(options.server.limits.queue.places, 3);
    assert_eq!(options.server.policy_timeout, None);
    assert_eq!(options.server.limits.time, None);
    assert_eq!(options.server.engine.limits.memory, 1 << 20);
    assert!(options.cluster.may_be_missing);
}

#[test]
fn a_policy_server_name_without_standalone_makes_it_managed() {
    let pod = &[
        "--pod-name",
        "policy-server-default-2",
        "--pod-namespace",
        "kubewarden",
        "--pod-uid",
        "u",
    ][..];
    for (args, is_managed) in [
        (&[][..], false),
        (&["--standalone"], false),
        (&["--policy-server", "default"], true),
        (&["--policy-server", "default", "--standalone"], false),
    ] {
        let args = parse(&[args, pod].concat()).unwrap();
        assert_eq!(args.is_managed(), is_managed, "{args:?}");
        assert_eq!(args.refusal(), None, "{args:?}");
    }
    let args = parse(
        &[
            &[
                "--policy-server",
                "default",
                "--policies",
                "/config/policies.yml",
            ],
            pod,
        ]
        .concat(),
    );
    let cluster = args.unwrap().cluster;
    assert_eq!(cluster.identity().ordinal(), Some(2));
    assert_eq!(
        cluster.server_config("/config/policies.yml".as_ref()),
        Path::new("/config/server.yml")
    );
    let refused = parse(&["--policy-server", "default", "--pod-name", "x-0"]).unwrap();
    assert_eq!(refused.refusal().unwrap().flag, "--pod-namespace");
    assert!(parse(&["--policy-server", ""]).is_err());
}

#[test]
fn the_name_of_the_program_can_be_the_command() {
    let given = |words: &[&str]| {
        crate::arguments(words.iter().map(Into::into))
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        given(&["/usr/bin/policy-server", "--port", "1"]),
        "/usr/bin/policy-server server --port 1"
    );
    assert_eq!(given(&["polity", "up"]), "polity up");
}
