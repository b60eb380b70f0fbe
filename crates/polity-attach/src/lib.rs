//! Policy attachment: which policies affect an object, through which paths, with which effective values and status.
//!
//! [`Graph`] takes in objects (Gateway API and others, CRDs, AttachmentConfigs, policies of any kind) as JSON and keeps
//! up with every change. What it answers are values: effective policy with the source of every field, explanations,
//! status to write, differences between two states. Nothing here reads a clock, a file or a socket, and the same objects
//! give the same bytes in whatever order they came.

mod affects;
mod effective;
mod explain;
mod finding;
mod graph;
mod impact;
mod issues;
mod kind;
mod merge;
mod object;
mod policy;
mod publish;
mod registry;
mod scope;
mod settings;
mod status;
mod topology;
mod tree;

pub use affects::{Affected, Affects};
pub use effective::{Context, Resultant, Setting};
pub use explain::{
    Effect, Explanation, Generations, OwnedEntry, OwnedPolicy, PolicyEntry, PolicyRef,
    SettingEntry, VerdictEntry, Why,
};
pub use finding::{Finding, Severity};
pub use graph::facts::{GATEWAY_GROUP, ROUTES};
pub use graph::paths::{Step, Through};
pub use graph::{Changes, Effectiveness, Graph, Neighbours, Size, Work};
pub use impact::{FieldChange, Impact, ObjectImpact, PolicyImpact};
pub use kind::{MANAGED_ANNOTATION, POLICY_LABEL, PolicyKind, StatusForm};
pub use merge::Rule;
pub use object::ObjectRef;
pub use policy::Target;
pub use publish::{EXTENSION_TYPES, Mark, MarkPlace, POLICY_AFFECTED};
pub use scope::put_in_namespace;
pub use settings::{
    Admission, Binding, Class, Contents, EdgeSettings, HierarchySettings, KindRef, KindSettings,
    Permission, Publish, Redaction, Settings, Strategy, TieBreak, VirtualKind, VirtualName,
};
pub use status::{
    Ancestor, AncestorRef, Beater, CONTROLLER, Condition, PolicyStatus, flat_status,
    policy_status_to_write,
};
pub use topology::{Topology, TopologyEdge, TopologyNode};
