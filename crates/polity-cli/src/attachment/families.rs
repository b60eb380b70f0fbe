//! The families of policies, and what an answer about attached policies leaves out of the others.

use std::fmt;

use polity_api::policies::GROUP as ADMISSION_GROUP;
use polity_attach::Graph;
use serde::Serialize;
use serde_json::Value;

use crate::output::Paint;

const CONFIGURATION_GROUP: &str = "policy.open-cluster-management.io";

/// A family of policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Family {
    /// Policies that decide at admission
    Admission,
    /// Policies that keep objects as they declare them
    Configuration,
    /// Policies that are attached to objects by targetRef
    Attachment,
}

/// Something that an answer does not cover.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Missing {
    pub(super) family: Family,
    pub(super) what: String,
    pub(super) why: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl Family {
    /// The kinds of policies whose family their group and kind tell: group and kind. Attached policies are of any kind.
    pub(super) const KINDS: [(Self, &'static str, &'static str); 7] = [
        (Self::Admission, ADMISSION_GROUP, "AdmissionPolicy"),
        (Self::Admission, ADMISSION_GROUP, "AdmissionPolicyGroup"),
        (Self::Admission, ADMISSION_GROUP, "ClusterAdmissionPolicy"),
        (
            Self::Admission,
            ADMISSION_GROUP,
            "ClusterAdmissionPolicyGroup",
        ),
        (
            Self::Configuration,
            CONFIGURATION_GROUP,
            "ConfigurationPolicy",
        ),
        (Self::Configuration, CONFIGURATION_GROUP, "OperatorPolicy"),
        (
            Self::Configuration,
            CONFIGURATION_GROUP,
            "CertificatePolicy",
        ),
    ];

    /// The family of a kind, unless it is attached or no policy at all.
    pub(super) fn of_kind(group: &str, kind: &str) -> Option<Self> {
        let mut kinds = Self::KINDS.into_iter();
        kinds
            .find(|(_, of, named)| *of == group && *named == kind)
            .map(|(family, ..)| family)
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Admission => "admission",
            Self::Configuration => "configuration",
            Self::Attachment => "attachment",
        }
    }

    /// What is left out of an answer that does not look at this family, if it has any policies.
    pub(super) fn left_out(self, objects: &Graph) -> Option<Missing> {
        let all = objects.objects();
        let n_policies = all
            .iter()
            .filter(|(object, _)| Self::of_kind(&object.group, &object.kind) == Some(self))
            .count();
        let policies = match n_policies {
            0 => return None,
            1 => "policy",
            _ => "policies",
        };
        Some(Missing {
            family: self,
            what: format!("{n_policies} {} {policies}", self.as_str()),
            why: "this command does not look at them".to_owned(),
        })
    }
}

/// What is left out of an answer about attached policies only; also said on stderr.
pub(super) fn only_attached(graph: &Graph) -> Vec<Missing> {
    let families = [Family::Admission, Family::Configuration].into_iter();
    let left_out: Vec<Missing> = families
        .filter_map(|family| family.left_out(graph))
        .collect();
    tell(&left_out);
    left_out
}

/// Says on stderr what an answer does not cover.
pub(super) fn tell(missing: &[Missing]) {
    let paint = Paint::for_stderr();
    for missing in missing {
        eprintln!("{} {missing}", paint.warn("incomplete:"));
    }
}

/// The resource of a kind, as rules name it: by the definitions among the objects, else by what is known of Kubernetes.
pub(super) fn resource_of(graph: &Graph, group: &str, kind: &str) -> Option<String> {
    let all = graph.objects();
    let defined = all.iter().find_map(|(object, value)| {
        let spec: &Value = &value["spec"];
        let is_defined = object.kind == "CustomResourceDefinition"
            && spec["group"] == group
            && spec["names"]["kind"] == kind;
        is_defined.then(|| spec["names"]["plural"].as_str())?
    });
    defined.map(str::to_owned).or_else(|| {
        let mut known = polity_kinds::known();
        let known = known.find(|known| known.gvk.group == group && known.gvk.kind == kind);
        known.map(|known| known.plural)
    })
}
