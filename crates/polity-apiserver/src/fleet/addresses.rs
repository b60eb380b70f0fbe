//! By which addresses clients reach a listener.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Where Linux lists the addresses of this machine.
const IPV4_TABLE: &str = "/proc/net/fib_trie";
const IPV6_TABLE: &str = "/proc/net/if_inet6";
/// The maximum number of addresses in a certificate.
const MOST: usize = 64;
/// Addresses of documentation: asking for the way to them sends nothing.
const ELSEWHERE: [(IpAddr, IpAddr); 2] = [
    (
        IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    ),
    (
        IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    ),
];

/// The address at which clients on this machine reach a listener: "all addresses" is none to connect to.
pub(super) fn reached_at(listener: SocketAddr) -> SocketAddr {
    let ip = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        other => other,
    };
    SocketAddr::new(ip, listener.port())
}

/// The addresses besides loopback that a listener is reached at, for its certificate.
pub(super) fn served(listener: IpAddr) -> BTreeSet<IpAddr> {
    if !listener.is_unspecified() {
        return [listener]
            .into_iter()
            .filter(|ip| !ip.is_loopback())
            .collect();
    }
    let table = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut all: BTreeSet<IpAddr> = local_ipv4(&table(IPV4_TABLE))
        .into_iter()
        .map(IpAddr::from)
        .chain(local_ipv6(&table(IPV6_TABLE)).into_iter().map(IpAddr::from))
        .take(MOST)
        .collect();
    // Other systems have no such tables.
    all.extend(
        ELSEWHERE
            .into_iter()
            .filter_map(|(from, to)| way_to(from, to)),
    );
    all.retain(|ip| !ip.is_loopback() && !ip.is_unspecified());
    all
}

/// The address of this machine from which another would be reached.
fn way_to(from: IpAddr, to: IpAddr) -> Option<IpAddr> {
    let socket = UdpSocket::bind((from, 0)).ok()?;
    socket.connect((to, 9)).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// The local addresses in Linux's routing table: each is on the line before one with `host LOCAL`.
fn local_ipv4(table: &str) -> Vec<Ipv4Addr> {
    let mut last: Option<Ipv4Addr> = None;
    let mut found = Vec::new();
    for line in table.lines() {
        let line = line.trim_start();
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.trim().parse().ok();
        } else if line.ends_with("/32 host LOCAL") {
            found.extend(last);
        }
    }
    found
}

/// The addresses in Linux's table of interfaces, without those of a link, which mean nothing without an interface.
fn local_ipv6(table: &str) -> Vec<Ipv6Addr> {
    let address = |line: &str| {
        let digits = line.split_whitespace().next()?;
        let bits = u128::from_str_radix(digits, 16).ok()?;
        Some(Ipv6Addr::from_bits(bits)).filter(|ip| !ip.is_unicast_link_local())
    };
    table.lines().filter_map(address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_are_reached_at_loopback() {
        for (listener, expected) in [
            ("0.0.0.0:6443", "127.0.0.1:6443"),
            ("[::]:6443", "[::1]:6443"),
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("10.0.0.5:1", "10.0.0.5:1"),
            ("[fd00::1]:1", "[fd00::1]:1"),
        ] {
            assert_eq!(
                reached_at(listener.parse().unwrap()),
                expected.parse().unwrap(),
                "{listener}"
            );
        }
    }

    #[test]
    fn a_certificate_covers_the_address_that_was_named() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(served(ip("10.0.0.5")), [ip("10.0.0.5")].into());
        assert_eq!(served(ip("127.0.0.1")), BTreeSet::new());
        assert!(served(ip("0.0.0.0")).iter().all(|ip| !ip.is_loopback()));
    }

    #[test]
    fn the_tables_of_linux_are_read() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 10.1.2.3\n        /32 host LOCAL\n     |-- 10.1.2.255\n        /32 link BROADCAST\n     |-- 127.0.0.1\n        /32 host LOCAL\n";
        assert_eq!(
            local_ipv4(table),
            [Ipv4Addr::new(10, 1, 2, 3), Ipv4Addr::LOCALHOST]
        );
        let table = "00000000000000000000000000000001 01 80 10 80       lo\nfe80000000000000025056fffe000001 02 40 20 80     eth0\nfd000000000000000000000000000005 02 40 00 80     eth0\nnonsense\n";
        assert_eq!(
            local_ipv6(table),
            ["::1", "fd00::5"].map(|text| text.parse::<Ipv6Addr>().unwrap())
        );
    }
}
