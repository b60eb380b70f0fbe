//! What the Gateway hierarchy reads of an object. Everything else about it is no fact: when only its status
//! changes, nothing is done.

use std::collections::BTreeMap;

use polity_core::FieldPath;
use polity_core::selector::LabelSelector;
use serde_json::Value;

use crate::object::{ObjectRef, at, labels, list, text};

/// The API group of Gateway API.
pub const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";
/// The group of its experimental kinds.
pub(crate) const EXPERIMENTAL_GROUP: &str = "gateway.networking.x-k8s.io";
/// The kinds of routes.
pub const ROUTES: [&str; 5] = ["HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"];

/// What is known of one object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Facts {
    GatewayClass,
    Namespace {
        labels: BTreeMap<String, String>,
    },
    Gateway {
        class: ObjectRef,
        listeners: Vec<Listener>,
        allowed_listeners: From,
    },
    ListenerSet {
        parent: ObjectRef,
        listeners: Vec<Listener>,
    },
    Route(Route),
    Service {
        ports: Vec<Port>,
    },
    Grant(Grant),
    Other,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Listener {
    pub(crate) name: String,
    pub(crate) port: Option<i64>,
    pub(crate) protocol: String,
    pub(crate) hostname: Option<String>,
    pub(crate) passthrough: bool,
    pub(crate) from: From,
    /// The kinds that are allowed by name; empty: those the protocol implies.
    pub(crate) kinds: Vec<(String, String)>,
}

