//! The string and number formats that are checked.
//!
//! They follow the real server, odd corners included: a hostname may hold symbols, a duration may be `3 weeks`.

use std::net::Ipv6Addr;
use std::sync::LazyLock;

use polity_core::duration;
use regex::Regex;

use super::Type;

/// A known format of a node.
#[derive(Debug, Clone)]
pub(super) struct Format {
    name: String,
    check: fn(&str) -> bool,
}

impl Format {
    /// The format called `name` on a node of type `kind`, if it is checked there.
    pub(super) fn known(name: &str, kind: Type) -> Option<Self> {
        let check = match kind {
            Type::String | Type::Any | Type::IntOrString => check(&name.replace('-', ""))?,
            Type::Integer if matches!(name, "int32" | "int64") => |_: &str| true,
            Type::Number if matches!(name, "float" | "double") => |_: &str| true,
            _ => return None,
        };
        Some(Self {
            name: name.to_owned(),
            check,
        })
    }

    /// The name as the schema spells it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether `text` has this format.
    pub(super) fn accepts(&self, text: &str) -> bool {
        (self.check)(text)
    }
}

fn check(normalized: &str) -> Option<fn(&str) -> bool> {
    Some(match normalized {
        "bsonobjectid" => |text| text.len() == 24 && is_hex(text),
        "uri" => is_request_uri,
        "email" => is_email,
        "hostname" => is_hostname,
        "ipv4" => |text| text.contains('.') && (is_ipv4(text) || text.parse::<Ipv6Addr>().is_ok()),
        "ipv6" => |text| text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr,
        "mac" => is_mac,
        "uuid" => |text| is_uuid(text, None),
        "uuid3" => |text| is_uuid(text, Some(b'3')),
        "uuid4" => |text| is_uuid(text, Some(b'4')),
        "uuid5" => |text| is_uuid(text, Some(b'5')),
        "isbn" => |text| is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10,
        "isbn13" => is_isbn13,
        "creditcard" => is_credit_card,
        "ssn" => |text| text.len() == 11 && SSN.is_match(text),
        "hexcolor" => |text| {
            let digits = text.strip_prefix('#').unwrap_or(text);
            matches!(digits.len(), 3 | 6) && is_hex(digits)
        },
        "rgbcolor" => |text| RGB_COLOR.is_match(text),
        "byte" => is_base64,
        "password" => |_| true,
        "date" => is_date,
        "duration" => is_duration,
        "datetime" => is_date_time,
        "k8sshortname" => |text| text.len() <= 63 && is_short_name(text),
        "k8slongname" => |text| text.len() <= 253 && text.split('.').all(is_short_name),
        _ => return None,
    })
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern compiles")
}

static SSN: LazyLock<Regex> = LazyLock::new(|| regex("^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| {
    let part = r"\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*";
    regex(&format!(r"^rgb\({part},{part},{part}\)$"))
});
static CREDIT_CARD: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        "^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}",
        "|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$"
    ))
});
static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    let any = r"a-zA-Z0-9\p{S}\p{L}";
    regex(&format!(
        r"^([{any}]((-?[{any}]{{0,62}})?)|([{any}](([{any}\-]{{0,61}}[{any}])?)(\.)){{1,}}([a-zA-Z\p{{L}}]){{2,63}})$"
    ))
});
static SCALA_DURATION: LazyLock<Regex> =
    LazyLock::new(|| regex(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)"));
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$")
});

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_short_name(text: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(edge)
        && bytes.last().copied().is_some_and(edge)
        && bytes.iter().all(|byte| edge(*byte) || *byte == b'-')
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && HOSTNAME.is_match(text) && text.split('.').all(|label| label.len() <= 63)
}

/// Four decimal parts; leading zeros are tolerated.
fn is_ipv4(text: &str) -> bool {
    let mut parts = 0;
    text.split('.').all(|part| {
        parts += 1;
        let digits = part.trim_start_matches('0');
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && digits.len() <= 3
            && digits.parse::<u16>().unwrap_or(0) <= 255
    }) && parts == 4
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let most = match (is_ipv4(address), address.parse::<Ipv6Addr>().is_ok()) {
        (true, _) => 32,
        (_, true) => 128,
        _ => return false,
    };
    !length.is_empty()
        && length.bytes().all(|byte| byte.is_ascii_digit())
        && length.parse::<u32>().is_ok_and(|length| length <= most)
}

fn is_mac(text: &str) -> bool {
    let (separator, width) = match text.find([':', '-', '.']) {
        Some(2) if !text[2..].starts_with('.') => {
            (if text[2..].starts_with(':') { ':' } else { '-' }, 2)
        }
        Some(4) if text[4..].starts_with('.') => ('.', 4),
        _ => return false,
    };
    let groups: Vec<_> = text.split(separator).collect();
    matches!(groups.len() * width / 2, 6 | 8 | 20)
        && groups
            .iter()
            .all(|group| group.len() == width && is_hex(group))
}

