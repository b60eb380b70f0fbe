//! Sends requests to one server, and to the hosts that it redirects to.
//!
//! A server may redirect, and a registry names its token server. Each of these hosts is checked before a request, and
//! if the reach is limited again when its name is resolved for the connection:
//!
//! - Redirects to another scheme are not followed, and only a few redirects in a row.
//! - A target must be in [`Reach`](crate::Reach). A server elsewhere can never send a request to this machine, however
//!   far the request itself may reach.
//! - Credentials go to the host they were meant for, and to no other.

use std::collections::BTreeSet;

use bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response};
use tokio::sync::OnceCell;
use url::Url;

use crate::error::FetchError;
use crate::fetcher::Limits;
use crate::reach::{self, Reach, RefusedAddress};
use crate::sources::Sources;
use crate::transport::{Transport, unreachable};

const MAX_REDIRECTS: usize = 5;
/// The largest headers of a response.
const MAX_HEADERS: u32 = 64 << 10;

/// The authorization of a request.
#[derive(Clone)]
pub(crate) enum Authorization {
    Basic { user: String, password: String },
    Bearer { token: String },
}

/// One request.
pub(crate) struct OutgoingRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) accept: Option<String>,
    pub(crate) authorization: Option<Authorization>,
    /// A body and its media type.
    pub(crate) body: Option<(Bytes, &'static str)>,
}

impl OutgoingRequest {
    pub(crate) fn get(url: Url) -> Self {
        Self::new(Method::GET, url)
    }

    pub(crate) fn new(method: Method, url: Url) -> Self {
        Self {
            method,
            url,
            accept: None,
            authorization: None,
            body: None,
        }
    }
}

/// Sends requests to one server with one transport.
pub(crate) struct Requester<'a> {
    /// `host` or `host:port`, as the user wrote it.
    pub(crate) host: &'a str,
    /// The base URL of the server with this transport.
    pub(crate) base: Url,
    pub(crate) transport: Transport,
    pub(crate) sources: &'a Sources,
    pub(crate) limits: &'a Limits,
    /// The client for the server itself, whose connections are used again.
    pub(crate) own_client: OnceCell<Client>,
}

