//! Runs the same scenario on both API servers and with kubectl releases of different age.

use peers::Tool;

use crate::eventually;
use crate::kubectl::Kubectl;
use crate::servers;

/// The API server and the kubectl release for a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Environment {
    /// The embedded server and the newest kubectl.
    Embedded,
    /// The embedded server and an old kubectl.
    EmbeddedOld,
    /// The real server and the kubectl of its release.
    Real,
}

impl Environment {
    fn suffix(self) -> &'static str {
        match self {
            Self::Embedded => "new",
            Self::EmbeddedOld => "old",
            Self::Real => "real",
        }
    }

    fn kubectl(self) -> Option<Kubectl> {
        let tool = match self {
            Self::Embedded | Self::Real => Tool::Kubectl,
            Self::EmbeddedOld => Tool::OldKubectl,
        };
        let program = tool.or_skip()?;
        let server = match self {
            Self::Embedded | Self::EmbeddedOld => servers::embedded(),
            Self::Real => servers::real()?,
        };
        Some(Kubectl::new(&program, server.kubeconfig()))
    }
}

/// Runs `scenario` in its own namespace, which is named after it and has its default ServiceAccount.
pub fn run(environment: Environment, name: &str, scenario: impl FnOnce(&Kubectl)) {
    let Some(kubectl) = environment.kubectl() else {
        return;
    };
    let namespace = format!("{}-{}", name.replace('_', "-"), environment.suffix());
    kubectl.ok(&format!("create namespace {namespace}"));
    let kubectl = kubectl.in_namespace(&namespace);
    eventually("a new namespace has its ServiceAccount", || {
        let seen = kubectl.ok("get serviceaccount default --ignore-not-found -o name");
        (!seen.is_empty()).then_some(())
    });
    scenario(&kubectl);
}

/// `scenarios!` without the old kubectl, for commands where it uses API versions that are not served.
#[macro_export]
macro_rules! scenarios_of_new_kubectls {
    ($($name:ident),+ $(,)?) => {
        mod only_newer_kubectls {
            $crate::scenarios!(@environment on_the_embedded_server, Embedded, $($name),+);
            $crate::scenarios!(@environment on_the_real_server, Real, $($name),+);
            $(use super::$name;)+
        }
    };
}

/// Turns functions over a [`Kubectl`] into tests in every [`Environment`].
#[macro_export]
macro_rules! scenarios {
    ($($name:ident),+ $(,)?) => {
        $crate::scenarios!(@environment on_the_embedded_server, Embedded, $($name),+);
        $crate::scenarios!(@environment with_an_old_kubectl, EmbeddedOld, $($name),+);
        $crate::scenarios!(@environment on_the_real_server, Real, $($name),+);
    };
    (@environment $module:ident, $environment:ident, $($name:ident),+) => {
        mod $module {
            $(
                #[test]
                fn $name() {
                    $crate::scenario::run($crate::scenario::Environment::$environment, stringify!($name), super::$name);
                }
            )+
        }
    };
}
