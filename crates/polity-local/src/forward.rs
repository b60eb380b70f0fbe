//! Forwards TCP connections from the loopback ClusterIPs of Services to Pods that are ready.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tracing::{debug, warn};

/// After this the next one is tried; on one machine a connection is there at once or never.
const PATIENCE: Duration = Duration::from_secs(1);

/// The routes there are. Dropping it closes everything.
#[derive(Default)]
pub struct Forwarder {
    routes: BTreeMap<SocketAddr, Route>,
    listeners: JoinSet<()>,
}

struct Route {
    to: watch::Sender<Vec<SocketAddr>>,
    listener: AbortHandle,
}

impl Forwarder {
    /// Makes the routes these. Open connections of a route that stays are not touched.
    pub fn set(&mut self, wanted: &BTreeMap<SocketAddr, Vec<SocketAddr>>) {
        self.routes.retain(|from, route| {
            let stays = wanted.contains_key(from);
            if !stays {
                route.listener.abort();
            }
            stays
        });
        while self.listeners.try_join_next().is_some() {}
        for (from, to) in wanted {
            match self.routes.get(from) {
                Some(route) => {
                    route.to.send_if_modified(|now| {
                        let changes = now != to;
                        now.clone_from(to);
                        changes
                    });
                }
                None => self.open(*from, to.clone()),
            }
        }
    }

    fn open(&mut self, from: SocketAddr, to: Vec<SocketAddr>) {
        let listener = match listen(from) {
            Ok(listener) => listener,
            // Tried again at the next change.
            Err(error) => {
                warn!(%from, error = &error as &dyn std::error::Error, "a service address cannot be listened on");
                return;
            }
        };
        let (sender, receiver) = watch::channel(to);
        let listener = self.listeners.spawn(accept(listener, receiver));
        self.routes.insert(
            from,
            Route {
                to: sender,
                listener,
            },
        );
    }
}

fn listen(from: SocketAddr) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind(from)?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

async fn accept(listener: TcpListener, to: watch::Receiver<Vec<SocketAddr>>) {
    let mut connections = JoinSet::new();
    let mut turn = 0usize;
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((client, _)) => {
                    turn = turn.wrapping_add(1);
                    let to = in_turn(&to.borrow(), turn);
                    connections.spawn(forward(client, to));
                }
                // Out of descriptors, say: the next one may have more luck.
                Err(error) => {
                    debug!(error = &error as &dyn std::error::Error, "a connection was not accepted");
                    tokio::task::yield_now().await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// All of them, beginning with another one each time.
fn in_turn(to: &[SocketAddr], turn: usize) -> Vec<SocketAddr> {
    let mut all = to.to_vec();
    if let Some(by) = turn.checked_rem(all.len()) {
        all.rotate_left(by);
    }
    all
}

/// Brings a connection to the first one that takes it.
async fn forward(mut client: TcpStream, to: Vec<SocketAddr>) {
    for address in to {
        if let Ok(Ok(mut server)) =
            tokio::time::timeout(PATIENCE, TcpStream::connect(address)).await
        {
            client.set_nodelay(true).ok();
            server.set_nodelay(true).ok();
            // Either side may break it off; there is nobody to tell.
            tokio::io::copy_bidirectional(&mut client, &mut server)
                .await
                .ok();
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A server that greets with its name until it is aborted.
    async fn greeter(name: &'static str) -> (SocketAddr, AbortHandle) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                stream.write_all(name.as_bytes()).await.unwrap();
            }
        });
        (address, task.abort_handle())
    }

    async fn ask(address: SocketAddr) -> Option<String> {
        let mut stream = TcpStream::connect(address).await.ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.ok()?;
        Some(text)
    }

    /// A free address of this machine.
    async fn free() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    }

    #[tokio::test]
    async fn connections_go_round_past_those_that_refuse() {
        let (first, _) = greeter("first").await;
        let (second, _) = greeter("second").await;
        let (from, refusing) = (free().await, free().await);
        let mut forwarder = Forwarder::default();
        forwarder.set(&BTreeMap::from([(from, vec![first, refusing, second])]));
        let mut heard = std::collections::BTreeSet::new();
        for _ in 0..6 {
            heard.insert(ask(from).await.unwrap());
        }
        assert_eq!(heard, ["first".to_owned(), "second".to_owned()].into());

        forwarder.set(&BTreeMap::from([(from, vec![second])]));
        assert_eq!(ask(from).await.as_deref(), Some("second"));
        forwarder.set(&BTreeMap::from([(from, vec![])]));
        assert_eq!(ask(from).await.as_deref(), Some(""));
        forwarder.set(&BTreeMap::new());
        while ask(from).await.is_some() {
            tokio::task::yield_now().await;
        }
        // And the address can be had again.
        forwarder.set(&BTreeMap::from([(from, vec![first])]));
        assert_eq!(ask(from).await.as_deref(), Some("first"));
    }

    #[test]
    fn everyone_has_the_first_turn_once() {
        let all: Vec<SocketAddr> = (1..4u16)
            .map(|port| ([127, 0, 0, 1], port).into())
            .collect();
        let firsts: Vec<u16> = (0..4).map(|turn| in_turn(&all, turn)[0].port()).collect();
        assert_eq!(firsts, [1, 2, 3, 1]);
        assert!(in_turn(&[], 5).is_empty());
    }
}
