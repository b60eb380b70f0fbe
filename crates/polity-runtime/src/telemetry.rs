//! Pushes metrics and traces to a collector with OTLP.
//!
//! The standard OpenTelemetry variables configure the collector (`OTEL_EXPORTER_OTLP_ENDPOINT`, its variants for one
//! signal, headers, time-outs, certificates). An unavailable collector loses telemetry, but never affects a request.

use std::fs;
use std::path::PathBuf;

use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig, Identity};
use opentelemetry_otlp::{ExporterBuildError, MetricExporter, SpanExporter, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::PeriodicReader;
use opentelemetry_sdk::trace::SdkTracerProvider;

use crate::{env, tls};

/// Why telemetry cannot be pushed.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// A file that a variable names cannot be read.
    #[error("reading {} of {variable}", path.display())]
    File {
        variable: String,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// A certificate without its key, or a key without its certificate.
    #[error("{variable} is set, but {missing} is not: a client certificate needs both")]
    HalfIdentity {
        /// The variable that is set.
        variable: String,
        /// The variable that is missing.
        missing: String,
    },
    /// The exporter rejected the configuration.
    #[error("setting up the export by OTLP")]
    Exporter(#[from] ExporterBuildError),
}

/// A kind of telemetry. Each can have separate variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    Metrics,
    Traces,
}

impl Signal {
    fn word(self) -> &'static str {
        match self {
            Self::Metrics => "METRICS",
            Self::Traces => "TRACES",
        }
    }

    /// The file that a variable names: the signal's own variable, else the one for all.
    fn file(self, what: &str, read: &Read<'_>) -> Result<Option<NamedFile>, TelemetryError> {
        let names = [
            format!("OTEL_EXPORTER_OTLP_{}_{what}", self.word()),
            format!("OTEL_EXPORTER_OTLP_{what}"),
        ];
        let found = names
            .into_iter()
            .find_map(|name| read(&name).map(|path| (name, path)));
        let Some((variable, path)) = found else {
            return Ok(None);
        };
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(NamedFile { variable, bytes })),
            Err(source) => Err(TelemetryError::File {
                variable,
                path,
                source,
            }),
        }
    }

    /// The TLS configuration, if any variable sets it.
    fn tls(self, read: &Read<'_>) -> Result<Option<ClientTlsConfig>, TelemetryError> {
        let authority = self.file("CERTIFICATE", read)?;
        let certificate = self.file("CLIENT_CERTIFICATE", read)?;
        let key = self.file("CLIENT_KEY", read)?;
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => {
                Some(Identity::from_pem(certificate.bytes, key.bytes))
            }
            (None, None) => None,
            (Some(there), None) => return Err(half(&there, "CERTIFICATE", "KEY")),
            (None, Some(there)) => return Err(half(&there, "KEY", "CERTIFICATE")),
        };
        if authority.is_none() && identity.is_none() {
            return Ok(None);
        }
        tls::install_provider();
        let mut config = ClientTlsConfig::new();
        if let Some(authority) = authority {
            config = config.ca_certificate(Certificate::from_pem(authority.bytes));
        }
        if let Some(identity) = identity {
            config = config.identity(identity);
        }
        Ok(Some(config))
    }
}

type Read<'a> = dyn Fn(&str) -> Option<PathBuf> + 'a;

struct NamedFile {
    variable: String,
    bytes: Vec<u8>,
}

fn half(there: &NamedFile, word: &str, other: &str) -> TelemetryError {
    TelemetryError::HalfIdentity {
        missing: there.variable.replace(word, other),
        variable: there.variable.clone(),
    }
}

fn from_environment(name: &str) -> Option<PathBuf> {
    env::read(name).map(PathBuf::from)
}

/// The attributes that identify our telemetry. The standard variables can add more.
pub(crate) fn resource(service: &'static str) -> Resource {
    Resource::builder().with_service_name(service).build()
}

/// Reads metrics once a minute (`OTEL_METRIC_EXPORT_INTERVAL`) and pushes them. Needs a runtime around it.
pub(crate) fn metrics() -> Result<PeriodicReader<MetricExporter>, TelemetryError> {
    let mut exporter = MetricExporter::builder().with_tonic();
    if let Some(config) = Signal::Metrics.tls(&from_environment)? {
        exporter = exporter.with_tls_config(config);
    }
    Ok(PeriodicReader::builder(exporter.build()?).build())
}

/// Collects spans and pushes them in batches. Needs a runtime around it.
pub(crate) fn traces(service: &'static str) -> Result<SdkTracerProvider, TelemetryError> {
    let mut exporter = SpanExporter::builder().with_tonic();
    if let Some(config) = Signal::Traces.tls(&from_environment)? {
        exporter = exporter.with_tls_config(config);
    }
    Ok(SdkTracerProvider::builder()
        .with_resource(resource(service))
        .with_batch_exporter(exporter.build()?)
        .build())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The result of `tls` for variables that name files in a folder.
    fn tls_of(variables: &[(&str, &str)]) -> Result<bool, String> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("there.pem"), "a certificate").unwrap();
        let variables: BTreeMap<&str, PathBuf> = variables
            .iter()
            .map(|(name, file)| (*name, folder.path().join(file)))
            .collect();
        let read = |name: &str| variables.get(name).cloned();
        match Signal::Traces.tls(&read) {
            Ok(config) => Ok(config.is_some()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn certificates_come_from_the_usual_variables() {
        for (variables, expected) in [
            (&[][..], false),
            (&[("OTEL_EXPORTER_OTLP_CERTIFICATE", "there.pem")], true),
            (
                &[("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "there.pem")],
                true,
            ),
            // A variable of another signal.
            (
                &[("OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE", "there.pem")],
                false,
            ),
            // The signal's own one is the one that counts.
            (
                &[
                    ("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "there.pem"),
                    ("OTEL_EXPORTER_OTLP_CERTIFICATE", "missing.pem"),
                ],
                true,
            ),
            (
                &[
                    ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "there.pem"),
                    ("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "there.pem"),
                ],
                true,
            ),
        ] {
            assert_eq!(tls_of(variables), Ok(expected), "{variables:?}");
        }
    }

    #[test]
    fn invalid_variables_are_named() {
        let missing = tls_of(&[("OTEL_EXPORTER_OTLP_CERTIFICATE", "missing.pem")]).unwrap_err();
        assert!(
            missing.contains("missing.pem of OTEL_EXPORTER_OTLP_CERTIFICATE"),
            "{missing}"
        );
        let half = tls_of(&[("OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "there.pem")]).unwrap_err();
        assert_eq!(
            half,
            "OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY is set, but OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE is \
             not: a client certificate needs both"
        );
    }
}
