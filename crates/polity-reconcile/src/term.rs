//! Leader election once per process, and the term that its controllers share.
//!
//! A [`LeaderElection`] runs the controllers of a process whenever it leads. They all get the same [`Term`], end when it
//! ends, and write through [`Term::guard`]ed clients, which refuse to write after it.

use std::io;
use std::sync::Arc;

use http::{Method, Request, Response};
use k8s_openapi::api::coordination::v1::Lease;
use kube::client::Body;
use kube::{Api, Client};
use polity_runtime::lease::{BadTiming, Election, Elector, Leadership, LeaseTiming};
use polity_runtime::{Clock, Shutdown};
use tokio::sync::watch;
use tracing::info;

/// A period in which the controllers of this process may write. Clones are the same term.
#[derive(Debug, Clone)]
pub struct Term {
    end: Shutdown,
    lease: Option<Arc<HeldLease>>,
}

#[derive(Debug)]
struct HeldLease {
    leadership: watch::Receiver<Leadership>,
    /// The leadership at the start of the term.
    start: Leadership,
    clock: Clock,
}

impl Term {
    /// A term without an election, for a process that has no other replica. It lasts until the shutdown.
    pub fn without_election(shutdown: &Shutdown) -> Self {
        Self {
            end: shutdown.child(),
            lease: None,
        }
    }

    /// Whether this process may write now. Asks the clock: a process that was suspended may find its lease expired
    /// before the end of the term was announced.
    pub fn is_current(&self) -> bool {
        let holds_lease = |lease: &Arc<HeldLease>| {
            let (now, leadership) = (lease.clock.moment(), lease.leadership.borrow());
            leadership.is_same_term(&lease.start) && leadership.leads_at(now)
        };
        !self.end.is_triggered() && self.lease.as_ref().is_none_or(holds_lease)
    }

    /// Waits for the end of the term.
    pub async fn ended(&self) {
        self.end.triggered().await;
    }

    /// Runs a future until it is done or the term ends.
    pub async fn run_until<F: Future>(&self, future: F) -> Option<F::Output> {
        self.end.run_until(future).await
    }

    /// A client that sends no writes outside this term. Everything that only a leader may write goes through it.
    #[must_use]
    pub fn guard(&self, client: &Client) -> Client {
        let (inner, term) = (client.clone(), self.clone());
        let service = tower::service_fn(move |request| {
            let (inner, term) = (inner.clone(), term.clone());
            async move { term.send(&inner, request).await }
        });
        Client::new(service, client.default_namespace())
    }

    async fn send(
        &self,
        inner: &Client,
        request: Request<Body>,
    ) -> Result<Response<Body>, io::Error> {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        if !is_read && !self.is_current() {
            return Err(io::Error::other("this process no longer holds the lease"));
        }
        inner.send(request).await.map_err(io::Error::other)
    }
}

/// Elects one leader among the replicas of a process.
#[derive(Clone)]
pub struct LeaderElection {
    /// The client that writes the Lease.
    pub client: Client,
    /// The time.
    pub clock: Clock,
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub lease: String,
    /// The name of this candidate, which no other candidate has; see [`polity_runtime::lease::unique_identity`].
    pub identity: String,
    /// The timing of the election.
    pub timing: LeaseTiming,
}

impl LeaderElection {
    /// Runs `controllers` in each term that this process wins, until the shutdown. They must end with their term. The
    /// lease is released when they have ended.
    pub async fn run<F, Fut>(self, shutdown: Shutdown, controllers: F) -> Result<(), BadTiming>
    where
        F: Fn(Term) -> Fut,
        Fut: Future<Output = ()>,
    {
        let elector = Elector::new(self.identity, self.timing)?;
        let leases: Api<Lease> = Api::namespaced(self.client, &self.namespace);
        let (election, leadership) = Election::new(leases, self.lease, elector, self.clock.clone());
        let controllers_ended = Shutdown::new();
        let terms = async {
            Box::pin(terms(leadership, &self.clock, &shutdown, controllers)).await;
            controllers_ended.trigger();
        };
        tokio::join!(Box::pin(election.run(controllers_ended.clone())), terms);
        Ok(())
    }
}

/// Runs the controllers term by term until the shutdown.
async fn terms<F, Fut>(
    mut leadership: watch::Receiver<Leadership>,
    clock: &Clock,
    shutdown: &Shutdown,
    controllers: F,
) where
    F: Fn(Term) -> Fut,
    Fut: Future<Output = ()>,
{
    let is_leading = |now: &Leadership| matches!(now, Leadership::Leading { .. });
    loop {
        let elected = async {
            let leading = leadership.wait_for(is_leading).await.ok();
            leading.map(|leading| leading.clone())
        };
        let Some(Some(start)) = shutdown.run_until(elected).await else {
            return;
        };
        let term = Term {
            end: shutdown.child(),
            lease: Some(Arc::new(HeldLease {
                leadership: leadership.clone(),
                start: start.clone(),
                clock: clock.clone(),
            })),
        };
        info!("became the leader");
        let working = async {
            controllers(term.clone()).await;
            // Controllers that end by themselves do not give up the lease.
            term.ended().await;
        };
        let watching = async {
            let lost = async {
                // The receiver may miss a loss that is followed by the next term at once.
                let _ = leadership.wait_for(|now| !now.is_same_term(&start)).await;
            };
            let _ = shutdown.run_until(lost).await;
            term.end.trigger();
        };
        tokio::join!(working, watching);
    }
}

#[cfg(test)]
mod tests;
