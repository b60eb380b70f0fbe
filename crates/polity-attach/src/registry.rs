//! All policy kinds, merge groups, hierarchies and virtual targets: CRDs and AttachmentConfigs taken together.

use std::collections::{BTreeMap, BTreeSet};

use polity_core::GroupKind;

use crate::finding::{Finding, Severity};
use crate::kind::{Definition, PolicyKind};
use crate::object::ObjectRef;
use crate::settings::{EdgeSettings, HierarchySettings, KindRef, KindSettings, Settings, presets};

/// An AttachmentConfig: what it says, or why it cannot be read.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) object: ObjectRef,
    pub(crate) settings: Result<Settings, String>,
}

/// What is known about kinds.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    pub(crate) kinds: BTreeMap<GroupKind, PolicyKind>,
    /// The kinds of each merge group; the first one gives the resultant its shape.
    pub(crate) groups: BTreeMap<String, Vec<GroupKind>>,
    /// Hierarchies other than the built-in `gateway`.
    pub(crate) hierarchies: BTreeMap<String, HierarchySettings>,
    pub(crate) virtual_objects: BTreeSet<ObjectRef>,
    /// Every kind that has a CRD, policy kind or not, and whether its objects are in namespaces.
    pub(crate) installed: BTreeMap<GroupKind, bool>,
    pub(crate) findings: Vec<Finding>,
}

