//! All cases, by area.

mod apply;
mod builtins;
mod cel;
mod crd;
mod crud;
mod deletion;
mod discovery;
mod lists;
mod malformed;
mod patch;
mod rbac;
mod watch;
mod webhooks;

use crate::case::Case;

/// Every case of every area.
pub(crate) fn all() -> Vec<Case> {
    [
        crud::cases(),
        builtins::cases(),
        patch::cases(),
        apply::cases(),
        lists::cases(),
        watch::cases(),
        crd::cases(),
        cel::cases(),
        webhooks::cases(),
        rbac::cases(),
        deletion::cases(),
        malformed::cases(),
        discovery::cases(),
    ]
    .concat()
}
