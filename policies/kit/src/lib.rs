//! What our policies share: a policy is its settings and a pure function from a request to a verdict.
//!
//! ```
//! use policy_kit::{Policy, Request, Verdict};
//!
//! #[derive(Default, serde::Deserialize)]
//! #[serde(default)]
//! struct Settings {
//!     forbidden: String,
//! }
//!
//! impl Policy for Settings {
//!     fn judge(&self, request: &Request) -> Verdict {
//!         Verdict::reject_if(request.name == self.forbidden, || format!("{} is forbidden", request.name))
//!     }
//! }
//!
//! policy_kit::policy!(Settings);
//! ```

mod pod;

pub use kubewarden_policy_sdk as sdk;
pub use pod::{Container, containers, containers_mut, pod_spec, pod_spec_mut};
pub use sdk::request::KubernetesAdmissionRequest as Request;

use sdk::wapc_guest::{CallResult, register_function};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What a policy thinks of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Let it pass.
    Accept,
    /// Refuse it, and say why.
    Reject(String),
    /// Let it pass, with this object instead.
    Mutate(Value),
}

impl Verdict {
    /// Refuses with a message if the condition holds.
    pub fn reject_if(condition: bool, message: impl FnOnce() -> String) -> Self {
        if condition {
            Self::Reject(message())
        } else {
            Self::Accept
        }
    }

    /// Accepts if nothing is wrong, else refuses with all of it.
    pub fn from_problems(problems: Vec<String>) -> Self {
        if problems.is_empty() {
            Self::Accept
        } else {
            Self::Reject(problems.join("; "))
        }
    }
}

/// A policy's settings, and what it does with them.
pub trait Policy: DeserializeOwned + Default {
    /// What is wrong with the settings.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// The verdict on a request.
    fn judge(&self, request: &Request) -> Verdict;
}

/// Makes a policy the one of this module.
#[macro_export]
macro_rules! policy {
    ($settings:ty) => {
        #[unsafe(no_mangle)]
        pub extern "C" fn wapc_init() {
            $crate::register::<$settings>();
        }
    };
}

/// Tells the host which functions there are.
pub fn register<P: Policy>() {
    register_function("validate", validate::<P>);
    register_function("validate_settings", validate_settings::<P>);
    register_function("protocol_version", sdk::protocol_version_guest);
}

fn validate<P: Policy>(payload: &[u8]) -> CallResult {
    let request = sdk::request::ValidationRequest::<P>::new(payload)?;
    match request.settings.judge(&request.request) {
        Verdict::Accept => sdk::accept_request(),
        Verdict::Reject(message) => sdk::reject_request(Some(message), None, None, None),
        Verdict::Mutate(object) => sdk::mutate_request(object),
    }
}

/// Settings that cannot be read are bad settings, not a failure.
fn validate_settings<P: Policy>(payload: &[u8]) -> CallResult {
    let problem = match serde_json::from_slice::<P>(payload) {
        Ok(settings) => settings.check().err(),
        Err(error) => Some(error.to_string()),
    };
    Ok(serde_json::to_vec(
        &sdk::settings::SettingsValidationResponse {
            valid: problem.is_none(),
            message: problem,
        },
    )?)
}

/// A request for tests: an object of a kind.
pub fn request(kind: &str, object: Value) -> Request {
    let mut request = Request {
        object,
        operation: "CREATE".to_owned(),
        ..Request::default()
    };
    kind.clone_into(&mut request.kind.kind);
    request
}
