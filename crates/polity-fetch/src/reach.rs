//! How far a request may reach. The policy's author or the creator of an object names the host, but the policy server
//! makes the request: it must not be used to ask what only the server's own machine can reach.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::error::FetchError;

/// How far a request may reach.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reach {
    /// Wherever the process can.
    #[default]
    Anywhere,
    /// Not to this machine and its link, but for hosts that are listed as insecure sources.
    BeyondThisMachine,
}

impl Reach {
    /// Whether a host, `host` or `host:port`, may be asked. A name is resolved here, and again by the [`Resolver`] when
    /// the connection is made.
    pub(crate) async fn check(self, host: &str) -> Result<(), FetchError> {
        match self {
            Self::BeyondThisMachine if is_local_host(host).await => Err(FetchError::OutOfReach {
                host: host.to_owned(),
            }),
            Self::BeyondThisMachine | Self::Anywhere => Ok(()),
        }
    }
}

/// A name resolves to this machine or its link.
#[derive(Debug, thiserror::Error)]
#[error("its address is on this machine or its link")]
pub(crate) struct LocalAddress;

/// Resolves names to addresses beyond this machine. The addresses it returns are those that are connected to.
pub(crate) struct Resolver {
    exempt: BTreeSet<String>,
}

impl Resolver {
    /// A resolver that gives any address for these names.
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
            if !is_exempt && found.iter().any(|address| is_local(address.ip())) {
                return Err(LocalAddress.into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

/// Whether one of a host's addresses is on this machine or its link. A name that does not resolve cannot be reached.
pub(crate) async fn is_local_host(host: &str) -> bool {
    addresses(host).await.into_iter().any(is_local)
}

/// Whether a host has no address but those of this machine and its link. A server elsewhere that adds such an address to
/// its name does not become one of this machine.
pub(crate) async fn is_this_machine(host: &str) -> bool {
    let addresses = addresses(host).await;
    !addresses.is_empty() && addresses.into_iter().all(is_local)
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

fn is_local(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => is_local_v4(v4),
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_unicast_link_local()
                || v6.is_unspecified()
                || v6 == METADATA
                || embedded(v6).is_some_and(is_local_v4)
        }
    }
}

fn is_local_v4(v4: Ipv4Addr) -> bool {
    v4.is_loopback() || v4.is_link_local() || v4.octets()[0] == 0
}

/// The metadata service of a cloud, which is of the machine's link in all but its address.
const METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254);

/// The IPv4 address that an address of NAT64 (`64:ff9b::/96`) or 6to4 (`2002::/16`) leads to.
fn embedded(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let ([0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..]) = v6.segments() else {
        return None;
    };
    Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
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
            ("[fe80::1]", false),
            ("0.0.0.0:80", false),
            ("0.1.2.3", false),
            ("localhost:5000", false),
            ("10.0.0.1", true),
            ("192.0.2.1:443", true),
            ("[2001:db8::1]:443", true),
            ("[64:ff9b::c000:201]", true),
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
