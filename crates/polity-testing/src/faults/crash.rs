//! Running a scenario once for every write it makes, dying at that write.

use std::sync::{Arc, Mutex, PoisonError};

use kube::Client;

use super::{Fault, FaultyClient};

/// Far more than a scenario in a test makes; one that gets here does not end.
const MOST_WRITES: usize = 500;

/// Where a run of a scenario dies: at its n-th write, in one of two ways.
#[derive(Clone)]
pub struct CrashPoint {
    nth: usize,
    fault: Fault,
    made: Arc<Mutex<Option<FaultyClient>>>,
}

impl std::fmt::Debug for CrashPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} at write {}", self.fault, self.nth)
    }
}

impl CrashPoint {
    /// The client that dies there, once in a scenario; what comes after the crash takes another client.
    pub fn client(&self, inner: Client) -> FaultyClient {
        let faulty = FaultyClient::new(inner).crash_at_write(self.nth, self.fault);
        let before = self
            .made
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .replace(faulty.clone());
        assert!(before.is_none(), "a scenario dies once");
        faulty
    }

    fn was_met(&self) -> bool {
        let made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.as_ref()
            .expect("the scenario uses the client that dies")
            .has_struck()
    }
}

/// Runs a scenario with a crash at its first write, its second, and so on until one runs through without
/// meeting it; first with writes that were not sent, then with writes whose answer was lost. Answers how
/// many writes were cut off.
///
/// The scenario starts afresh each time: it does its work with the client that dies, notices or not, does
/// it again with a client that does not, and checks the world.
pub async fn for_every_write<F, S>(mut scenario: S) -> usize
where
    F: Future<Output = ()>,
    S: FnMut(CrashPoint) -> F,
{
    let mut n_cut_off = 0;
    for fault in [Fault::NotSent, Fault::AnswerLost] {
        for nth in 1.. {
            assert!(
                nth <= MOST_WRITES,
                "the scenario has not ended after {MOST_WRITES} writes"
            );
            let point = CrashPoint {
                nth,
                fault,
                made: Arc::default(),
            };
            scenario(point.clone()).await;
            if !point.was_met() {
                break;
            }
            n_cut_off += 1;
        }
    }
    n_cut_off
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::{Patch, PatchParams};

    use super::*;
    use crate::{TestServer, objects};

    /// A controller in small: applies three objects, whatever is there.
    async fn reconcile(client: Client) -> kube::Result<()> {
        let maps: Api<ConfigMap> = Api::default_namespaced(client);
        for name in ["a", "b", "c"] {
            let map = objects::config_map(name, [("owner", "test")]);
            maps.patch(
                name,
                &PatchParams::apply("test").force(),
                &Patch::Apply(map),
            )
            .await?;
        }
        Ok(())
    }

    async fn n_there(client: &Client) -> usize {
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let mut n_there = 0;
        for name in ["a", "b", "c"] {
            n_there += usize::from(maps.get_opt(name).await.unwrap().is_some());
        }
        n_there
    }

    #[tokio::test]
    async fn a_scenario_is_cut_off_at_each_of_its_writes() {
        // A cluster for each run: three writes and a run without a crash, in two ways.
        let server = TestServer::builder()
            .members((0..8).map(|n| format!("m{n}")))
            .start()
            .await;
        let n_runs = std::cell::Cell::new(0);
        let n_cut_off = for_every_write(|point| {
            let cluster = format!("m{}", n_runs.replace(n_runs.get() + 1));
            let server = &server;
            async move {
                let client = server.client_of(&cluster).await;
                let died = reconcile(point.client(client.clone()).client())
                    .await
                    .is_err();
                assert_eq!(died, point.was_met(), "{point:?}");
                let n_done = if died {
                    point.nth - usize::from(point.fault == Fault::NotSent)
                } else {
                    3
                };
                assert_eq!(n_there(&client).await, n_done, "{point:?}");
                reconcile(client.clone()).await.unwrap();
                assert_eq!(n_there(&client).await, 3, "{point:?}");
            }
        })
        .await;
        assert_eq!((n_cut_off, n_runs.get()), (6, 8));
    }
}
