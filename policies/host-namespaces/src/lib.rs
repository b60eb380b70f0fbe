//! Keeps pods out of the host's namespaces and off its ports.

use policy_kit::{Policy, Request, Verdict, containers, pod_spec};
use serde::Deserialize;

/// What is allowed; nothing is by default.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The host's inter-process communication.
    pub allow_host_ipc: bool,
    /// The host's network.
    pub allow_host_network: bool,
    /// The host's processes.
    pub allow_host_pid: bool,
    /// Ranges of the host's ports.
    pub allow_host_ports: Vec<PortRange>,
}

/// Ports from `min` to `max`, both included.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortRange {
    /// The first.
    pub min: u16,
    /// The last.
    pub max: u16,
}

impl Policy for Settings {
    fn check(&self) -> Result<(), String> {
        match self
            .allow_host_ports
            .iter()
            .find(|range| range.min > range.max)
        {
            Some(range) => Err(format!(
                "port range {} to {} is empty",
                range.min, range.max
            )),
            None => Ok(()),
        }
    }

    fn judge(&self, request: &Request) -> Verdict {
        let Some(spec) = pod_spec(&request.kind.kind, &request.object) else {
            return Verdict::Accept;
        };
        let mut problems: Vec<String> = [
            ("hostIPC", self.allow_host_ipc),
            ("hostNetwork", self.allow_host_network),
            ("hostPID", self.allow_host_pid),
        ]
        .into_iter()
        .filter(|(field, allowed)| !allowed && spec[*field] == true)
        .map(|(field, _)| format!("{field} is not allowed"))
        .collect();
        for container in containers(spec) {
            let ports = container.value["ports"].as_array().into_iter().flatten();
            for port in ports.filter_map(|port| port["hostPort"].as_u64()) {
                // 0 is the same as no port.
                if port != 0 && !self.may_use(port) {
                    problems.push(format!(
                        "container {} must not use host port {port}",
                        container.name()
                    ));
                }
            }
        }
        Verdict::from_problems(problems)
    }
}

impl Settings {
    fn may_use(&self, port: u64) -> bool {
        self.allow_host_ports
            .iter()
            .any(|range| (u64::from(range.min)..=u64::from(range.max)).contains(&port))
    }
}

policy_kit::policy!(Settings);

#[cfg(test)]
mod tests {
    use policy_kit::request;
    use serde_json::{Value, json};

    use super::*;

    fn judge(settings: Value, spec: Value) -> Verdict {
        let settings: Settings = serde_json::from_value(settings).expect("settings");
        settings.judge(&request("Pod", json!({ "spec": spec })))
    }

    #[test]
    fn nothing_of_the_host_by_default() {
        let spec = json!({"hostIPC":true,"hostPID":true,"hostNetwork":true,
            "containers":[{"name":"a","ports":[{"hostPort":80},{"hostPort":0},{"containerPort":1}]}]});
        assert_eq!(
            judge(json!({}), spec.clone()),
            Verdict::Reject(
                "hostIPC is not allowed; hostNetwork is not allowed; hostPID is not allowed; \
                 container a must not use host port 80"
                    .to_owned()
            )
        );
        let all = json!({"allow_host_ipc":true,"allow_host_pid":true,"allow_host_network":true,
            "allow_host_ports":[{"min":80,"max":80}]});
        assert_eq!(judge(all, spec), Verdict::Accept);
    }

    #[test]
    fn empty_ranges_are_refused() {
        let settings: Settings =
            serde_json::from_value(json!({"allow_host_ports":[{"min":2,"max":1}]}))
                .expect("settings");
        assert!(settings.check().is_err());
    }
}
