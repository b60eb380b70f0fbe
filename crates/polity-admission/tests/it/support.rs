//! Guests that answer what they are told to, and a review service over policies made of them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt as _, Full};
use polity_admission::{
    FairLimits, ModuleOptions, PolicyTable, Prepared, RequestLimits, ReviewService,
    ReviewServiceOptions, ServerMetrics, ServerOptions,
};
use polity_eval::{
    Engine, EngineOptions, Environment, ExecutionMode, InitError, Module, NoServices, Policy,
    parse_policies,
};
use polity_runtime::Clock;
use polity_runtime::metrics::Metrics;
use serde_json::Value;
use tower::ServiceExt as _;

static ENGINE: LazyLock<Engine> = LazyLock::new(|| Engine::new(&EngineOptions::default()).unwrap());

/// A waPC guest in text that accepts its settings; `$validate` is given.
pub(crate) fn wapc(functions: &str) -> String {
    format!(
        r#"(module
  (import "wapc" "__guest_request" (func $request (param i32 i32)))
  (import "wapc" "__guest_response" (func $response (param i32 i32)))
  (import "wapc" "__guest_error" (func $error (param i32 i32)))
  (import "wapc" "__host_call" (func $host_call (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 4)
  (data (i32.const 65000) "{{\"valid\":true}}")
  (func (export "__guest_call") (param $op i32) (param i32) (result i32)
    ;; "validate" has eight letters, "validate_settings" more.
    (if (i32.eq (local.get $op) (i32.const 8))
      (then (call $validate))
      (else (call $response (i32.const 65000) (i32.const 14))))
    (i32.const 1))
  {functions})"#
    )
}

/// A waPC guest that gives one answer to everything.
pub(crate) fn answering(answer: &str) -> String {
    let escaped: String = answer.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    wapc(&format!(
        r#"(data (i32.const 0) "{escaped}")
        (func $validate (call $response (i32.const 0) (i32.const {})))"#,
        answer.len()
    ))
}

/// A WASI guest that says nothing and exits with a code after some words on standard error.
pub(crate) fn exiting(stderr: &str, code: i32) -> String {
    format!(
        r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 1000) "{{\"valid\":true}}")
  (data (i32.const 3000) "{stderr}")
  (func $print (param $fd i32) (param $ptr i32) (param $len i32)
    (i32.store (i32.const 0) (local.get $ptr))
    (i32.store (i32.const 4) (local.get $len))
    (drop (call $fd_write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func (export "_start")
    (drop (call $args_sizes (i32.const 16) (i32.const 20)))
    (if (i32.gt_u (i32.load (i32.const 20)) (i32.const 21))
      (then (call $print (i32.const 1) (i32.const 1000) (i32.const 14)) (return)))
    (call $print (i32.const 2) (i32.const 3000) (i32.const {}))
    (call $exit (i32.const {code}))))"#,
        stderr.len()
    )
}

/// What an ordinary guest says about itself.
pub(crate) const METADATA: &str = r#"{"protocolVersion":"v1","rules":[],"mutating":false}"#;

/// A guest as a module with the section that says what it is.
pub(crate) fn module(metadata: &str, text: &str) -> Vec<u8> {
    let section = b"io.kubewarden.metadata";
    let mut content = vec![section.len() as u8];
    content.extend_from_slice(section);
    content.extend_from_slice(metadata.as_bytes());
    let mut module = wat::parse_str(text).unwrap();
    // The length in two bytes of seven bits each.
    let length = u16::try_from(content.len()).unwrap();
    module.extend([0, (length & 127) as u8 | 128, (length >> 7) as u8]);
    module.extend(content);
    module
}

/// Writes a guest as a module file. Answers its reference.
pub(crate) fn write_guest(folder: &Path, name: &str, metadata: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, module(metadata, text)).unwrap();
    format!("file://{}", path.display())
}

/// Compiles a guest in text.
pub(crate) fn compile(text: &str) -> Module {
    let mode = match text.contains("\"_start\"") {
        true => ExecutionMode::Wasi,
        false => ExecutionMode::Wapc,
    };
    ENGINE
        .compile(&wat::parse_str(text).unwrap(), Some(mode))
        .unwrap()
}