impl Registry {
    /// Takes everything together. Configs come in the order of their names.
    pub(crate) fn of<'a>(
        definitions: impl IntoIterator<Item = &'a Definition>,
        configs: impl IntoIterator<Item = &'a Config>,
    ) -> Self {
        let mut registry = Self::default();
        let definitions: BTreeMap<&GroupKind, &Definition> = definitions
            .into_iter()
            .map(|definition| (&definition.kind, definition))
            .collect();
        registry.installed = definitions
            .iter()
            .map(|(kind, definition)| ((*kind).clone(), definition.namespaced))
            .collect();
        registry.built_in_hierarchies();
        let set = registry.read_configs(configs);
        registry.add_kinds(&definitions, &set);
        registry.join_groups(&definitions, &set);
        registry
    }

    fn say(&mut self, severity: Severity, code: &'static str, about: &ObjectRef, message: String) {
        self.findings
            .push(Finding::new(severity, code, about.clone(), message));
    }

    fn built_in_hierarchies(&mut self) {
        let any = KindRef {
            group: "*".to_owned(),
            kind: "*".to_owned(),
        };
        let namespace = KindRef {
            group: String::new(),
            kind: "Namespace".to_owned(),
        };
        let levels = vec![namespace, any.clone()];
        let owners = EdgeSettings {
            child: any.clone(),
            path: "metadata.ownerReferences".to_owned(),
            parent: any,
            permission: crate::settings::Permission::None,
        };
        for (name, edges) in [("namespace", Vec::new()), ("owners", vec![owners])] {
            let hierarchy = HierarchySettings {
                name: name.to_owned(),
                levels: levels.clone(),
                edges,
            };
            self.hierarchies.insert(name.to_owned(), hierarchy);
        }
    }

    /// What the configs set for kinds; hierarchies and virtual kinds are taken in on the way.
    fn read_configs<'a>(
        &mut self,
        configs: impl IntoIterator<Item = &'a Config>,
    ) -> BTreeMap<GroupKind, (ObjectRef, KindSettings)> {
        let mut set: BTreeMap<GroupKind, (ObjectRef, KindSettings)> = BTreeMap::new();
        for config in configs {
            let about = &config.object;
            let settings = match &config.settings {
                Ok(settings) => settings,
                Err(error) => {
                    let message =
                        format!("AttachmentConfig {} cannot be read: {error}", about.name);
                    self.say(Severity::Error, "ConfigInvalid", about, message);
                    continue;
                }
            };
            for kind in &settings.kinds {
                let key = GroupKind::new(kind.group.as_str(), kind.kind.as_str());
                match set.get(&key) {
                    None => drop(set.insert(key, (about.clone(), kind.clone()))),
                    Some((first, present)) if present != kind => {
                        let message = format!(
                            "AttachmentConfigs {} and {} say different things about {key}; the first one holds",
                            first.name, about.name
                        );
                        self.say(Severity::Warn, "ConfigConflict", about, message);
                    }
                    Some(_) => {}
                }
            }
            for hierarchy in &settings.hierarchies {
                self.add_hierarchy(about, hierarchy);
            }
            for kind in &settings.virtual_kinds {
                for name in &kind.names {
                    self.virtual_objects.insert(ObjectRef::new(
                        &kind.group,
                        &kind.kind,
                        name.namespace.as_deref(),
                        &name.name,
                    ));
                }
            }
        }
        set
    }

    fn add_hierarchy(&mut self, about: &ObjectRef, hierarchy: &HierarchySettings) {
        let name = &hierarchy.name;
        if name == "gateway" || self.hierarchies.contains_key(name) {
            let message = format!(
                "hierarchy {name} is there already; the one in {} is left out",
                about.name
            );
            return self.say(Severity::Warn, "ConfigConflict", about, message);
        }
        if let Some(kind) = cycle(hierarchy) {
            let message = format!(
                "hierarchy {name} has a cycle through {}.{}; it is left out",
                kind.kind, kind.group
            );
            return self.say(Severity::Error, "HierarchyCycle", about, message);
        }
        self.hierarchies.insert(name.clone(), hierarchy.clone());
    }

    fn add_kinds(
        &mut self,
        definitions: &BTreeMap<&GroupKind, &Definition>,
        set: &BTreeMap<GroupKind, (ObjectRef, KindSettings)>,
    ) {
        let presets: BTreeMap<GroupKind, KindSettings> = presets()
            .into_iter()
            .map(|preset| {
                let kind = GroupKind::new(preset.group.as_str(), preset.kind.as_str());
                (kind, preset)
            })
            .collect();
        let known: BTreeSet<&GroupKind> = definitions.keys().copied().chain(set.keys()).collect();
        for kind in known {
            let definition = definitions.get(kind).copied();
            let preset = presets.get(kind);
            let config = set.get(kind);
            let settings = settings_for(preset, config.map(|(_, settings)| settings));
            let claimed = definition.and_then(Definition::claimed);
            if claimed.is_none() && config.is_none() && preset.is_none() {
                continue;
            }
            let class = match (settings.class, claimed) {
                (Some(class), _) | (None, Some(Ok(class))) => class,
                (None, Some(Err(message))) => {
                    let about = definition.expect("a claim comes from a CRD").object.clone();
                    self.say(
                        Severity::Error,
                        "NonConforming",
                        &about,
                        format!("{kind}: {message}"),
                    );
                    continue;
                }
                (None, None) => {
                    let about = config.map(|(about, _)| about.clone());
                    let about = about.unwrap_or_else(|| ObjectRef::new("", "", None, ""));
                    let message =
                        format!("{kind} has no label and no class is set; it is taken as direct");
                    self.say(Severity::Warn, "ClassUnknown", &about, message);
                    crate::settings::Class::Direct
                }
            };
            if let Some(definition) = definition {
                self.findings.extend(definition.lint());
                if definition.has_target_reference() == Some(false) {
                    let message = format!(
                        "{kind} has no targetRef or targetRefs in its schema; it is not evaluated"
                    );
                    self.say(
                        Severity::Error,
                        "NonConforming",
                        &definition.object,
                        message,
                    );
                    continue;
                }
            } else if let Some((about, _)) = config {
                let message = format!(
                    "{kind} is configured, but its CRD is not here: its schema and scope are unknown"
                );
                self.say(Severity::Warn, "PolicyKindUnknown", about, message);
            }
            let mut policy_kind = PolicyKind::of(kind, definition, class, &settings);
            if policy_kind.hierarchy != "gateway"
                && !self.hierarchies.contains_key(&policy_kind.hierarchy)
            {
                let about = config.map_or_else(
                    || ObjectRef::new("", "", None, ""),
                    |(about, _)| about.clone(),
                );
                let message = format!(
                    "{kind} names hierarchy {}, which does not exist; gateway is used",
                    policy_kind.hierarchy
                );
                self.say(Severity::Error, "HierarchyUnknown", &about, message);
                "gateway".clone_into(&mut policy_kind.hierarchy);
            }
            self.kinds.insert(kind.clone(), policy_kind);
        }
    }

    /// Merge groups: by setting, by the cluster-scoped twin of a namespaced kind, else each kind alone.
    fn join_groups(
        &mut self,
        definitions: &BTreeMap<&GroupKind, &Definition>,
        set: &BTreeMap<GroupKind, (ObjectRef, KindSettings)>,
    ) {
        let names: Vec<GroupKind> = self.kinds.keys().cloned().collect();
        for kind in names {
            let named = set
                .get(&kind)
                .and_then(|(_, settings)| settings.merge_group.as_deref())
                .filter(|name| !name.is_empty());
            let group = match named {
                Some(name) => Some(format!("={name}")),
                None => twin_of(&kind, definitions)
                    .filter(|twin| self.kinds.contains_key(twin))
                    .map(|twin| twin.to_string()),
            };
            if let (Some(group), Some(entry)) = (group, self.kinds.get_mut(&kind)) {
                entry.merge_group = group;
            }
        }
        // A twin follows the kind it is the twin of, also into a group that is set.
        let groups: BTreeMap<String, String> = self
            .kinds
            .iter()
            .map(|(kind, entry)| (kind.to_string(), entry.merge_group.clone()))
            .collect();
        for entry in self.kinds.values_mut() {
            if let Some(group) = groups.get(&entry.merge_group) {
                entry.merge_group.clone_from(group);
            }
        }
        for (kind, entry) in &self.kinds {
            let members = self.groups.entry(entry.merge_group.clone()).or_default();
            members.push(kind.clone());
        }
        for members in self.groups.values_mut() {
            members.sort_by_key(|kind| (self.kinds[kind].namespaced != Some(true), kind.clone()));
        }
        self.warn_of_unlike_schemas(definitions, set);
    }

    fn warn_of_unlike_schemas(
        &mut self,
        definitions: &BTreeMap<&GroupKind, &Definition>,
        set: &BTreeMap<GroupKind, (ObjectRef, KindSettings)>,
    ) {
        let mut findings = Vec::new();
        for members in self.groups.values() {
            let Some((first, rest)) = members.split_first() else {
                continue;
            };
            for other in rest {
                let body = |kind: &GroupKind| definitions.get(kind)?.body_schema();
                let about = set.get(other).or_else(|| set.get(first));
                if let (Some((about, _)), true) = (about, body(first) != body(other)) {
                    let message = format!(
                        "{first} and {other} are in one merge group, but their bodies have different schemas"
                    );
                    findings.push(Finding::new(
                        Severity::Warn,
                        "MergeGroupSchemas",
                        about.clone(),
                        message,
                    ));
                }
            }
        }
        self.findings.extend(findings);
    }

    /// Whether objects of this kind can never be targets or levels.
    pub(crate) fn is_excluded(&self, group: &str, kind: &str) -> bool {
        let own = [
            "EffectivePolicy",
            "ClusterEffectivePolicy",
            "AttachmentStatus",
            "ClusterAttachmentStatus",
            "AttachmentConfig",
        ];
        self.kinds.contains_key(&GroupKind::new(group, kind))
            || matches!(
                group,
                "wgpolicyk8s.io" | "openreports.io" | "reports.kyverno.io"
            )
            || (matches!(group, "" | "events.k8s.io") && kind == "Event")
            || (group == "coordination.k8s.io" && kind == "Lease")
            || (group == "polity.dev" && own.contains(&kind))
    }
}

