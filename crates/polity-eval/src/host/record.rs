//! Records host calls and their responses, and replays them where there is no cluster.

use std::sync::{Mutex, PoisonError};

use polity_wasm::Deadline;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{CapabilityRequest, Services};

/// A host call and its response. A recording is a YAML list of these.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum Exchange {
    /// The only variant of the format.
    Exchange {
        /// YAML with a tag such as `!KubernetesGetResource`.
        request: String,
        /// The response of the service.
        response: RecordedResponse,
    },
}

/// The recorded response of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type")]
pub enum RecordedResponse {
    /// The call succeeded.
    Success {
        /// The payload or message.
        payload: String,
    },
    /// The call failed.
    Error {
        /// The payload or message.
        message: String,
    },
}

/// Why a recording cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// Not the YAML of a recording.
    #[error("not a recording: {0}")]
    Yaml(String),
    /// A request has no tag, or arguments that cannot be parsed.
    #[error("exchange {n}: {problem}")]
    Request {
        /// The number of the exchange, from 1.
        n: usize,
        /// Why it cannot be parsed.
        problem: String,
    },
}

/// Services that record the calls that they forward.
pub struct Recorder<S> {
    services: S,
    exchanges: Mutex<Vec<Exchange>>,
}

impl<S: Services> Recorder<S> {
    /// Records the calls to `services`.
    pub fn new(services: S) -> Self {
        Self {
            services,
            exchanges: Mutex::default(),
        }
    }

