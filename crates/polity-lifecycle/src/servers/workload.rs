//! The StatefulSet of a policy server, and the account, rights and Lease that its replicas need.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use polity_api::policies::names as known;
use polity_api::policies::v1::PolicyServer;
use polity_reconcile::Writer;

use super::ensure::check_owner;
use super::{MANAGER, ServerError, Servers};
use crate::names;
use crate::objects::{self, Configs};

impl Servers {
    /// Applies the StatefulSet after everything that its replicas need to report and to elect a leader.
    pub(super) async fn make_workload(&self, server: &PolicyServer) -> Result<(), ServerError> {
        self.make_rights(server).await?;
        let leases: Api<Lease> = self.namespaced();
        let lease = objects::lease(server, &self.setup);
        match leases.get_opt(&lease.name_any()).await? {
            Some(found) => check_owner(&found, server)?,
            None => drop(Writer::new(&self.client, MANAGER).create(&lease).await?),
        }
        let configs = self.configs(server).await?;
        self.ensure(
            server,
            &objects::stateful_set(server, &self.setup, &configs),
        )
        .await
    }

    /// Applies the account and its rights. Replicas that run under another account keep their rights: a change of the
    /// account replaces them one by one, and the last of them must still be able to report.
    async fn make_rights(&self, server: &PolicyServer) -> Result<(), ServerError> {
        let setup = &*self.setup;
        let name = server.name_any();
        let workloads: Api<StatefulSet> = self.namespaced();
        let workload = workloads.get_opt(&names::stateful_set(&name)).await?;
        let pods: Api<Pod> = self.namespaced();
        let replicas = format!("{}={name}", known::WORKLOAD_POLICY_SERVER);
        let pods = pods.list(&ListParams::default().labels(&replicas)).await?;
        let former = objects::former_accounts(server, workload.as_ref(), &pods.items);
        if let Some(account) = objects::service_account(server, setup) {
            self.ensure(server, &account).await?;
        }
        self.ensure(server, &objects::role(server, setup)).await?;
        self.ensure(server, &objects::role_binding(server, setup, &former))
            .await?;
        let binding = objects::context_binding(server, setup, &former);
        let bindings = Api::all(self.client.clone());
        self.ensure_in(bindings, server, &binding).await
    }

    async fn configs(&self, server: &PolicyServer) -> Result<Configs, ServerError> {
        let maps: Api<ConfigMap> = self.namespaced();
        let sigstore_trust = match &server.spec.sigstore_trust_config {
            Some(name) => {
                let map = maps.get_opt(name).await?;
                map.and_then(|map| map.data?.remove("sigstore-trust-config"))
            }
            None => None,
        };
        Ok(Configs {
            verification: None,
            sigstore_trust,
        })
    }
}