/// A preset, with what a config sets in its place.
fn settings_for(preset: Option<&KindSettings>, config: Option<&KindSettings>) -> KindSettings {
    let mut settings = preset.cloned().unwrap_or_default();
    let Some(config) = config.cloned() else {
        return settings;
    };
    macro_rules! take {
        ($($field:ident),*) => { $( if config.$field.is_some() { settings.$field = config.$field; } )* };
    }
    take!(
        class,
        managed,
        strategy,
        strategy_fields,
        tie_break,
        hierarchy,
        effective_kind,
        publish,
        admission,
        redaction,
        contents,
        bindings
    );
    settings
}

/// The namespaced kind `X` that cluster-scoped `ClusterX` is the twin of: same group, equal body.
fn twin_of(kind: &GroupKind, definitions: &BTreeMap<&GroupKind, &Definition>) -> Option<GroupKind> {
    let name = kind.kind.strip_prefix("Cluster")?;
    let twin = GroupKind::new(kind.group.as_str(), name);
    let (cluster, namespaced) = (definitions.get(kind)?, definitions.get(&twin)?);
    let alike = !cluster.namespaced
        && namespaced.namespaced
        && cluster.body_schema().is_some()
        && cluster.body_schema() == namespaced.body_schema();
    alike.then_some(twin)
}

/// A kind on a cycle of a hierarchy. A kind may refer to itself: whether its objects do so in a circle shows later.
fn cycle(hierarchy: &HierarchySettings) -> Option<KindRef> {
    let above = |kind: &KindRef| {
        let mut seen = BTreeSet::new();
        let mut open = vec![kind.clone()];
        while let Some(child) = open.pop() {
            for edge in &hierarchy.edges {
                if edge.child == child && edge.parent != child && seen.insert(edge.parent.clone()) {
                    open.push(edge.parent.clone());
                }
            }
        }
        seen
    };
    let place = |kind: &KindRef| hierarchy.levels.iter().position(|level| level == kind);
    let upwards = hierarchy.edges.iter().find(|edge| {
        matches!((place(&edge.child), place(&edge.parent)), (Some(child), Some(parent)) if parent > child)
    });
    upwards.map(|edge| edge.child.clone()).or_else(|| {
        hierarchy
            .edges
            .iter()
            .map(|edge| &edge.child)
            .find(|kind| above(kind).contains(kind))
            .cloned()
    })
}
