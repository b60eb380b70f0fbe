//! The ways in which a host is asked, one after the other: verified TLS, and for hosts that the user lists as insecure
//! also TLS without verification and no TLS at all.

use std::future::Future;

use polity_core::causes::innermost;

use crate::error::FetchError;
use crate::sources::Sources;

/// How a connection is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Https,
    UnverifiedHttps,
    Http,
}

impl Way {
    /// The scheme of URLs that are asked in this way.
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

/// The ways to try for a host, in their order.
pub(crate) fn ways(sources: &Sources, host: &str) -> &'static [Way] {
    if sources.is_insecure(host) {
        &[Way::Https, Way::UnverifiedHttps, Way::Http]
    } else {
        &[Way::Https]
    }
}

/// Tries each way until one reaches the host. Any response ends the search.
pub(crate) async fn first<T, F>(
    ways: &[Way],
    mut attempt: impl FnMut(Way) -> F,
) -> Result<T, FetchError>
where
    F: Future<Output = Result<T, FetchError>>,
{
    let mut reasons: Vec<(Way, String)> = Vec::new();
    let mut asked = String::new();
    for way in ways {
        match attempt(*way).await {
            Err(FetchError::Unreachable { host, reason }) => {
                asked = host;
                reasons.push((*way, reason));
            }
            answered => return answered,
        }
    }
    Err(FetchError::Unreachable {
        host: asked,
        reason: together(reasons),
    })
}

/// The reasons of all ways, or the one they share.
fn together(mut reasons: Vec<(Way, String)>) -> String {
    reasons.dedup_by(|(_, second), (_, first)| second == first);
    if let [(_, reason)] = &reasons[..] {
        return reason.clone();
    }
    let told: Vec<String> = reasons
        .iter()
        .map(|(way, reason)| format!("{}: {reason}", way.name()))
        .collect();
    told.join("; ")
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
    fn what_failed_in_each_way_is_told() {
        let refused = || "connection refused".to_owned();
        assert_eq!(
            together(vec![(Way::Https, refused()), (Way::Http, refused())]),
            "connection refused"
        );
        assert_eq!(
            together(vec![
                (Way::Https, "not TLS".to_owned()),
                (Way::Http, refused())
            ]),
            "over TLS: not TLS; without TLS: connection refused"
        );
    }

    #[test]
    fn only_hosts_called_insecure_are_asked_without_verified_tls() {
        let sources = Sources {
            insecure_sources: ["dev:5000".to_owned()].into(),
            ..Sources::default()
        };
        assert_eq!(ways(&sources, "dev"), [Way::Https]);
        assert_eq!(
            ways(&sources, "dev:5000"),
            [Way::Https, Way::UnverifiedHttps, Way::Http]
        );
    }
}
