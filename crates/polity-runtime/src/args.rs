//! The argument groups that commands share, and the types flags parse into.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::env;
pub use crate::logs::LogArgs;
use crate::tls::{ClientAuthMode, TlsFiles};

/// The cluster to connect to, and the user to impersonate.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Cluster")]
pub struct ClientArgs {
    /// The kubeconfig file; inside a cluster the Pod's service account is the default
    #[arg(long, env = env::KUBECONFIG, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// The kubeconfig context to use instead of the current one
    #[arg(long, env = env::CONTEXT, value_name = "NAME")]
    pub context: Option<String>,

    /// Act as this user
    #[arg(long = "as", env = env::AS, value_name = "USER")]
    pub as_user: Option<String>,

    /// Act as a member of this group; can be given more than once
    #[arg(long = "as-group", env = env::AS_GROUP, value_name = "GROUP", value_delimiter = ',', requires = "as_user")]
    pub as_group: Vec<String>,
}

/// Where live, ready and metrics are served.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Admin port")]
pub struct AdminArgs {
    /// Serve /live, /ready and /metrics on this address
    #[arg(long, env = env::ADMIN_LISTEN, value_name = "ADDRESS")]
    pub admin_listen: Option<SocketAddr>,
}

/// The files of a TLS server. They are watched: new contents are used from then on.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "TLS")]
pub struct TlsArgs {
    /// The serving certificate chain in PEM; plain HTTP without it
    #[arg(long, env = env::CERT_FILE, value_name = "FILE", requires = "key_file")]
    pub cert_file: Option<PathBuf>,

    /// The certificate's private key in PEM
    #[arg(long, env = env::KEY_FILE, value_name = "FILE", requires = "cert_file")]
    pub key_file: Option<PathBuf>,

    /// Demand client certificates signed by the authorities in these PEM files
    #[arg(
        long,
        env = env::CLIENT_CA_FILE,
        value_name = "FILE",
        value_delimiter = ',',
        requires_all = ["cert_file", "key_file"]
    )]
    pub client_ca_file: Vec<PathBuf>,
}

impl TlsArgs {
    /// The files to serve with, or `None` for plain HTTP.
    pub fn files(self) -> Option<TlsFiles> {
        let Self {
            cert_file,
            key_file,
            client_ca_file,
        } = self;
        let client_auth = if client_ca_file.is_empty() {
            ClientAuthMode::None
        } else {
            ClientAuthMode::Required
        };
        Some(TlsFiles {
            certificate: cert_file?,
            key: key_file?,
            client_authorities: client_ca_file,
            client_auth,
        })
    }
}

/// A duration as people write it: `10m`, `1h30m`, `2s500ms`, `1d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HumanDuration(pub Duration);

/// A duration that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadDuration {
    /// It does not look like a duration at all.
    #[error("not a duration: write it like 10m, 1h30m or 500ms")]
    Malformed,
    /// A unit that is none, or out of order, or there twice.
    #[error("the units of a duration are d, h, m, s and ms, in this order and each once")]
    Unit,
    /// The duration overflows.
    #[error("the duration is too long")]
    TooLong,
}

/// From long to short, with their milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

impl FromStr for HumanDuration {
    type Err = BadDuration;

    fn from_str(text: &str) -> Result<Self, BadDuration> {
        if text == "0" {
            return Ok(Self(Duration::ZERO));
        }
        if text.is_empty() {
            return Err(BadDuration::Malformed);
        }
        let (mut rest, mut units, mut total) = (text, &UNITS[..], 0u64);
        while !rest.is_empty() {
            let (number, after) = split_at_first(rest, |c| !c.is_ascii_digit());
            let (unit, after) = split_at_first(after, |c| c.is_ascii_digit());
            if number.is_empty() || unit.is_empty() {
                return Err(BadDuration::Malformed);
            }
            let position = units
                .iter()
                .position(|(name, _)| *name == unit)
                .ok_or(BadDuration::Unit)?;
            let number: u64 = number.parse().map_err(|_| BadDuration::TooLong)?;
            total = number
                .checked_mul(units[position].1)
                .and_then(|milliseconds| total.checked_add(milliseconds))
                .ok_or(BadDuration::TooLong)?;
            units = &units[position + 1..];
            rest = after;
        }
        Ok(Self(Duration::from_millis(total)))
    }
}

fn split_at_first(text: &str, is_end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(is_end).unwrap_or(text.len()))
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_millis();
        if rest == 0 {
            return f.write_str("0s");
        }
        for (name, milliseconds) in UNITS {
            let count = rest / u128::from(milliseconds);
            rest %= u128::from(milliseconds);
            if count > 0 {
                write!(f, "{count}{name}")?;
            }
        }
        Ok(())
    }
}

impl From<HumanDuration> for Duration {
    fn from(duration: HumanDuration) -> Self {
        duration.0
    }
}

/// A number of bytes as people write it: `8388608`, `512Ki`, `8Mi`, `1Gi`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub usize);

/// A number of bytes that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a number of bytes: write it like 8388608, 512Ki, 8Mi or 1Gi")]
pub struct BadByteSize;

/// From small to large, with their power of two.
const BYTE_UNITS: [(&str, u32); 3] = [("Ki", 10), ("Mi", 20), ("Gi", 30)];

impl FromStr for ByteSize {
    type Err = BadByteSize;

