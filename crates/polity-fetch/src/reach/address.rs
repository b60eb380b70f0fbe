//! Which addresses a request with a limited reach must not connect to: this machine, its link, metadata services of
//! clouds, and addresses that are no single host. Private networks are allowed: registries are there.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

use rustix::io::Errno;

/// Services of the machine's host or cloud outside the link-local range. They hand out credentials to every caller.
const METADATA_V4: [Ipv4Addr; 3] = [
    // Alibaba Cloud.
    Ipv4Addr::new(100, 100, 100, 200),
    // Azure: the agent of the host.
    Ipv4Addr::new(168, 63, 129, 16),
    // Oracle Cloud.
    Ipv4Addr::new(192, 0, 0, 192),
];

/// The IPv6 counterparts, as prefixes with their length in segments.
const METADATA_V6: [&[u16]; 4] = [
    // AWS: instance metadata, EKS pod identity, DNS and time.
    &[0xfd00, 0x0ec2],
    // Google Cloud.
    &[0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x0254],
    // Oracle Cloud.
    &[0xfd00, 0x00c1, 0, 0, 0, 0, 0xa9fe, 0xa9fe],
    // Scaleway.
    &[0xfd00, 0x0042, 0, 0, 0, 0, 0, 0x0042],
];

/// Addresses of documentation. A system that lets a socket bind to all of them lets it bind to every address.
const FOREIGN_V4: [Ipv4Addr; 3] = [
    Ipv4Addr::new(192, 0, 2, 1),
    Ipv4Addr::new(198, 51, 100, 1),
    Ipv4Addr::new(203, 0, 113, 1),
];
const FOREIGN_V6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 1),
];

/// Whether an address belongs to this machine, its link or a metadata service, or to no single host.
pub(super) fn is_refused(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => is_refused_v4(v4),
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_unicast_link_local()
                || v6.is_multicast()
                || METADATA_V6
                    .iter()
                    .any(|prefix| v6.segments().starts_with(prefix))
                || embedded(v6).any(is_refused_v4)
                || is_own(v6.into())
        }
    }
}

fn is_refused_v4(v4: Ipv4Addr) -> bool {
    v4.is_loopback()
        || v4.is_link_local()
        // All of 0.0.0.0/8: Linux connects some of it to this machine.
        || v4.octets()[0] == 0
        || v4.is_multicast()
        || v4.is_broadcast()
        || METADATA_V4.contains(&v4)
        || is_own(v4.into())
}

