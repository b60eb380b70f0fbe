//! The volume that the replicas of a policy server share for compiled modules (docs/spec/admission.md#19-9).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use polity_api::policies::v1::PolicyServer;

use super::{Setup, metadata_of, name_of};
use crate::names;

/// The size of a claim that says nothing about it.
const DEFAULT_SIZE: &str = "5Gi";

/// The volume of a policy server's cache.
#[derive(Debug, Clone, PartialEq)]
pub enum Cache {
    /// One of its own for each pod, gone with it.
    Ephemeral,
    /// A claim that exists already; each server has a folder of its own in it.
    Existing {
        /// The claim.
        claim: String,
        /// The folder.
        sub_path: String,
    },
    /// A claim that the controller makes.
    Own {
        /// Its storage class; `None` for the default one of the cluster.
        storage_class: Option<String>,
        /// Its size.
        size: Quantity,
    },
}

impl Cache {
    /// Which one, first match.
    pub fn of(server: &PolicyServer, setup: &Setup) -> Self {
        let cache = server.spec.cache.as_ref();
        if cache.is_some_and(|cache| cache.ephemeral) {
            return Self::Ephemeral;
        }
        if let Some(claim) = cache.and_then(|cache| cache.existing_claim.clone()) {
            return Self::Existing {
                claim,
                sub_path: name_of(server).to_owned(),
            };
        }
        if cache.is_none() && setup.cache_storage_class.is_none() {
            // A claim that never binds would stop a server that ran before.
            return Self::Ephemeral;
        }
        let class = cache.and_then(|cache| cache.storage_class_name.clone());
        let size = cache.and_then(|cache| cache.size.clone());
        Self::Own {
            storage_class: class.or_else(|| setup.cache_storage_class.clone()),
            size: size.unwrap_or_else(|| Quantity(DEFAULT_SIZE.to_owned())),
        }
    }
}

/// The claim that the controller makes, if it makes one.
pub fn claim(server: &PolicyServer, setup: &Setup) -> Option<PersistentVolumeClaim> {
    let Cache::Own {
        storage_class,
        size,
    } = Cache::of(server, setup)
    else {
        return None;
    };
    Some(PersistentVolumeClaim {
        metadata: metadata_of(server, setup, names::cache_claim(name_of(server))),
        spec: Some(PersistentVolumeClaimSpec {
            access_modes: Some(vec!["ReadWriteMany".to_owned()]),
            resources: Some(VolumeResourceRequirements {
                requests: Some(BTreeMap::from([("storage".to_owned(), size)])),
                limits: None,
            }),
            storage_class_name: storage_class,
            ..PersistentVolumeClaimSpec::default()
        }),
        ..PersistentVolumeClaim::default()
    })
}
