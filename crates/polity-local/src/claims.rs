//! Claims: the storage a Pod keeps, bound at once to a directory of this machine.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimStatus, Pod};

/// The claims a Pod uses.
pub fn used_by(pod: &Pod) -> impl Iterator<Item = &str> {
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    volumes
        .filter_map(|volume| volume.persistent_volume_claim.as_ref())
        .map(|claim| claim.claim_name.as_str())
}

/// The status of a claim that is to be bound; `None` when it is already, or is going.
pub fn bind(claim: &PersistentVolumeClaim) -> Option<PersistentVolumeClaimStatus> {
    let phase = claim
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    if phase == Some("Bound") || claim.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let spec = claim.spec.clone().unwrap_or_default();
    Some(PersistentVolumeClaimStatus {
        phase: Some("Bound".into()),
        access_modes: spec.access_modes,
        // A directory has what was asked for, and more.
        capacity: spec.resources.and_then(|resources| resources.requests),
        ..PersistentVolumeClaimStatus::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_is_bound_once() {
        let claim = json!({"metadata": {"name": "c"}, "spec": {
            "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}},
        }, "status": {"phase": "Pending"}});
        let mut claim: PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
        let status = bind(&claim).unwrap();
        assert_eq!(
            json!(status),
            json!({"phase": "Bound", "accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"}})
        );
        claim.status = Some(status);
        assert_eq!(bind(&claim), None);
    }
}
