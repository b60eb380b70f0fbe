//! The objects that the engine plans with: policies, bindings, policy sets and statuses, lowered from `polity-api`.
//!
//! A controller lowers the typed objects of its watches with `From`, and writes plans back the same way:
//!
//! | wire type | object |
//! |---|---|
//! | `v1::Policy` | [`Policy`], both ways |
//! | `v1::PolicyStatus` | [`PolicyStatus`], both ways |
//! | `v1::PlacementBinding` | [`Binding`] |
//! | `v1beta1::PolicySet` | [`PolicySet`] |
//! | `v1beta1::PolicySetStatus` | [`SetStatus`](crate::sets::SetStatus), written only |
//! | `apps::v1::PlacementRule` | [`Decisions`](crate::place::Decisions) |

mod binding;
mod lower;
mod policy;
mod status;

pub use binding::{
    Binding, Exclusion, PlacementKind, PlacementRef, PolicySet, Subject, SubjectKind,
};
pub(crate) use lower::MAX_MESSAGE;
pub use policy::{Dependency, Policy, PolicySpec, PolicyTemplate};
pub use status::{ClusterStatus, HistoryEntry, PlacementStatus, PolicyStatus, TemplateStatus};
