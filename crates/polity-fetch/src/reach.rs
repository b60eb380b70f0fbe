//! How far a request may reach. The policy's author or the creator of an object names the host, but the policy server
//! makes the request: it must not be usable to connect to services that only the server's own machine can reach.

mod address;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use self::address::is_refused;
use crate::error::FetchError;

/// How far a request may reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reach {
    /// To every host that the process can connect to.
    #[default]
    Anywhere,
    /// To other machines, and to hosts that are listed as insecure sources. Not to addresses of this machine, its link
    /// or a cloud's metadata service.
    BeyondThisMachine,
}

impl Reach {
    /// Checks that a request may be sent to `host` or `host:port`. A name is resolved here, and again by the [`Resolver`]
    /// when the connection is made.
    pub(crate) async fn check(self, host: &str) -> Result<(), FetchError> {
        match self {
            Self::BeyondThisMachine if has_refused_address(host).await => {
                Err(FetchError::OutOfReach {
                    host: host.to_owned(),
                })
            }
            Self::BeyondThisMachine | Self::Anywhere => Ok(()),
        }
    }
}

/// A name resolves to an address that the request must not connect to.
#[derive(Debug, thiserror::Error)]
#[error("its address belongs to this machine, its link or a metadata service")]
pub(crate) struct RefusedAddress;

/// Resolves names, and fails for those that have a refused address. The client connects to the addresses that it
/// returns, so that a name cannot change between check and connection.
pub(crate) struct Resolver {
    exempt: BTreeSet<String>,
}

impl Resolver {
    /// A resolver that returns any address for the names in `exempt`.
    pub(crate) fn except(exempt: BTreeSet<String>) -> Self {
        Self { exempt }
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let is_exempt = self.exempt.contains(name.as_str());
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            if !is_exempt && found.iter().any(|address| is_refused(address.ip())) {
                return Err(RefusedAddress.into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Whether a request must not connect to one of a host's addresses. A name that does not resolve cannot be reached.
pub(crate) async fn has_refused_address(host: &str) -> bool {
    addresses(host).await.into_iter().any(is_refused)
}

/// Whether all addresses of a host are of this machine or its link. A server elsewhere that adds such an address to its
/// name does not become a server of this machine.
pub(crate) async fn is_this_machine(host: &str) -> bool {
    let addresses = addresses(host).await;
    !addresses.is_empty() && addresses.into_iter().all(is_refused)
}

async fn addresses(host: &str) -> Vec<IpAddr> {
    let name = without_port(host);
    if let Ok(address) = name.parse::<IpAddr>() {
        return vec![address];
    }
    match tokio::net::lookup_host((name, 0)).await {
        Ok(found) => found.map(|address| address.ip()).collect(),
        Err(_) => Vec::new(),
    }
}

/// The host of `host`, `host:port`, `[v6]` or `[v6]:port`.
pub(crate) fn without_port(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    match host.rsplit_once(':') {
        // More than one colon is an address without brackets.
        Some((name, _)) if !name.contains(':') => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn this_machine_and_its_link_are_out_of_reach() {
        for (host, is_allowed) in [
            ("127.0.0.1", false),
            ("127.8.9.1:5000", false),
            ("[::1]:5000", false),
            ("[::ffff:127.0.0.1]", false),
            ("[64:ff9b::a9fe:a9fe]", false),
            ("[2002:7f00:1::1]", false),
            ("[fd00:ec2::254]", false),
            ("169.254.169.254", false),
            ("100.100.100.200:80", false),
            ("168.63.129.16", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("[fe80::1]", false),
            ("0.0.0.0:80", false),
            ("0.1.2.3", false),
            ("localhost:5000", false),
            ("10.255.254.253", true),
            ("203.0.113.7:443", true),
            ("[2001:db8::fffe]:443", true),
            ("[64:ff9b::cb00:7107]", true),
        ] {
            let beyond = Reach::BeyondThisMachine.check(host).await;
            assert_eq!(beyond.is_ok(), is_allowed, "{host}");
            assert!(Reach::Anywhere.check(host).await.is_ok(), "{host}");
        }
    }

    #[tokio::test]
    async fn names_of_this_machine_are_not_resolved() {
        let resolve = async |exempt: &[&str]| {
            let exempt = exempt.iter().map(|&name| name.to_owned()).collect();
            let resolver = Resolver::except(exempt);
            resolver.resolve("localhost".parse().unwrap()).await.is_ok()
        };
        assert!(!resolve(&[]).await);
        assert!(resolve(&["localhost"]).await);
    }
}
