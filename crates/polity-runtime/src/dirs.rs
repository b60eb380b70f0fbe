//! The directories for a user's data, and those of related tools.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::env;

/// There is neither `XDG_DATA_HOME` nor `HOME`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no data directory: neither XDG_DATA_HOME nor HOME is an absolute path")]
pub struct NoHome;

/// There is neither `XDG_CACHE_HOME` nor `HOME`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no cache directory: neither XDG_CACHE_HOME nor HOME is an absolute path")]
pub struct NoCache;

/// The user's data directory: `$XDG_DATA_HOME/polity`, or `~/.local/share/polity`. It need not
/// exist yet.
pub fn data_dir() -> Result<PathBuf, NoHome> {
    data_dir_from(env::read(env::XDG_DATA_HOME), env::read(env::HOME))
}

/// Where the ecosystem's tools keep fetched policies: `$XDG_CACHE_HOME/kubewarden/store`, or below `~/.cache`. It
/// need not exist yet.
pub fn policy_store() -> Result<PathBuf, NoCache> {
    let (xdg, home) = (env::read(env::XDG_CACHE_HOME), env::read(env::HOME));
    let cache = base(xdg, home, ".cache").ok_or(NoCache)?;
    Ok(cache.join("kubewarden/store"))
}

/// The directory of docker's `config.json`: `DOCKER_CONFIG`, or `~/.docker`.
pub fn docker_config() -> Option<PathBuf> {
    let named = env::read(env::DOCKER_CONFIG).map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(env::read(env::HOME)?).join(".docker")))
}

fn data_dir_from(
    xdg_data_home: Option<OsString>,
    home: Option<OsString>,
) -> Result<PathBuf, NoHome> {
    let base = base(xdg_data_home, home, ".local/share").ok_or(NoHome)?;
    Ok(base.join("polity"))
}

fn base(xdg: Option<OsString>, home: Option<OsString>, below_home: &str) -> Option<PathBuf> {
    // The specification requires relative paths to be ignored.
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    xdg.and_then(absolute)
        .or_else(|| Some(home.and_then(absolute)?.join(below_home)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_directory_follows_xdg() {
        for (xdg, home, expected) in [
            (Some("/data"), Some("/home/me"), Ok("/data/polity")),
            (None, Some("/home/me"), Ok("/home/me/.local/share/polity")),
            (
                Some("relative"),
                Some("/home/me"),
                Ok("/home/me/.local/share/polity"),
            ),
            (None, Some("relative"), Err(NoHome)),
            (None, None, Err(NoHome)),
        ] {
            let found = data_dir_from(xdg.map(OsString::from), home.map(OsString::from));
            assert_eq!(found, expected.map(PathBuf::from), "{xdg:?} {home:?}");
        }
    }
}
