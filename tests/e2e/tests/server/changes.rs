//! No request is lost while policies and certificates are replaced under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::client::{Authority, Client, pod};
use crate::server::{Home, Server, answering};

/// Sends requests until it is stopped. Every response must be a verdict.
struct Load {
    stop: Arc<AtomicBool>,
    n_answers: Arc<AtomicU64>,
    tasks: JoinSet<Vec<String>>,
}

/// Which connections the requests use.
#[derive(Clone)]
enum Connections {
    /// The connections of one client.
    Kept,
    /// A new connection per request, with clients that trust these CA certificates.
    Fresh { trusting: Arc<str> },
}

impl Load {
    fn start(server: &Server, n_clients: usize, connections: Connections) -> Self {
        let (stop, n_answers) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let mut tasks = JoinSet::new();
        for _ in 0..n_clients {
            let (stop, n_answers) = (stop.clone(), n_answers.clone());
            let (kept, address) = (server.client(), server.address);
            let connections = connections.clone();
            tasks.spawn(async move {
                let pod = pod("nginx:1", false);
                let mut failures = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    let client = match &connections {
                        Connections::Kept => kept.clone(),
                        Connections::Fresh { trusting } => Client::trusting(address, trusting),
                    };
                    match client.ask("p", &pod).await {
                        Ok((200, answer)) if answer["response"]["allowed"].is_boolean() => {}
                        Ok(other) => failures.push(format!("{other:?}")),
                        Err(error) => failures.push(format!("{error:?}")),
                    }
                    n_answers.fetch_add(1, Ordering::Relaxed);
                }
                failures
            });
        }
        Self {
            stop,
            n_answers,
            tasks,
        }
    }

    /// Waits for `n` more responses.
    async fn more(&self, n: u64) {
        let until = self.n_answers.load(Ordering::Relaxed) + n;
        while self.n_answers.load(Ordering::Relaxed) < until {
            tokio::task::yield_now().await;
        }
    }

    /// Stops the load and returns the number of responses. None may have failed.
    async fn finish(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(failures) = self.tasks.join_next().await {
            assert_eq!(failures.unwrap(), [""; 0]);
        }
        self.n_answers.load(Ordering::Relaxed)
    }
}

/// Connects until the server presents a certificate of this CA.
async fn until_served_by(server: &Server, authority: &Authority) {
    let seen = async {
        let pod = pod("nginx:1", false);
        while Client::new(server.address, authority)
            .ask("p", &pod)
            .await
            .is_err()
        {}
    };
    tokio::time::timeout(Duration::from_secs(30), seen)
        .await
        .expect("the new certificate is shown");
}

/// Sends requests until the verdict is the expected one.
async fn until_allowed(server: &Server, policy: &str, expected: Option<bool>) {
    let client = server.client();
    let seen = async {
        loop {
            let (_, answer) = client.ask(policy, &pod("nginx:1", false)).await.unwrap();
            if answer["response"]["allowed"].as_bool() == expected {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), seen)
        .await
        .unwrap_or_else(|_| panic!("{policy} never became {expected:?}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn policies_are_replaced_under_load() {
    let home = Home::new("");
    let yes = home.write_guest("yes.wasm", &answering(r#"{"accepted":true}"#));
    let no = home.write_guest("no.wasm", &answering(r#"{"accepted":false}"#));
    home.write_policies(&format!("p: {{module: '{yes}'}}"));
    let server = home.start(&[]);
    let load = Load::start(&server, 4, Connections::Kept);
    load.more(50).await;
    for round in 0..5 {
        let (module, allowed) = if round % 2 == 0 {
            (&no, false)
        } else {
            (&yes, true)
        };
        server.home.write_policies(&format!(
            "p: {{module: '{module}', message: 'round {round}'}}"
        ));
        until_allowed(&server, "p", Some(allowed)).await;
        load.more(20).await;
    }
    // A broken file has no effect.
    server
        .home
        .write_policies("p: {module: 'file:///no/such.wasm'}\nq: [");
    server.process.signal(Signal::HUP);
    load.more(100).await;
    until_allowed(&server, "p", Some(false)).await;
    // SIGHUP reloads the file, even if its content is the same.
    server
        .home
        .write_policies(&format!("p: {{module: '{yes}'}}"));
    server.process.signal(Signal::HUP);
    until_allowed(&server, "p", Some(true)).await;
    let n_answers = load.finish().await;
    assert!(n_answers > 200, "{n_answers}");
    let exit = server.process.interrupt();
    assert!(exit.status.success(), "{}", exit.stderr);
    assert!(
        exit.stderr.contains("still serving the old ones"),
        "{}",
        exit.stderr
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_are_replaced_under_load() {
    let home = Home::new("");
    let yes = home.write_guest("yes.wasm", &answering(r#"{"accepted":true}"#));
    home.write_policies(&format!("p: {{module: '{yes}'}}"));
    let server = home.start(&[]);
    let other = Authority::new();
    let both = format!("{}{}", server.home.authority.pem(), other.pem());
    let kept = Load::start(&server, 2, Connections::Kept);
    let fresh = Load::start(
        &server,
        2,
        Connections::Fresh {
            trusting: both.into(),
        },
    );
    for authority in [&other, &server.home.authority, &other] {
        server.home.write_certificate(authority);
        until_served_by(&server, authority).await;
        kept.more(20).await;
        fresh.more(20).await;
    }
    kept.finish().await;
    fresh.finish().await;
    let exit = server.process.interrupt();
    assert!(
        exit.stderr.contains("certificate reloaded"),
        "{}",
        exit.stderr
    );
}

#[tokio::test]
async fn clients_must_show_a_certificate_when_it_is_asked_for() {
    let home = Home::new("");
    let yes = home.write_guest("yes.wasm", &answering(r#"{"accepted":true}"#));
    home.write_policies(&format!("p: {{module: '{yes}'}}"));
    let authority = home.path("ca.crt").display().to_string();
    let server = home.start(&["--client-ca-file", &authority]);
    let known = server.home.authority.client();
    let stranger = Authority::new().client();
    let question: Value = pod("nginx:1", false);
    let with = |certificate: &str| {
        Client::with_certificate(server.address, &server.home.authority, certificate)
    };
    assert_eq!(with(&known).ask("p", &question).await.unwrap().0, 200);
    assert!(with(&stranger).ask("p", &question).await.is_err());
    assert!(server.client().ask("p", &question).await.is_err());
}