impl Requester<'_> {
    /// Sends a request and follows redirects of reads.
    pub(crate) async fn send(&self, ask: &OutgoingRequest) -> Result<Response, FetchError> {
        let is_read = ask.method == Method::GET || ask.method == Method::HEAD;
        let mut url = ask.url.clone();
        for _ in 0..=MAX_REDIRECTS {
            let response = self.send_once(ask, &url).await?;
            if !is_redirect(&response) {
                return Ok(response);
            }
            if !is_read {
                return Err(self.redirected("of a request that changes something"));
            }
            let next = target(&response, &url)
                .ok_or_else(|| self.redirected("to something that is no URL"))?;
            if next.scheme() != url.scheme() {
                return Err(self.redirected("to another scheme"));
            }
            url = next;
        }
        Err(self.redirected("too often"))
    }

    async fn send_once(&self, ask: &OutgoingRequest, url: &Url) -> Result<Response, FetchError> {
        let client = match self.is_own(url) {
            true => {
                let client = self.own_client.get_or_try_init(|| self.client(url));
                client.await?.clone()
            }
            false => self.client(url).await?,
        };
        let mut request = client.request(ask.method.clone(), url.clone());
        if let Some(accept) = &ask.accept {
            request = request.header(ACCEPT, accept);
        }
        if let Some((body, media_type)) = &ask.body {
            request = request.header(CONTENT_TYPE, *media_type).body(body.clone());
        }
        if url.origin() == ask.url.origin() {
            request = match &ask.authorization {
                Some(Authorization::Basic { user, password }) => {
                    request.basic_auth(user, Some(password))
                }
                Some(Authorization::Bearer { token }) => request.bearer_auth(token),
                None => request,
            };
        }
        let sent = request.send().await;
        sent.map_err(|error| match is_refused_address(&error) {
            true => FetchError::OutOfReach { host: listed(url) },
            false => unreachable(&listed(url), &error),
        })
    }

    /// A client for a URL's host alone.
    async fn client(&self, url: &Url) -> Result<Client, FetchError> {
        let target = listed(url);
        let is_listed = self.sources.is_insecure(&target)
            || (self.is_own(url) && self.sources.is_insecure(self.host));
        let reach = self.reach_of(url).await;
        if !is_listed {
            reach.check(&target).await?;
        }
        self.check_scheme(url, is_listed)?;
        let broken = |error: reqwest::Error| unreachable(&target, &error);
        let is_unverified =
            self.transport == Transport::UnverifiedHttps && (self.is_own_name(url) || is_listed);
        let mut builder = Client::builder()
            .connect_timeout(self.limits.connect)
            .read_timeout(self.limits.idle)
            .redirect(Policy::none())
            .http2_max_header_list_size(MAX_HEADERS)
            .no_gzip()
            .no_brotli()
            .no_zstd()
            .no_deflate()
            .user_agent(concat!("polity/", env!("CARGO_PKG_VERSION")))
            .tls_danger_accept_invalid_certs(is_unverified);
        if reach == Reach::BeyondThisMachine && !is_listed {
            builder = builder.dns_resolver(reach::Resolver::except(self.proxy_names()));
        }
        // A registry and its token server often share an authority that is listed for one of them.
        let authorities: BTreeSet<&str> = [self.host, &target].into();
        for host in authorities {
            for certificate in self.sources.certificates(host)? {
                builder = builder.tls_certs_merge(certificate.for_web().map_err(broken)?);
            }
        }
        if let Some(proxies) = &self.sources.proxies {
            for proxy in proxies.for_web().map_err(broken)? {
                builder = builder.proxy(proxy);
            }
        }
        builder.build().map_err(broken)
    }

    /// Requests without TLS are sent only where the user allows it: to the server itself with that transport, and to
    /// listed hosts.
    fn check_scheme(&self, url: &Url, is_listed: bool) -> Result<(), FetchError> {
        let may_be_plain =
            is_listed || (self.transport == Transport::Http && self.is_own_name(url));
        match url.scheme() {
            "https" => Ok(()),
            "http" if may_be_plain => Ok(()),
            "http" => Err(self.redirected("to a host without TLS")),
            _ => Err(self.redirected("to another scheme")),
        }
    }

    /// How far a request to a URL may reach.
    async fn reach_of(&self, url: &Url) -> Reach {
        let is_sent_elsewhere = self.sources.reach == Reach::Anywhere && !self.is_own(url);
        if is_sent_elsewhere && !reach::is_this_machine(self.host).await {
            return Reach::BeyondThisMachine;
        }
        self.sources.reach
    }

    /// Whether a URL is on the server itself.
    fn is_own(&self, url: &Url) -> bool {
        url.origin() == self.base.origin()
    }

    /// Whether a URL has the host of the server, on any port.
    fn is_own_name(&self, url: &Url) -> bool {
        url.host() == self.base.host()
    }

    /// Names of proxies, which the user chose and which may be on this machine. `localhost` is a common name of a
    /// proxy in the environment; as the host of a URL it is refused before it is resolved.
    fn proxy_names(&self) -> BTreeSet<String> {
        let proxies = self.sources.proxies.iter();
        let names = proxies
            .flat_map(|proxies| [&proxies.http_proxy, &proxies.https_proxy])
            .flatten()
            .filter_map(|proxy| Url::parse(proxy).ok()?.host_str().map(str::to_owned));
        names.chain(["localhost".to_owned()]).collect()
    }

    fn redirected(&self, reason: &str) -> FetchError {
        FetchError::Redirected {
            host: self.host.to_owned(),
            reason: reason.to_owned(),
        }
    }
}

