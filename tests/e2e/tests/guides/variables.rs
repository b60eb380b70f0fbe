//! The variables that a page's shell inherits.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The search path.
pub(crate) fn path() -> OsString {
    variable("PATH").unwrap_or_default()
}

/// The cargo of the search path.
pub(crate) fn cargo() -> PathBuf {
    let path = path();
    let folders = std::env::split_paths(&path);
    let mut programs = folders.map(|folder| folder.join("cargo"));
    programs
        .find(|program| program.is_file())
        .unwrap_or_else(|| "cargo".into())
}

/// The folders of cargo and rustup, because the shell has a different home.
pub(crate) fn of_cargo() -> Vec<(&'static str, OsString)> {
    let home = variable("HOME").unwrap_or_default();
    let folder = |name: &'static str, default: &str| {
        let given = variable(name);
        let folder = given.unwrap_or_else(|| Path::new(&home).join(default).into_os_string());
        (name, folder)
    };
    vec![
        folder("CARGO_HOME", ".cargo"),
        folder("RUSTUP_HOME", ".rustup"),
    ]
}

/// Variables for CA certificates and proxies of this machine.
pub(crate) fn of_network() -> Vec<(&'static str, OsString)> {
    let names = [
        "CARGO_HTTP_CAINFO",
        "CARGO_NET_OFFLINE",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "NO_PROXY",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "http_proxy",
        "https_proxy",
        "no_proxy",
    ];
    let set = names.into_iter();
    set.filter_map(|name| Some((name, variable(name)?)))
        .collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a tool of tests, not a service with flags"
)]
fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}
