//! Watches one policy.

use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::DynamicObject;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, watch_object};
use polity_runtime::{Clock, Moment};

use super::find::Found;
use super::kind::PolicyKind;
use super::policy::Policy;
use crate::exit::in_words;

/// The states of a policy from now on, the present one first. Some may be passed over, never the last.
pub(super) struct Follow {
    kind: PolicyKind,
    states: BoxStream<'static, watcher::Result<Option<DynamicObject>>>,
    /// A connection that comes and goes is told once.
    is_lost: bool,
}

impl Follow {
    pub(super) fn new(found: &Found) -> Self {
        let states = watch_object(found.api.clone(), &found.policy.name);
        Self {
            kind: found.policy.kind,
            states: states.default_backoff().boxed(),
            is_lost: false,
        }
    }

    /// The next state; none when the policy is gone. Ends with an error when there is no right to watch.
    pub(super) async fn next(&mut self) -> anyhow::Result<Option<Policy>> {
        loop {
            match self.states.try_next().await {
                Ok(Some(object)) => {
                    self.is_lost = false;
                    let policy = object.map(|object| Policy::read(self.kind, &object));
                    return Ok(policy.transpose()?);
                }
                Ok(None) => anyhow::bail!("the watch has ended"),
                Err(error) if is_refusal(&error) => return Err(error.into()),
                Err(error) => {
                    if !self.is_lost {
                        eprintln!("{}; trying again", in_words(&error.into()));
                    }
                    self.is_lost = true;
                }
            }
        }
    }

    /// Looks at every state until one answers; none when the time is over.
    pub(super) async fn until<T>(
        &mut self,
        clock: &Clock,
        deadline: Moment,
        mut look: impl FnMut(Option<&Policy>) -> Option<T>,
    ) -> anyhow::Result<Option<T>> {
        loop {
            let policy = tokio::select! {
                policy = self.next() => policy?,
                () = clock.sleep_until(deadline) => return Ok(None),
            };
            if let Some(answer) = look(policy.as_ref()) {
                return Ok(Some(answer));
            }
        }
    }
}

/// Whether asking again would give the same answer.
fn is_refusal(error: &watcher::Error) -> bool {
    let status = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status,
        watcher::Error::WatchError(status) => status,
        _ => return false,
    };
    matches!(status.code, 401 | 403)
}
