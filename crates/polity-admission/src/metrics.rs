//! The metrics of a policy server. Existing dashboards rely on the names and labels of the first two.

use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter};
use polity_eval::{AdmissionRequest, Evaluation};

use crate::route::Endpoint;
use crate::table::{PolicyTable, Served};
use crate::turnstile::Shed;

/// The instruments of a server.
#[derive(Debug, Clone)]
pub struct ServerMetrics {
    evaluations: Counter<u64>,
    latency: Histogram<u64>,
    queue: Histogram<f64>,
    shed: Counter<u64>,
    loaded: Gauge<u64>,
    reloads: Counter<u64>,
    phases: Histogram<f64>,
    module_cache: Counter<u64>,
    modules: Gauge<u64>,
}

/// A step from a revision to a policy that serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The module is fetched.
    Pull,
    /// The module is compiled.
    Compile,
    /// Compiled code is read, checked and loaded.
    Load,
    /// Guests check their settings.
    Settings,
}

impl Phase {
    fn label(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Compile => "compile",
            Self::Load => "load",
            Self::Settings => "settings",
        }
    }
}

impl ServerMetrics {
    /// Registers the instruments.
    pub fn new(meter: &Meter) -> Self {
        Self {
            evaluations: meter
                .u64_counter("kubewarden_policy_evaluations_total")
                .with_description("Policy evaluations, and policies that could not be initialised.")
                .build(),
            latency: meter
                .u64_histogram("kubewarden_policy_evaluation_latency_milliseconds")
                .with_unit("ms")
                .with_description("Time to a verdict, in whole milliseconds.")
                .build(),
            queue: meter
                .f64_histogram("polity_evaluation_queue_seconds")
                .with_unit("s")
                .with_description("Time that requests waited for an evaluation to start.")
                .with_boundaries(vec![
                    0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0,
                ])
                .build(),
            shed: meter
                .u64_counter("polity_requests_shed_total")
                .with_description("Requests answered 503 because there was no room or no time.")
                .build(),
            loaded: meter
                .u64_gauge("polity_loaded_policies")
                .with_description("Policies in the table, by whether they are ready.")
                .build(),
            reloads: meter
                .u64_counter("polity_policy_reloads_total")
                .with_description("Times that the policies were read again, by outcome.")
                .build(),
            phases: meter
                .f64_histogram("polity_revision_phase_seconds")
                .with_unit("s")
                .with_description("Time that the steps from a revision to a policy took.")
                .with_boundaries(vec![
                    0.001, 0.005, 0.02, 0.1, 0.5, 1.0, 2.0, 5.0, 15.0, 60.0, 120.0,
                ])
                .build(),
            module_cache: meter
                .u64_counter("polity_module_cache_total")
                .with_description("Lookups of modules in the cache, by result.")
                .build(),
            modules: meter
                .u64_gauge("polity_loaded_modules")
                .with_description(
                    "Modules in memory, each counted once however many policies use it.",
                )
                .build(),
        }
    }

    /// Counts one evaluation.
    pub(crate) fn evaluated(
        &self,
        served: &Served,
        endpoint: Endpoint,
        request: Option<&AdmissionRequest<'_>>,
        evaluation: &Evaluation,
        took: Duration,
    ) {
        let mut labels = Vec::with_capacity(9);
        labels.push(KeyValue::new("policy_name", served.id.clone()));
        labels.push(KeyValue::new("policy_mode", mode(served)));
        labels.push(KeyValue::new("accepted", evaluation.accepted));
        labels.push(KeyValue::new("mutated", evaluation.mutated));
        if let Some(request) = request {
            let kind = request.request_kind.as_ref().unwrap_or(&request.kind);
            labels.push(KeyValue::new("resource_kind", kind.kind.to_string()));
            labels.push(KeyValue::new(
                "resource_request_operation",
                request.operation.to_string(),
            ));
            labels.push(KeyValue::new(
                "request_origin",
                match endpoint {
                    Endpoint::Audit => "audit",
                    Endpoint::Validate | Endpoint::Raw => "validate",
                },
            ));
            if let Some(namespace) = &request.namespace {
                labels.push(KeyValue::new("resource_namespace", namespace.to_string()));
            }
        }
        if let Some(code) = evaluation.error_code {
            labels.push(KeyValue::new("error_code", i64::from(code)));
        }
        self.evaluations.add(1, &labels);
        self.latency
            .record(u64::try_from(took.as_millis()).unwrap_or(u64::MAX), &labels);
    }

    /// Records how long a request waited for its evaluation.
    pub(crate) fn waited(&self, waited: Duration) {
        self.queue.record(waited.as_secs_f64(), &[]);
    }

    /// Counts a request that was refused because of overload.
    pub(crate) fn shed(&self, reason: Shed) {
        self.shed.add(1, &[KeyValue::new("reason", reason.label())]);
    }

    /// Records how many policies the new table has.
    pub(crate) fn serving(&self, table: &PolicyTable) {
        let (all, failed) = (table.n_policies() as u64, table.n_failed() as u64);
        self.loaded
            .record(all - failed, &[KeyValue::new("state", "ready")]);
        self.loaded
            .record(failed, &[KeyValue::new("state", "failed")]);
    }

    /// Counts a policy that could not be initialised.
    pub(crate) fn not_initialised(&self, policy: &str, error: &str) {
        let labels = [
            KeyValue::new("policy_name", policy.to_owned()),
            KeyValue::new("initialization_error", error.to_owned()),
        ];
        self.evaluations.add(1, &labels);
    }

    /// Records how long a step took.
    pub(crate) fn revision_phase(&self, phase: Phase, took: Duration) {
        let labels = [KeyValue::new("phase", phase.label())];
        self.phases.record(took.as_secs_f64(), &labels);
    }

    /// Records how many modules are in memory.
    pub(crate) fn modules(&self, n_modules: usize) {
        self.modules.record(n_modules as u64, &[]);
    }

    /// Counts a lookup of a module in the cache.
    pub(crate) fn module_cache(&self, result: &'static str) {
        let labels = [KeyValue::new("result", result)];
        self.module_cache.add(1, &labels);
    }

    /// Counts a reload of the policies.
    pub(crate) fn reloaded(&self, outcome: &'static str) {
        self.reloads.add(1, &[KeyValue::new("outcome", outcome)]);
    }
}

fn mode(served: &Served) -> &'static str {
    match served.mode {
        polity_eval::Mode::Protect => "protect",
        polity_eval::Mode::Monitor => "monitor",
    }
}
