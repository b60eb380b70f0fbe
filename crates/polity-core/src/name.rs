//! What things may be called: the name, label and key formats of Kubernetes, with its own words for
//! what is wrong.
//!
//! Every check answers with all its complaints, each a sentence that goes into a field error as it is.

/// The longest DNS label, label value and name part of a label key.
const LABEL_MAX: usize = 63;
/// The longest DNS subdomain.
const SUBDOMAIN_MAX: usize = 253;

const DNS_LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const DNS_SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const DNS_1035_LABEL: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";
const CONFIG_KEY: &str = "[-._a-zA-Z0-9]+";

/// What a check says: nothing, or what is wrong.
pub type Check = Result<(), Vec<String>>;

/// An RFC 1123 label: the names of namespaces, containers and volumes.
pub fn dns_label(text: &str) -> Check {
    let mut wrong = too_many_characters(text, LABEL_MAX);
    if !is_dns_label(text) {
        wrong.push(if is_dns_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            pattern(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
                 and must start and end with an alphanumeric character",
                DNS_LABEL,
                &["my-name", "123-abc"],
            )
        });
    }
    verdict(wrong)
}

/// An RFC 1035 label: as [`dns_label`], but starting with a letter.
pub fn dns_1035_label(text: &str) -> Check {
    let mut wrong = too_many_characters(text, LABEL_MAX);
    if !is_dns_label(text) || !text.starts_with(|c: char| c.is_ascii_lowercase()) {
        wrong.push(pattern(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
             alphabetic character, and end with an alphanumeric character",
            DNS_1035_LABEL,
            &["my-name", "abc-123"],
        ));
    }
    verdict(wrong)
}

/// An RFC 1123 subdomain: the names of most kinds.
pub fn dns_subdomain(text: &str) -> Check {
    let mut wrong = too_many_characters(text, SUBDOMAIN_MAX);
    if !is_dns_subdomain(text) {
        wrong.push(not_a_subdomain());
    }
    verdict(wrong)
}

/// A name that is one segment of a URL path, such as those of RBAC kinds. The empty text passes.
pub fn path_segment(text: &str) -> Check {
    if matches!(text, "." | "..") {
        return Err(vec![format!("may not be '{text}'")]);
    }
    path_segment_prefix(text)
}

/// The beginning of a [`path_segment`]; what follows may make `.` legal.
pub fn path_segment_prefix(text: &str) -> Check {
    let wrong = ["/", "%"]
        .into_iter()
        .filter(|part| text.contains(part))
        .map(|part| format!("may not contain '{part}'"))
        .collect();
    verdict(wrong)
}

/// A label key, `[prefix/]name`; also the format of finalizers, taint keys and condition types.
pub fn qualified_name(text: &str) -> Check {
    const WORDS: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                         with an alphanumeric character";
    const EXAMPLES: &[&str] = &["MyName", "my.name", "123-abc"];
    let mut wrong = Vec::new();
    let mut parts = text.split('/');
    let name = match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, None) => name,
        (Some(prefix), Some(name), None) => {
            wrong.extend(complaints_about_prefix(prefix));
            name
        }
        _ => {
            return Err(vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                pattern(WORDS, LABEL_KEY, EXAMPLES)
            )]);
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        wrong.push(format!("name part must be no more than {LABEL_MAX} bytes"));
    }
    if !is_label_text(name) {
        wrong.push(format!("name part {}", pattern(WORDS, LABEL_KEY, EXAMPLES)));
    }
    verdict(wrong)
}

/// An annotation key: a [`qualified_name`] whose prefix may be in capitals.
pub fn annotation_key(text: &str) -> Check {
    qualified_name(&text.to_lowercase())
}

/// A label value: empty, or the format of a label key's name.
pub fn label_value(text: &str) -> Check {
    let mut wrong = Vec::new();
    if text.len() > LABEL_MAX {
        wrong.push(format!("must be no more than {LABEL_MAX} bytes"));
    }
    if !text.is_empty() && !is_label_text(text) {
        wrong.push(pattern(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
             and must start and end with an alphanumeric character",
            LABEL_VALUE,
            &["MyValue", "my_value", "12345"],
        ));
    }
    verdict(wrong)
}

