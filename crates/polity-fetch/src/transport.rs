//! The transports that are tried for a host, one after the other: verified TLS, and for hosts that the user lists as
//! insecure also TLS without verification and no TLS at all.

use std::future::Future;

use polity_core::causes::innermost;

use crate::error::FetchError;
use crate::sources::Sources;

/// How a connection is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Https,
    UnverifiedHttps,
    Http,
}

impl Transport {
    /// The scheme of URLs with this transport.
    pub(crate) fn scheme(self) -> &'static str {
        match self {
            Self::Https | Self::UnverifiedHttps => "https",
            Self::Http => "http",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Https => "over TLS",
            Self::UnverifiedHttps => "over TLS without verification",
            Self::Http => "without TLS",
        }
    }
}

/// The transports to try for a host, in their order.
pub(crate) fn allowed(sources: &Sources, host: &str) -> &'static [Transport] {
    if sources.is_insecure(host) {
        &[
            Transport::Https,
            Transport::UnverifiedHttps,
            Transport::Http,
        ]
    } else {
        &[Transport::Https]
    }
}

/// Tries each transport until one reaches the host. Any response ends the search.
pub(crate) async fn first<T, F>(
    transports: &[Transport],
    mut attempt: impl FnMut(Transport) -> F,
) -> Result<T, FetchError>
where
    F: Future<Output = Result<T, FetchError>>,
{
    let mut reasons: Vec<(Transport, String)> = Vec::new();
    let mut unreachable_host = String::new();
    for transport in transports {
        match attempt(*transport).await {
            Err(FetchError::Unreachable { host, reason }) => {
                unreachable_host = host;
                reasons.push((*transport, reason));
            }
            result => return result,
        }
    }
    Err(FetchError::Unreachable {
        host: unreachable_host,
        reason: together(reasons),
    })
}

/// The reasons of all transports, or the one they share.
fn together(mut reasons: Vec<(Transport, String)>) -> String {
    reasons.dedup_by(|(_, second), (_, first)| second == first);
    if let [(_, reason)] = &reasons[..] {
        return reason.clone();
    }
    let all: Vec<String> = reasons
        .iter()
        .map(|(transport, reason)| format!("{}: {reason}", transport.name()))
        .collect();
    all.join("; ")
}

/// A request without a response, with its innermost cause.
pub(crate) fn unreachable(host: &str, error: &reqwest::Error) -> FetchError {
    FetchError::Unreachable {
        host: host.to_owned(),
        reason: innermost(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_failure_of_each_transport_is_reported() {
        let refused = || "connection refused".to_owned();
        assert_eq!(
            together(vec![
                (Transport::Https, refused()),
                (Transport::Http, refused())
            ]),
            "connection refused"
        );
        assert_eq!(
            together(vec![
                (Transport::Https, "not TLS".to_owned()),
                (Transport::Http, refused())
            ]),
            "over TLS: not TLS; without TLS: connection refused"
        );
    }

    #[test]
    fn only_insecure_sources_are_reached_without_verified_tls() {
        let sources = Sources {
            insecure_sources: ["dev:5000".to_owned()].into(),
            ..Sources::default()
        };
        assert_eq!(allowed(&sources, "dev"), [Transport::Https]);
        assert_eq!(
            allowed(&sources, "dev:5000"),
            [
                Transport::Https,
                Transport::UnverifiedHttps,
                Transport::Http
            ]
        );
    }
}
