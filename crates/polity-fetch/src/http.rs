//! Modules from web servers, by one GET.

use futures::StreamExt as _;
use polity_core::causes::innermost;
use reqwest::redirect::{Attempt, Policy};
use url::Url;

use crate::error::FetchError;
use crate::fetcher::{Limits, Progress};
use crate::sources::Sources;
use crate::transport::{Way, unreachable};

const MAX_REDIRECTS: usize = 5;

/// Downloads a module in one way.
pub(crate) async fn download(
    url: &Url,
    host: &str,
    way: Way,
    sources: &Sources,
    limits: &Limits,
    progress: &dyn Progress,
) -> Result<Vec<u8>, FetchError> {
    let client = client(host, way, sources, limits)?;
    let mut url = url.clone();
    let scheme = if way == Way::Http { "http" } else { "https" };
    url.set_scheme(scheme)
        .expect("http and https change places");
    let response = client
        .get(url.clone())
        .send()
        .await
        .map_err(|error| request_failed(host, &error))?;
    let status = response.status();
    if status.is_redirection() {
        return Err(FetchError::Redirected {
            host: host.to_owned(),
            reason: "to another scheme, out of reach, or too often".to_owned(),
        });
    }
    if !status.is_success() {
        return Err(FetchError::Refused {
            host: host.to_owned(),
            status: status.as_u16(),
            message: String::new(),
        });
    }
    let too_large = || FetchError::TooLarge {
        uri: url.to_string(),
        limit: limits.module_bytes,
    };
    let length = response.content_length();
    if length.is_some_and(|length| length > limits.module_bytes) {
        return Err(too_large());
    }
    progress.starts(length);
    let mut content = Vec::new();
    let mut body = response.bytes_stream();
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|error| FetchError::NotAModule {
            uri: url.to_string(),
            reason: format!("the download broke off: {}", innermost(&error)),
        })?;
        if content.len() as u64 + chunk.len() as u64 > limits.module_bytes {
            return Err(too_large());
        }
        content.extend_from_slice(&chunk);
        progress.advances(content.len() as u64);
    }
    Ok(content)
}

fn client(
    host: &str,
    way: Way,
    sources: &Sources,
    limits: &Limits,
) -> Result<reqwest::Client, FetchError> {
    let broken = |error: reqwest::Error| unreachable(host, &error);
    let mut builder = reqwest::Client::builder()
        .connect_timeout(limits.connect)
        .read_timeout(limits.idle)
        .redirect(Policy::custom({
            let sources = sources.clone();
            move |attempt| follow(attempt, &sources)
        }))
        .tls_danger_accept_invalid_certs(way == Way::UnverifiedHttps);
    if let Some(resolver) = sources.reach.resolver(sources) {
        builder = builder.dns_resolver(resolver);
    }
    for certificate in sources.certificates(host)? {
        builder = builder.tls_certs_merge(certificate.for_web().map_err(broken)?);
    }
    if let Some(proxies) = &sources.proxies {
        let exempt = proxies
            .no_proxy
            .as_deref()
            .and_then(reqwest::NoProxy::from_string);
        let proxies = [
            proxies.http_proxy.as_deref().map(reqwest::Proxy::http),
            proxies.https_proxy.as_deref().map(reqwest::Proxy::https),
        ];
        for proxy in proxies.into_iter().flatten() {
            builder = builder.proxy(proxy.map_err(broken)?.no_proxy(exempt.clone()));
        }
    }
    builder.build().map_err(broken)
}

/// Follows a few redirects that keep the scheme and stay within reach; the others become the answer.
fn follow(attempt: Attempt<'_>, sources: &Sources) -> reqwest::redirect::Action {
    let keeps_scheme = attempt
        .previous()
        .last()
        .is_some_and(|previous| previous.scheme() == attempt.url().scheme());
    let is_in_reach = sources.reach.allows_redirect(attempt.url(), sources);
    if keeps_scheme && is_in_reach && attempt.previous().len() <= MAX_REDIRECTS {
        attempt.follow()
    } else {
        attempt.stop()
    }
}

fn request_failed(host: &str, error: &reqwest::Error) -> FetchError {
    if error.is_redirect() {
        return FetchError::Redirected {
            host: host.to_owned(),
            reason: innermost(error),
        };
    }
    unreachable(host, error)
}
