//! How far a download may reach. A policy of a namespace names the place, but the request is made by the server: it
//! must not be talked into asking what only the server's own machine can reach.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use crate::error::FetchError;
use crate::sources::Sources;

/// How far a download may reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reach {
    /// Wherever the process can.
    #[default]
    Anywhere,
    /// Not to this machine and its link, but for hosts that are listed as insecure sources.
    BeyondThisMachine,
}

impl Reach {
    /// Whether a host may be asked.
    pub(crate) async fn check(self, host: &str, sources: &Sources) -> Result<(), FetchError> {
        if self == Self::Anywhere || sources.is_insecure(host) {
            return Ok(());
        }
        let refused = || FetchError::OutOfReach {
            host: host.to_owned(),
        };
        let name = without_port(host);
        let is_local = match name.parse::<IpAddr>() {
            Ok(address) => is_local(address),
            // What cannot be resolved cannot be reached either; that is told later.
            Err(_) => tokio::net::lookup_host((name, 0))
                .await
                .is_ok_and(|mut found| found.any(|address| is_local(address.ip()))),
        };
        if is_local { Err(refused()) } else { Ok(()) }
    }

    /// The addresses of `host:port`, unless one of them may not be asked.
    pub(crate) async fn addresses(
        self,
        target: &str,
        sources: &Sources,
    ) -> io::Result<Option<Vec<SocketAddr>>> {
        let addresses: Vec<_> = tokio::net::lookup_host(target).await?.collect();
        let listed = target.strip_suffix(":443").unwrap_or(target);
        let may_be_local = self == Self::Anywhere || sources.is_insecure(listed);
        let is_in_reach = may_be_local || !addresses.iter().any(|address| is_local(address.ip()));
        Ok(is_in_reach.then_some(addresses))
    }

    /// Whether a redirect may be followed. Names are looked at when they are resolved.
    pub(crate) fn allows_redirect(self, to: &Url, sources: &Sources) -> bool {
        if self == Self::Anywhere {
            return true;
        }
        let host = to.host_str().unwrap_or_default();
        let listed = match to.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        if sources.is_insecure(&listed) {
            return true;
        }
        match to.host() {
            Some(Host::Ipv4(address)) => !is_local(address.into()),
            Some(Host::Ipv6(address)) => !is_local(address.into()),
            // The resolver lets a listed name pass whatever the port.
            Some(Host::Domain(name)) => !listed_names(sources).contains(name),
            None => false,
        }
    }

    /// A resolver that gives only addresses that may be asked; none where every one may.
    pub(crate) fn resolver(self, sources: &Sources) -> Option<Resolver> {
        (self == Self::BeyondThisMachine).then(|| Resolver {
            listed: listed_names(sources),
        })
    }
}

/// Resolves names to addresses beyond this machine.
pub(crate) struct Resolver {
    listed: BTreeSet<String>,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let is_listed = self.listed.contains(name.as_str());
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if !is_listed && found.iter().any(|address| is_local(address.ip())) {
                return Err("its address is on this machine or its link".into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

fn listed_names(sources: &Sources) -> BTreeSet<String> {
    let listed = sources.insecure_sources.iter();
    listed.map(|host| without_port(host).to_owned()).collect()
}

/// The host of `host`, `host:port`, `[v6]` or `[v6]:port`.
fn without_port(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    match host.rsplit_once(':') {
        // More than one colon is an address without brackets.
        Some((name, _)) if !name.contains(':') => name,
        _ => host,
    }
}

fn is_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_link_local() || v4.is_unspecified(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unicast_link_local() || v6.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(listed: &str) -> Sources {
        Sources {
            insecure_sources: [listed.to_owned()].into(),
            ..Sources::default()
        }
    }

    #[tokio::test]
    async fn this_machine_and_its_link_are_out_of_reach() {
        let none = Sources::default();
        for (host, is_allowed) in [
            ("127.0.0.1", false),
            ("127.8.9.1:5000", false),
            ("[::1]:5000", false),
            ("[::ffff:127.0.0.1]", false),
            ("169.254.169.254", false),
            ("[fe80::1]", false),
            ("0.0.0.0:80", false),
            ("localhost:5000", false),
            ("10.0.0.1", true),
            ("192.0.2.1:443", true),
            ("[2001:db8::1]:443", true),
        ] {
            let beyond = Reach::BeyondThisMachine.check(host, &none).await;
            assert_eq!(beyond.is_ok(), is_allowed, "{host}");
            assert!(Reach::Anywhere.check(host, &none).await.is_ok(), "{host}");
            let listed = Reach::BeyondThisMachine.check(host, &sources(host)).await;
            assert!(listed.is_ok(), "{host}: listed");
        }
    }

    #[test]
    fn redirects_are_looked_at_too() {
        let listed = sources("localhost:5000");
        for (to, is_allowed) in [
            ("https://example.com/p", true),
            ("https://169.254.169.254/", false),
            ("https://[::1]/", false),
            ("https://2130706433/", false),
            ("https://localhost:5000/", true),
            ("https://localhost:6000/", false),
        ] {
            let to = to.parse().unwrap();
            let allowed = Reach::BeyondThisMachine.allows_redirect(&to, &listed);
            assert_eq!(allowed, is_allowed, "{to}");
            assert!(Reach::Anywhere.allows_redirect(&to, &listed));
        }
    }

    #[tokio::test]
    async fn names_of_this_machine_are_not_resolved() {
        let resolver = Reach::BeyondThisMachine
            .resolver(&Sources::default())
            .unwrap();
        let resolved = resolver.resolve("localhost".parse().unwrap()).await;
        assert!(resolved.is_err());
        let resolver = Reach::BeyondThisMachine
            .resolver(&sources("localhost:5000"))
            .unwrap();
        assert!(resolver.resolve("localhost".parse().unwrap()).await.is_ok());
    }
}
