//! Request metrics by verb, resource and code.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};

/// The labels of a request in metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestLabels {
    pub verb: String,
    pub group: String,
    pub resource: String,
    pub subresource: String,
}

/// Instruments of the request path.
#[derive(Clone)]
pub struct RequestMetrics {
    total: Counter<u64>,
    duration: Histogram<f64>,
    render: Arc<dyn Fn() -> String + Send + Sync>,
}

impl RequestMetrics {
    /// Registers the instruments; `render` writes everything the process measures as Prometheus text.
    pub fn new(meter: &Meter, render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self {
            total: meter
                .u64_counter("apiserver_request_total")
                .with_description("Requests by verb, group, resource, subresource and code.")
                .build(),
            duration: meter
                .f64_histogram("apiserver_request_duration_seconds")
                .with_description("Time to the head of the answer, by verb and resource.")
                .with_boundaries(vec![
                    0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
                    60.0,
                ])
                .build(),
            render: Arc::new(render),
        }
    }

    /// Counts one completed request.
    pub fn observe(&self, labels: &RequestLabels, code: StatusCode, took: Duration) {
        let of = |key: &'static str, value: &str| KeyValue::new(key, value.to_owned());
        let common = [
            of("verb", &labels.verb),
            of("group", &labels.group),
            of("resource", &labels.resource),
        ];
        self.duration.record(took.as_secs_f64(), &common);
        let [verb, group, resource] = common;
        let code = KeyValue::new("code", i64::from(code.as_u16()));
        self.total.add(
            1,
            &[
                verb,
                group,
                resource,
                of("subresource", &labels.subresource),
                code,
            ],
        );
    }

    /// Everything the process measures, as Prometheus text.
    pub fn render(&self) -> String {
        (self.render)()
    }
}
