//! Ports: what a Pod calls its ports, and which ports of this machine they are.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::pod::ADDRESS;

const BIND_ADDRESS: &str = "KUBEWARDEN_BIND_ADDRESS";
/// The variables that say where to listen, with the port that holds without them.
const VARIABLES: [(&str, u16); 2] = [
    ("KUBEWARDEN_PORT", 3000),
    ("KUBEWARDEN_READINESS_PROBE_PORT", 8081),
];

/// The ports of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ports {
    /// By the port the Pod names.
    real: BTreeMap<u16, u16>,
    variables: BTreeMap<&'static str, u16>,
    names: BTreeMap<String, u16>,
}

impl Ports {
    /// How many free ports a process needs.
    pub const COUNT: usize = VARIABLES.len();

    /// Gives each port that can be moved a free one.
    pub fn assign(container: &Container, free: [u16; Self::COUNT]) -> Self {
        let mut ports = Self::default();
        for ((variable, default), free) in VARIABLES.into_iter().zip(free) {
            let said = container.env.iter().flatten().rev();
            let said = said
                .filter(|found| found.name == variable)
                .find_map(|found| found.value.as_deref()?.parse().ok());
            ports.real.insert(said.unwrap_or(default), free);
            ports.variables.insert(variable, free);
        }
        for port in container.ports.iter().flatten() {
            if let (Some(name), Ok(number)) = (&port.name, u16::try_from(port.container_port)) {
                ports.names.insert(name.clone(), number);
            }
        }
        ports
    }

    /// What makes the process listen there.
    pub fn environment(&self) -> impl Iterator<Item = (String, String)> {
        let ports = self
            .variables
            .iter()
            .map(|(name, port)| ((*name).to_owned(), port.to_string()));
        ports.chain([(BIND_ADDRESS.to_owned(), ADDRESS.to_owned())])
    }

    /// The port of this machine behind a number or a name; `None` for one that the process is not given: it may be
    /// that of another process.
    pub fn real(&self, port: &IntOrString) -> Option<u16> {
        let port = match port {
            IntOrString::Int(number) => u16::try_from(*number).ok()?,
            IntOrString::String(name) => match self.names.get(name) {
                Some(number) => *number,
                None => name.parse().ok()?,
            },
        };
        self.real.get(&port).copied()
    }
}
