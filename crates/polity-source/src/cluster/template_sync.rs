//! The cluster as the sync of policy templates reads it.

use std::sync::Arc;

use polity_comply::Kind;
use polity_core::governance::{Compliance, names};
use polity_core::{GroupVersion, GroupVersionKind, ObjectKey};
use polity_govern::dependency::{Found, namespace_to_read};
use polity_govern::objects::Dependency;
use polity_govern::sync::{Cluster, TemplateKind};
use serde_json::Value;

use super::ObjectCache;

/// Adapts a cache to the sync of policy templates. Kinds that are not in the cache count as not served.
pub struct TemplateSyncCluster<'a> {
    cache: &'a ObjectCache,
    /// The namespace of the replicated policies, which is also that of their templates.
    namespace: &'a str,
    /// The compliance of an admission policy, by its object.
    compliance_of: &'a dyn Fn(&Value) -> Option<Compliance>,
}

impl<'a> TemplateSyncCluster<'a> {
    /// `compliance_of` gives the verdict of reports on an admission policy; none while it is not evaluated.
    pub fn new(
        cache: &'a ObjectCache,
        namespace: &'a str,
        compliance_of: &'a dyn Fn(&Value) -> Option<Compliance>,
    ) -> Self {
        Self {
            cache,
            namespace,
            compliance_of,
        }
    }

    fn served(&self, api_version: &str, kind: &str) -> Option<&'a Kind> {
        let GroupVersion { group, version } = api_version.parse().ok()?;
        self.cache
            .kind(&GroupVersionKind::new(group, version, kind))
    }

    fn find(&self, kind: &Kind, namespace: Option<&str>, name: &str) -> Option<&'a Value> {
        let key = ObjectKey {
            namespace: namespace.filter(|_| kind.namespaced).map(str::to_owned),
            name: name.to_owned(),
        };
        self.cache.get(&kind.gvk, &key).map(Arc::as_ref)
    }

    /// Whether the CRD of a kind has the label that allows it as a template.
    fn is_template_kind(&self, kind: &Kind) -> bool {
        let gvk = GroupVersionKind::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let key = ObjectKey::cluster(format!("{}.{}", kind.plural, kind.gvk.group));
        let definition = self.cache.get(&gvk, &key);
        definition.is_some_and(|definition| {
            definition["metadata"]["labels"][names::POLICY_TYPE] == names::POLICY_TYPE_TEMPLATE
        })
    }
}

impl Cluster for TemplateSyncCluster<'_> {
    fn kind(&self, api_version: &str, kind: &str) -> TemplateKind {
        match self.served(api_version, kind) {
            None => TemplateKind::NotServed {
                why: format!("no matches for kind \"{kind}\" in version \"{api_version}\""),
            },
            Some(kind) if self.is_template_kind(kind) => TemplateKind::Allowed {
                namespaced: kind.namespaced,
            },
            Some(_) => TemplateKind::NotAllowed,
        }
    }

    fn dependency(&self, dependency: &Dependency) -> Found<'_> {
        let Some(kind) = self.served(&dependency.api_version, &dependency.kind) else {
            return Found::NotServed;
        };
        let namespace = namespace_to_read(dependency, self.namespace);
        match self.find(kind, namespace, &dependency.name) {
            None => Found::Missing,
            Some(object) if kind.gvk.group == names::ADMISSION_GROUP => {
                Found::AdmissionPolicy((self.compliance_of)(object))
            }
            Some(object) => Found::Object(object),
        }
    }

    fn object(&self, api_version: &str, kind: &str, name: &str) -> Option<&Value> {
        let kind = self.served(api_version, kind)?;
        self.find(kind, Some(self.namespace), name)
    }

    fn labelled(&self, policy: &str) -> Vec<&Value> {
        let kinds = self.cache.kinds().iter();
        kinds
            .filter(|kind| self.is_template_kind(kind))
            .flat_map(|kind| {
                let namespace = kind.namespaced.then_some(self.namespace);
                self.cache.list(&kind.gvk, namespace)
            })
            .map(|(_, object)| object.as_ref())
            .filter(|object| object["metadata"]["labels"][names::POLICY] == policy)
            .collect()
    }
}
