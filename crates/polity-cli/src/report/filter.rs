//! The flags that choose and count results.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use polity_report::{Outcome, Severity};
use polity_source::reports::{Dimension, Filter};

/// Which results are shown.
#[derive(Debug, Clone, Default, clap::Args)]
pub(super) struct FilterArgs {
    /// Only objects of these namespaces
    #[arg(
        short = 'n',
        long = "namespace",
        value_name = "NAME",
        value_delimiter = ','
    )]
    pub(super) namespaces: Vec<String>,

    /// Only these policies, by name or by namespace/name
    #[arg(long = "policy", value_name = "NAME", value_delimiter = ',')]
    policies: Vec<String>,

    /// Only these severities: critical, high, medium, low, info, none
    #[arg(long = "severity", value_name = "WORD", value_delimiter = ',', value_parser = severity)]
    severities: Vec<SeverityArg>,

    /// Only these results: pass, fail, warn, error, skip
    #[arg(long = "result", value_name = "WORD", value_delimiter = ',', value_parser = outcome)]
    results: Vec<Outcome>,

    /// Only objects of these kinds
    #[arg(long = "kind", value_name = "KIND", value_delimiter = ',')]
    kinds: Vec<String>,

    /// Only results of these engines
    #[arg(long = "source", value_name = "NAME", value_delimiter = ',')]
    sources: Vec<String>,
}

/// A severity, or none.
#[derive(Debug, Clone, Copy)]
struct SeverityArg(Option<Severity>);

fn severity(word: &str) -> Result<SeverityArg, String> {
    match Severity::parse(word) {
        None if word != "none" => Err("use critical, high, medium, low, info or none".to_owned()),
        severity => Ok(SeverityArg(severity)),
    }
}

fn outcome(word: &str) -> Result<Outcome, String> {
    Outcome::parse(word).ok_or_else(|| "use pass, fail, warn, error or skip".to_owned())
}

impl From<FilterArgs> for Filter {
    fn from(args: FilterArgs) -> Self {
        let FilterArgs {
            namespaces,
            policies,
            severities,
            results,
            kinds,
            sources,
        } = args;
        Self {
            namespaces,
            policies,
            severities: severities.into_iter().map(|severity| severity.0).collect(),
            results,
            kinds,
            sources,
        }
    }
}

/// The values of `--by`.
pub(super) fn dimensions() -> impl TypedValueParser<Value = Dimension> {
    PossibleValuesParser::new(Dimension::ALL.map(Dimension::as_str)).map(|text| {
        let mut dimensions = Dimension::ALL.into_iter();
        dimensions
            .find(|dimension| dimension.as_str() == text)
            .unwrap_or(Dimension::Namespace)
    })
}