/// The IPv4 addresses that an IPv6 address may lead to: IPv4-compatible (`::/96`), 6to4 (`2002::/16`) and NAT64 with the
/// well-known prefix (`64:ff9b::/96`) or a local one (`64:ff9b:1::/48`). IPv4-mapped addresses are canonical before.
fn embedded(v6: Ipv6Addr) -> impl Iterator<Item = Ipv4Addr> {
    let found = match v6.segments() {
        [0, 0, 0, 0, 0, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => {
            vec![from_halves(high, low)]
        }
        [0x64, 0xff9b, 1, ..] => {
            // Of a local prefix only the network knows the length: the address is looked for wherever RFC 6052 puts it.
            // Zeros are what the other layouts have there.
            let octets = v6.octets();
            let at = |places: [usize; 4]| Ipv4Addr::from(places.map(|place| octets[place]));
            let layouts = [
                [6, 7, 9, 10],
                [7, 9, 10, 11],
                [9, 10, 11, 12],
                [12, 13, 14, 15],
            ];
            let found = layouts.map(at).into_iter();
            found.filter(|v4| v4.octets()[0] != 0).collect()
        }
        _ => Vec::new(),
    };
    found.into_iter()
}

fn from_halves(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

/// Whether an address is one of this machine's interfaces at this moment: only then a socket can be bound to it.
/// Interfaces come and go, so nothing is remembered.
fn is_own(address: IpAddr) -> bool {
    can_bind(address) && (!binds_any(address) || is_routed_to_itself(address))
}

/// Whether a socket can be bound to an address. If no socket can be created, the address counts as one of this machine.
fn can_bind(address: IpAddr) -> bool {
    match UdpSocket::bind((address, 0)) {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => false,
        Err(error) => matches!(
            Errno::from_io_error(&error),
            Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS)
        ),
    }
}

/// Whether sockets can be bound to addresses that are not of this machine (`net.ipv4.ip_nonlocal_bind` on Linux).
fn binds_any(address: IpAddr) -> bool {
    let binds = |foreign: IpAddr| UdpSocket::bind((foreign, 0)).is_ok();
    match address {
        IpAddr::V4(_) => FOREIGN_V4.into_iter().all(|foreign| binds(foreign.into())),
        IpAddr::V6(_) => FOREIGN_V6.into_iter().all(|foreign| binds(foreign.into())),
    }
}

/// Whether packets to an address would be sent from that address, which is so for the first address of each interface.
/// Connecting a UDP socket sends nothing.
fn is_routed_to_itself(address: IpAddr) -> bool {
    let unspecified: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let source = || {
        let socket = UdpSocket::bind((unspecified, 0))?;
        socket.connect((address, 9))?;
        socket.local_addr()
    };
    source().is_ok_and(|source| source.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(addresses: &[&str], expected: bool) {
        for address in addresses {
            assert_eq!(is_refused(address.parse().unwrap()), expected, "{address}");
        }
    }

    /// The addresses from which this machine reaches others; none without a network.
    fn interfaces() -> Vec<IpAddr> {
        let source = |from: IpAddr, to: IpAddr| {
            let socket = UdpSocket::bind((from, 0)).ok()?;
            socket.connect((to, 9)).ok()?;
            Some(socket.local_addr().ok()?.ip())
        };
        let found = [
            source(Ipv4Addr::UNSPECIFIED.into(), FOREIGN_V4[2].into()),
            source(Ipv6Addr::UNSPECIFIED.into(), FOREIGN_V6[1].into()),
        ];
        found.into_iter().flatten().collect()
    }

    #[test]
    fn loopback_and_the_link_are_refused() {
        check(
            &[
                "127.0.0.1",
                "127.8.9.1",
                "169.254.169.254",
                "169.254.170.23",
                "::1",
                "fe80::1",
                "febf::1",
            ],
            true,
        );
    }

    #[test]
    fn metadata_services_of_clouds_are_refused_wherever_they_are() {
        check(
            &[
                "100.100.100.200",
                "168.63.129.16",
                "192.0.0.192",
                "fd00:ec2::254",
                "fd00:ec2::23",
                "fd20:ce::254",
                "fd00:c1::a9fe:a9fe",
                "fd00:42::42",
            ],
            true,
        );
    }

    #[test]
    fn addresses_of_no_single_host_are_refused() {
        check(
            &[
                "0.0.0.0",
                "0.1.2.3",
                "::",
                "224.0.0.1",
                "239.255.255.250",
                "ff02::1",
                "ff0e::1",
                "255.255.255.255",
            ],
            true,
        );
    }

    #[test]
    fn refused_addresses_are_refused_inside_ipv6_addresses() {
        check(
            &[
                // Mapped and compatible.
                "::ffff:127.0.0.1",
                "::ffff:168.63.129.16",
                "::ffff:224.0.0.1",
                "::127.0.0.1",
                "::169.254.169.254",
                // NAT64 with the well-known prefix.
                "64:ff9b::a9fe:a9fe",
                "64:ff9b::100.100.100.200",
                "64:ff9b::255.255.255.255",
                // NAT64 with local prefixes of 96, 64, 56 and 48 bits.
                "64:ff9b:1::169.254.169.254",
                "64:ff9b:1:0:a9:fea9:fe00:0",
                "64:ff9b:1:a9:fe:a9fe::",
                "64:ff9b:1:a9fe:a9:fe00::",
                // 6to4.
                "2002:7f00:1::1",
                "2002:a9fe:a9fe::1",
            ],
            true,
        );
    }

    #[test]
    fn other_hosts_are_allowed_private_networks_among_them() {
        check(
            &[
                "10.255.254.253",
                "172.31.254.253",
                "192.168.254.253",
                "100.64.254.253",
                "168.63.129.17",
                "203.0.113.7",
                "fd12:3456:789a::fffe",
                "2001:db8::fffe",
                "::ffff:203.0.113.7",
                "64:ff9b::203.0.113.7",
                "64:ff9b:1::203.0.113.7",
                "64:ff9b:1::10.255.254.253",
                "2002:cb00:7107::1",
            ],
            false,
        );
    }

    #[test]
    fn addresses_of_interfaces_are_ours_and_others_are_not() {
        for (address, expected) in [
            ("127.0.0.1", true),
            ("127.0.0.77", cfg!(target_os = "linux")),
            ("203.0.113.7", false),
            ("2001:db8::fffe", false),
        ] {
            assert_eq!(is_own(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn this_machine_is_refused_by_the_addresses_of_its_interfaces() {
        for own in interfaces() {
            assert!(is_refused(own), "{own}");
            let IpAddr::V4(v4) = own else { continue };
            let nat64 = Ipv6Addr::from_bits(0x0064_ff9b << 96 | u128::from(v4.to_bits()));
            for form in [v4.to_ipv6_mapped(), v4.to_ipv6_compatible(), nat64] {
                assert!(is_refused(form.into()), "{form}");
            }
        }
    }
}
