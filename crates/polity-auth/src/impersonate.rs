//! Impersonation: acting as another user, if RBAC allows it.
//!
//! Kubernetes has two kinds of permission for this. The old one is the verb `impersonate` on the requested users,
//! groups and so on. The constrained one, since 1.36, is the pair of `impersonate:{mode}` on the target and
//! `impersonate-on:{mode}:{verb}` on the request itself. The first that allows the request is used. A refusal names
//! the first that was tried.

use std::collections::BTreeMap;

use http::HeaderMap;
use polity_core::name;

use super::authorize::forbidden;
use super::{
    ANONYMOUS, AUTHENTICATED, Attributes, Authorizer, MASTERS, UNAUTHENTICATED, UserInfo,
    service_account,
};
use polity_kinds::status::ApiError;

const USER_HEADER: &str = "impersonate-user";
const GROUP_HEADER: &str = "impersonate-group";
const UID_HEADER: &str = "impersonate-uid";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const NODE_PREFIX: &str = "system:node:";
const NODE_NAME_EXTRA: &str = "authentication.kubernetes.io/node-name";
const GROUP: &str = "authentication.k8s.io";

/// The user that a request impersonates, from its headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Impersonation {
    wanted: UserInfo,
}

/// A way of being allowed to impersonate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

impl Impersonation {
    /// Reads the `Impersonate-*` headers; `None` when there are none.
    pub fn from_headers(headers: &HeaderMap) -> Result<Option<Self>, ApiError> {
        let first = |name| headers.get(name).map(text).unwrap_or_default();
        let mut wanted = UserInfo {
            username: first(USER_HEADER),
            uid: first(UID_HEADER),
            groups: headers.get_all(GROUP_HEADER).iter().map(text).collect(),
            extra: BTreeMap::new(),
        };
        for (name, value) in headers {
            if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
                wanted
                    .extra
                    .entry(percent_decoded(key))
                    .or_default()
                    .push(text(value));
            }
        }
        let asks_for_more =
            !(wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty());
        match (wanted.username.is_empty(), asks_for_more) {
            (false, _) => Ok(Some(Self { wanted })),
            (true, false) => Ok(None),
            (true, true) => {
                let wanted = go_literal(&wanted);
                Err(ApiError::bad_request(format!(
                    "requested {wanted} without impersonating a user name"
                )))
            }
        }
    }

    /// The user to go on as, if the requestor may be them for this request.
    pub fn authorize(
        &self,
        authorizer: &Authorizer<'_>,
        requestor: &UserInfo,
        request: &Attributes<'_>,
    ) -> Result<UserInfo, ApiError> {
        let modes = [
            Mode::AssociatedNode,
            Mode::ArbitraryNode,
            Mode::ServiceAccount,
            Mode::UserInfo,
            Mode::Legacy,
        ];
        let mut first_refusal = None;
        for mode in modes
            .into_iter()
            .filter(|mode| mode.applies(&self.wanted, requestor))
        {
            let check = Check {
                authorizer,
                requestor,
                wanted: &self.wanted,
                mode,
            };
            match check.all(request) {
                Ok(()) => return Ok(self.resulting_user(mode)),
                Err(refusal) => _ = first_refusal.get_or_insert(refusal),
            }
        }
        Err(first_refusal.unwrap_or_else(|| ApiError::internal("all impersonation modes failed")))
    }

    /// The wanted user with the groups that follow from the name.
    fn resulting_user(&self, mode: Mode) -> UserInfo {
        let mut user = self.wanted.clone();
        if matches!(mode, Mode::AssociatedNode | Mode::ArbitraryNode) {
            user.groups = vec!["system:nodes".to_owned()];
        }
        if let (true, Some((namespace, _))) = (
            user.groups.is_empty(),
            service_account::split(&user.username),
        ) {
            user.groups = service_account::groups(namespace);
        }
        let group = if user.username == ANONYMOUS {
            UNAUTHENTICATED
        } else {
            AUTHENTICATED
        };
        if !user.is_in(group) && !user.is_in(UNAUTHENTICATED) {
            user.groups.push(group.to_owned());
        }
        user
    }
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    fn applies(self, wanted: &UserInfo, requestor: &UserInfo) -> bool {
        let only_name =
            wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = node_name(&wanted.username);
        let is_account = service_account::split(&wanted.username).is_some();
        match self {
            Self::AssociatedNode => {
                only_name
                    && node.is_some_and(|node| {
                        service_account::split(&requestor.username).is_some()
                            && requestor
                                .extra
                                .get(NODE_NAME_EXTRA)
                                .is_some_and(|own| own == &[node])
                    })
            }
            Self::ArbitraryNode => only_name && node.is_some(),
            Self::ServiceAccount => only_name && is_account,
            Self::UserInfo => node.is_none() && !is_account,
            Self::Legacy => true,
        }
    }
}

/// The checks of one mode.
struct Check<'a> {
    authorizer: &'a Authorizer<'a>,
    requestor: &'a UserInfo,
    wanted: &'a UserInfo,
    mode: Mode,
}

