//! Long-running containers have the probes that tell whether they live and are ready.

use policy_kit::{Policy, Request, Verdict, containers, pod_spec};
use serde::Deserialize;

/// Which probes are required; liveness and readiness unless said otherwise.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// `livenessProbe`.
    pub liveness: bool,
    /// `readinessProbe`.
    pub readiness: bool,
    /// `startupProbe`.
    pub startup: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            liveness: true,
            readiness: true,
            startup: false,
        }
    }
}

impl Policy for Settings {
    fn check(&self) -> Result<(), String> {
        if self.liveness || self.readiness || self.startup {
            Ok(())
        } else {
            Err("no probe is required".to_owned())
        }
    }

    fn judge(&self, request: &Request) -> Verdict {
        // What runs to its end needs no probes.
        if matches!(request.kind.kind.as_str(), "Job" | "CronJob") {
            return Verdict::Accept;
        }
        let Some(spec) = pod_spec(&request.kind.kind, &request.object) else {
            return Verdict::Accept;
        };
        let wanted = [
            ("livenessProbe", self.liveness),
            ("readinessProbe", self.readiness),
            ("startupProbe", self.startup),
        ];
        let problems = containers(spec)
            .filter(|container| container.list == "containers")
            .flat_map(|container| {
                wanted
                    .iter()
                    .filter(move |(probe, required)| {
                        *required && !container.value[*probe].is_object()
                    })
                    .map(move |(probe, _)| format!("container {} has no {probe}", container.name()))
            })
            .collect();
        Verdict::from_problems(problems)
    }
}

policy_kit::policy!(Settings);

#[cfg(test)]
mod tests {
    use policy_kit::request;
    use serde_json::json;

    use super::*;

    #[test]
    fn probes_are_required_of_what_runs_long() {
        let spec =
            json!({"containers":[{"name":"a","livenessProbe":{}}],"initContainers":[{"name":"b"}]});
        let settings = Settings::default();
        assert_eq!(
            settings.judge(&request("Pod", json!({"spec":spec}))),
            Verdict::Reject("container a has no readinessProbe".to_owned())
        );
        let job = json!({"spec":{"template":{"spec":spec}}});
        assert_eq!(settings.judge(&request("Job", job)), Verdict::Accept);
    }
}
