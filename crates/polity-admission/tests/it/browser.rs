//! A client of servers on real sockets.

use std::net::SocketAddr;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use crate::support::{request, review};

pub(crate) struct Browser(Client<HttpConnector, Full<bytes::Bytes>>);

impl Browser {
    pub(crate) fn new() -> Self {
        Self(Client::builder(TokioExecutor::new()).build_http())
    }

    /// Status and body.
    pub(crate) async fn send(&self, address: SocketAddr, path: &str, body: &str) -> (u16, String) {
        let url = format!("http://{address}{path}");
        let method = if body.is_empty() { "GET" } else { "POST" };
        let request = request(method.parse().unwrap(), &url, body.to_owned());
        let response = self.0.request(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    pub(crate) async fn allowed(&self, address: SocketAddr, policy: &str) -> (u16, Option<bool>) {
        let path = format!("/validate/{policy}");
        let (status, text) = self.send(address, &path, &review("")).await;
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        (status, json["response"]["allowed"].as_bool())
    }

    pub(crate) async fn until(
        &self,
        address: SocketAddr,
        policy: &str,
        expected: (u16, Option<bool>),
    ) {
        let seen = async {
            while self.allowed(address, policy).await != expected {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), seen)
            .await
            .unwrap_or_else(|_| panic!("{policy} never became {expected:?}"));
    }
}