/// A target of impersonation: its resource in RBAC, and its name.
#[derive(Default)]
struct Target<'a> {
    group: &'a str,
    resource: &'a str,
    subresource: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl Check<'_> {
    fn all(&self, request: &Attributes<'_>) -> Result<(), ApiError> {
        let wanted = self.wanted;
        if self.mode != Mode::Legacy {
            self.request(request)?;
        }
        self.target(&self.user())?;
        if !wanted.uid.is_empty() {
            self.target(&Target {
                group: GROUP,
                resource: "uids",
                name: &wanted.uid,
                ..Target::default()
            })?;
        }
        let group = self.user_group();
        for name in &wanted.groups {
            let target = Target {
                group,
                resource: "groups",
                name,
                ..Target::default()
            };
            match name.as_str() {
                "" if self.mode != Mode::Legacy => {
                    return Err(self.refusal(
                        &target,
                        "impersonating the empty string group is not allowed",
                    ));
                }
                MASTERS if self.mode != Mode::Legacy => {
                    return Err(self.refusal(
                        &target,
                        "impersonating the system:masters group is not allowed",
                    ));
                }
                _ => self.target(&target)?,
            }
        }
        for (key, values) in &wanted.extra {
            for name in values {
                let resource = "userextras";
                self.target(&Target {
                    group: GROUP,
                    resource,
                    subresource: key,
                    name,
                    ..Target::default()
                })?;
            }
        }
        Ok(())
    }

    /// Users and groups were of the core group before there were modes.
    fn user_group(&self) -> &'static str {
        if self.mode == Mode::Legacy { "" } else { GROUP }
    }

    fn user(&self) -> Target<'_> {
        let group = self.user_group();
        let username = &self.wanted.username;
        if let Some((namespace, name)) = service_account::split(username) {
            return Target {
                group,
                resource: "serviceaccounts",
                namespace,
                name,
                ..Target::default()
            };
        }
        match (self.mode, node_name(username)) {
            // Permission to impersonate the associated node applies to every node.
            (Mode::AssociatedNode, _) => Target {
                group,
                resource: "nodes",
                name: "*",
                ..Target::default()
            },
            (Mode::ArbitraryNode, Some(name)) => Target {
                group,
                resource: "nodes",
                name,
                ..Target::default()
            },
            _ => Target {
                group,
                resource: "users",
                name: username,
                ..Target::default()
            },
        }
    }

    /// Whether the requestor may do this request in this mode at all.
    fn request(&self, request: &Attributes<'_>) -> Result<(), ApiError> {
        let on = |verb: &str| format!("impersonate-on:{}:{verb}", self.mode.name());
        match *request {
            Attributes::Resource {
                verb,
                group,
                version,
                resource,
                subresource,
                name,
                namespace,
            } => {
                let verb = &on(verb);
                self.require(&Attributes::Resource {
                    verb,
                    group,
                    version,
                    resource,
                    subresource,
                    name,
                    namespace,
                })
            }
            Attributes::NonResource { verb, path } => self.require(&Attributes::NonResource {
                verb: &on(verb),
                path,
            }),
        }
    }

    fn target(&self, target: &Target<'_>) -> Result<(), ApiError> {
        self.require(&target.attributes(&self.verb()))
    }

    fn refusal(&self, target: &Target<'_>, reason: &str) -> ApiError {
        forbidden(self.requestor, &target.attributes(&self.verb()), reason)
    }

    fn verb(&self) -> String {
        match self.mode {
            Mode::Legacy => "impersonate".to_owned(),
            mode => format!("impersonate:{}", mode.name()),
        }
    }

    fn require(&self, request: &Attributes<'_>) -> Result<(), ApiError> {
        self.authorizer.require(self.requestor, request)
    }
}

impl<'a> Target<'a> {
    fn attributes(&self, verb: &'a str) -> Attributes<'a> {
        let Self {
            group,
            resource,
            subresource,
            namespace,
            name,
        } = *self;
        Attributes::Resource {
            verb,
            group,
            version: "v1",
            resource,
            subresource,
            name,
            namespace,
        }
    }
}

fn node_name(username: &str) -> Option<&str> {
    username
        .strip_prefix(NODE_PREFIX)
        .filter(|node| name::dns_subdomain(node).is_ok())
}

fn text(value: &http::HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// The key of an extra, which is percent-encoded. An invalid encoding is used unchanged.
fn percent_decoded(key: &str) -> String {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.bytes();
    while let Some(byte) = rest.next() {
        let hex = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        match byte {
            b'%' => match (hex(rest.next()), hex(rest.next())) {
                (Some(high), Some(low)) => bytes.push((high * 16 + low) as u8),
                _ => return key.to_owned(),
            },
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| key.to_owned())
}

/// A user as the message of Kubernetes prints one.
fn go_literal(user: &UserInfo) -> String {
    let list = |texts: &[String]| {
        if texts.is_empty() {
            return "[]string(nil)".to_owned();
        }
        let texts: Vec<_> = texts.iter().map(|text| format!("{text:?}")).collect();
        format!("[]string{{{}}}", texts.join(", "))
    };
    let extra: Vec<_> = user
        .extra
        .iter()
        .map(|(key, values)| format!("{key:?}:{}", list(values)))
        .collect();
    let extra = if extra.is_empty() {
        "(nil)".to_owned()
    } else {
        format!("{{{}}}", extra.join(", "))
    };
    format!(
        "&user.DefaultInfo{{Name:\"\", UID:{:?}, Groups:{}, Extra:map[string][]string{extra}}}",
        user.uid,
        list(&user.groups),
    )
}

#[cfg(test)]
mod tests;
