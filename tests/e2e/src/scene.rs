//! Playing the same steps on both servers with kubectls of different age.

use peers::Tool;

use crate::eventually;
use crate::kubectl::Kubectl;
use crate::servers;

/// Where, and with which kubectl, a scenario is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The embedded server and the newest kubectl.
    Embedded,
    /// The embedded server and an old kubectl.
    EmbeddedOld,
    /// The real server and the kubectl of its release.
    Real,
}

impl Stage {
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
        let program = tool.or_leave_out()?;
        let server = match self {
            Self::Embedded | Self::EmbeddedOld => servers::embedded(),
            Self::Real => servers::real()?,
        };
        Some(Kubectl::new(&program, server.kubeconfig()))
    }
}

/// Plays `scenario` in a namespace of its own, which is named after it; its default ServiceAccount is there.
pub fn play(stage: Stage, name: &str, scenario: impl FnOnce(&Kubectl)) {
    let Some(kubectl) = stage.kubectl() else {
        return;
    };
    let namespace = format!("{}-{}", name.replace('_', "-"), stage.suffix());
    kubectl.ok(&format!("create namespace {namespace}"));
    let kubectl = kubectl.in_namespace(&namespace);
    eventually("a new namespace has its ServiceAccount", || {
        let seen = kubectl.ok("get serviceaccount default --ignore-not-found -o name");
        (!seen.is_empty()).then_some(())
    });
    scenario(&kubectl);
}

/// `scenarios!` for what older kubectls do through versions that are not served.
#[macro_export]
macro_rules! scenarios_of_new_kubectls {
    ($($name:ident),+ $(,)?) => {
        mod only_newer_kubectls {
            $crate::scenarios!(@stage on_the_embedded_server, Embedded, $($name),+);
            $crate::scenarios!(@stage on_the_real_server, Real, $($name),+);
            $(use super::$name;)+
        }
    };
}

/// Turns functions over a [`Kubectl`] into tests on every [`Stage`].
#[macro_export]
macro_rules! scenarios {
    ($($name:ident),+ $(,)?) => {
        $crate::scenarios!(@stage on_the_embedded_server, Embedded, $($name),+);
        $crate::scenarios!(@stage with_an_old_kubectl, EmbeddedOld, $($name),+);
        $crate::scenarios!(@stage on_the_real_server, Real, $($name),+);
    };
    (@stage $module:ident, $stage:ident, $($name:ident),+) => {
        mod $module {
            $(
                #[test]
                fn $name() {
                    $crate::scene::play($crate::scene::Stage::$stage, stringify!($name), super::$name);
                }
            )+
        }
    };
}