/// Dashes are optional. The third group starts with the version, and the fourth of versions 4 and 5 with 8, 9, a or b.
fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let mut rest = text;
    let mut groups = Vec::with_capacity(5);
    for (index, width) in [8, 4, 4, 4, 12].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix('-').unwrap_or(rest);
        }
        let Some((group, after)) = rest.split_at_checked(width) else {
            return false;
        };
        if !is_hex(group) {
            return false;
        }
        groups.push(group.as_bytes());
        rest = after;
    }
    let variant = groups[3][0].to_ascii_lowercase();
    rest.is_empty()
        && version.is_none_or(|version| {
            groups[2][0] == version
                && (version == b'3' || matches!(variant, b'8' | b'9' | b'a' | b'b'))
        })
}

fn isbn_digits(text: &str) -> Vec<u8> {
    text.bytes()
        .filter(|byte| !matches!(byte, b'\t' | b'\n' | 0xc | b'\r' | b' ' | b'-'))
        .collect()
}

fn is_isbn10(text: &str) -> bool {
    let digits = isbn_digits(text);
    if digits.len() != 10 || !digits[..9].iter().all(u8::is_ascii_digit) {
        return false;
    }
    let last = match digits[9] {
        b'X' => 10,
        digit if digit.is_ascii_digit() => u32::from(digit - b'0'),
        _ => return false,
    };
    let sum: u32 = (1..)
        .zip(&digits[..9])
        .map(|(weight, digit)| weight * u32::from(digit - b'0'))
        .sum();
    (sum + 10 * last).is_multiple_of(11)
}

fn is_isbn13(text: &str) -> bool {
    let digits = isbn_digits(text);
    if digits.len() != 13 || !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let value = |index: usize| u32::from(digits[index] - b'0');
    let sum: u32 = (0..12)
        .map(|index| {
            if index % 2 == 0 {
                value(index)
            } else {
                3 * value(index)
            }
        })
        .sum();
    value(12) == (10 - sum % 10) % 10
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let luhn: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(index, digit)| {
            let value = u32::from(digit - b'0') * if index % 2 == 1 { 2 } else { 1 };
            value / 10 + value % 10
        })
        .sum();
    CREDIT_CARD.is_match(&digits) && luhn.is_multiple_of(10)
}

fn is_base64(text: &str) -> bool {
    let body = text.trim_end_matches('=');
    let padding = text.len() - body.len();
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && body
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/'))
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
        return false;
    }
    let number = |range: std::ops::Range<usize>| {
        let part = &bytes[range];
        part.iter().all(u8::is_ascii_digit).then(|| {
            part.iter()
                .fold(0, |sum, digit| sum * 10 + i16::from(digit - b'0'))
        })
    };
    let (Some(year), Some(month), Some(day)) = (number(0..4), number(5..7), number(8..10)) else {
        return false;
    };
    let Ok(month) = i8::try_from(month) else {
        return false;
    };
    let Ok(day) = i8::try_from(day) else {
        return false;
    };
    jiff::civil::Date::new(year, month, day).is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else {
        return false;
    };
    is_date(date)
        && TIME
            .captures(time)
            .is_some_and(|found| &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59")
}

/// A duration in Go's format, or any text that contains an amount with a known unit.
fn is_duration(text: &str) -> bool {
    const EXACT: &[&str] = &["ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk"];
    const PREFIXES: &[&str] = &[
        "nano", "micro", "milli", "sec", "min", "hour", "day", "week",
    ];
    duration::parse(text).is_ok()
        || SCALA_DURATION.captures_iter(text).any(|found| {
            let unit = found[2].to_lowercase();
            EXACT.contains(&unit.as_str()) || PREFIXES.iter().any(|prefix| unit.starts_with(prefix))
        })
}

/// An absolute URI or an absolute path.
fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let (scheme, rest) = match text.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme), rest),
        Some(("", _)) => return false,
        _ => (None, text),
    };
    let rest = rest.split('?').next().unwrap_or_default();
    if !rest.starts_with('/') {
        return scheme.is_some();
    }
    let path = match rest.strip_prefix("//").filter(|_| scheme.is_some()) {
        None => rest,
        Some(rest) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            if !is_authority(authority) {
                return false;
            }
            path
        }
    };
    has_valid_escapes(path)
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
}

fn is_authority(text: &str) -> bool {
    let (user, host) = text
        .rsplit_once('@')
        .map_or((None, text), |(user, host)| (Some(user), host));
    let user_byte =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._:~!$&'()*+,;=%@".contains(&byte);
    let host_byte = |byte: u8| {
        byte.is_ascii_alphanumeric() || byte >= 0x80 || b"-_.~!$&'()*+,;=:[]<>\"%".contains(&byte)
    };
    let after_address = match host.strip_prefix('[') {
        Some(literal) => match literal.rfind(']') {
            Some(end) => &literal[end + 1..],
            None => return false,
        },
        None => host.rfind(':').map_or("", |colon| &host[colon..]),
    };
    let port = after_address.is_empty()
        || after_address
            .strip_prefix(':')
            .is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    user.is_none_or(|user| user.bytes().all(user_byte) && has_valid_escapes(user))
        && host.bytes().all(host_byte)
        && has_valid_escapes(host)
        && port
}