    /// The calls recorded so far.
    pub fn exchanges(&self) -> Vec<Exchange> {
        self.exchanges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl<S: Services> Services for Recorder<S> {
    fn call(&self, request: &CapabilityRequest, deadline: Deadline) -> Result<Vec<u8>, String> {
        let answer = self.services.call(request, deadline);
        let response = match &answer {
            Ok(bytes) => RecordedResponse::Success {
                payload: String::from_utf8_lossy(bytes).into_owned(),
            },
            Err(message) => RecordedResponse::Error {
                message: message.clone(),
            },
        };
        let exchange = Exchange::Exchange {
            request: to_tagged_yaml(request),
            response,
        };
        self.exchanges
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(exchange);
        answer
    }
}

/// Services that respond from a recording.
pub struct Replay {
    exchanges: Vec<(String, Value, RecordedResponse)>,
    used: Mutex<Vec<bool>>,
}

impl Replay {
    /// Parses a recording.
    pub fn parse(yaml: &str) -> Result<Self, ReplayError> {
        let options = serde_saphyr::options! { with_snippet: false };
        let exchanges: Vec<Exchange> = serde_saphyr::from_str_with_options(yaml, options)
            .map_err(|error| ReplayError::Yaml(error.to_string()))?;
        let exchanges: Vec<_> = exchanges
            .into_iter()
            .enumerate()
            .map(|(n, Exchange::Exchange { request, response })| {
                match parse_tagged_yaml(&request) {
                    Ok((tag, arguments)) => Ok((tag, arguments, response)),
                    Err(problem) => Err(ReplayError::Request { n: n + 1, problem }),
                }
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            used: Mutex::new(vec![false; exchanges.len()]),
            exchanges,
        })
    }
}

impl Services for Replay {
    /// The first recorded response to this call that was not used yet; after that the last one again.
    fn call(&self, request: &CapabilityRequest, _: Deadline) -> Result<Vec<u8>, String> {
        let (tag, arguments) = (request.tag(), without_nulls(request.arguments()));
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let matching: Vec<usize> = (0..self.exchanges.len())
            .filter(|n| self.exchanges[*n].0 == tag && self.exchanges[*n].1 == arguments)
            .collect();
        let next = matching.iter().find(|n| !used[**n]).or(matching.last());
        let Some(n) = next else {
            return Err(format!("the recording has no answer to {tag} {arguments}"));
        };
        used[*n] = true;
        match &self.exchanges[*n].2 {
            RecordedResponse::Success { payload } => Ok(payload.clone().into_bytes()),
            RecordedResponse::Error { message } => Err(message.clone()),
        }
    }
}

/// A recording as text.
pub fn recording_to_yaml(exchanges: &[Exchange]) -> String {
    serde_saphyr::to_string(&exchanges).expect("strings serialise")
}

fn to_tagged_yaml(request: &CapabilityRequest) -> String {
    let arguments =
        serde_saphyr::to_string(&request.arguments()).expect("JSON is always writable as YAML");
    format!("!{}\n{arguments}", request.tag())
}

/// The tag, then YAML without it.
fn parse_tagged_yaml(text: &str) -> Result<(String, Value), String> {
    let text = text.trim_start().trim_start_matches("---").trim_start();
    let rest = text.strip_prefix('!').ok_or("the request has no tag")?;
    let (tag, body) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let options = serde_saphyr::options! { with_snippet: false };
    let arguments: Value =
        serde_saphyr::from_str_with_options(body, options).map_err(|error| error.to_string())?;
    Ok((tag.to_owned(), without_nulls(arguments)))
}

/// Unset arguments may be null or absent.
fn without_nulls(mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        fields.retain(|_, value| !value.is_null());
        for value in fields.values_mut() {
            *value = without_nulls(std::mem::take(value));
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Once;

    impl Services for Once {
        fn call(&self, request: &CapabilityRequest, _: Deadline) -> Result<Vec<u8>, String> {
            match request {
                CapabilityRequest::DnsLookupHost { host } if host == "known" => {
                    Ok(br#"{"ips":["::1"]}"#.to_vec())
                }
                _ => Err("never heard of it\n\"at all\"".to_owned()),
            }
        }
    }

    fn lookup(host: &str) -> CapabilityRequest {
        CapabilityRequest::DnsLookupHost {
            host: host.to_owned(),
        }
    }

    #[test]
    fn a_recording_is_replayed() {
        let recorder = Recorder::new(Once);
        let said: Vec<_> = ["known", "unknown"]
            .map(|host| recorder.call(&lookup(host), Deadline::NEVER))
            .into();
        let yaml = recording_to_yaml(&recorder.exchanges());
        let replay = Replay::parse(&yaml).expect(&yaml);
        let again: Vec<_> = ["known", "unknown"]
            .map(|host| replay.call(&lookup(host), Deadline::NEVER))
            .into();
        assert_eq!(said, again, "{yaml}");
        let error = replay.call(&lookup("new"), Deadline::NEVER).unwrap_err();
        assert_eq!(
            error,
            r#"the recording has no answer to DNSLookupHost {"host":"new"}"#
        );
    }

    #[test]
    fn recordings_of_other_tools_are_understood() {
        let yaml = "---
- type: Exchange
  request: |
    !KubernetesGetResource
    api_version: v1
    kind: Pod
    name: p-testing
    namespace: local
    disable_cache: true
    field_masks: null
  response:
    type: Success
    payload: '{\"first\":true}'
- type: Exchange
  request: |
    !KubernetesGetResource
    api_version: v1
    kind: Pod
    name: p-testing
    namespace: local
    disable_cache: true
  response:
    type: Error
    message: gone
";
        let replay = Replay::parse(yaml).unwrap();
        let payload = br#"{"api_version":"v1","kind":"Pod","name":"p-testing","namespace":"local","disable_cache":true}"#;
        let request = CapabilityRequest::parse("kubernetes", "get_resource", payload).unwrap();
        let ask = || replay.call(&request, Deadline::NEVER);
        assert_eq!(ask().unwrap(), br#"{"first":true}"#);
        assert_eq!(ask().unwrap_err(), "gone");
        assert_eq!(ask().unwrap_err(), "gone", "the last one again");
    }

    #[test]
    fn an_invalid_recording_is_refused() {
        for yaml in [
            "a: b",
            "- type: Monologue",
            "- {type: Exchange, request: 'kind: Pod', response: {type: Error, message: m}}",
        ] {
            assert!(Replay::parse(yaml).is_err(), "{yaml}");
        }
    }
}
