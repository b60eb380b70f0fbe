//! URLs taken apart and put together again.

use std::rc::Rc;

use super::strings::made;
use crate::arg::{map, text};
use crate::function::{Failure, Function, Outcome, Type, function};
use crate::run::Run;
use crate::syntax::unquote::quote;
use crate::value::Value;

pub(crate) const TABLE: &[(&str, Function)] = &[
    (
        "urlParse",
        function(&[Type::Text], None, |_, v| url_parse(text(&v[0]))),
    ),
    ("urlJoin", function(&[Type::Map], None, url_join)),
];

/// The parts of a URL, decoded where Go decodes them.
#[derive(Debug, Default)]
struct Url {
    scheme: String,
    opaque: String,
    user: Option<(String, Option<String>)>,
    host: String,
    path: String,
    query: String,
    fragment: String,
}

fn url_parse(whole: &str) -> Outcome {
    let url = Url::parse(whole)
        .map_err(|reason| format!("unable to parse url: parse {}: {reason}", quote(whole)))?;
    let userinfo = url.userinfo();
    let hostname = url.hostname().to_owned();
    let entries = [
        ("scheme", url.scheme),
        ("host", url.host),
        ("hostname", hostname),
        ("path", url.path),
        ("query", url.query),
        ("opaque", url.opaque),
        ("fragment", url.fragment),
        ("userinfo", userinfo),
    ];
    Ok(Value::map(
        entries.map(|(key, value)| (Rc::from(key), Value::text(value))),
    ))
}

fn url_join(_: &mut Run<'_>, values: &[Value]) -> Outcome {
    let part = |key: &str| -> Result<String, Failure> {
        match map(&values[0]).and_then(|map| map.get(key)) {
            None => Ok(String::new()),
            Some(Value::Text(text)) => Ok(text.to_string()),
            Some(other) => Err(format!(
                "unable to parse {key} key, must be of type string, but {} found",
                other.kind_name()
            )
            .into()),
        }
    };
    let mut url = Url {
        scheme: part("scheme")?,
        host: part("host")?,
        path: part("path")?,
        query: part("query")?,
        opaque: part("opaque")?,
        fragment: part("fragment")?,
        user: None,
    };
    let userinfo = part("userinfo")?;
    if !userinfo.is_empty() {
        let probe = Url::parse(&format!("proto://{userinfo}@host"))
            .map_err(|reason| format!("unable to parse userinfo in dict: {reason}"))?;
        url.user = probe.user;
    }
    made(url.to_text())
}

impl Url {
    fn parse(whole: &str) -> Result<Self, String> {
        let mut url = Self::default();
        if whole.chars().any(|c| c < ' ' || c == '\x7f') {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let (rest, fragment) = whole.split_once('#').unwrap_or((whole, ""));
        url.fragment = unescape(fragment)?;
        let (scheme, rest) = split_scheme(rest)?;
        url.scheme = scheme.to_ascii_lowercase();
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        query.clone_into(&mut url.query);
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                rest.clone_into(&mut url.opaque);
                return Ok(url);
            }
            let first = rest.split('/').next().unwrap_or_default();
            if first.contains(':') {
                return Err("first path segment in URL cannot contain colon".to_owned());
            }
        }
        let has_authority =
            rest.starts_with("//") && (!url.scheme.is_empty() || !rest.starts_with("///"));
        let path = if has_authority {
            let authority_and_path = &rest[2..];
            let end = authority_and_path
                .find('/')
                .unwrap_or(authority_and_path.len());
            let (authority, path) = authority_and_path.split_at(end);
            url.authority(authority)?;
            path
        } else {
            rest
        };
        url.path = unescape(path)?;
        Ok(url)
    }

    fn authority(&mut self, authority: &str) -> Result<(), String> {
        let host = match authority.rsplit_once('@') {
            None => authority,
            Some((user, host)) => {
                let fine = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
                if !user.chars().all(fine) {
                    return Err("net/url: invalid userinfo".to_owned());
                }
                self.user = Some(match user.split_once(':') {
                    Some((name, password)) => (unescape(name)?, Some(unescape(password)?)),
                    None => (unescape(user)?, None),
                });
                host
            }
        };
        if let Some((_, port)) = host.rsplit_once(':')
            && !host.ends_with(']')
            && !port.bytes().all(|b| b.is_ascii_digit())
        {
            return Err(format!(
                "invalid port {} after host",
                quote(&format!(":{port}"))
            ));
        }
        if host.starts_with('[') && !host.contains(']') {
            return Err("missing ']' in host".to_owned());
        }
        if let Some(c) = host.chars().find(|c| " \"<>\\^`{|}".contains(*c)) {
            return Err(format!(
                "invalid character {} in host name",
                quote(&c.to_string())
            ));
        }
        self.host = unescape(host)?;
        Ok(())
    }

    fn hostname(&self) -> &str {
        let host = match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
            _ => &self.host,
        };
        host.strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host)
    }

    fn userinfo(&self) -> String {
        match &self.user {
            None => String::new(),
            Some((name, None)) => escape(name, USER),
            Some((name, Some(password))) => {
                format!("{}:{}", escape(name, USER), escape(password, USER))
            }
        }
    }

    fn to_text(&self) -> String {
        let mut out = String::new();
        if !self.scheme.is_empty() {
            out.push_str(&self.scheme);
            out.push(':');
        }
        if self.opaque.is_empty() {
            if !self.scheme.is_empty() || !self.host.is_empty() || self.user.is_some() {
                if !self.host.is_empty() || !self.path.is_empty() || self.user.is_some() {
                    out.push_str("//");
                }
                if self.user.is_some() {
                    out.push_str(&self.userinfo());
                    out.push('@');
                }
                out.push_str(&escape(&self.host, HOST));
            }
            let path = escape(&self.path, PATH);
            if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
                out.push('/');
            }
            if out.is_empty()
                && path
                    .split('/')
                    .next()
                    .is_some_and(|first| first.contains(':'))
            {
                out.push_str("./");
            }
            out.push_str(&path);
        } else {
            out.push_str(&self.opaque);
        }
        if !self.query.is_empty() {
            out.push('?');
            out.push_str(&self.query);
        }
        if !self.fragment.is_empty() {
            out.push('#');
            out.push_str(&escape(&self.fragment, FRAGMENT));
        }
        out
    }
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at > 0 => return Ok((&text[..at], &text[at + 1..])),
            ':' => return Err("missing protocol scheme".to_owned()),
            _ => break,
        }
    }
    Ok(("", text))
}

const USER: &str = "-_.~$&+,;=";
const HOST: &str = "-_.~!$&'()*+,;=:[]<>\"";
const PATH: &str = "-_.~$&+,/:;=@";
const FRAGMENT: &str = "-_.~$&+,/:;=?@!()*";

fn escape(text: &str, safe: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || (c.is_ascii() && safe.contains(c)) {
            out.push(c);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn unescape(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        if *byte != b'%' {
            bytes.push(*byte);
            rest = after;
            continue;
        }
        let digits = after
            .get(..2)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match code {
            Some(code) => {
                bytes.push(code);
                rest = &after[2..];
            }
            None => {
                let end = rest.len().min(3);
                let shown = String::from_utf8_lossy(&rest[..end]);
                return Err(format!("invalid URL escape {}", quote(&shown)));
            }
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