    fn from_str(text: &str) -> Result<Self, BadByteSize> {
        let (number, unit) = split_at_first(text, |c| !c.is_ascii_digit());
        // `8MiB` means the same as `8Mi`.
        let unit = unit.strip_suffix('B').unwrap_or(unit);
        let power = match BYTE_UNITS.iter().find(|(name, _)| *name == unit) {
            Some((_, power)) => *power,
            None if unit.is_empty() => 0,
            None => return Err(BadByteSize),
        };
        let number: usize = number.parse().map_err(|_| BadByteSize)?;
        number.checked_mul(1 << power).map(Self).ok_or(BadByteSize)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |power: u32| self.0 > 0 && self.0.is_multiple_of(1 << power);
        match BYTE_UNITS.iter().rfind(|(_, power)| fits(*power)) {
            Some((unit, power)) => write!(f, "{}{unit}", self.0 >> power),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches, Parser};
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Parser)]
    struct Everything {
        #[command(flatten)]
        client: ClientArgs,
        #[command(flatten)]
        admin: AdminArgs,
        #[command(flatten)]
        tls: TlsArgs,
        #[command(flatten)]
        logs: LogArgs,
        #[arg(long, default_value = "10m")]
        wave_timeout: HumanDuration,
    }

    /// Parses without the environment variables of the test process.
    fn parse(args: &[&str]) -> Result<Everything, clap::Error> {
        let command = Everything::command().mut_args(|arg| arg.env(None));
        let mut matches = command.try_get_matches_from([&["polity"], args].concat())?;
        Everything::from_arg_matches_mut(&mut matches)
    }

    #[test]
    fn the_groups_are_well_formed() {
        Everything::command().debug_assert();
    }

    #[test]
    fn flags_parse_into_their_types() {
        let args = parse(&[
            "--kubeconfig",
            "/k",
            "--context",
            "hub",
            "--as",
            "alice",
            "--as-group",
            "a,b",
            "--as-group",
            "c",
            "--admin-listen",
            "127.0.0.1:8081",
            "--cert-file",
            "/c",
            "--key-file",
            "/key",
            "--client-ca-file",
            "/ca1,/ca2",
            "--log-level",
            "debug",
            "--log-format",
            "json",
        ])
        .unwrap();
        assert_eq!(args.client.as_group, ["a", "b", "c"]);
        assert_eq!(args.admin.admin_listen, Some(([127, 0, 0, 1], 8081).into()));
        assert_eq!(args.wave_timeout.0, Duration::from_mins(10));
        assert_eq!(
            args.tls.files(),
            Some(TlsFiles {
                certificate: "/c".into(),
                key: "/key".into(),
                client_authorities: vec!["/ca1".into(), "/ca2".into()],
                client_auth: ClientAuthMode::Required,
            })
        );
        assert_eq!(parse(&[]).unwrap().tls.files(), None);
    }

    #[test]
    fn flags_that_belong_together_are_required_together() {
        for args in [
            &["--cert-file", "/c"][..],
            &["--key-file", "/k"],
            &["--client-ca-file", "/ca"],
            &["--as-group", "g"],
            &["--log-level", "loud"],
            &["--admin-listen", "8081"],
            &["--wave-timeout", "soon"],
        ] {
            assert!(parse(args).is_err(), "{args:?}");
        }
    }

    #[test]
    fn every_flag_has_a_documented_variable() {
        let command = Everything::command();
        let flags = command
            .get_arguments()
            .filter(|arg| arg.get_id() != "wave_timeout");
        for arg in flags {
            let variable = arg
                .get_env()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            assert!(env::ALL.iter().any(|known| known.name == variable), "{arg}");
        }
    }

    #[test]
    fn durations_as_people_write_them() {
        for (text, expected) in [
            ("0", Ok(0)),
            ("10m", Ok(600_000)),
            ("1h30m", Ok(5_400_000)),
            ("2s500ms", Ok(2_500)),
            ("1d", Ok(86_400_000)),
            ("90s", Ok(90_000)),
            ("", Err(BadDuration::Malformed)),
            ("10", Err(BadDuration::Malformed)),
            ("m", Err(BadDuration::Malformed)),
            ("-1s", Err(BadDuration::Malformed)),
            ("1.5h", Err(BadDuration::Unit)),
            ("1 h", Err(BadDuration::Unit)),
            ("30m1h", Err(BadDuration::Unit)),
            ("1m1m", Err(BadDuration::Unit)),
            ("1é", Err(BadDuration::Unit)),
            ("99999999999999999999s", Err(BadDuration::TooLong)),
            ("999999999999999999d", Err(BadDuration::TooLong)),
        ] {
            let expected =
                expected.map(|milliseconds| HumanDuration(Duration::from_millis(milliseconds)));
            assert_eq!(text.parse(), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn durations_print_as_they_parse(milliseconds: u64) {
            let duration = HumanDuration(Duration::from_millis(milliseconds));
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = text.parse::<HumanDuration>();
        }
    }

    #[test]
    fn byte_sizes_are_read_and_shown() {
        for (text, bytes, shown) in [
            ("0", 0, "0"),
            ("1000", 1000, "1000"),
            ("8388608", 8 << 20, "8Mi"),
            ("512Ki", 512 << 10, "512Ki"),
            ("8MiB", 8 << 20, "8Mi"),
            ("1Gi", 1 << 30, "1Gi"),
            ("1536Mi", 1536 << 20, "1536Mi"),
        ] {
            let size: ByteSize = text.parse().unwrap();
            assert_eq!(
                (size.0, size.to_string().as_str()),
                (bytes, shown),
                "{text}"
            );
        }
        for bad in [
            "",
            "Mi",
            "1M",
            "1 Mi",
            "-1",
            "1.5Mi",
            "99999999999999999999",
            "99999999999Gi",
        ] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
        }
    }
}
