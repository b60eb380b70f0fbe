//! Paths: which policy is asked, and how.

use std::borrow::Cow;

/// What is wanted of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// A verdict that counts.
    Validate,
    /// What the guest says.
    Audit,
    /// A verdict on something that no Kubernetes sent.
    Raw,
}

/// A path that leads to a policy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Route<'a> {
    pub(crate) asked: Asked,
    /// `policy` or `group/member`, decoded.
    pub(crate) id: Cow<'a, str>,
    /// The generation of the policy, where one is named.
    pub(crate) generation: Option<u64>,
}

impl<'a> Route<'a> {
    /// Reads a path. Segments are told apart before they are decoded: a member's slash is `%2F`.
    pub(crate) fn parse(path: &'a str) -> Option<Self> {
        let mut segments = path.strip_prefix('/')?.split('/');
        let asked = match segments.next()? {
            "validate" => Asked::Validate,
            "audit" => Asked::Audit,
            "validate_raw" => Asked::Raw,
            _ => return None,
        };
        let id = decode(segments.next().filter(|segment| !segment.is_empty())?)?;
        let generation = match segments.next() {
            None => None,
            Some(digits)
                if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) =>
            {
                Some(digits.parse().ok()?)
            }
            Some(_) => return None,
        };
        segments.next().is_none().then_some(Self {
            asked,
            id,
            generation,
        })
    }
}

/// Undoes percent-encoding; nothing if it does not end up as text.
fn decode(segment: &str) -> Option<Cow<'_, str>> {
    if !segment.contains('%') {
        return Some(Cow::Borrowed(segment));
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, after @ ..] = rest else {
            return None;
        };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(*high)? * 16 + digit(*low)?) as u8);
        rest = after;
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever comes in, it is a route or it is not; what was encoded comes out again.
        #[test]
        fn no_path_is_too_odd(path in "\\PC{0,40}", id in "[^/]{1,12}") {
            Route::parse(&path);
            Route::parse(&format!("/validate/{path}"));
            let encoded: String = id.bytes().fold(String::new(), |text, byte| text + &format!("%{byte:02x}"));
            let route = format!("/audit/{encoded}");
            prop_assert_eq!(Route::parse(&route).map(|route| route.id.into_owned()), Some(id));
        }
    }

    #[test]
    fn paths_name_an_endpoint_a_policy_and_a_generation() {
        let route = |asked, id: &'static str, generation| {
            Some(Route {
                asked,
                id: id.into(),
                generation,
            })
        };
        for (path, expected) in [
            ("/validate/p", route(Asked::Validate, "p", None)),
            ("/audit/p", route(Asked::Audit, "p", None)),
            ("/validate_raw/p", route(Asked::Raw, "p", None)),
            ("/validate/p/7", route(Asked::Validate, "p", Some(7))),
            ("/validate/g%2Fm", route(Asked::Validate, "g/m", None)),
            (
                "/validate/g%2fm/12",
                route(Asked::Validate, "g/m", Some(12)),
            ),
            ("/validate/a%2Fb%2Fc", route(Asked::Validate, "a/b/c", None)),
            ("/validate/%C3%A9", route(Asked::Validate, "é", None)),
            ("/validate/p%251", route(Asked::Validate, "p%1", None)),
            ("/validate/g/m", None),
            ("/validate/p/7/8", None),
            ("/validate/p/", None),
            ("/validate/p/99999999999999999999", None),
            ("/validate/", None),
            ("/validate", None),
            ("/validate/%", None),
            ("/validate/%2", None),
            ("/validate/%zz", None),
            ("/validate/%FF", None),
            ("/", None),
            ("", None),
            ("/other/p", None),
        ] {
            assert_eq!(Route::parse(path), expected, "{path}");
        }
    }
}
