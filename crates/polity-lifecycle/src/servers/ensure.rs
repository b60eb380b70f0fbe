//! Applies one object of a policy server, and sends nothing when the object is as wanted.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt as _};
use polity_api::policies::v1::PolicyServer;
use polity_reconcile::Writer;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{MANAGER, ServerError, Servers};

impl Servers {
    /// Applies an object in the namespace of the policy servers.
    pub(super) async fn ensure<K>(
        &self,
        server: &PolicyServer,
        object: &K,
    ) -> Result<(), ServerError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        self.ensure_in(self.namespaced(), server, object).await
    }

    /// Applies an object unless it is as wanted already. An object of its name that this PolicyServer does not own is an
    /// error.
    pub(super) async fn ensure_in<K>(
        &self,
        api: Api<K>,
        server: &PolicyServer,
        object: &K,
    ) -> Result<(), ServerError>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
    {
        let found = api.get_opt(&object.name_any()).await?;
        if let Some(found) = &found {
            check_owner(found, server)?;
        }
        let writer = Writer::new(&self.client, MANAGER);
        writer.apply_if_changed(found.as_ref(), object).await?;
        Ok(())
    }
}

/// Refuses an object that is not this policy server's.
pub(super) fn check_owner<K: Resource<DynamicType = ()>>(
    found: &K,
    server: &PolicyServer,
) -> Result<(), ServerError> {
    if is_owned_by(found, server) {
        return Ok(());
    }
    let owners = found.meta().owner_references.iter().flatten();
    let owner = owners.into_iter().next();
    Err(ServerError::Foreign {
        kind: K::kind(&()).into_owned(),
        name: found.name_any(),
        owner: owner.map_or_else(
            || "not owned by this PolicyServer".to_owned(),
            |owner| format!("owned by {} {}", owner.kind, owner.name),
        ),
    })
}

/// Whether this policy server owns the object.
pub(super) fn is_owned_by<K: Resource>(found: &K, server: &PolicyServer) -> bool {
    let uid = server.uid().unwrap_or_default();
    found
        .owner_references()
        .iter()
        .any(|owner| owner.uid == uid)
}