/// The options of a server on free ports of loopback, without TLS, that keeps its modules in a directory.
pub(crate) fn server_options(store: PathBuf) -> ServerOptions {
    let local: SocketAddr = "127.0.0.1:0".parse().unwrap();
    ServerOptions {
        listen: local,
        readiness_listen: local,
        tls: None,
        engine: EngineOptions::default(),
        modules: ModuleOptions {
            store,
            ..ModuleOptions::default()
        },
        policy_timeout: Some(Duration::from_secs(2)),
        always_accept_namespace: None,
        limits: RequestLimits {
            body: 8 << 20,
            bodies: 64 << 20,
            queue: FairLimits {
                places: 2,
                waiting: 256,
                waiting_per_policy: 256,
                slow_after: Duration::from_millis(100),
            },
            time: Some(Duration::from_secs(30)),
        },
        shutdown_delay: Duration::ZERO,
        metrics: Metrics::new().unwrap(),
        clock: Clock::system(),
    }
}

/// The parts of a review service.
pub(crate) struct Server {
    pub(crate) file: String,
    pub(crate) modules: BTreeMap<String, Module>,
    pub(crate) environment: Environment,
    pub(crate) limits: RequestLimits,
}

impl Server {
    /// Policies as `policies.yml` has them, whose modules are the names of guests.
    pub(crate) fn new(file: &str, guests: &[(&str, &str)]) -> Self {
        Self {
            file: file.to_owned(),
            modules: guests
                .iter()
                .map(|(name, text)| ((*name).to_owned(), compile(text)))
                .collect(),
            environment: Environment::new(Arc::new(NoServices)),
            limits: RequestLimits {
                body: 1 << 20,
                bodies: 16 << 20,
                queue: FairLimits {
                    places: 2,
                    waiting: 64,
                    waiting_per_policy: 16,
                    slow_after: Duration::from_millis(100),
                },
                time: Some(Duration::from_secs(30)),
            },
        }
    }

    pub(crate) fn start(self) -> Running {
        let metrics = Metrics::new().unwrap();
        let prepared = parse_policies(&self.file).unwrap().into_iter();
        let prepared = prepared.map(|(id, config)| {
            let policy = Policy::prepare(&id, &config, &self.environment, |member, guest| {
                self.modules
                    .get(&guest.module)
                    .cloned()
                    .ok_or_else(|| InitError::Download {
                        name: member.unwrap_or(&id).to_owned(),
                        uri: guest.module.clone(),
                        reason: "it is not there".to_owned(),
                    })
            });
            Prepared { id, config, policy }
        });
        let table = PolicyTable::new(prepared);
        let reviews = ReviewService::new(ReviewServiceOptions {
            environment: self.environment.clone(),
            table: Arc::new(ArcSwap::from_pointee(table)),
            limits: self.limits,
            metrics: ServerMetrics::new(&metrics.meter("kubewarden")),
            clock: Clock::system(),
        });
        Running { reviews, metrics }
    }
}

/// A review service, and the metrics that it counts.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) reviews: ReviewService,
    pub(crate) metrics: Metrics,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct HttpReply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl HttpReply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The response without what is null, as text.
    pub(crate) fn response(&self) -> String {
        assert_eq!(self.status, 200, "{}", self.text);
        let mut response = self.json()["response"].take();
        response
            .as_object_mut()
            .expect("there is a response")
            .retain(|_, value| !value.is_null());
        response.to_string()
    }
}

impl Running {
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> HttpReply {
        let response = self.reviews.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        HttpReply {
            status: parts.status.as_u16(),
            headers: parts.headers,
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    pub(crate) async fn post(&self, path: &str, body: impl Into<Bytes>) -> HttpReply {
        self.send(request(Method::POST, path, body)).await
    }

    /// The response to a review of a Pod.
    pub(crate) async fn judge(&self, path: &str) -> String {
        self.post(path, body_for(path)).await.response()
    }
}

pub(crate) fn request(method: Method, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(Full::new(body.into()))
        .unwrap()
}

/// What a path takes.
pub(crate) fn body_for(path: &str) -> String {
    match path.starts_with("/validate_raw/") {
        true => r#"{"request":{"uid":"u-1"}}"#.to_owned(),
        false => review(""),
    }
}

/// A review of the creation of a Pod, with more fields in front of the object.
pub(crate) fn review(fields: &str) -> String {
    format!(
        r#"{{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u-1",
        "kind":{{"group":"","version":"v1","kind":"Pod"}},"resource":{{"group":"","version":"v1","resource":"pods"}},
        "name":"p","namespace":"default","operation":"CREATE","userInfo":{{"username":"ann"}},{fields}
        "object":{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p"}}}}}}}}"#
    )
}

impl Running {
    /// How many evaluations are over.
    pub(crate) fn n_judged(&self) -> u64 {
        let text = self.metrics.render().unwrap();
        text.lines()
            .filter(|line| line.starts_with("kubewarden_policy_evaluations_total{"))
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum()
    }
}
