//! Whether a route is attached to a listener: the conditions on ports, kinds and hostnames.
//! See docs/spec/attachment.md#3-3.

use super::facts::{GATEWAY_GROUP, Listener, ParentRef, Route};

/// Whether a listener takes a route that names it, apart from the namespaces.
pub(crate) fn admits(listener: &Listener, kind: &str, route: &Route, parent: &ParentRef) -> bool {
    let section = parent
        .section
        .as_ref()
        .is_none_or(|name| *name == listener.name);
    let port = parent.port.is_none_or(|port| listener.port == Some(port));
    section && port && allows_kind(listener, kind) && hostnames_meet(listener, kind, route)
}

fn allows_kind(listener: &Listener, kind: &str) -> bool {
    if !listener.kinds.is_empty() {
        return listener
            .kinds
            .iter()
            .any(|(group, allowed)| group == GATEWAY_GROUP && allowed == kind);
    }
    match listener.protocol.as_str() {
        "HTTP" | "HTTPS" => matches!(kind, "HTTPRoute" | "GRPCRoute"),
        "TLS" => kind == "TLSRoute" || (kind == "TCPRoute" && !listener.passthrough),
        "TCP" => kind == "TCPRoute",
        "UDP" => kind == "UDPRoute",
        _ => false,
    }
}

fn hostnames_meet(listener: &Listener, kind: &str, route: &Route) -> bool {
    let Some(hostname) = &listener.hostname else {
        return true;
    };
    if matches!(kind, "TCPRoute" | "UDPRoute") || route.hostnames.is_empty() {
        return true;
    }
    route.hostnames.iter().any(|other| meet(hostname, other))
}

/// Whether two hostnames have a name in common. `*.x.test` stands for any number of labels before `x.test`, and never
/// for `x.test` itself.
fn meet(one: &str, other: &str) -> bool {
    match (one.strip_prefix('*'), other.strip_prefix('*')) {
        (None, None) => one == other,
        (Some(suffix), None) => other.len() > suffix.len() && other.ends_with(suffix),
        (None, Some(suffix)) => one.len() > suffix.len() && one.ends_with(suffix),
        (Some(one), Some(other)) => one.ends_with(other) || other.ends_with(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::facts::{From, Rule};

    fn listener(protocol: &str, hostname: Option<&str>) -> Listener {
        Listener {
            name: "l".to_owned(),
            port: Some(80),
            protocol: protocol.to_owned(),
            hostname: hostname.map(str::to_owned),
            passthrough: false,
            from: From::Same,
            kinds: Vec::new(),
        }
    }

    fn route(hostnames: &[&str]) -> Route {
        Route {
            parents: Vec::new(),
            hostnames: hostnames.iter().map(|&name| name.to_owned()).collect(),
            rules: vec![Rule {
                name: None,
                backends: Vec::new(),
            }],
        }
    }

    fn parent(section: Option<&str>, port: Option<i64>) -> ParentRef {
        ParentRef {
            to: crate::ObjectRef::new(GATEWAY_GROUP, "Gateway", Some("infra"), "g"),
            section: section.map(str::to_owned),
            port,
        }
    }

    #[test]
    fn section_and_port_must_be_those_of_the_listener() {
        let cases = [
            (None, None, true),
            (Some("l"), None, true),
            (Some("m"), None, false),
            (None, Some(80), true),
            (None, Some(81), false),
            (Some("l"), Some(81), false),
        ];
        for (section, port, expected) in cases {
            let admitted = admits(
                &listener("HTTP", None),
                "HTTPRoute",
                &route(&[]),
                &parent(section, port),
            );
            assert_eq!(admitted, expected, "section {section:?}, port {port:?}");
        }
    }

    #[test]
    fn the_protocol_implies_the_kinds_unless_they_are_named() {
        let cases = [
            ("HTTP", "HTTPRoute GRPCRoute"),
            ("HTTPS", "HTTPRoute GRPCRoute"),
            ("TLS", "TLSRoute TCPRoute"),
            ("TCP", "TCPRoute"),
            ("UDP", "UDPRoute"),
            ("example.com/own", ""),
        ];
        for (protocol, allowed) in cases {
            for kind in crate::graph::facts::ROUTES {
                let admitted = admits(
                    &listener(protocol, None),
                    kind,
                    &route(&[]),
                    &parent(None, None),
                );
                assert_eq!(
                    admitted,
                    allowed.split(' ').any(|name| name == kind),
                    "{kind} on {protocol}"
                );
            }
        }
        let mut passthrough = listener("TLS", None);
        passthrough.passthrough = true;
        assert!(admits(
            &passthrough,
            "TLSRoute",
            &route(&[]),
            &parent(None, None)
        ));
        assert!(!admits(
            &passthrough,
            "TCPRoute",
            &route(&[]),
            &parent(None, None)
        ));
        let mut named = listener("HTTP", None);
        named.kinds = vec![(GATEWAY_GROUP.to_owned(), "GRPCRoute".to_owned())];
        assert!(admits(
            &named,
            "GRPCRoute",
            &route(&[]),
            &parent(None, None)
        ));
        assert!(!admits(
            &named,
            "HTTPRoute",
            &route(&[]),
            &parent(None, None)
        ));
    }

    #[test]
    fn hostnames_must_meet_when_both_sides_set_any() {
        let cases: [(Option<&str>, &[&str], bool); 12] = [
            (None, &["a.test"], true),
            (Some("a.test"), &[], true),
            (Some("a.test"), &["a.test"], true),
            (Some("a.test"), &["b.test"], false),
            (Some("*.a.test"), &["x.a.test"], true),
            (Some("*.a.test"), &["y.x.a.test"], true),
            (Some("*.a.test"), &["a.test"], false),
            (Some("x.a.test"), &["*.a.test"], true),
            (Some("a.test"), &["*.a.test"], false),
            (Some("*.x.a.test"), &["*.a.test"], true),
            (Some("*.xa.test"), &["*.a.test"], false),
            (Some("*.a.test"), &["b.test", "x.a.test"], true),
        ];
        for (hostname, hostnames, expected) in cases {
            let admitted = admits(
                &listener("HTTP", hostname),
                "HTTPRoute",
                &route(hostnames),
                &parent(None, None),
            );
            assert_eq!(
                admitted, expected,
                "listener {hostname:?}, route {hostnames:?}"
            );
        }
        let tcp = admits(
            &listener("TCP", Some("a.test")),
            "TCPRoute",
            &route(&["b.test"]),
            &parent(None, None),
        );
        assert!(tcp, "TCP routes have no hostnames");
    }
}
