//! Where a user's data lives.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::env;

/// There is neither `XDG_DATA_HOME` nor `HOME`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no data directory: neither XDG_DATA_HOME nor HOME is an absolute path")]
pub struct NoHome;

/// The user's data directory: `$XDG_DATA_HOME/polity`, or `~/.local/share/polity`. It need not
/// exist yet.
pub fn data_dir() -> Result<PathBuf, NoHome> {
    data_dir_from(env::read(env::XDG_DATA_HOME), env::read(env::HOME))
}

fn data_dir_from(
    xdg_data_home: Option<OsString>,
    home: Option<OsString>,
) -> Result<PathBuf, NoHome> {
    // The specification tells us to ignore relative paths.
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    let base = xdg_data_home
        .and_then(absolute)
        .or_else(|| {
            home.and_then(absolute)
                .map(|home| home.join(Path::new(".local/share")))
        })
        .ok_or(NoHome)?;
    Ok(base.join("polity"))
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
