//! Parses the `WWW-Authenticate` header, by which a registry asks for credentials.

use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};

/// The credentials that a registry asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// A user name and a password with each request.
    Basic,
    /// A token from a token server.
    Bearer {
        realm: String,
        service: Option<String>,
    },
}

impl Challenge {
    /// The challenge of a response; a token if the registry accepts both.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(WWW_AUTHENTICATE).iter();
        let challenges = values.filter_map(|value| Self::parse(value.to_str().ok()?));
        challenges.min_by_key(|challenge| *challenge == Self::Basic)
    }

    fn parse(value: &str) -> Option<Self> {
        let (scheme, parameters) = value.trim().split_once(' ').unwrap_or((value.trim(), ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return Some(Self::Basic);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        let parameters = parse_parameters(parameters);
        let find = |name: &str| {
            let mut all = parameters.iter();
            let found = all.find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.clone())
        };
        Some(Self::Bearer {
            realm: find("realm")?,
            service: find("service"),
        })
    }
}

/// `key=value, key="quoted value"`.
fn parse_parameters(text: &str) -> Vec<(String, String)> {
    let mut parameters = Vec::new();
    let mut rest = text.chars().peekable();
    loop {
        while rest.next_if(|&c| c == ',' || c.is_whitespace()).is_some() {}
        let mut key = String::new();
        while let Some(c) = rest.next_if(|&c| c != '=' && c != ',') {
            key.push(c);
        }
        if rest.next_if_eq(&'=').is_none() {
            if rest.peek().is_none() {
                return parameters;
            }
            continue;
        }
        let mut value = String::new();
        if rest.next_if_eq(&'"').is_some() {
            while let Some(c) = rest.next() {
                match c {
                    '"' => break,
                    '\\' => value.extend(rest.next()),
                    c => value.push(c),
                }
            }
        } else {
            while let Some(c) = rest.next_if(|&c| c != ',') {
                value.push(c);
            }
        }
        parameters.push((key.trim().to_owned(), value.trim().to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Option<Challenge> {
        let headers = values
            .iter()
            .map(|value| (WWW_AUTHENTICATE, value.parse().unwrap()));
        Challenge::of(&headers.collect())
    }

    #[test]
    fn challenges_are_read() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer {
                realm: realm.to_owned(),
                service: service.map(str::to_owned),
            })
        };
        for (values, expected) in [
            (&[][..], None),
            (&["Basic realm=\"r\""], Some(Challenge::Basic)),
            (&["basic"], Some(Challenge::Basic)),
            (&["Negotiate"], None),
            (&["Bearer service=\"s\""], None),
            (
                &["Bearer realm=\"https://a/token\",service=\"s, t\",scope=\"x\""],
                bearer("https://a/token", Some("s, t")),
            ),
            (
                &["bearer Realm=https://a/token , error=\"a\\\"b\""],
                bearer("https://a/token", None),
            ),
            (
                &["Basic realm=\"r\"", "Bearer realm=\"https://a\""],
                bearer("https://a", None),
            ),
        ] {
            assert_eq!(of(values), expected, "{values:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_header_is_read_or_passed_over(value in "[ -~]{0,200}") {
            let _ = of(&[&value]);
            let _ = of(&[&format!("Bearer {value}")]);
        }
    }
}