fn has_valid_escapes(text: &str) -> bool {
    text.split('%')
        .skip(1)
        .all(|after| after.get(..2).is_some_and(is_hex))
}

/// `local@domain`, alone or as `Name <local@domain>`.
fn is_email(text: &str) -> bool {
    let text = text.trim_matches([' ', '\t']);
    let address = match (text.strip_suffix('>'), text.find('<')) {
        (Some(inner), Some(start)) => &inner[start + 1..],
        (None, None) => text,
        _ => return false,
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let literal = domain.len() > 2 && domain.starts_with('[') && domain.ends_with(']');
    (quoted || is_dot_atom(local)) && (literal || is_dot_atom(domain))
}

fn is_dot_atom(text: &str) -> bool {
    let atom =
        |c: char| c.is_ascii_alphanumeric() || !c.is_ascii() || "!#$%&'*+-/=?^_`{|}~".contains(c);
    text.split('.')
        .all(|part| !part.is_empty() && part.chars().all(atom))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_and_refuse() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            (
                "date",
                &["2024-02-29"],
                &["2023-02-29", "2024-2-9", "x", "2024-02-29T"],
            ),
            (
                "date-time",
                &["2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20+02:00"],
                &["2014-12-15", "2014-12-15T25:30:20Z", "2014-12-15T19:30:20"],
            ),
            (
                "duration",
                &["1h30m", "22 ns", "3 weeks", "0", "-1.5h"],
                &["", "x", "1", "a h"],
            ),
            (
                "uri",
                &["http://a.b/c?d", "/a", "mailto:a@b", "*"],
                &["", "a", "http://[::1", "/%zz", "http://a:b/"],
            ),
            (
                "email",
                &["a@b.c", "A B <a@b>"],
                &["a", "@b", "a@", "a b@c"],
            ),
            (
                "hostname",
                &["example.com", "a", "1a"],
                &["", "-a.com", "a..b", "a_b.com"],
            ),
            (
                "ipv4",
                &["1.2.3.4", "01.2.3.4"],
                &["1.2.3", "1.2.3.256", "::1", "a.b.c.d"],
            ),
            ("ipv6", &["::1", "fe80::1"], &["1.2.3.4", "::g"]),
            (
                "cidr",
                &["10.0.0.0/8", "::/0"],
                &["10.0.0.0", "10.0.0.0/33", "::/129", "x/1"],
            ),
            (
                "mac",
                &["01:23:45:67:89:ab", "0123.4567.89ab"],
                &["01:23", "01:23:45:67:89:zz", "é1:23"],
            ),
            (
                "uuid",
                &[
                    "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
                    "6BA7B8109dad11d180b400c04fd430c8",
                ],
                &["6ba7b810"],
            ),
            (
                "uuid4",
                &["6ba7b810-9dad-41d1-80b4-00c04fd430c8"],
                &[
                    "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
                    "6ba7b810-9dad-41d1-70b4-00c04fd430c8",
                ],
            ),
            ("byte", &["aGk=", "aGlo"], &["", "aGk", "a-k="]),
            ("password", &["", "x"], &[]),
            ("isbn10", &["0321751043"], &["0321751044", "X"]),
            ("isbn13", &["978-0321751041"], &["978-0321751042"]),
            (
                "creditcard",
                &["4111 1111 1111 1111"],
                &["4111 1111 1111 1112"],
            ),
            ("ssn", &["111-11-1111"], &["111111111", "1"]),
            ("hexcolor", &["#FFFFFF", "abc"], &["#FFFF", "ggg"]),
            ("rgbcolor", &["rgb(255, 1, 0)"], &["rgb(256,0,0)"]),
            ("k8s-short-name", &["a-1"], &["A", "-a", "", "a.b"]),
            ("k8s-long-name", &["a.b-1"], &["a..b", "A"]),
            ("bsonobjectid", &["507f1f77bcf86cd799439011"], &["507f"]),
        ];
        for (name, good, bad) in cases {
            let format = Format::known(name, Type::String).expect(name);
            for text in *good {
                assert!(format.accepts(text), "{name} takes {text:?}");
            }
            for text in *bad {
                assert!(!format.accepts(text), "{name} refuses {text:?}");
            }
        }
    }

    #[test]
    fn formats_belong_to_types() {
        assert!(Format::known("int32", Type::Integer).is_some());
        assert!(Format::known("int32", Type::String).is_none());
        assert!(Format::known("uri", Type::Integer).is_none());
        assert!(Format::known("double", Type::Number).is_some());
        assert!(Format::known("made-up", Type::String).is_none());
    }
}
