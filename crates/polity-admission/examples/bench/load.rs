//! Clients with blocking connections that send the next request as soon as a response arrives.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use serde_json::{Value, json};

use crate::servers::{Fixture, Running};
use crate::{now, usage};

/// Clients of one server.
pub(crate) struct Load {
    pid: u32,
    address: SocketAddr,
    tls: Option<Arc<ClientConfig>>,
    connections: usize,
    n_policies: usize,
}

/// The measured figures of a load.
pub(crate) struct Outcome {
    n: usize,
    took: Duration,
    server: Duration,
    clients: Duration,
    latencies: Vec<Duration>,
}

impl Outcome {
    pub(crate) fn rate(&self) -> f64 {
        self.n as f64 / self.took.as_secs_f64()
    }

    /// CPU time of the server per request.
    pub(crate) fn server_us(&self) -> f64 {
        self.server.as_secs_f64() * 1e6 / self.n as f64
    }

    pub(crate) fn client_us(&self) -> f64 {
        self.clients.as_secs_f64() * 1e6 / self.n as f64
    }

    /// CPU time of server and clients per request.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.server_us() + self.client_us()
    }

    pub(crate) fn p50_ms(&self) -> f64 {
        self.quantile(0.50)
    }

    pub(crate) fn p99_ms(&self) -> f64 {
        self.quantile(0.99)
    }

    fn quantile(&self, q: f64) -> f64 {
        let at = ((self.latencies.len() - 1) as f64 * q) as usize;
        self.latencies[at].as_secs_f64() * 1e3
    }
}

impl Load {
    pub(crate) fn new(running: &Running, fixture: &Fixture, connections: usize) -> Self {
        Self {
            pid: running.pid(),
            address: running.address,
            tls: fixture.is_tls.then(|| fixture.client_config()),
            connections,
            n_policies: fixture.n_policies,
        }
    }

    pub(crate) fn run(self, each: Duration) -> Outcome {
        let (server, clients) = (usage::of(self.pid), usage::own());
        let started = now();
        let mut latencies: Vec<Duration> = thread::scope(|scope| {
            let asking: Vec<_> = (0..self.connections)
                .map(|n| {
                    let load = &self;
                    scope.spawn(move || load.ask(n, each))
                })
                .collect();
            asking
                .into_iter()
                .flat_map(|thread| thread.join().expect("a client"))
                .collect()
        });
        let took = now() - started;
        latencies.sort_unstable();
        Outcome {
            n: latencies.len(),
            took,
            server: usage::of(self.pid).saturating_sub(server),
            clients: usage::own().saturating_sub(clients),
            latencies,
        }
    }

    fn connection(&self) -> Box<dyn ReadWrite> {
        let stream = TcpStream::connect(self.address).expect("the server listens");
        stream.set_nodelay(true).expect("a socket");
        match &self.tls {
            None => Box::new(stream),
            Some(config) => {
                let name = ServerName::try_from("127.0.0.1").expect("an address");
                let session = ClientConnection::new(config.clone(), name).expect("a session");
                Box::new(StreamOwned::new(session, stream))
            }
        }
    }

    /// Sends requests for the given time, to all policies in turn.
    fn ask(&self, first: usize, each: Duration) -> Vec<Duration> {
        let mut stream = self.connection();
        let requests: Vec<Vec<u8>> = (0..self.n_policies).map(request).collect();
        let mut buffer = vec![0; 64 << 10];
        let mut latencies = Vec::with_capacity(1 << 16);
        let until = now() + each;
        for n in first.. {
            let before = now();
            if before >= until {
                break;
            }
            stream
                .write_all(&requests[n % requests.len()])
                .expect("it is sent");
            read_response(&mut *stream, &mut buffer);
            latencies.push(now() - before);
        }
        latencies
    }
}

trait ReadWrite: Read + Write {}

impl<T: Read + Write> ReadWrite for T {}

/// Reads one response. Any status other than 200 aborts the benchmark.
fn read_response(stream: &mut dyn ReadWrite, buffer: &mut [u8]) {
    let mut filled = 0;
    loop {
        let n = stream.read(&mut buffer[filled..]).expect("an answer");
        assert!(n > 0, "the server hung up");
        filled += n;
        let text = &buffer[..filled];
        let Some(end) = text.windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&text[..end]).to_ascii_lowercase();
        assert!(
            head.starts_with("http/1.1 200"),
            "{}",
            String::from_utf8_lossy(text)
        );
        let length: usize = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .and_then(|length| length.parse().ok())
            .expect("a length");
        if filled >= end + 4 + length {
            return;
        }
    }
}

fn request(policy: usize) -> Vec<u8> {
    let body = review();
    let head = format!(
        "POST /validate/p{policy} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body.into_bytes()].concat()
}

/// A review of a Pod as a Deployment creates it, about 6 kB.
pub(crate) fn review() -> String {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": admission_request()})
        .to_string()
}

/// The same review as the payload of a guest.
pub(crate) fn payload() -> Vec<u8> {
    json!({"request": admission_request(), "settings": {}})
        .to_string()
        .into_bytes()
}

fn admission_request() -> Value {
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    json!({
        "uid": "9d7b3c1e-5a0b-4a53-9f0e-2f6f6a2d0001", "kind": kind, "requestKind": kind,
        "resource": resource, "requestResource": resource, "name": "web-6469c6d5f6-x7k2p",
        "namespace": "shop", "operation": "CREATE", "dryRun": false,
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller",
            "uid": "b1f7", "groups": ["system:serviceaccounts", "system:authenticated"]},
        "object": pod(), "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"}
    })
}

fn pod() -> Value {
    let containers: Vec<Value> = (0..4).map(container).collect();
    let labels: serde_json::Map<String, Value> = (0..12)
        .map(|n| {
            (
                format!("example.com/label-{n}"),
                json!(format!("value-{n}")),
            )
        })
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-6469c6d5f6-x7k2p", "namespace": "shop", "labels": labels,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-6469c6d5f6",
                "uid": "0b7a5d4e-62a1-4b0f-8f8e-111111111111", "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"containers": containers, "restartPolicy": "Always", "serviceAccountName": "web",
            "nodeSelector": {"kubernetes.io/os": "linux"}, "terminationGracePeriodSeconds": 30,
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": 300}],
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "config", "configMap": {"name": "web"}}]}
    })
}

fn container(n: usize) -> Value {
    let env: Vec<Value> = (0..8)
        .map(|i| json!({"name": format!("SETTING_{i}"), "value": format!("a value of some length for setting {i}")}))
        .collect();
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10});
    json!({
        "name": format!("container-{n}"), "image": format!("registry.example.com/shop/web-{n}:v1.{n}.0"),
        "env": env, "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "ports": [{"containerPort": 8080, "protocol": "TCP"}], "livenessProbe": probe, "readinessProbe": probe,
        "securityContext": {"privileged": false, "runAsNonRoot": true, "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "config", "mountPath": "/etc/web", "readOnly": true}]
    })
}
