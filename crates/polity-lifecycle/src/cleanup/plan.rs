//! What to do next on the way out, as a function of what is still there.

use jiff::Timestamp;
use polity_api::policies::names;

use crate::kinds::OwnedKey;
use crate::lifecycle::WebhookKind;

/// What is still there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// The controller.
    pub controller: Controller,
    /// Policies of all kinds and namespaces.
    pub policies: Vec<Left>,
    /// Policy servers.
    pub servers: Vec<Left>,
    /// Revisions of policies, by name and UID.
    pub revisions: Vec<(String, String)>,
    /// The webhook configurations of policies.
    pub policy_webhooks: Vec<Configuration>,
    /// The webhook configurations for our own kinds, which the controller answers.
    pub own_webhooks: Vec<Configuration>,
    /// The pods of the controller, those that are terminating included. A running controller restores its own webhooks.
    pub n_controller_pods: usize,
}

/// What there is of a controller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Controller {
    /// No Deployment of its name.
    #[default]
    Absent,
    /// A Deployment.
    Deployed {
        /// How many replicas it asks for.
        n_wanted: i32,
        /// How many are ready.
        n_ready: i32,
    },
}

impl Controller {
    /// Whether somebody finalises what is deleted.
    fn is_running(self) -> bool {
        matches!(self, Self::Deployed { n_ready, .. } if n_ready > 0)
    }

    fn is_wanted(self) -> bool {
        matches!(self, Self::Deployed { n_wanted, .. } if n_wanted > 0)
    }
}

/// An object that is still there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Which.
    pub key: OwnedKey,
    /// Its UID.
    pub uid: String,
    /// The version that was read.
    pub resource_version: String,
    /// Since when it is being deleted.
    pub deleted_at: Option<Timestamp>,
    /// Who has to agree.
    pub finalizers: Vec<String>,
}

impl Left {
    /// The finalizers without ours; `None` if none is.
    fn released(&self) -> Option<Vec<String>> {
        let is_ours =
            |one: &&String| [names::FINALIZER, names::OLD_FINALIZER].contains(&one.as_str());
        self.finalizers.iter().any(|one| is_ours(&one)).then(|| {
            let others = self.finalizers.iter().filter(|one| !is_ours(one));
            others.cloned().collect()
        })
    }
}

/// A webhook configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Validating or mutating.
    pub kind: WebhookKind,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// There are policies.
    Policies,
    /// Only policy servers are left, or what policies left behind.
    Servers,
    /// Only the controller is left.
    Controller,
    /// Nothing is left.
    Done,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<'a> {
    /// Delete a policy or a policy server.
    Delete(&'a Left),
    /// Take our finalizers away from something that is being deleted: these stay.
    Release(&'a Left, Vec<String>),
    /// Delete a webhook configuration.
    DeleteWebhook(&'a Configuration),
    /// Delete a revision, by name and UID.
    DeleteRevision(&'a str, &'a str),
    /// Scale the controller to zero.
    StopController,
}

/// What to do now. Without a step there is only waiting, unless all is done.
pub fn plan<'a>(observed: &'a Observed) -> (Stage, Vec<Step<'a>>) {
    let is_running = observed.controller.is_running();
    let unregister = |all: &'a [Configuration]| all.iter().map(Step::DeleteWebhook).collect();
    let (policy_webhooks, own_webhooks) = (&observed.policy_webhooks, &observed.own_webhooks);
    if !observed.policies.is_empty() {
        // Nobody answers for them, so nobody may be made to ask them about what comes next.
        if !is_running && !policy_webhooks.is_empty() {
            return (Stage::Policies, unregister(policy_webhooks));
        }
        if !is_running && !own_webhooks.is_empty() {
            return (Stage::Policies, unregister(own_webhooks));
        }
        return (Stage::Policies, removal(&observed.policies, is_running));
    }
    // A controller leaves neither of these behind; whoever takes finalizers away by force does.
    if !policy_webhooks.is_empty() {
        return (Stage::Servers, unregister(policy_webhooks));
    }
    if !observed.revisions.is_empty() {
        let revisions = observed.revisions.iter();
        let steps = revisions.map(|(name, uid)| Step::DeleteRevision(name, uid));
        return (Stage::Servers, steps.collect());
    }
    if !observed.servers.is_empty() {
        if !is_running && !own_webhooks.is_empty() {
            return (Stage::Servers, unregister(own_webhooks));
        }
        return (Stage::Servers, removal(&observed.servers, is_running));
    }
    if observed.controller.is_wanted() {
        return (Stage::Controller, vec![Step::StopController]);
    }
    if observed.n_controller_pods > 0 {
        return (Stage::Controller, Vec::new());
    }
    if !own_webhooks.is_empty() {
        return (Stage::Controller, unregister(own_webhooks));
    }
    (Stage::Done, Vec::new())
}

/// Deletes what is not being deleted, and without a controller releases what is.
fn removal(left: &[Left], is_running: bool) -> Vec<Step<'_>> {
    let steps = left.iter().filter_map(|one| match one.deleted_at {
        None => Some(Step::Delete(one)),
        Some(_) if is_running => None,
        Some(_) => one.released().map(|others| Step::Release(one, others)),
    });
    steps.collect()
}

#[cfg(test)]
mod tests;
