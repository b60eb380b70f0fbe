//! What the controllers of a process count.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter, MeterProvider as _, NoopMeterProvider};

/// The instruments of controllers. Clones are the same; the default counts nothing.
#[derive(Debug, Clone)]
pub struct ControllerMetrics {
    watch_failures: Counter<u64>,
    undecodable_objects: Counter<u64>,
    reconciles: Counter<u64>,
}

impl Default for ControllerMetrics {
    fn default() -> Self {
        Self::new(&NoopMeterProvider::new().meter("none"))
    }
}

impl ControllerMetrics {
    /// Makes the instruments.
    pub fn new(meter: &Meter) -> Self {
        let counter = |name, description| {
            let counter = meter.u64_counter(name).with_description(description);
            counter.build()
        };
        Self {
            watch_failures: counter(
                "polity_watch_failures_total",
                "Lists and watches that failed and are retried, by controller and kind.",
            ),
            undecodable_objects: counter(
                "polity_undecodable_objects_total",
                "Objects that a watch skipped because they could not be decoded, by controller and kind.",
            ),
            reconciles: counter(
                "polity_reconciles_total",
                "Reconciles, by controller and result (succeeded or failed).",
            ),
        }
    }

    pub(crate) fn count_watch_failure(&self, controller: &'static str, kind: &str) {
        self.watch_failures.add(1, &watch_labels(controller, kind));
    }

    pub(crate) fn count_undecodable(&self, controller: &'static str, kind: &str) {
        self.undecodable_objects
            .add(1, &watch_labels(controller, kind));
    }

    pub(crate) fn count_reconcile(&self, controller: &'static str, has_failed: bool) {
        let result = if has_failed { "failed" } else { "succeeded" };
        let labels = [
            KeyValue::new("controller", controller),
            KeyValue::new("result", result),
        ];
        self.reconciles.add(1, &labels);
    }
}

fn watch_labels(controller: &'static str, kind: &str) -> [KeyValue; 2] {
    [
        KeyValue::new("controller", controller),
        KeyValue::new("kind", kind.to_owned()),
    ]
}
