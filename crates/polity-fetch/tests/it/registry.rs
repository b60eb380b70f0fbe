//! A real registry: with and without TLS and passwords, tags that move, content that was changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use peers::Tool;
use peers::registry::{PASSWORD, Registry, Setup, USER};
use polity_fetch::{Authority, Credentials, Digest, FetchError, Fetcher, Origin, Reach, Sources};

use crate::{MODULE, fetch, fetcher, insecure};

fn start(setup: Setup) -> Option<Registry> {
    Tool::Registry.or_skip()?;
    Some(Registry::start(setup).unwrap())
}

fn trusting(registry: &Registry) -> Sources {
    match registry.authority() {
        None => insecure(registry.host()),
        Some(authority) => Sources {
            source_authorities: BTreeMap::from([(
                registry.host().to_owned(),
                vec![Authority::Data {
                    data: authority.to_owned(),
                }],
            )]),
            ..Sources::default()
        },
    }
}

fn log_in(fetcher: &mut Fetcher, directory: &Path, host: &str, password: &str) {
    let auth = base64::engine::general_purpose::STANDARD.encode(format!("{USER}:{password}"));
    let config = format!(r#"{{"auths":{{"{host}":{{"auth":"{auth}"}}}}}}"#);
    fs::write(directory.join("config.json"), config).unwrap();
    fetcher.credentials = Credentials::from_directory(directory);
}

async fn push(fetcher: &Fetcher, uri: &str, module: &[u8]) -> Digest {
    let annotations = BTreeMap::from([("title".to_owned(), "a policy".to_owned())]);
    let pushed = fetcher
        .push(&uri.parse().unwrap(), module, &annotations)
        .await;
    pushed.unwrap().manifest
}

fn another_module() -> Vec<u8> {
    // A custom section named "x", with nothing in it.
    [MODULE, b"\0\x02\x01x"].concat()
}

#[tokio::test]
async fn modules_go_up_and_come_down_with_tls_and_passwords() {
    for (tls, password) in [(false, false), (true, false), (false, true), (true, true)] {
        let Some(registry) = start(Setup { tls, password }) else {
            return;
        };
        let (directory, mut fetcher) = fetcher(trusting(&registry));
        if password {
            log_in(&mut fetcher, directory.path(), registry.host(), PASSWORD);
        }
        let uri = format!("registry://{}/policies/tiny:v1", registry.host());
        let manifest = push(&fetcher, &uri, MODULE).await;

        let fetched = fetch(&fetcher, &uri).await.unwrap();
        assert_eq!(&*fetched.bytes, MODULE);
        assert_eq!(fetched.digest, Digest::of(MODULE));
        assert_eq!(fetched.manifest, Some(manifest));
        assert_eq!(fetched.origin, Origin::Downloaded);

        let pinned = format!("registry://{}/policies/tiny@{manifest}", registry.host());
        let again = fetch(&fetcher, &pinned).await.unwrap();
        assert_eq!(again.digest, fetched.digest);
        assert_eq!(again.origin, Origin::Store, "the same module is here");
    }
}

#[tokio::test]
async fn strangers_and_wrong_passwords_are_told_so() {
    let Some(registry) = start(Setup {
        password: true,
        ..Setup::default()
    }) else {
        return;
    };
    let uri = format!("registry://{}/tiny:v1", registry.host());
    let (directory, mut fetcher) = fetcher(trusting(&registry));
    for wrong in [None, Some("not-the-password")] {
        if let Some(password) = wrong {
            log_in(&mut fetcher, directory.path(), registry.host(), password);
        }
        let error = fetch(&fetcher, &uri).await.unwrap_err();
        assert!(
            matches!(&error, FetchError::Unauthorized { host, .. } if host == registry.host()),
            "{wrong:?}: {error:?}"
        );
        assert!(!error.to_string().contains("not-the-password"), "{error}");
    }
}

#[tokio::test]
async fn an_unknown_authority_is_refused_unless_the_host_is_called_insecure() {
    let Some(registry) = start(Setup {
        tls: true,
        ..Setup::default()
    }) else {
        return;
    };
    let uri = format!("registry://{}/tiny:v1", registry.host());
    let (_guard, strict) = fetcher(Sources::default());
    let error = fetch(&strict, &uri).await.unwrap_err();
    assert!(
        matches!(&error, FetchError::Unreachable { reason, .. } if reason.contains("certificate")),
        "{error:?}"
    );
    let (_guard, lenient) = fetcher(insecure(registry.host()));
    push(&lenient, &uri, MODULE).await;
    assert_eq!(&*fetch(&lenient, &uri).await.unwrap().bytes, MODULE);
}

/// A policy of a namespace: its registry is asked through the gate, and one of this machine only if it is listed.
#[tokio::test]
async fn who_may_not_reach_everywhere_still_reaches_registries() {
    let Some(registry) = start(Setup {
        tls: true,
        ..Setup::default()
    }) else {
        return;
    };
    let uri = format!("registry://{}/policies/p:v1", registry.host());
    let (_guard, publisher) = fetcher(trusting(&registry));
    let digest = push(&publisher, &uri, MODULE).await;
    let near = Sources {
        reach: Reach::BeyondThisMachine,
        ..trusting(&registry)
    };
    let (_guard, stranger) = fetcher(near.clone());
    let error = fetch(&stranger, &uri).await.unwrap_err();
    assert!(matches!(error, FetchError::OutOfReach { .. }), "{error}");
    let (_guard, listed) = fetcher(Sources {
        insecure_sources: [registry.host().to_owned()].into(),
        ..near
    });
    let fetched = fetch(&listed, &uri).await.unwrap();
    assert_eq!(fetched.manifest, Some(digest));
}

#[tokio::test]
async fn plain_http_is_refused_unless_the_host_is_called_insecure() {
    let Some(registry) = start(Setup::default()) else {
        return;
    };
    let (_guard, strict) = fetcher(Sources::default());
    let uri = format!("registry://{}/tiny:v1", registry.host());
    let error = fetch(&strict, &uri).await.unwrap_err();
    assert!(matches!(error, FetchError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_moved_tag_is_seen_where_it_is_asked_for() {
    let Some(registry) = start(Setup::default()) else {
        return;
    };
    let (_guard, fetcher) = fetcher(trusting(&registry));
    let (old, new) = (Digest::of(MODULE), Digest::of(&another_module()));
    for (tag, expected) in [("v1", old), ("latest", new)] {
        let uri = format!("registry://{}/tiny:{tag}", registry.host());
        push(&fetcher, &uri, MODULE).await;
        assert_eq!(fetch(&fetcher, &uri).await.unwrap().digest, old);
        push(&fetcher, &uri, &another_module()).await;
        assert_eq!(
            fetch(&fetcher, &uri).await.unwrap().digest,
            expected,
            "{tag}"
        );
    }
    let uri = format!("registry://{}/tiny:v1", registry.host())
        .parse()
        .unwrap();
    let now = jiff::Timestamp::UNIX_EPOCH;
    let forced = fetcher.download(&uri, now, &()).await.unwrap();
    assert_eq!(forced.digest, new);
}

#[tokio::test]
async fn what_is_missing_is_named() {
    let Some(registry) = start(Setup::default()) else {
        return;
    };
    let (_guard, fetcher) = fetcher(trusting(&registry));
    let uri = format!("registry://{}/tiny:v1", registry.host());
    let error = fetch(&fetcher, &uri).await.unwrap_err().to_string();
    assert!(
        error.ends_with("answered 404: MANIFEST_UNKNOWN: manifest unknown"),
        "{error}"
    );
}

#[tokio::test]
async fn a_tampered_layer_is_refused_and_the_next_module_goes_on() {
    let Some(registry) = start(Setup::default()) else {
        return;
    };
    let (_guard, fetcher) = fetcher(trusting(&registry));
    let bad = format!("registry://{}/bad:v1", registry.host());
    let good = format!("registry://{}/good:v1", registry.host());
    push(&fetcher, &bad, MODULE).await;
    push(&fetcher, &good, &another_module()).await;
    let blob = blob(&registry, &Digest::of(MODULE));
    fs::write(&blob, [MODULE, b"\0\x02\x01y"].concat()).unwrap();

    let error = fetch(&fetcher, &bad).await.unwrap_err();
    assert!(
        matches!(
            error,
            FetchError::NotAModule { .. } | FetchError::WrongDigest { .. }
        ),
        "{error:?}"
    );
    assert!(fetch(&fetcher, &good).await.is_ok());
    assert_eq!(fetcher.store.list().unwrap().len(), 1);
}

#[tokio::test]
async fn only_modules_go_up_and_only_to_tags() {
    let (_guard, fetcher) = fetcher(Sources::default());
    let digest = Digest::of(MODULE);
    for (uri, module, expected) in [
        (
            "https://h.example/p.wasm".to_owned(),
            MODULE,
            "to a registry",
        ),
        (
            format!("registry://h.example/p@{digest}"),
            MODULE,
            "names a digest",
        ),
        (
            "registry://h.example/p:v1".to_owned(),
            &b"text"[..],
            "does not begin like a Wasm module",
        ),
    ] {
        let uri = uri.parse().unwrap();
        let error = fetcher.push(&uri, module, &BTreeMap::new()).await;
        let error = error.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Where the registry keeps a blob.
fn blob(registry: &Registry, digest: &Digest) -> PathBuf {
    let hex = digest.hex();
    registry
        .content()
        .join("docker/registry/v2/blobs/sha256")
        .join(&hex[..2])
        .join(&hex)
        .join("data")
}
