//! The shell of the election: sends the requests of the state machine, and publishes whether this candidate leads. A
//! request that hangs does not delay stepping down.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::PostParams;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::{Action, Elector, Leadership, LeaseRecord, Observed, Outcome};
use crate::clock::{Clock, Moment};
use crate::retry;
use crate::shutdown::Shutdown;

/// One candidate in one election.
pub struct Election {
    api: Api<Lease>,
    name: String,
    elector: Elector,
    clock: Clock,
    /// The Lease as last seen. Fields that do not belong to the election are written back unchanged.
    last: Option<Lease>,
    leadership: watch::Sender<Leadership>,
}

impl Election {
    /// A candidate for the Lease `name`, and a receiver of whether it leads, which is notified when leadership changes
    /// and not by renewals. The candidate leads only while [`Self::run`] runs.
    pub fn new(
        api: Api<Lease>,
        name: impl Into<String>,
        elector: Elector,
        clock: Clock,
    ) -> (Self, watch::Receiver<Leadership>) {
        let (leadership, receiver) = watch::channel(elector.leadership(clock.moment()));
        let election = Self {
            api,
            name: name.into(),
            elector,
            clock,
            last: None,
            leadership,
        };
        (election, receiver)
    }

    /// Takes part until the shutdown, then releases the lease if this candidate holds it. To be shut down after all work
    /// of the leader has ended: the next leader starts at once.
    pub async fn run(mut self, shutdown: Shutdown) {
        let _ = shutdown.run_until(self.take_part()).await;
        self.elector.release();
        self.publish();
        let patience = self.elector.timing().renew_deadline;
        let clock = self.clock.clone();
        tokio::select! {
            () = self.take_part() => {}
            () = clock.sleep(patience) => warn!(name = self.name, "could not release the lease"),
        }
    }

    /// Sends the requests of the state machine until it has finished, which it does only after a release.
    async fn take_part(&mut self) {
        loop {
            self.publish();
            let asked_at = self.clock.moment();
            let action = self.elector.next(asked_at, self.clock.now());
            let outcome = match action {
                Action::Finished => return,
                Action::Wait(until) => {
                    let clock = self.clock.clone();
                    self.stepping_down_in_time(clock.sleep_until(until)).await;
                    continue;
                }
                asked => self.ask_within_patience(asked, asked_at).await,
            };
            self.elector
                .observe(outcome, asked_at, self.clock.moment(), retry::random());
        }
    }

    /// Sends a request with a timeout of half the renew deadline, so that there is time for another attempt.
    async fn ask_within_patience(&mut self, action: Action, asked_at: Moment) -> Outcome {
        let patience: Duration = self.elector.timing().renew_deadline / 2;
        // Boxed, because the future of a client request is large and nested on this path.
        let question = Box::pin(ask(
            self.api.clone(),
            self.name.clone(),
            action,
            self.last.clone(),
        ));
        let clock = self.clock.clone();
        let answer = self.stepping_down_in_time(async {
            tokio::select! {
                answer = question => Some(answer),
                () = clock.sleep_until(asked_at + patience) => None,
            }
        });
        let Some(LeaseReply { outcome, lease }) = answer.await else {
            debug!(name = self.name, "lease request timed out");
            return Outcome::Failed;
        };
        self.last = lease.or(self.last.take());
        outcome
    }

    /// Waits for a future. If the term ends meanwhile, publishes that.
    async fn stepping_down_in_time<T>(&self, something: impl Future<Output = T>) -> T {
        let Leadership::Leading { until, .. } = self.elector.leadership(self.clock.moment()) else {
            return something.await;
        };
        let mut something = std::pin::pin!(something);
        tokio::select! {
            done = &mut something => return done,
            () = self.clock.sleep_until(until) => {}
        }
        self.publish();
        something.await
    }

    fn publish(&self) {
        let now = self.elector.leadership(self.clock.moment());
        self.leadership.send_if_modified(|before| {
            let is_same = before.is_same_term(&now) || *before == now;
            if !is_same {
                info!(
                    name = self.name,
                    leads = matches!(now, Leadership::Leading { .. }),
                    "leadership changed"
                );
            }
            *before = now;
            !is_same
        });
    }
}

/// The outcome of a request, and the Lease if the response has one.
struct LeaseReply {
    outcome: Outcome,
    lease: Option<Lease>,
}

async fn ask(api: Api<Lease>, name: String, action: Action, last: Option<Lease>) -> LeaseReply {
    let answered = match action {
        Action::Wait(_) | Action::Finished => unreachable!("nothing is asked"),
        Action::Read => match api.get_opt(&name).await {
            Ok(Some(lease)) => return answer(lease, Outcome::Found),
            Ok(None) => {
                return LeaseReply {
                    outcome: Outcome::Missing,
                    lease: None,
                };
            }
            Err(error) => Err(error),
        },
        Action::Create(record) => {
            let lease = write_into(Lease::default(), &name, &record, None);
            api.create(&PostParams::default(), &lease).await
        }
        Action::Update {
            record,
            resource_version,
        } => {
            let lease = write_into(
                last.unwrap_or_default(),
                &name,
                &record,
                Some(resource_version),
            );
            api.replace(&name, &PostParams::default(), &lease).await
        }
    };
    match answered {
        Ok(lease) => answer(lease, Outcome::Written),
        Err(error) => {
            debug!(
                name,
                error = &error as &dyn std::error::Error,
                "lease request failed"
            );
            let is_refusal =
                matches!(&error, kube::Error::Api(status) if matches!(status.code, 404 | 409));
            let outcome = if is_refusal {
                Outcome::Refused
            } else {
                Outcome::Failed
            };
            LeaseReply {
                outcome,
                lease: None,
            }
        }
    }
}

fn answer(lease: Lease, outcome: fn(Observed) -> Outcome) -> LeaseReply {
    let observed = Observed {
        record: record_of(lease.spec.as_ref()),
        resource_version: lease.metadata.resource_version.clone().unwrap_or_default(),
    };
    LeaseReply {
        outcome: outcome(observed),
        lease: Some(lease),
    }
}

fn record_of(spec: Option<&LeaseSpec>) -> LeaseRecord {
    let Some(spec) = spec else {
        return LeaseRecord::default();
    };
    LeaseRecord {
        holder: spec.holder_identity.clone().unwrap_or_default(),
        lease_duration: spec
            .lease_duration_seconds
            .map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or_default())),
        acquired: spec.acquire_time.as_ref().map(|time| time.0),
        renewed: spec.renew_time.as_ref().map(|time| time.0),
        transitions: spec
            .lease_transitions
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or_default(),
    }
}

fn write_into(
    mut lease: Lease,
    name: &str,
    record: &LeaseRecord,
    resource_version: Option<String>,
) -> Lease {
    lease.metadata.name = Some(name.to_owned());
    lease.metadata.resource_version = resource_version;
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(record.holder.clone());
    spec.lease_duration_seconds = record
        .lease_duration
        .map(|duration| i32::try_from(duration.as_secs()).unwrap_or(i32::MAX));
    spec.acquire_time = record.acquired.map(MicroTime);
    spec.renew_time = record.renewed.map(MicroTime);
    spec.lease_transitions = Some(i32::try_from(record.transitions).unwrap_or(i32::MAX));
    lease
}

#[cfg(test)]
mod tests;
