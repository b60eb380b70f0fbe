//! The information about the client that a handler gets, over every protocol.

use axum::routing::get;
use axum::{Extension, Router};
use http::Version;
use polity_pki::ClientIdentity;
use polity_runtime::serve::{Limits, Peer};
use polity_runtime::tls::{ClientAuthMode, ServerTls};

use crate::support::{Client, Running, authority, client_leaf, material, server_leaf};

const VERSIONS: [Version; 2] = [Version::HTTP_11, Version::HTTP_2];

/// Responds with the version, whether TLS was used, and the user.
fn who() -> Router {
    let handler = async |version: Version, Extension(peer): Extension<Peer>| {
        assert!(peer.address.ip().is_loopback());
        let user = peer
            .certificates
            .first()
            .map_or("nobody".to_owned(), |leaf| {
                ClientIdentity::from_der(leaf).unwrap().unwrap().common_name
            });
        format!("{version:?} tls={} {user}", peer.is_tls)
    };
    Router::new().route("/", get(handler))
}

#[tokio::test]
async fn plain_connections_speak_both_protocols() {
    let running = Running::start(who(), None, Limits::default()).await;
    for version in VERSIONS {
        let answer = Client::plain(version)
            .get(running.address, "/")
            .await
            .unwrap();
        assert_eq!(answer, (200, format!("{version:?} tls=false nobody")));
    }
    assert_eq!(running.stop().await.n_cut_off, 0);
}

#[tokio::test]
async fn client_certificates_reach_the_handler() {
    let (ca, other_ca) = (authority(), authority());
    let alice = || Some(client_leaf(&ca, "alice"));
    let mallory = || Some(client_leaf(&other_ca, "alice"));
    for version in VERSIONS {
        for (mode, shows, expected) in [
            (ClientAuthMode::None, None, Some("nobody")),
            (ClientAuthMode::None, alice(), Some("nobody")),
            (ClientAuthMode::Optional, None, Some("nobody")),
            (ClientAuthMode::Optional, alice(), Some("alice")),
            (ClientAuthMode::Optional, mallory(), None),
            (ClientAuthMode::Required, alice(), Some("alice")),
            (ClientAuthMode::Required, None, None),
            (ClientAuthMode::Required, mallory(), None),
        ] {
            let material =
                material(&server_leaf(&ca)).with_client_auth(mode, ca.certificate().to_pem());
            let tls = ServerTls::new(&material).unwrap();
            let running = Running::start(who(), Some(tls), Limits::default()).await;
            let case = format!("{version:?} {mode:?} shows={}", shows.is_some());
            let client = Client {
                shows,
                ..Client::trusting(&ca, version)
            };
            let answer = client.get(running.address, "/").await;
            match expected {
                Some(user) => assert_eq!(
                    answer.unwrap().1,
                    format!("{version:?} tls=true {user}"),
                    "{case}"
                ),
                None => assert!(answer.is_err(), "{case}"),
            }
            running.stop().await;
        }
    }
}

#[tokio::test]
async fn a_server_of_another_authority_is_refused() {
    let tls = ServerTls::new(&material(&server_leaf(&authority()))).unwrap();
    let running = Running::start(who(), Some(tls), Limits::default()).await;
    let client = Client::trusting(&authority(), Version::HTTP_2);
    assert!(client.get(running.address, "/").await.is_err());
    running.stop().await;
}
