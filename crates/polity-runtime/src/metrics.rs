//! Metrics: OpenTelemetry instruments that Prometheus reads as text and that, if configured, are pushed with OTLP.
//!
//! Each component creates its instruments from its own meter. Instruments have the names that dashboards use
//! (`…_total`, `…_seconds`), so that both ways show the same names.

use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry_sdk::metrics::{MeterProviderBuilder, SdkMeterProvider};
use prometheus::{Registry, TextEncoder};

use crate::telemetry::{self, TelemetryError};

/// The content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Metrics could not be set up or rendered.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The reader could not be registered.
    #[error("setting up metrics")]
    Setup(#[source] opentelemetry_sdk::error::OTelSdkError),
    #[error(transparent)]
    Push(#[from] TelemetryError),
    #[error("rendering metrics")]
    Render(#[source] prometheus::Error),
}

/// The metrics of a process or of one of its servers. Clones are the same metrics.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Registry,
    provider: SdkMeterProvider,
}

impl Metrics {
    /// An empty set without push.
    pub fn new() -> Result<Self, MetricsError> {
        Self::build(|provider| provider)
    }

    /// An empty set that is also pushed to a collector under a service's name. Needs a runtime around it.
    pub fn pushed(service: &'static str) -> Result<Self, MetricsError> {
        let reader = telemetry::metrics()?;
        Self::build(|provider| {
            provider
                .with_resource(telemetry::resource(service))
                .with_reader(reader)
        })
    }

    fn build(
        finish: impl FnOnce(MeterProviderBuilder) -> MeterProviderBuilder,
    ) -> Result<Self, MetricsError> {
        let registry = Registry::new();
        let reader = opentelemetry_prometheus::exporter()
            .with_registry(registry.clone())
            .without_target_info()
            // The component is in the instrument's name already.
            .scope_info_enabled(false)
            .without_units()
            .without_counter_suffixes()
            .build()
            .map_err(MetricsError::Setup)?;
        let provider = finish(SdkMeterProvider::builder().with_reader(reader)).build();
        Ok(Self { registry, provider })
    }

    /// Pushes the remaining metrics and stops pushing. Blocks while the collector receives them.
    pub fn finish(&self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::warn!(%error, "the last metrics were not delivered");
        }
    }

    /// The meter of a component, which makes its instruments.
    pub fn meter(&self, component: &'static str) -> Meter {
        self.provider.meter(component)
    }

    /// All metrics in Prometheus' text format.
    pub fn render(&self) -> Result<String, MetricsError> {
        TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .map_err(MetricsError::Render)
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry::KeyValue;

    use super::*;

    #[test]
    fn instruments_are_rendered_with_their_names_and_labels() {
        let metrics = Metrics::new().unwrap();
        let meter = metrics.meter("apiserver");
        let requests = meter
            .u64_counter("apiserver_request_total")
            .with_description("Requests.")
            .build();
        let latency = meter
            .f64_histogram("apiserver_request_duration_seconds")
            .with_unit("s")
            .with_boundaries(vec![0.1, 1.0])
            .build();
        let watches = metrics
            .meter("store")
            .i64_up_down_counter("store_watches")
            .build();
        requests.add(
            2,
            &[KeyValue::new("verb", "GET"), KeyValue::new("code", "200")],
        );
        requests.add(
            1,
            &[KeyValue::new("verb", "GET"), KeyValue::new("code", "200")],
        );
        latency.record(0.5, &[]);
        watches.add(3, &[]);
        watches.add(-1, &[]);

        let text = metrics.render().unwrap();
        for line in [
            "# HELP apiserver_request_total Requests.",
            "# TYPE apiserver_request_total counter",
            "apiserver_request_total{code=\"200\",verb=\"GET\"} 3",
            "apiserver_request_duration_seconds_bucket{le=\"0.1\"} 0",
            "apiserver_request_duration_seconds_bucket{le=\"1\"} 1",
            "apiserver_request_duration_seconds_count 1",
            "store_watches 2",
        ] {
            assert!(
                text.lines().any(|found| found == line),
                "{line}\nis not in\n{text}"
            );
        }
    }

    #[test]
    fn sets_are_apart() {
        let (one, other) = (Metrics::new().unwrap(), Metrics::new().unwrap());
        one.meter("a")
            .u64_counter("a_things_total")
            .build()
            .add(1, &[]);
        assert!(one.render().unwrap().contains("a_things_total 1"));
        assert_eq!(other.render().unwrap(), "");
    }
}