/// From which namespaces others may attach.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum From {
    None,
    Same,
    All,
    /// `None` when the selector is missing or cannot be read: then nothing attaches.
    Selector(Option<LabelSelector>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Route {
    pub(crate) parents: Vec<ParentRef>,
    pub(crate) hostnames: Vec<String>,
    pub(crate) rules: Vec<Rule>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ParentRef {
    pub(crate) to: ObjectRef,
    pub(crate) section: Option<String>,
    pub(crate) port: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rule {
    pub(crate) name: Option<String>,
    pub(crate) backends: Vec<Backend>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Backend {
    pub(crate) to: ObjectRef,
    pub(crate) port: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Port {
    pub(crate) name: Option<String>,
    pub(crate) number: Option<i64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Grant {
    from: Vec<(String, String, String)>,
    to: Vec<(String, String, Option<String>)>,
}

impl Facts {
    pub(crate) fn of(object: &Value, reference: &ObjectRef) -> Self {
        let namespace = reference.namespace.as_deref();
        match (reference.group.as_str(), reference.kind.as_str()) {
            (GATEWAY_GROUP, "GatewayClass") => Self::GatewayClass,
            (GATEWAY_GROUP, "Gateway") => Self::Gateway {
                class: ObjectRef::new(
                    GATEWAY_GROUP,
                    "GatewayClass",
                    None,
                    text(object, &["spec", "gatewayClassName"]).unwrap_or(""),
                ),
                listeners: listeners(object),
                allowed_listeners: From::of(
                    at(object, &["spec", "allowedListeners", "namespaces"]),
                    From::None,
                ),
            },
            (GATEWAY_GROUP, "ListenerSet") | (EXPERIMENTAL_GROUP, "XListenerSet") => {
                let parent = at(object, &["spec", "parentRef"]).unwrap_or(&Value::Null);
                Self::ListenerSet {
                    parent: reference_of(parent, GATEWAY_GROUP, "Gateway", namespace),
                    listeners: listeners(object),
                }
            }
            (GATEWAY_GROUP, kind) if ROUTES.contains(&kind) => {
                Self::Route(Route::of(object, namespace))
            }
            (GATEWAY_GROUP, "ReferenceGrant") => Self::Grant(Grant::of(object)),
            ("", "Namespace") => Self::Namespace {
                labels: labels(object),
            },
            ("", "Service") => Self::Service {
                ports: list(object, &["spec", "ports"])
                    .iter()
                    .map(|port| Port {
                        name: named(port),
                        number: port.get("port").and_then(Value::as_i64),
                    })
                    .collect(),
            },
            _ => Self::Other,
        }
    }

    /// The objects this one refers to.
    pub(crate) fn references(&self) -> Vec<&ObjectRef> {
        match self {
            Self::Gateway { class, .. } => vec![class],
            Self::ListenerSet { parent, .. } => vec![parent],
            Self::Route(route) => {
                let parents = route.parents.iter().map(|parent| &parent.to);
                let backends = route.rules.iter().flat_map(|rule| &rule.backends);
                parents.chain(backends.map(|backend| &backend.to)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The listeners of a Gateway or ListenerSet.
    pub(crate) fn listeners(&self) -> &[Listener] {
        match self {
            Self::Gateway { listeners, .. } | Self::ListenerSet { listeners, .. } => listeners,
            _ => &[],
        }
    }

    /// Whether it depends on the labels of namespaces who may attach here.
    pub(crate) fn selects_namespaces(&self) -> bool {
        let selects = |from: &From| matches!(from, From::Selector(Some(_)));
        let by_gateway =
            matches!(self, Self::Gateway { allowed_listeners, .. } if selects(allowed_listeners));
        by_gateway
            || self
                .listeners()
                .iter()
                .any(|listener| selects(&listener.from))
    }
}

impl From {
    fn of(namespaces: Option<&Value>, absent: Self) -> Self {
        let Some(namespaces) = namespaces.filter(|value| !value.is_null()) else {
            return absent;
        };
        match text(namespaces, &["from"]) {
            Some("Same") => Self::Same,
            Some("All") => Self::All,
            Some("Selector") => {
                let selector = namespaces.get("selector").unwrap_or(&Value::Null);
                let parsed = LabelSelector::from_json(selector, &FieldPath::root());
                let usable = parsed
                    .ok()
                    .filter(|parsed| *parsed != LabelSelector::Nothing);
                Self::Selector(usable)
            }
            None => absent,
            Some(_) => Self::None,
        }
    }

    /// Whether objects of namespace `other` may attach to one in `own`.
    pub(crate) fn allows(
        &self,
        own: Option<&str>,
        other: Option<&str>,
        labels: &dyn Fn(&str) -> BTreeMap<String, String>,
    ) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Same => own == other,
            Self::Selector(selector) => match (selector, other) {
                (Some(selector), Some(namespace)) => selector.matches(&labels(namespace)),
                _ => false,
            },
        }
    }
}

impl Route {
    fn of(object: &Value, namespace: Option<&str>) -> Self {
        Self {
            parents: list(object, &["spec", "parentRefs"])
                .iter()
                .map(|parent| ParentRef {
                    to: reference_of(parent, GATEWAY_GROUP, "Gateway", namespace),
                    section: text(parent, &["sectionName"])
                        .filter(|name| !name.is_empty())
                        .map(str::to_owned),
                    port: parent.get("port").and_then(Value::as_i64),
                })
                .collect(),
            hostnames: list(object, &["spec", "hostnames"])
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_ascii_lowercase)
                .collect(),
            rules: list(object, &["spec", "rules"])
                .iter()
                .map(|rule| Rule {
                    name: named(rule),
                    backends: backends(rule, namespace),
                })
                .collect(),
        }
    }
}

impl Grant {
    fn of(object: &Value) -> Self {
        let field = |value: &Value, name: &str| text(value, &[name]).unwrap_or("").to_owned();
        Self {
            from: list(object, &["spec", "from"])
                .iter()
                .map(|from| {
                    (
                        field(from, "group"),
                        field(from, "kind"),
                        field(from, "namespace"),
                    )
                })
                .collect(),
            to: list(object, &["spec", "to"])
                .iter()
                .map(|to| {
                    let name = text(to, &["name"]).filter(|name| !name.is_empty());
                    (
                        field(to, "group"),
                        field(to, "kind"),
                        name.map(str::to_owned),
                    )
                })
                .collect(),
        }
    }

    /// Whether it lets `from` refer to `to`.
    pub(crate) fn permits(&self, from: &ObjectRef, to: &ObjectRef) -> bool {
        let namespace = from.namespace.as_deref().unwrap_or("");
        self.from
            .iter()
            .any(|(group, kind, ns)| from.is(group, kind) && ns == namespace)
            && self.to.iter().any(|(group, kind, name)| {
                to.is(group, kind) && name.as_ref().is_none_or(|name| *name == to.name)
            })
    }
}

fn listeners(object: &Value) -> Vec<Listener> {
    list(object, &["spec", "listeners"])
        .iter()
        .map(|listener| Listener {
            name: text(listener, &["name"]).unwrap_or("").to_owned(),
            port: listener.get("port").and_then(Value::as_i64),
            protocol: text(listener, &["protocol"]).unwrap_or("").to_owned(),
            hostname: text(listener, &["hostname"])
                .filter(|name| !name.is_empty())
                .map(str::to_ascii_lowercase),
            passthrough: text(listener, &["tls", "mode"]) == Some("Passthrough"),
            from: From::of(at(listener, &["allowedRoutes", "namespaces"]), From::Same),
            kinds: list(listener, &["allowedRoutes", "kinds"])
                .iter()
                .filter_map(|kind| {
                    let group = text(kind, &["group"]).unwrap_or(GATEWAY_GROUP);
                    Some((group.to_owned(), text(kind, &["kind"])?.to_owned()))
                })
                .collect(),
        })
        .collect()
}

/// Backends of a rule, those of mirrors and external authorization among them.
fn backends(rule: &Value, namespace: Option<&str>) -> Vec<Backend> {
    let plain = list(rule, &["backendRefs"]).iter();
    let filters = list(rule, &["filters"]).iter().chain(
        list(rule, &["backendRefs"])
            .iter()
            .flat_map(|backend| list(backend, &["filters"])),
    );
    let filtered = filters.filter_map(|filter| {
        at(filter, &["requestMirror", "backendRef"])
            .or_else(|| at(filter, &["externalAuth", "backendRef"]))
    });
    plain
        .chain(filtered)
        .map(|backend| Backend {
            to: reference_of(backend, "", "Service", namespace),
            port: backend.get("port").and_then(Value::as_i64),
        })
        .collect()
}

/// A reference with what is absent filled in; an explicit empty group is the core group (trap 1).
fn reference_of(value: &Value, group: &str, kind: &str, namespace: Option<&str>) -> ObjectRef {
    let field = |name: &str| text(value, &[name]);
    ObjectRef::new(
        field("group").unwrap_or(group),
        field("kind").unwrap_or(kind),
        field("namespace")
            .filter(|name| !name.is_empty())
            .or(namespace),
        field("name").unwrap_or(""),
    )
}

fn named(value: &Value) -> Option<String> {
    text(value, &["name"])
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
}