/// A key in the data of a ConfigMap or Secret.
pub fn config_key(text: &str) -> Check {
    let mut wrong = too_many_characters(text, SUBDOMAIN_MAX);
    if text.is_empty() || !text.bytes().all(is_label_byte) {
        wrong.push(pattern(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            CONFIG_KEY,
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match text {
        "." | ".." => wrong.push(format!("must not be '{text}'")),
        _ if text.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    verdict(wrong)
}

/// A `generateName` in the form its check wants: one trailing dash is fine, as more text will follow.
pub fn mask_trailing_dash(prefix: &str) -> String {
    let mut masked = prefix.to_owned();
    if prefix.len() > 1 && prefix.ends_with('-') && prefix.is_ascii() {
        masked.truncate(prefix.len() - 2);
        masked.push('a');
    }
    masked
}

fn complaints_about_prefix(prefix: &str) -> Vec<String> {
    if prefix.is_empty() {
        return vec!["prefix part must be non-empty".to_owned()];
    }
    let mut wrong = Vec::new();
    if prefix.len() > SUBDOMAIN_MAX {
        wrong.push(format!(
            "prefix part must be no more than {SUBDOMAIN_MAX} bytes"
        ));
    }
    if !is_dns_subdomain(prefix) {
        wrong.push(format!("prefix part {}", not_a_subdomain()));
    }
    wrong
}

fn not_a_subdomain() -> String {
    pattern(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
         and must start and end with an alphanumeric character",
        DNS_SUBDOMAIN,
        &["example.com"],
    )
}

fn is_dns_label(text: &str) -> bool {
    let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|b| alphanumeric(b) || *b == b'-')
}

fn is_dns_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns_label)
}

fn is_label_text(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().copied().all(is_label_byte)
}

fn is_label_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

// Object names are counted in "characters" and labels in "bytes"; both are bytes.
fn too_many_characters(text: &str, max: usize) -> Vec<String> {
    if text.len() > max {
        vec![format!("must be no more than {max} characters")]
    } else {
        Vec::new()
    }
}

fn pattern(words: &str, regex: &str, examples: &[&str]) -> String {
    let examples: Vec<_> = examples
        .iter()
        .map(|example| format!("'{example}', "))
        .collect();
    format!(
        "{words} (e.g. {}regex used for validation is '{regex}')",
        examples.join(" or ")
    )
}

fn verdict(wrong: Vec<String>) -> Check {
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Checks every text against what its complaint must begin with; `""` stands for none.
    fn check(rule: fn(&str) -> Check, cases: &[(&str, &str)]) {
        for (text, expected) in cases {
            let said = rule(text).err().unwrap_or_default().join("; ");
            assert!(
                if expected.is_empty() {
                    said.is_empty()
                } else {
                    said.starts_with(expected)
                },
                "{text:?}: said {said:?}, expected {expected:?}"
            );
        }
    }

    #[test]
    fn names_of_objects_are_dns_names() {
        let long = "a".repeat(64);
        let longer = "a".repeat(254);
        let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
                     must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used \
                     for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
        check(
            dns_label,
            &[
                ("a", ""),
                ("1-a", ""),
                ("a.b", "must not contain dots"),
                ("", label),
                ("-a", label),
                ("a-", label),
                ("A", label),
                ("é", label),
                ("a\n", label),
                (&long, "must be no more than 63 characters"),
            ],
        );
        let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
                         '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used \
                         for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
        check(
            dns_subdomain,
            &[
                ("a.b-c.1", ""),
                ("a..b", subdomain),
                (".a", subdomain),
                ("a_b", subdomain),
                ("a:b", subdomain),
                (&longer, "must be no more than 253 characters"),
            ],
        );
        check(
            dns_1035_label,
            &[
                ("a1", ""),
                ("1a", "a DNS-1035 label must"),
                ("", "a DNS-1035 label must"),
            ],
        );
        check(
            path_segment,
            &[
                ("system:node", ""),
                ("", ""),
                (".", "may not be '.'"),
                ("..", "may not be '..'"),
                ("a/b%c", "may not contain '/'; may not contain '%'"),
            ],
        );
    }

    #[test]
    fn label_and_annotation_keys_are_qualified_names() {
        let long = "n".repeat(64);
        let deep = format!("{}/n", "p".repeat(254));
        let name = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
                    an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                    validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
        check(
            qualified_name,
            &[
                ("app", ""),
                ("example.com/My_name.x", ""),
                ("a/b/c", "a valid label key must consist of"),
                ("/n", "prefix part must be non-empty"),
                (
                    "Example.com/n",
                    "prefix part a lowercase RFC 1123 subdomain",
                ),
                (
                    "a/",
                    "name part must be non-empty; name part must consist of",
                ),
                ("-a", name),
                ("a b", name),
                (&long, "name part must be no more than 63 bytes"),
                (&deep, "prefix part must be no more than 253 bytes"),
            ],
        );
        check(annotation_key, &[("Example.com/n", ""), ("a b", name)]);
    }

    #[test]
    fn label_values_are_limited() {
        let long = "v".repeat(64);
        let wrong = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                     and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
                     '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
        check(
            label_value,
            &[
                ("", ""),
                ("A_b.c-1", ""),
                ("-", wrong),
                ("a b", wrong),
                (&long, "must be no more than 63 bytes"),
            ],
        );
    }

    #[test]
    fn keys_of_data_are_limited() {
        check(
            config_key,
            &[
                ("a.B_c-1", ""),
                ("-", ""),
                ("", "a valid config key must consist of"),
                ("a/b", "a valid config key must consist of"),
                ("..", "must not be '..'"),
                ("..a", "must not start with '..'"),
            ],
        );
    }

    #[test]
    fn a_generated_name_may_end_in_a_dash() {
        for (prefix, masked) in [
            ("web-", "wea"),
            ("-", "-"),
            ("web", "web"),
            ("é-", "é-"),
            ("", ""),
        ] {
            assert_eq!(mask_trailing_dash(prefix), masked);
        }
    }

    proptest! {
        #[test]
        fn labels_are_subdomains_and_subdomains_are_segments(text in "\\PC{0,70}|[-a-z0-9.]{0,70}") {
            if dns_label(&text).is_ok() {
                prop_assert!(dns_subdomain(&text).is_ok() && label_value(&text).is_ok());
            }
            if dns_subdomain(&text).is_ok() {
                prop_assert!(path_segment(&text).is_ok());
            }
            if qualified_name(&text).is_ok() {
                prop_assert!(annotation_key(&text).is_ok());
            }
            let _ = (config_key(&text), mask_trailing_dash(&text));
        }
    }
}
