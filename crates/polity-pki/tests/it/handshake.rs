//! TLS handshakes in memory between rustls peers that hold our certificates.

use std::sync::Arc;
use std::time::Duration;

use jiff::{Timestamp, ToSpan};
use polity_pki::{Authority, Certificate, ClientIdentity, Issued};
use rustls::pki_types::{PrivateKeyDer, ServerName, UnixTime, pem::PemObject};
use rustls::server::WebPkiClientVerifier;
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

use crate::{DAY, authority, localhost, now};

#[derive(Debug)]
struct At(Timestamp);

impl TimeProvider for At {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.as_second()).unwrap();
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

/// A server and a client, each trusting one authority, at one moment.
struct Peers {
    server: Issued,
    client: Issued,
    server_trusts: Certificate,
    client_trusts: Certificate,
    server_name: &'static str,
    at: Timestamp,
}

impl Peers {
    fn under(ca: &Authority) -> Self {
        let identity = ClientIdentity::new("alice", ["devs", "admins"]);
        Self {
            server: ca.issue_server(&localhost(), DAY, now()).unwrap(),
            client: ca.issue_client(&identity, DAY, now()).unwrap(),
            server_trusts: ca.certificate().clone(),
            client_trusts: ca.certificate().clone(),
            server_name: "localhost",
            at: now(),
        }
    }

    /// Performs a TLS handshake. Returns the identity that the server sees, or the error.
    fn shake_hands(self) -> Result<ClientIdentity, String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let time = Arc::new(At(self.at));
        let roots = Arc::new(store(&self.server_trusts));
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider.clone())
            .build()
            .unwrap();
        let server = ServerConfig::builder_with_details(provider.clone(), time.clone())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier)
            .with_single_cert(
                vec![self.server.certificate.der().clone()],
                key(&self.server),
            )
            .unwrap();
        let client = ClientConfig::builder_with_details(provider, time)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(store(&self.client_trusts))
            .with_client_auth_cert(
                vec![self.client.certificate.der().clone()],
                key(&self.client),
            )
            .unwrap();

        let name = ServerName::try_from(self.server_name).unwrap();
        let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
        let mut server = ServerConnection::new(Arc::new(server)).unwrap();
        while client.is_handshaking() || server.is_handshaking() {
            let mut to_server = Vec::new();
            client.write_tls(&mut to_server).unwrap();
            server.read_tls(&mut to_server.as_slice()).unwrap();
            server
                .process_new_packets()
                .map_err(|error| format!("server: {error}"))?;
            let mut to_client = Vec::new();
            server.write_tls(&mut to_client).unwrap();
            client.read_tls(&mut to_client.as_slice()).unwrap();
            client
                .process_new_packets()
                .map_err(|error| format!("client: {error}"))?;
        }
        let leaf = &server.peer_certificates().unwrap()[0];
        Ok(ClientIdentity::from_der(leaf).unwrap().unwrap())
    }
}

fn store(ca: &Certificate) -> RootCertStore {
    let mut store = RootCertStore::empty();
    store.add(ca.der().clone()).unwrap();
    store
}

fn key(issued: &Issued) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_slice(issued.key.to_pem().as_bytes()).unwrap()
}

#[test]
fn both_sides_accept_our_certificates() {
    for server_name in ["localhost", "127.0.0.1", "::1"] {
        let peers = Peers {
            server_name,
            ..Peers::under(&authority())
        };
        let seen = peers.shake_hands();
        assert_eq!(
            seen,
            Ok(ClientIdentity::new("alice", ["devs", "admins"])),
            "as {server_name}"
        );
    }
}

#[test]
fn invalid_certificates_are_refused() {
    let ca = authority();
    let stranger = authority().certificate().clone();
    let swap = |peers: Peers| Peers {
        server: peers.client.clone(),
        client: peers.server.clone(),
        ..peers
    };
    let short_lived = ca
        .issue_server(&localhost(), Duration::from_mins(1), now())
        .unwrap();
    for (what, peers, refused_by) in [
        (
            "server of another authority",
            Peers {
                client_trusts: stranger.clone(),
                ..Peers::under(&ca)
            },
            "client",
        ),
        (
            "client of another authority",
            Peers {
                server_trusts: stranger,
                ..Peers::under(&ca)
            },
            "server",
        ),
        (
            "another name",
            Peers {
                server_name: "elsewhere",
                ..Peers::under(&ca)
            },
            "client",
        ),
        (
            "expired",
            Peers {
                at: now() + 25.hours(),
                ..Peers::under(&ca)
            },
            "client",
        ),
        (
            "too early",
            Peers {
                at: now() - 1.hour(),
                ..Peers::under(&ca)
            },
            "client",
        ),
        (
            "a client certificate that serves",
            swap(Peers::under(&ca)),
            "client",
        ),
        (
            "server expired, client not",
            Peers {
                server: short_lived,
                at: now() + 2.minutes(),
                ..Peers::under(&ca)
            },
            "client",
        ),
    ] {
        let error = peers.shake_hands().expect_err(what);
        assert!(error.starts_with(refused_by), "{what}: {error}");
    }
}