/// `host` or `host:port` of a URL, as hosts are listed in `sources.yml`.
pub(crate) fn listed(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

fn is_redirect(response: &Response) -> bool {
    matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn target(response: &Response, from: &Url) -> Option<Url> {
    let location = response.headers().get(LOCATION)?.to_str().ok()?;
    let mut target = from.join(location).ok()?;
    // Credentials in the URL of a redirect would be sent to a host that the redirect chooses.
    target.set_username("").ok()?;
    target.set_password(None).ok()?;
    target.host_str().is_some().then_some(target)
}

/// Whether a request failed because the name of its host resolves to a refused address.
fn is_refused_address(error: &reqwest::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(one) = cause {
        if one.is::<RefusedAddress>() {
            return true;
        }
        cause = one.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why no request is sent to a URL that a server at this host names.
    async fn refusal(
        host: &str,
        transport: Transport,
        sources: &Sources,
        url: &str,
    ) -> Option<String> {
        let limits = Limits::default();
        let requester = Requester {
            host,
            base: format!("{}://{host}/", transport.scheme()).parse().unwrap(),
            transport,
            sources,
            limits: &limits,
            own_client: OnceCell::new(),
        };
        let client = requester.client(&url.parse().unwrap()).await;
        client.err().map(|error| error.to_string())
    }

    #[tokio::test]
    async fn a_server_elsewhere_cannot_name_this_machine() {
        let local = "is on this machine, its link";
        let plain = "to a host without TLS";
        let anywhere = Sources::default();
        let listed = Sources {
            insecure_sources: ["127.0.0.1:5000".to_owned()].into(),
            reach: Reach::BeyondThisMachine,
            ..Sources::default()
        };
        for (host, transport, sources, url, expected) in [
            (
                "203.0.113.1",
                Transport::Https,
                &anywhere,
                "https://203.0.113.1/",
                None,
            ),
            (
                "203.0.113.1",
                Transport::Https,
                &anywhere,
                "https://203.0.113.2/",
                None,
            ),
            (
                "203.0.113.1",
                Transport::Https,
                &anywhere,
                "http://203.0.113.2/",
                Some(plain),
            ),
            (
                "203.0.113.1",
                Transport::Https,
                &anywhere,
                "https://127.0.0.1/",
                Some(local),
            ),
            (
                "203.0.113.1",
                Transport::Https,
                &anywhere,
                "https://2130706433/",
                Some(local),
            ),
            (
                "203.0.113.1",
                Transport::Https,
                &anywhere,
                "https://[::1]/",
                Some(local),
            ),
            (
                "203.0.113.1",
                Transport::Https,
                &anywhere,
                "https://169.254.169.254/",
                Some(local),
            ),
            (
                "203.0.113.1",
                Transport::Https,
                &anywhere,
                "https://168.63.129.16/",
                Some(local),
            ),
            (
                "127.0.0.1",
                Transport::Https,
                &anywhere,
                "https://127.0.0.1:2/",
                None,
            ),
            (
                "127.0.0.1",
                Transport::Http,
                &anywhere,
                "http://127.0.0.1:2/",
                None,
            ),
            (
                "127.0.0.1:5000",
                Transport::Http,
                &listed,
                "http://127.0.0.1:5000/",
                None,
            ),
            (
                "127.0.0.1:5000",
                Transport::Http,
                &listed,
                "http://127.0.0.1:6000/",
                Some(local),
            ),
            (
                "203.0.113.1",
                Transport::Https,
                &listed,
                "http://127.0.0.1:5000/",
                None,
            ),
            (
                "203.0.113.1",
                Transport::Https,
                &anywhere,
                "ftp://203.0.113.1/",
                Some("another scheme"),
            ),
        ] {
            let said = refusal(host, transport, sources, url).await;
            match expected {
                Some(expected) => {
                    let said = said.unwrap_or_default();
                    assert!(said.contains(expected), "{host} to {url}: {said}");
                }
                None => assert_eq!(said, None, "{host} to {url}"),
            }
        }
    }
}
