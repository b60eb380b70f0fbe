//! The families of policies, and which of them a result does not cover.

use std::fmt;

use polity_api::policies::GROUP as ADMISSION_GROUP;
use polity_attach::Graph;
use polity_core::PolicyKind;
use polity_core::governance::names::GROUP as CONFIGURATION_GROUP;
use serde::Serialize;
use serde_json::Value;

/// A family of policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// Policies that decide at admission.
    Admission,
    /// Policies that keep objects as they declare them.
    Configuration,
    /// Policies that are attached to objects by targetRef.
    Attachment,
}

/// Something that a result does not cover.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    pub family: Family,
    pub what: String,
    pub why: String,
    /// The group and kind whose objects could not be read.
    #[serde(skip)]
    pub kind: Option<(String, String)>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl Family {
    pub const ALL: [Self; 3] = [Self::Admission, Self::Configuration, Self::Attachment];

    /// The kinds of policies whose family follows from group and kind. Attached policies are of any kind.
    pub fn kinds() -> impl Iterator<Item = (Self, &'static str, &'static str)> {
        let admission =
            PolicyKind::ALL.map(|kind| (Self::Admission, ADMISSION_GROUP, kind.as_str()));
        let configuration = ["ConfigurationPolicy", "OperatorPolicy", "CertificatePolicy"]
            .map(|kind| (Self::Configuration, CONFIGURATION_GROUP, kind));
        admission.into_iter().chain(configuration)
    }

    /// The family of a kind, unless it is attached or no policy at all.
    pub fn of_kind(group: &str, kind: &str) -> Option<Self> {
        Self::kinds()
            .find(|(_, of, named)| *of == group && *named == kind)
            .map(|(family, ..)| family)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admission => "admission",
            Self::Configuration => "configuration",
            Self::Attachment => "attachment",
        }
    }

    /// The policies of this family that a result does not cover, if there are any.
    pub fn left_out(self, objects: &Graph) -> Option<Missing> {
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
            kind: None,
        })
    }
}

/// What a result about attached policies alone does not cover.
pub fn only_attached(graph: &Graph) -> Vec<Missing> {
    let families = [Family::Admission, Family::Configuration].into_iter();
    families
        .filter_map(|family| family.left_out(graph))
        .collect()
}

/// The resource of a kind, by the CRDs among the objects, or else by the kinds that are built into Kubernetes.
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
