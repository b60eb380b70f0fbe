//! The host side of guests: a host call is checked for permission, then served from a cache or by the services.

mod cache;
mod calls;
mod log;
mod prune;
mod record;

use std::sync::Arc;

use polity_wasm::{Bounds, Deadline, Host, HostCall, Stream};
use serde::{Deserialize, Serialize};
use serde_json::json;

pub use cache::{CachedServices, GuestCache};
pub use calls::{
    CapabilityRequest, Certificate, CertificateEncoding, CertificateQuery, GetResource,
    ListResources, ResourceAttributes, SubjectAccess, SubjectAccessReview, VerifyKind,
};
pub use prune::prune_object;
pub use record::{Exchange, RecordedResponse, Recorder, Replay, ReplayError, recording_to_yaml};

use crate::{Environment, Grants, policy::Guest};

/// The waPC binding of all host calls.
const BINDING: &str = "kubewarden";

/// The prefix of cache keys that guests cannot use.
const RESERVED_KEYS: &str = "kubewarden_internal_";

/// Serves host calls. Implementations block, and return by the deadline.
pub trait Services: Send + Sync {
    /// Returns JSON, or an error message. Permission has been checked.
    fn call(&self, request: &CapabilityRequest, deadline: Deadline) -> Result<Vec<u8>, String>;
}

/// Services of a server without a cluster and without a network: every call fails.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoServices;

impl Services for NoServices {
    fn call(&self, request: &CapabilityRequest, _: Deadline) -> Result<Vec<u8>, String> {
        Err(format!("{} is not available here", request.capability()))
    }
}

/// The host functions of one evaluation.
pub(crate) struct PolicyHost {
    policy: Arc<str>,
    owner: Arc<str>,
    request_uid: String,
    grants: Arc<Grants>,
    services: Arc<dyn Services>,
    cache: Arc<GuestCache>,
    on_long_run: fn(),
}

impl PolicyHost {
    pub(crate) fn new(guest: &Guest, request_uid: &str, environment: &Environment) -> Self {
        Self {
            policy: guest.id.clone(),
            owner: guest.owner.clone(),
            request_uid: request_uid.to_owned(),
            grants: guest.grants.clone(),
            services: environment.services.clone(),
            cache: environment.cache.clone(),
            on_long_run: environment.on_long_run,
        }
    }

    /// The first permission check: whether the policy may make this call.
    fn check_capability(&self, call: &HostCall<'_>) -> Result<(), String> {
        if self
            .grants
            .capabilities
            .allows(call.namespace, call.operation)
        {
            return Ok(());
        }
        tracing::error!(
            policy = %self.policy,
            request_uid = %self.request_uid,
            namespace = call.namespace,
            operation = call.operation,
            granted = ?self.grants.capabilities,
            "policy tried to use a host capability that it was not granted"
        );
        Err(format!(
            "Policy has not been granted access to the '{}/{}' host capability. The violation has been reported.",
            call.namespace, call.operation
        ))
    }

    /// The second permission check: whether the policy may read this kind.
    fn check_resource(&self, request: &CapabilityRequest) -> Result<(), String> {
        let Some((api_version, kind)) = request.resource_kind() else {
            return Ok(());
        };
        if self.grants.may_read(api_version, kind) {
            return Ok(());
        }
        tracing::error!(
            policy = %self.policy,
            request_uid = %self.request_uid,
            api_version,
            kind,
            granted = ?self.grants.resources,
            "policy tried to read a kind that it was not granted"
        );
        Err(format!(
            "Policy has not been granted access to Kubernetes {api_version}/{kind} resources. The violation has been \
             reported."
        ))
    }

    fn cache_set(&self, payload: &[u8]) -> Result<Vec<u8>, String> {
        #[derive(Deserialize)]
        struct Set {
            key: String,
            value: Vec<u8>,
            ttl: u64,
        }
        let Set { key, value, ttl } = read(payload)?;
        if key.starts_with(RESERVED_KEYS) {
            return write(
                &json!({"code": 1, "message": format!("keys must not begin with {RESERVED_KEYS}")}),
            );
        }
        self.cache.set(&self.owner, &key, value, ttl);
        write(&json!({"code": 0, "message": "ok"}))
    }

    fn cache_get(&self, payload: &[u8]) -> Result<Vec<u8>, String> {
        #[derive(Deserialize)]
        struct Get {
            key: String,
        }
        let Get { key } = read(payload)?;
        if key.starts_with(RESERVED_KEYS) {
            return write(
                &json!({"code": 1, "message": format!("keys must not begin with {RESERVED_KEYS}")}),
            );
        }
        match self.cache.get(&self.owner, &key) {
            Some(value) => write(&json!({"code": 0, "message": "hit", "value": &value[..]})),
            None => write(&json!({"code": 0, "message": "miss"})),
        }
    }
}

impl Host for PolicyHost {
    fn call(&mut self, call: HostCall<'_>, bounds: &mut Bounds) -> Result<Vec<u8>, String> {
        if call.binding != BINDING {
            return Err(format!("unknown binding: {}", call.binding));
        }
        if (call.namespace, call.operation) == ("tracing", "log") {
            log::entry(
                &self.policy,
                &self.request_uid,
                call.payload,
                &mut bounds.log,
            );
            return Ok(Vec::new());
        }
        self.check_capability(&call)?;
        match (call.namespace, call.operation) {
            ("cache", "set") => return self.cache_set(call.payload).map_err(failure),
            ("cache", "get") => return self.cache_get(call.payload).map_err(failure),
            _ => {}
        }
        let request = CapabilityRequest::parse(call.namespace, call.operation, call.payload)?;
        self.check_resource(&request)?;
        self.services
            .call(&request, bounds.deadline)
            .map_err(failure)
    }

    fn print(&mut self, stream: Stream, text: &str) {
        log::printed(&self.policy, &self.request_uid, stream, text);
    }

    fn still_running(&mut self) {
        (self.on_long_run)();
    }
}

pub(crate) fn failure(detail: String) -> String {
    format!("Callback evaluation failure: {detail}")
}

fn read<'a, T: Deserialize<'a>>(payload: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(payload).map_err(|error| format!("cannot read the payload: {error}"))
}

fn write(value: &impl Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(value).map_err(|error| error.to_string())
}
