//! Why a write failed, with a variant for each case that a controller handles differently.

use kube::core::Status;

/// The reason of a cause in the answer to an apply without force.
const FIELD_MANAGER_CONFLICT: &str = "FieldManagerConflict";

/// Why a write failed. `object` is the kind, namespace and name.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The object has changed since it was read.
    #[error("{object} has changed since it was read")]
    Conflict {
        /// The object.
        object: String,
    },
    /// An object of this name exists already.
    #[error("{object} exists already")]
    AlreadyExists {
        /// The object.
        object: String,
    },
    /// Other managers have fields of an apply without force.
    #[error("fields of {object} belong to other field managers")]
    FieldConflicts {
        /// The object.
        object: String,
        /// The fields.
        conflicts: Vec<FieldConflict>,
    },
    /// There is no such object, namespace or kind.
    #[error("{object} does not exist")]
    NotFound {
        /// The object.
        object: String,
        /// What the API server answered.
        message: String,
    },
    /// The API server would refuse the same request again: the object is invalid, too large or forbidden.
    #[error("the API server refused {object}")]
    Refused {
        /// The object.
        object: String,
        /// What the API server answered.
        message: String,
        /// The answer.
        #[source]
        error: Box<kube::Error>,
    },
    /// Another failure of the request, which a retry may cure.
    #[error("writing {object}")]
    Api {
        /// The object.
        object: String,
        /// The cause.
        #[source]
        error: Box<kube::Error>,
    },
    /// An object without a name cannot be addressed.
    #[error("the {kind} has no name")]
    NoName {
        /// The kind.
        kind: String,
    },
    /// A deletion must name the object that it means.
    #[error("{object} has no UID, so a deletion could delete another object of its name")]
    NoUid {
        /// The object.
        object: String,
    },
    /// An update must name the version that it replaces.
    #[error("{object} has no resource version, so an update could overwrite anything")]
    NoResourceVersion {
        /// The object.
        object: String,
    },
    /// The object cannot be written as JSON.
    #[error("encoding {object}")]
    Encode {
        /// The object.
        object: String,
        /// The cause.
        #[source]
        error: serde_json::Error,
    },
}

/// A field of an apply without force that another manager has with another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldConflict {
    /// The path, as the API server writes it: `.spec.mode`.
    pub field: String,
    /// The manager, in the API server's words: `conflict with "kubectl-edit" using v1`.
    pub message: String,
}

impl WriteError {
    pub(super) fn from_api(object: String, error: kube::Error) -> Self {
        let kube::Error::Api(status) = &error else {
            return Self::Api {
                object,
                error: error.into(),
            };
        };
        match status.code {
            409 if status.reason == "AlreadyExists" => Self::AlreadyExists { object },
            409 => match field_conflicts(status) {
                conflicts if conflicts.is_empty() => Self::Conflict { object },
                conflicts => Self::FieldConflicts { object, conflicts },
            },
            404 => Self::NotFound {
                object,
                message: status.message.clone(),
            },
            400 | 403 | 413 | 422 => Self::Refused {
                object,
                message: status.message.clone(),
                error: error.into(),
            },
            _ => Self::Api {
                object,
                error: error.into(),
            },
        }
    }
}

fn field_conflicts(status: &Status) -> Vec<FieldConflict> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let conflicts = causes.filter(|cause| cause.reason == FIELD_MANAGER_CONFLICT);
    conflicts
        .map(|cause| FieldConflict {
            field: cause.field.clone(),
            message: cause.message.clone(),
        })
        .collect()
}
