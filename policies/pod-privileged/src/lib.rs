//! Refuses pods with privileged containers.

use policy_kit::{Policy, Request, Verdict, containers, pod_spec};
use serde::Deserialize;

/// Which containers are looked at.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Leave out init containers.
    pub skip_init_containers: bool,
    /// Leave out ephemeral containers.
    pub skip_ephemeral_containers: bool,
}

impl Policy for Settings {
    fn judge(&self, request: &Request) -> Verdict {
        let Some(spec) = pod_spec(&request.kind.kind, &request.object) else {
            return Verdict::Accept;
        };
        let problems = containers(spec)
            .filter(|container| match container.list {
                "initContainers" => !self.skip_init_containers,
                "ephemeralContainers" => !self.skip_ephemeral_containers,
                _ => true,
            })
            .filter(|container| container.value["securityContext"]["privileged"] == true)
            .map(|container| format!("container {} is privileged", container.name()))
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
    fn privileged_containers_are_named() {
        let pod = json!({"spec":{
            "containers":[{"name":"a","securityContext":{"privileged":true}},{"name":"b"}],
            "initContainers":[{"name":"c","securityContext":{"privileged":true}}],
            "ephemeralContainers":[{"name":"d","securityContext":{"privileged":false}}]}});
        let judge = |settings: Settings| settings.judge(&request("Pod", pod.clone()));
        assert_eq!(
            judge(Settings::default()),
            Verdict::Reject("container c is privileged; container a is privileged".to_owned())
        );
        let skip = Settings {
            skip_init_containers: true,
            ..Settings::default()
        };
        assert_eq!(
            judge(skip),
            Verdict::Reject("container a is privileged".to_owned())
        );
    }

    #[test]
    fn other_kinds_pass() {
        assert_eq!(
            Settings::default().judge(&request("Service", json!({}))),
            Verdict::Accept
        );
    }
}
