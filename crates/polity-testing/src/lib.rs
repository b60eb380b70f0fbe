//! What tests stand on: an API server in the test's own process, objects to put into it, a condition
//! that comes true in time, and a client that fails on demand. A dev-dependency, never more.
//!
//! Everything here panics where an application would return an error: a test has no other use for it.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! use k8s_openapi::api::core::v1::ConfigMap;
//! use kube::{Api, api::PostParams};
//! use polity_testing::{TestServer, eventually, objects};
//!
//! let server = TestServer::start().await;
//! let maps: Api<ConfigMap> = Api::default_namespaced(server.client().await);
//! maps.create(&PostParams::default(), &objects::config_map("greeting", [("text", "hello")])).await.unwrap();
//! eventually("the greeting is there", || async { maps.get_opt("greeting").await.unwrap() }).await;
//! # });
//! ```

mod eventually;
pub mod faults;
pub mod http;
pub mod objects;
mod server;

pub use eventually::{Outcome, eventually, eventually_within};
pub use faults::{CrashPoint, Fault, FaultyClient, for_every_write};
pub use http::{Http, HttpResponse};
pub use polity_runtime::{Clock, Moment};
pub use server::{TestServer, TestServerBuilder};
