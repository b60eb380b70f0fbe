//! Asking a probe: one HTTP request, or one connection.

use std::net::SocketAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;

use crate::container::Ports;
use crate::pod::{ADDRESS, Verdict};

/// Whom a probe asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Http {
        url: String,
        headers: HeaderMap,
    },
    Tcp(SocketAddr),
    /// A kind that cannot be asked here; it never stands in the way.
    Unknown,
}

/// Whom this probe asks, at the ports the process really has. `None`: at none.
pub fn target(probe: &Probe, ports: &Ports) -> Option<Target> {
    if let Some(get) = &probe.http_get {
        return http_target(get, ports);
    }
    if let Some(socket) = &probe.tcp_socket {
        return real(&socket.port, ports).map(Target::Tcp);
    }
    Some(Target::Unknown)
}

/// A host in a probe is passed over: the process is here and nowhere else.
fn real(port: &IntOrString, ports: &Ports) -> Option<SocketAddr> {
    Some(([127, 0, 0, 1], ports.real(port)?).into())
}

fn http_target(get: &HTTPGetAction, ports: &Ports) -> Option<Target> {
    let port = real(&get.port, ports)?.port();
    let is_tls = get.scheme.as_deref() == Some("HTTPS");
    let scheme = if is_tls { "https" } else { "http" };
    let path = get.path.as_deref().unwrap_or("/");
    let path = path.strip_prefix('/').unwrap_or(path);
    let headers = get.http_headers.iter().flatten();
    let headers = headers.filter_map(|header| {
        let name: HeaderName = header.name.parse().ok()?;
        Some((name, HeaderValue::from_str(&header.value).ok()?))
    });
    Some(Target::Http {
        url: format!("{scheme}://{ADDRESS}:{port}/{path}"),
        headers: headers.collect(),
    })
}

/// Asks probes. Clones share their connections, of which there are none between two probes.
#[derive(Debug, Clone)]
pub struct Prober {
    client: reqwest::Client,
}

impl Prober {
    /// Fails only where TLS cannot be had at all.
    pub fn new() -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            // As a kubelet: it asks whether somebody is there, not who.
            .tls_danger_accept_invalid_certs(true)
            .redirect(Policy::none())
            .no_proxy()
            .pool_max_idle_per_host(0)
            .build()?;
        Ok(Self { client })
    }

    /// Asks once.
    pub async fn ask(&self, target: Target, timeout: Duration) -> Verdict {
        let is_fine = match target {
            Target::Http { url, headers } => {
                let answer = self
                    .client
                    .get(url)
                    .headers(headers)
                    .timeout(timeout)
                    .send();
                answer
                    .await
                    .is_ok_and(|answer| (200..400).contains(&answer.status().as_u16()))
            }
            Target::Tcp(address) => {
                let connect = tokio::net::TcpStream::connect(address);
                matches!(tokio::time::timeout(timeout, connect).await, Ok(Ok(_)))
            }
            Target::Unknown => true,
        };
        if is_fine {
            Verdict::Success
        } else {
            Verdict::Failure
        }
    }
}

/// How long an answer may take.
pub fn timeout(probe: &Probe) -> Duration {
    let seconds = probe.timeout_seconds.unwrap_or(1).max(1);
    Duration::from_secs(seconds.unsigned_abs().into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    fn probe(value: serde_json::Value) -> Probe {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn targets_are_at_the_real_ports() {
        let container = json!({"name": "c", "env": [{"name": "KUBEWARDEN_READINESS_PROBE_PORT", "value": "9000"}],
            "ports": [{"name": "ready", "containerPort": 9000}]});
        let ports = Ports::assign(&serde_json::from_value(container).unwrap(), [1, 2]);
        let http = |url: &str| {
            Some(Target::Http {
                url: url.to_owned(),
                headers: HeaderMap::new(),
            })
        };
        let cases = [
            (
                json!({"httpGet": {"port": 9000, "path": "/readiness"}}),
                http("http://127.0.0.1:2/readiness"),
            ),
            (
                json!({"httpGet": {"port": "ready", "scheme": "HTTPS"}}),
                http("https://127.0.0.1:2/"),
            ),
            (json!({"httpGet": {"port": "nobody"}}), None),
            (
                json!({"tcpSocket": {"port": 3000}}),
                Some(Target::Tcp(([127, 0, 0, 1], 1).into())),
            ),
            (
                json!({"exec": {"command": ["true"]}}),
                Some(Target::Unknown),
            ),
        ];
        for (value, expected) in cases {
            assert_eq!(target(&probe(value.clone()), &ports), expected, "{value}");
        }
    }

    #[tokio::test]
    async fn an_answer_below_400_is_a_success() {
        polity_runtime::tls::install_provider();
        let prober = Prober::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            for code in ["200", "204", "302", "404", "503"] {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 1024];
                assert!(stream.read(&mut request).await.unwrap() > 0);
                let answer = format!(
                    "HTTP/1.1 {code} x\r\nlocation: http://x.invalid\r\ncontent-length: 0\r\n\r\n"
                );
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let ask = async || {
            let target = Target::Http {
                url: format!("http://{address}/"),
                headers: HeaderMap::new(),
            };
            prober.ask(target, Duration::from_secs(10)).await
        };
        use Verdict::{Failure, Success};
        for expected in [Success, Success, Success, Failure, Failure, Failure] {
            assert_eq!(ask().await, expected);
        }
        let tcp = prober
            .ask(Target::Tcp(address), Duration::from_secs(10))
            .await;
        assert_eq!(tcp, Failure, "nobody listens any more");
    }
}
