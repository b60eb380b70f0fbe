//! Certificates that change while the server runs.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::get as on_get;
use http::Version;
use polity_pki::{Authority, Issued};
use polity_runtime::changes::WatchError;
use polity_runtime::serve::Limits;
use polity_runtime::tls::{
    ClientAuthMode, ReloadTiming, ServerTls, TlsError, TlsFiles, TlsMaterial, watch,
};
use polity_runtime::{Clock, Shutdown};
use tokio::time::timeout;

use crate::support::{
    Client, Running, TIMEOUT, authority, client_leaf, get, material, read, server_leaf,
};

fn router() -> Router {
    Router::new().route("/", on_get(async || "ok"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swap_under_load_loses_no_connection() {
    let ca = authority();
    let leaves: Vec<Issued> = (0..20).map(|_| server_leaf(&ca)).collect();
    let tls = ServerTls::new(&material(&leaves[0])).unwrap();
    let running = Running::start(router(), Some(tls.clone()), Limits::default()).await;
    let client = Arc::new(Client::trusting(&ca, Version::HTTP_2));
    let (stop, n_answers) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );

    let load: Vec<_> = (0..4)
        .map(|_| {
            let (client, stop, n_answers, address) = (
                client.clone(),
                stop.clone(),
                n_answers.clone(),
                running.address,
            );
            tokio::spawn(async move {
                let mut kept = client.connect(address).await.unwrap();
                while !stop.load(Ordering::Relaxed) {
                    client.get(address, "/").await.unwrap();
                    read(kept.send(get("/")).await.unwrap()).await.unwrap();
                    n_answers.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for leaf in &leaves {
        let so_far = n_answers.load(Ordering::Relaxed);
        tls.swap(&material(leaf)).unwrap();
        while n_answers.load(Ordering::Relaxed) < so_far + 4 {
            tokio::task::yield_now().await;
        }
        let served_with = client.connect(running.address).await.unwrap().served_with;
        assert_eq!(served_with.as_ref(), Some(leaf.certificate.der()));
    }
    stop.store(true, Ordering::Relaxed);
    for task in load {
        task.await.unwrap();
    }
    assert_eq!(running.stop().await.n_cut_off, 0);
}

#[tokio::test]
async fn client_authorities_are_swapped_too() {
    let (ca, old_clients, new_clients) = (authority(), authority(), authority());
    let leaf = server_leaf(&ca);
    let trusting = |clients: &Authority| {
        material(&leaf).with_client_auth(ClientAuthMode::Required, clients.certificate().to_pem())
    };
    let tls = ServerTls::new(&trusting(&old_clients)).unwrap();
    let running = Running::start(router(), Some(tls.clone()), Limits::default()).await;
    let client = |clients: &Authority| {
        Client::trusting(&ca, Version::HTTP_11).showing(client_leaf(clients, "a"))
    };

    assert!(client(&old_clients).get(running.address, "/").await.is_ok());
    assert!(
        client(&new_clients)
            .get(running.address, "/")
            .await
            .is_err()
    );
    tls.swap(&trusting(&new_clients)).unwrap();
    assert!(
        client(&old_clients)
            .get(running.address, "/")
            .await
            .is_err()
    );
    assert!(client(&new_clients).get(running.address, "/").await.is_ok());
    running.stop().await;
}

#[test]
fn errors_in_tls_material_are_distinguished() {
    let ca = authority();
    let (leaf, other) = (server_leaf(&ca), server_leaf(&ca));
    let good = material(&leaf);
    let case = |material: TlsMaterial| ServerTls::new(&material).expect_err("it is broken");
    assert!(matches!(
        case(TlsMaterial {
            certificate: b"".into(),
            ..good.clone()
        }),
        TlsError::NoCertificate
    ));
    assert!(matches!(
        case(TlsMaterial {
            key: b"nonsense".into(),
            ..good.clone()
        }),
        TlsError::Key(_)
    ));
    let mismatch = TlsMaterial {
        key: other.key.to_pem().into(),
        ..good.clone()
    };
    assert!(matches!(case(mismatch), TlsError::Pair(_)));
    let no_authority = good.clone().with_client_auth(ClientAuthMode::Optional, "");
    assert!(matches!(case(no_authority), TlsError::NoAuthority(_)));
    assert!(!format!("{good:?}").contains("PRIVATE"));
}

/// Writes a pair the way a kubelet does: into a new directory that `..data` then points to.
fn publish(volume: &Path, generation: &str, certificate: &str, key: &str) {
    let data = volume.join(generation);
    fs::create_dir(&data).unwrap();
    fs::write(data.join("tls.crt"), certificate).unwrap();
    fs::write(data.join("tls.key"), key).unwrap();
    std::os::unix::fs::symlink(generation, volume.join("..data_tmp")).unwrap();
    fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
}

/// A server whose files are watched.
struct Watched {
    running: Running,
    client: Client,
    watching: tokio::task::JoinHandle<Result<(), WatchError>>,
    stop_watching: Shutdown,
}

impl Watched {
    async fn start(ca: &Authority, directory: &Path) -> Self {
        let files = TlsFiles {
            certificate: directory.join("tls.crt"),
            key: directory.join("tls.key"),
            client_authorities: Vec::new(),
            client_auth: ClientAuthMode::None,
        };
        let current = files.read().await.unwrap();
        let tls = ServerTls::new(&current).unwrap();
        let running = Running::start(router(), Some(tls.clone()), Limits::default()).await;
        let timing = ReloadTiming {
            settle: Duration::from_millis(20),
            poll: Duration::from_hours(1),
        };
        let stop_watching = Shutdown::new();
        let watching = tokio::spawn(watch(
            files,
            current,
            tls,
            timing,
            Clock::system(),
            stop_watching.clone(),
        ));
        Self {
            running,
            client: Client::trusting(ca, Version::HTTP_11),
            watching,
            stop_watching,
        }
    }

    /// Waits until the server shows a certificate.
    async fn shows(&self, leaf: &Issued) {
        let shown = async {
            loop {
                let connection = self.client.connect(self.running.address).await.unwrap();
                if connection.served_with.as_ref() == Some(leaf.certificate.der()) {
                    return;
                }
            }
        };
        timeout(TIMEOUT, shown)
            .await
            .expect("the certificate is shown");
    }

    async fn stop(self) {
        self.stop_watching.trigger();
        self.watching.await.unwrap().unwrap();
        self.running.stop().await;
    }
}

#[tokio::test]
async fn a_swapped_volume_is_reloaded_and_a_broken_one_is_not() {
    let ca = authority();
    let (first, second, third) = (server_leaf(&ca), server_leaf(&ca), server_leaf(&ca));
    let volume = tempfile::tempdir().unwrap();
    for file in ["tls.crt", "tls.key"] {
        std::os::unix::fs::symlink(format!("..data/{file}"), volume.path().join(file)).unwrap();
    }
    publish(
        volume.path(),
        "..1",
        &first.certificate.to_pem(),
        &first.key.to_pem(),
    );
    let watched = Watched::start(&ca, volume.path()).await;
    watched.shows(&first).await;
    publish(
        volume.path(),
        "..2",
        &second.certificate.to_pem(),
        &second.key.to_pem(),
    );
    watched.shows(&second).await;
    publish(
        volume.path(),
        "..3",
        &third.certificate.to_pem(),
        "nonsense",
    );
    publish(
        volume.path(),
        "..4",
        &third.certificate.to_pem(),
        &second.key.to_pem(),
    );
    watched.shows(&second).await;
    publish(
        volume.path(),
        "..5",
        &third.certificate.to_pem(),
        &third.key.to_pem(),
    );
    watched.shows(&third).await;
    watched.stop().await;
}

#[tokio::test]
async fn rewritten_and_renamed_files_are_reloaded() {
    let ca = authority();
    let (first, second, third) = (server_leaf(&ca), server_leaf(&ca), server_leaf(&ca));
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: String| fs::write(directory.path().join(name), text).unwrap();
    write("tls.crt", first.certificate.to_pem());
    write("tls.key", first.key.to_pem());
    let watched = Watched::start(&ca, directory.path()).await;

    write("tls.crt", second.certificate.to_pem());
    write("tls.key", second.key.to_pem());
    watched.shows(&second).await;

    for (name, text) in [
        ("tls.crt", third.certificate.to_pem()),
        ("tls.key", third.key.to_pem()),
    ] {
        write("new", text);
        fs::rename(directory.path().join("new"), directory.path().join(name)).unwrap();
    }
    watched.shows(&third).await;
    watched.stop().await;
}
