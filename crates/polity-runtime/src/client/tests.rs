//! The choice of the cluster for a command.

use super::*;

fn kubeconfig(name: &str, port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: {name}\n\
         clusters: [{{name: {name}, cluster: {{server: 'https://127.0.0.1:{port}'}}}}]\n\
         users: [{{name: {name}, user: {{token: secret}}}}]\n\
         contexts: [{{name: {name}, context: {{cluster: {name}, user: {name}, namespace: ns-{name}}}}}]\n"
    )
}

/// Two files, "hub" on port 1 and "edge" on port 2.
fn files() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let (hub, edge) = (directory.path().join("hub"), directory.path().join("edge"));
    std::fs::write(&hub, kubeconfig("hub", 1)).unwrap();
    std::fs::write(&edge, kubeconfig("edge", 2)).unwrap();
    (directory, hub, edge)
}

#[tokio::test]
async fn the_right_cluster_is_found() {
    let (directory, hub, edge) = files();
    let missing = directory.path().join("missing");
    let both = std::env::join_paths([&missing, &hub, &edge]).unwrap();
    for (given, context, home, expected) in [
        (
            Some(hub.clone()),
            None,
            Some(edge.clone()),
            "https://127.0.0.1:1/ ns-hub",
        ),
        (None, None, Some(edge), "https://127.0.0.1:2/ ns-edge"),
        (
            Some(both.clone().into()),
            None,
            None,
            "https://127.0.0.1:1/ ns-hub",
        ),
        (
            Some(both.into()),
            Some("edge"),
            None,
            "https://127.0.0.1:2/ ns-edge",
        ),
    ] {
        let args = ClientArgs {
            kubeconfig: given,
            context: context.map(str::to_owned),
            ..ClientArgs::default()
        };
        let (config, _) = config(&args, home, || None).await.unwrap();
        assert_eq!(
            format!("{} {}", config.cluster_url, config.default_namespace),
            expected
        );
        assert_eq!(
            config.headers,
            [(USER_AGENT, HeaderValue::from_str(&user_agent()).unwrap())]
        );
    }
}

#[tokio::test]
async fn another_user_is_impersonated() {
    let (_directory, hub, _) = files();
    let args = ClientArgs {
        kubeconfig: Some(hub),
        as_user: Some("alice".to_owned()),
        as_group: vec!["devs".to_owned()],
        ..ClientArgs::default()
    };
    let (config, _) = config(&args, None, || None).await.unwrap();
    assert_eq!(config.auth_info.impersonate.as_deref(), Some("alice"));
    assert_eq!(
        config.auth_info.impersonate_groups,
        Some(vec!["devs".to_owned()])
    );
    connect(&args).await.unwrap();
}

#[tokio::test]
async fn a_wrong_configuration_is_an_error_with_a_hint() {
    let (directory, hub, _) = files();
    let broken = directory.path().join("broken");
    std::fs::write(&broken, "clusters: [").unwrap();
    let missing = directory.path().join("missing");
    let case = async |kubeconfig: Option<PathBuf>, context: Option<&str>| {
        let context = context.map(str::to_owned);
        let args = ClientArgs {
            kubeconfig,
            context,
            ..ClientArgs::default()
        };
        let error = config(&args, None, || None).await.expect_err("it is wrong");
        (error.to_string(), error.hint())
    };
    assert_eq!(
        case(Some(missing.clone()), None).await.0,
        format!("cannot read kubeconfig {}", missing.display())
    );
    assert_eq!(
        case(Some(broken.clone()), None).await.0,
        format!("cannot read kubeconfig {}", broken.display())
    );
    let (message, hint) = case(Some(hub.clone()), Some("nowhere")).await;
    assert_eq!(
        message,
        format!("there is no context \"nowhere\" in {}", hub.display())
    );
    assert_eq!(hint, "choose one with --context: hub");
    let (_, hint) = case(Some(missing), None).await;
    assert!(
        hint.contains("check --kubeconfig") && hint.contains("polity up"),
        "{hint}"
    );
    let (message, hint) = case(None, None).await;
    assert!(message.starts_with("no cluster to talk to"), "{message}");
    assert!(hint.contains("polity up"));
}

#[tokio::test]
async fn a_given_kubeconfig_precedes_the_home_directory_and_the_local_instance_is_last() {
    let (directory, hub, edge) = files();
    let without_context = directory.path().join("empty");
    std::fs::write(&without_context, "apiVersion: v1\nkind: Config\n").unwrap();
    let (home, local) = (Some(&hub), Some(&edge));
    let empty = Some(&without_context);
    for (name, given, context, home, local, expected) in [
        ("the flag", Some(&edge), None, home, local, Origin::Given),
        ("home", None, None, home, local, Origin::Home(hub.clone())),
        (
            "a context that only the local instance has",
            None,
            Some("edge"),
            home,
            local,
            Origin::LocalInstance(edge.clone()),
        ),
        (
            "a home without a current context",
            None,
            None,
            empty,
            local,
            Origin::LocalInstance(edge.clone()),
        ),
        (
            "nothing else",
            None,
            None,
            None,
            local,
            Origin::LocalInstance(edge.clone()),
        ),
    ] {
        let args = ClientArgs {
            kubeconfig: given.cloned(),
            context: context.map(str::to_owned),
            ..ClientArgs::default()
        };
        let chosen = config(&args, home.cloned(), || local.cloned()).await;
        let (_, origin) = chosen.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(origin, expected, "{name}");
    }
}

#[tokio::test]
async fn a_context_that_no_kubeconfig_has_names_those_that_exist() {
    let (_directory, hub, edge) = files();
    let args = ClientArgs {
        context: Some("nope".to_owned()),
        ..ClientArgs::default()
    };
    let error = |home: Option<&PathBuf>, local: Option<&PathBuf>| {
        let (home, local) = (home.cloned(), local.cloned());
        let args = args.clone();
        async move {
            let error = config(&args, home, || local).await.expect_err("no context");
            (error.to_string(), error.hint())
        }
    };
    let (message, hint) = error(None, Some(&edge)).await;
    assert_eq!(
        message,
        format!("there is no context \"nope\" in {}", edge.display())
    );
    assert_eq!(hint, "choose one with --context: edge");
    let (message, hint) = error(Some(&hub), Some(&edge)).await;
    assert!(
        message.ends_with(&format!("{} or {}", hub.display(), edge.display())),
        "{message}"
    );
    assert_eq!(hint, "choose one with --context: hub, edge");
    let (message, _) = error(None, None).await;
    assert!(message.starts_with("no cluster to talk to"), "{message}");
}
