//! What a Pod's process is given: its arguments, its environment, and where its volumes and ports really are.
//!
//! Pure: what other objects say comes through [`Sources`], places and ports come in as values.

mod expand;
mod fields;
mod ports;
mod rewrite;

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::{ConfigMap, Container, EnvFromSource, EnvVarSource, Pod, Secret};

pub use fields::{DEFAULT_ACCOUNT, field, service_account};
pub use ports::Ports;
pub use rewrite::Mounts;

use crate::pod::Unready;

/// Where a Pod finds its kubeconfig.
pub const KUBECONFIG: &str = "KUBECONFIG";

/// The objects a Pod may refer to, in its own namespace.
pub trait Sources {
    fn config_map(&self, name: &str) -> Option<ConfigMap>;
    fn secret(&self, name: &str) -> Option<Secret>;
}

/// What to run.
#[derive(Clone, PartialEq, Eq)]
pub struct Launch {
    /// The name the program is called by, where the Pod has a command.
    pub called: Option<String>,
    pub args: Vec<String>,
    pub env: BTreeMap<String, String>,
}

impl fmt::Debug for Launch {
    /// Arguments and variables may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch")
            .field("called", &self.called)
            .finish_non_exhaustive()
    }
}

/// What a container is resolved with.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    pub sources: &'a dyn Sources,
    pub mounts: &'a Mounts,
    /// Where it listens, whatever the Pod says.
    pub ports: &'a Ports,
    /// Variables it has unless the Pod says otherwise.
    pub given: &'a BTreeMap<String, String>,
}

/// Resolves what a container asks for.
pub fn resolve(
    pod: &Pod,
    container: &Container,
    around: Surroundings<'_>,
) -> Result<Launch, Unready> {
    let env = environment(pod, container, around)?;
    let words = |words: Option<&Vec<String>>| -> Vec<String> {
        let words = words.into_iter().flatten();
        words.map(|word| settle(word, around, &env)).collect()
    };
    // The image names the binary; a command names it again, and goes on with arguments.
    let mut command = words(container.command.as_ref()).into_iter();
    let called = command.next();
    let args: Vec<String> = command.chain(words(container.args.as_ref())).collect();
    match args.iter().position(|arg| !around.mounts.confines(arg)) {
        Some(at) => Err(outside(&format!("argument {}", at + 1))),
        None => Ok(Launch { called, args, env }),
    }
}

/// Paths first, then variables, whose values are settled already: nothing is rewritten twice.
fn settle(text: &str, around: Surroundings<'_>, env: &BTreeMap<String, String>) -> String {
    expand::expand(&around.mounts.rewrite(text), env)
}

/// The variables of a container in the order of their definition: a later one may use an earlier one.
fn environment(
    pod: &Pod,
    container: &Container,
    around: Surroundings<'_>,
) -> Result<BTreeMap<String, String>, Unready> {
    let mut env = around.given.clone();
    let fixed: BTreeMap<String, String> = around.ports.environment().collect();
    for from in container.env_from.iter().flatten() {
        let prefix = from.prefix.as_deref().unwrap_or_default();
        for (key, value) in whole(from, around.sources)? {
            let name = format!("{prefix}{key}");
            let value = confined(&name, around.mounts.rewrite(&value), around.mounts)?;
            env.insert(name, value);
        }
    }
    for variable in container.env.iter().flatten() {
        let value = match (fixed.get(&variable.name), &variable.value_from) {
            (Some(fixed), _) => Some(fixed.clone()),
            (None, None) => {
                let text = variable.value.as_deref().unwrap_or_default();
                Some(settle(text, around, &env))
            }
            (None, Some(source)) => {
                let value = referred(pod, source, around.sources)?;
                value.map(|value| around.mounts.rewrite(&value))
            }
        };
        if let Some(value) = value {
            let value = confined(&variable.name, value, around.mounts)?;
            env.insert(variable.name.clone(), value);
        }
    }
    env.extend(fixed);
    Ok(env)
}

/// A value whose paths are all in volumes of the Pod. It is not shown: it may be secret.
fn confined(name: &str, value: String, mounts: &Mounts) -> Result<String, Unready> {
    match mounts.confines(&value) {
        true => Ok(value),
        false => Err(outside(&format!("variable {name}"))),
    }
}

fn outside(what: &str) -> Unready {
    Unready::forbidden(format!(
        "{what} has a path that is in none of the Pod's volumes"
    ))
}

/// All of a ConfigMap or Secret.
fn whole(from: &EnvFromSource, sources: &dyn Sources) -> Result<BTreeMap<String, String>, Unready> {
    let (found, what, name, optional) = match (&from.config_map_ref, &from.secret_ref) {
        (Some(map), _) => {
            let found = sources.config_map(&map.name).map(texts);
            (found, "configmap", &map.name, map.optional)
        }
        (None, Some(secret)) => {
            let found = sources.secret(&secret.name).map(secret_texts);
            (found, "secret", &secret.name, secret.optional)
        }
        (None, None) => return Ok(BTreeMap::new()),
    };
    match found {
        Some(texts) => Ok(texts),
        None if optional == Some(true) => Ok(BTreeMap::new()),
        None => Err(missing(what, name)),
    }
}

fn referred(
    pod: &Pod,
    source: &EnvVarSource,
    sources: &dyn Sources,
) -> Result<Option<String>, Unready> {
    if let Some(reference) = &source.field_ref {
        return field(pod, &reference.field_path).map(Some);
    }
    if let Some(reference) = &source.config_map_key_ref {
        let map = sources.config_map(&reference.name).map(texts);
        return one(
            "configmap",
            &reference.name,
            &reference.key,
            reference.optional,
            map,
        );
    }
    if let Some(reference) = &source.secret_key_ref {
        let secret = sources.secret(&reference.name).map(secret_texts);
        return one(
            "secret",
            &reference.name,
            &reference.key,
            reference.optional,
            secret,
        );
    }
    Err(config_error(
        "only fieldRef, configMapKeyRef and secretKeyRef are known here".into(),
    ))
}

fn one(
    what: &str,
    name: &str,
    key: &str,
    optional: Option<bool>,
    found: Option<BTreeMap<String, String>>,
) -> Result<Option<String>, Unready> {
    let is_optional = optional == Some(true);
    match found {
        None if is_optional => Ok(None),
        None => Err(missing(what, name)),
        Some(mut texts) => match texts.remove(key) {
            Some(value) => Ok(Some(value)),
            None if is_optional => Ok(None),
            None => Err(config_error(format!(
                "couldn't find key {key} in {what} {name}"
            ))),
        },
    }
}

fn texts(map: ConfigMap) -> BTreeMap<String, String> {
    map.data.unwrap_or_default()
}

fn secret_texts(secret: Secret) -> BTreeMap<String, String> {
    let data = secret.data.unwrap_or_default().into_iter();
    data.map(|(key, bytes)| (key, String::from_utf8_lossy(&bytes.0).into_owned()))
        .collect()
}

fn missing(what: &str, name: &str) -> Unready {
    config_error(format!("{what} {name:?} not found"))
}

fn config_error(message: String) -> Unready {
    Unready {
        reason: "CreateContainerConfigError",
        message,
    }
}

#[cfg(test)]
mod tests;
