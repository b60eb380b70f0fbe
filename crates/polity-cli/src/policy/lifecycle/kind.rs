//! The kinds of policies that `--kind` accepts.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

pub(crate) use polity_core::PolicyKind;

/// The kinds in the order in which policies are looked for and offered: the ones of namespaces come first.
pub(crate) const NAMESPACED_FIRST: [PolicyKind; 4] = [
    PolicyKind::AdmissionPolicy,
    PolicyKind::AdmissionPolicyGroup,
    PolicyKind::ClusterAdmissionPolicy,
    PolicyKind::ClusterAdmissionPolicyGroup,
];

/// Reads a kind by its short name, its singular or its plural, as kubectl does.
pub(super) fn value_parser() -> impl TypedValueParser<Value = PolicyKind> {
    let values = NAMESPACED_FIRST.map(|kind| {
        let [short, singular, plural] = spellings(kind);
        let value = PossibleValue::new(short).aliases([singular, plural]);
        value.help(kind.as_str())
    });
    PossibleValuesParser::new(values)
        .try_map(|typed| parse(&typed).ok_or("no kind of admission policy"))
}

/// The kind of a spelling.
pub(super) fn parse(text: &str) -> Option<PolicyKind> {
    let text = text.to_lowercase();
    let name = text
        .strip_suffix(".policies.kubewarden.io")
        .unwrap_or(&text);
    NAMESPACED_FIRST
        .into_iter()
        .find(|kind| spellings(*kind).contains(&name))
}

fn spellings(kind: PolicyKind) -> [&'static str; 3] {
    [kind.short(), kind.singular(), kind.plural()]
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::*;

    fn read(kind: &str) -> Option<PolicyKind> {
        let arg = Arg::new("kind")
            .value_parser(value_parser())
            .ignore_case(true);
        let matches = Command::new("test")
            .arg(arg)
            .try_get_matches_from(["test", kind]);
        matches.ok()?.get_one("kind").copied()
    }

    #[test]
    fn kinds_are_read_in_every_spelling_of_kubectl() {
        for kind in PolicyKind::ALL {
            for spelling in spellings(kind) {
                assert_eq!(read(spelling), Some(kind), "{spelling}");
                assert_eq!(read(&spelling.to_uppercase()), Some(kind), "{spelling}");
            }
            assert_eq!(read(kind.as_str()), Some(kind));
        }
        assert_eq!(read("policy"), None);
    }
}
