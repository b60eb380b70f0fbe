//! In which ways a host is asked, one after the other: verified TLS, and for hosts the user calls insecure also TLS
//! without verification and no TLS at all.

use std::error::Error;
use std::future::Future;

use crate::error::FetchError;
use crate::sources::Sources;

/// How a connection is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Https,
    UnverifiedHttps,
    Http,
}

/// The ways to try for a host, in their order.
pub(crate) fn ways(sources: &Sources, host: &str) -> &'static [Way] {
    if sources.is_insecure(host) {
        &[Way::Https, Way::UnverifiedHttps, Way::Http]
    } else {
        &[Way::Https]
    }
}

/// Tries each way until one reaches the host. An answer ends the search, whatever it says; the first failure is
/// told, because the later ones only follow from it.
pub(crate) async fn first<T, F>(
    ways: &[Way],
    mut attempt: impl FnMut(Way) -> F,
) -> Result<T, FetchError>
where
    F: Future<Output = Result<T, FetchError>>,
{
    let mut first_failure = None;
    for way in ways {
        match attempt(*way).await {
            Err(failure @ FetchError::Unreachable { .. }) => {
                first_failure.get_or_insert(failure);
            }
            answered => return answered,
        }
    }
    Err(first_failure.expect("there is always a way to try"))
}

/// A request that got no answer, in the words of what is at the bottom of it.
pub(crate) fn unreachable(host: &str, error: &reqwest::Error) -> FetchError {
    let mut reason = error as &dyn Error;
    while let Some(cause) = reason.source() {
        reason = cause;
    }
    FetchError::Unreachable {
        host: host.to_owned(),
        reason: reason.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
