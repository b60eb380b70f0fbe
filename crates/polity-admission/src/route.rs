//! Parses the paths of requests: which policy evaluates the request, and at which endpoint.

use std::borrow::Cow;

/// The endpoint of a request, the first segment of its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// `validate`: a verdict on an AdmissionReview.
    Validate,
    /// `audit`: the verdict of the guest, whatever the mode of the policy.
    Audit,
    /// `validate_raw`: a verdict on any JSON document.
    Raw,
}

/// A parsed path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Route<'a> {
    pub(crate) endpoint: Endpoint,
    /// `policy` or `group/member`, decoded.
    pub(crate) id: Cow<'a, str>,
    /// The generation of the policy, if the path has one.
    pub(crate) generation: Option<u64>,
}

impl<'a> Route<'a> {
    /// Parses a path. It is split into segments before they are decoded: the slash before a member is `%2F`.
    pub(crate) fn parse(path: &'a str) -> Option<Self> {
        let mut segments = path.strip_prefix('/')?.split('/');
        let endpoint = match segments.next()? {
            "validate" => Endpoint::Validate,
            "audit" => Endpoint::Audit,
            "validate_raw" => Endpoint::Raw,
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
            endpoint,
            id,
            generation,
        })
    }
}

/// Decodes percent-encoding; `None` if the result is not UTF-8.
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
        /// Any path parses or is refused, and encoding an id is undone.
        #[test]
        fn every_path_parses_or_is_refused(path in "\\PC{0,40}", id in "[^/]{1,12}") {
            Route::parse(&path);
            Route::parse(&format!("/validate/{path}"));
            let encoded: String = id.bytes().fold(String::new(), |text, byte| text + &format!("%{byte:02x}"));
            let route = format!("/audit/{encoded}");
            prop_assert_eq!(Route::parse(&route).map(|route| route.id.into_owned()), Some(id));
        }
    }

    #[test]
    fn paths_name_an_endpoint_a_policy_and_a_generation() {
        let route = |endpoint, id: &'static str, generation| {
            Some(Route {
                endpoint,
                id: id.into(),
                generation,
            })
        };
        for (path, expected) in [
            ("/validate/p", route(Endpoint::Validate, "p", None)),
            ("/audit/p", route(Endpoint::Audit, "p", None)),
            ("/validate_raw/p", route(Endpoint::Raw, "p", None)),
            ("/validate/p/7", route(Endpoint::Validate, "p", Some(7))),
            ("/validate/g%2Fm", route(Endpoint::Validate, "g/m", None)),
            (
                "/validate/g%2fm/12",
                route(Endpoint::Validate, "g/m", Some(12)),
            ),
            (
                "/validate/a%2Fb%2Fc",
                route(Endpoint::Validate, "a/b/c", None),
            ),
            ("/validate/%C3%A9", route(Endpoint::Validate, "é", None)),
            ("/validate/p%251", route(Endpoint::Validate, "p%1", None)),
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
