//! The gate that a registry client goes through when a download may not reach everywhere.
//!
//! A registry answers with redirects, and with the address of whoever gives out its tokens; the client follows both by
//! itself. As its proxy we see every host that it asks for, whatever led it there, and connect only to addresses that we
//! looked up and found to be in reach.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::sources::Sources;

/// More than any client asks a proxy with.
const MAX_HEAD: usize = 8 << 10;
const OPENED: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";
const CLOSED: &[u8] = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// A proxy on this machine, for one client. It ends when this is dropped.
pub(crate) struct Gate {
    address: SocketAddr,
    refused: Refused,
    _task: JoinSet<()>,
}

/// The host that was refused last.
type Refused = Arc<Mutex<Option<String>>>;

impl Gate {
    /// Opens a gate to what these sources reach.
    pub(crate) async fn open(sources: &Sources) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let refused = Refused::default();
        let mut task = JoinSet::new();
        task.spawn(serve(listener, Arc::new(sources.clone()), refused.clone()));
        Ok(Self {
            address,
            refused,
            _task: task,
        })
    }

    /// What the client is told.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Who the client asked for in vain.
    pub(crate) fn refused(&self) -> Option<String> {
        self.refused
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

async fn serve(listener: TcpListener, sources: Arc<Sources>, refused: Refused) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (sources, refused) = (sources.clone(), refused.clone());
        connections.spawn(async move {
            // A connection that breaks is told by the client, which asked for it.
            pass(client, &sources, &refused).await.ok();
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Lets one connection through, or not.
async fn pass(mut client: TcpStream, sources: &Sources, refused: &Refused) -> io::Result<()> {
    let head = read_head(&mut client).await?;
    let target = connect_target(&head);
    let addresses = match target {
        Some(target) => sources.reach.addresses(target, sources).await?,
        None => None,
    };
    let Some(addresses) = addresses else {
        let host = target.unwrap_or("a host without TLS").to_owned();
        *refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(host);
        return client.write_all(CLOSED).await;
    };
    let mut server = TcpStream::connect(&addresses[..]).await?;
    client.write_all(OPENED).await?;
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}

async fn read_head(client: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MAX_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
        head.push(client.read_u8().await?);
    }
    Ok(head)
}

/// The `host:port` that a tunnel is asked for. Whoever wants no tunnel wants no TLS, and gets nothing.
fn connect_target(head: &[u8]) -> Option<&str> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let line = std::str::from_utf8(line).ok()?;
    line.strip_prefix("CONNECT ")?.split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reach::Reach;

    /// What comes back through a gate when this is sent to it; a server on this machine greets whoever gets through.
    async fn through(listed: bool, request: fn(SocketAddr) -> String) -> (String, Option<String>) {
        let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = server.local_addr().unwrap();
        let greeting = tokio::spawn(async move {
            let (mut client, _) = server.accept().await.unwrap();
            client.write_all(b"secret").await.unwrap();
        });
        let sources = Sources {
            insecure_sources: listed.then(|| address.to_string()).into_iter().collect(),
            reach: Reach::BeyondThisMachine,
            ..Sources::default()
        };
        let gate = Gate::open(&sources).await.unwrap();
        let mut client = TcpStream::connect(gate.address).await.unwrap();
        client.write_all(request(address).as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        greeting.abort();
        (answer, gate.refused())
    }

    fn tunnel(to: SocketAddr) -> String {
        format!("CONNECT {to} HTTP/1.1\r\nhost: {to}\r\n\r\n")
    }

    #[tokio::test]
    async fn what_is_listed_is_let_through() {
        let (answer, refused) = through(true, tunnel).await;
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.ends_with("secret"),
            "{answer}"
        );
        assert_eq!(refused, None);
    }

    #[tokio::test]
    async fn this_machine_is_not_reached_through_it() {
        let by_name = |to: SocketAddr| format!("CONNECT localhost:{} HTTP/1.1\r\n\r\n", to.port());
        let link = |_| "CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n".to_owned();
        let without_tls = |to: SocketAddr| format!("GET http://{to}/ HTTP/1.1\r\n\r\n");
        let garbage = |_| "\u{fffd}\r\n\r\n".to_owned();
        for request in [tunnel, by_name, link, without_tls, garbage] {
            let (answer, refused) = through(false, request).await;
            assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
            assert!(!answer.contains("secret") && refused.is_some());
        }
    }
}
