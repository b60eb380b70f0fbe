//! Lets only images of trusted registries run, and none by a tag that moves.

use std::collections::BTreeSet;

use policy_kit::{Policy, Request, Verdict, containers, pod_spec};
use serde::Deserialize;

/// Where images may come from.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Registries, with a path if only a part of one is trusted: `ghcr.io/acme`. Empty: all.
    pub allowed: BTreeSet<String>,
    /// Registries, or parts of them, that are never trusted.
    pub rejected: BTreeSet<String>,
    /// Tags that are not taken, such as `latest`.
    pub rejected_tags: BTreeSet<String>,
}

impl Policy for Settings {
    fn check(&self) -> Result<(), String> {
        let all = self.allowed.iter().chain(&self.rejected);
        match all
            .into_iter()
            .find(|entry| entry.trim_matches('/').is_empty())
        {
            Some(_) => Err("registries must not be empty".to_owned()),
            None if self.allowed.is_empty()
                && self.rejected.is_empty()
                && self.rejected_tags.is_empty() =>
            {
                Err("nothing is refused: name registries or tags".to_owned())
            }
            None => Ok(()),
        }
    }

    fn judge(&self, request: &Request) -> Verdict {
        let Some(spec) = pod_spec(&request.kind.kind, &request.object) else {
            return Verdict::Accept;
        };
        let problems = containers(spec)
            .filter_map(|container| {
                let problem = self.problem(container.image())?;
                Some(format!("container {}: {problem}", container.name()))
            })
            .collect();
        Verdict::from_problems(problems)
    }
}

impl Settings {
    fn problem(&self, image: &str) -> Option<String> {
        let Image { name, tag } = Image::parse(image);
        let within =
            |entries: &BTreeSet<String>| entries.iter().any(|entry| is_within(&name, entry));
        if within(&self.rejected) || (!self.allowed.is_empty() && !within(&self.allowed)) {
            return Some(format!("image {image} is not from a trusted registry"));
        }
        match tag {
            Some(tag) if self.rejected_tags.contains(tag) => {
                Some(format!("image {image} has the tag {tag}"))
            }
            _ => None,
        }
    }
}

/// An image's full name, and its tag unless it is pinned by digest.
struct Image<'a> {
    name: String,
    tag: Option<&'a str>,
}

impl<'a> Image<'a> {
    /// Short names are those of Docker Hub, and no tag is `latest`.
    fn parse(image: &'a str) -> Self {
        let (rest, digest) = match image.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (image, None),
        };
        // A colon before the last slash belongs to a port.
        let (path, tag) = match rest.rsplit_once(':') {
            Some((path, tag)) if !tag.contains('/') => (path, Some(tag)),
            _ => (rest, None),
        };
        let tag = match (tag, digest) {
            (_, Some(_)) => None,
            (tag, None) => Some(tag.unwrap_or("latest")),
        };
        let name = match path.split_once('/') {
            Some((host, _)) if host.contains(['.', ':']) || host == "localhost" => path.to_owned(),
            Some(_) => format!("docker.io/{path}"),
            None => format!("docker.io/library/{path}"),
        };
        Self { name, tag }
    }
}

/// Whole path segments only: `ghcr.io/acme` has nothing to do with `ghcr.io/acme-evil`.
fn is_within(name: &str, entry: &str) -> bool {
    name.strip_prefix(entry.trim_end_matches('/'))
        .is_some_and(|rest| rest.starts_with('/'))
}

policy_kit::policy!(Settings);

#[cfg(test)]
mod tests {
    use policy_kit::request;
    use serde_json::json;

    use super::*;

    fn verdict(image: &str) -> bool {
        let settings: Settings = serde_json::from_value(json!({
            "allowed":["ghcr.io/acme","docker.io/library","registry.local:5000"],
            "rejected":["ghcr.io/acme/old"],"rejected_tags":["latest"]}))
        .expect("settings");
        let pod = json!({"spec":{"containers":[{"name":"a","image":image}]}});
        settings.judge(&request("Pod", pod)) == Verdict::Accept
    }

    #[test]
    fn images_are_judged_by_their_full_name() {
        for (image, trusted) in [
            ("ghcr.io/acme/web:1", true),
            ("ghcr.io/acme-evil/web:1", false),
            ("ghcr.io/acme/old/web:1", false),
            ("nginx:1.29", true),
            ("nginx", false),
            ("nginx:latest", false),
            ("nginx@sha256:0000", true),
            ("nginx:latest@sha256:0000", true),
            ("evil/nginx:1", false),
            ("registry.local:5000/web:1", true),
            ("registry.local:5000/web", false),
            ("quay.io/x:1", false),
            ("", false),
        ] {
            assert_eq!(verdict(image), trusted, "{image}");
        }
    }

    #[test]
    fn settings_that_refuse_nothing_are_a_mistake() {
        assert!(Settings::default().check().is_err());
    }
}
