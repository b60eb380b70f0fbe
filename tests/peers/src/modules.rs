//! Fixtures that are published as Go modules. They are downloaded once, into the Go module cache.

use std::path::PathBuf;
use std::process::Command;

use crate::tools;

/// Gateway API, whose CRDs and examples are used as fixtures.
pub const GATEWAY_API: &str = "sigs.k8s.io/gateway-api@v1.6.3";

/// The folder of a module. Returns `None` after printing that the calling test is skipped, because Go is missing.
///
/// # Panics
/// With `CI=true`, where no test may be skipped.
pub fn module_or_skip(module: &str) -> Option<PathBuf> {
    match download(module) {
        Ok(folder) => Some(folder),
        Err(why) => {
            let what = format!("skipped: a test with files of {module}: {why}; install Go");
            assert!(!tools::in_ci(), "{what} (a failure with CI=true)");
            eprintln!("{what}");
            None
        }
    }
}

fn download(module: &str) -> Result<PathBuf, String> {
    // Not in a folder with a go.mod file, which would affect the download.
    let home = tools::cache().join("go-modules");
    std::fs::create_dir_all(&home).map_err(|error| error.to_string())?;
    let go = |arguments: &[&str]| -> Result<String, String> {
        let output = Command::new("go")
            .args(arguments)
            .current_dir(&home)
            .output()
            .map_err(|error| format!("go cannot be started: {error}"))?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
    };
    go(&["mod", "download", module])?;
    Ok(PathBuf::from(go(&["env", "GOMODCACHE"])?).join(module))
}
