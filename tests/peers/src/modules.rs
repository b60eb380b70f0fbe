//! Fixtures that others publish as Go modules: downloaded once, into Go's own cache.

use std::path::PathBuf;
use std::process::Command;

use crate::tools;

/// Gateway API, whose CRDs and examples are fixtures.
pub const GATEWAY_API: &str = "sigs.k8s.io/gateway-api@v1.6.3";

/// The folder of a module; `None` after saying that the calling test is left out, since Go is missing.
///
/// # Panics
/// With `CI=true`: a check that was meant to run must not be skipped there.
pub fn module_or_leave_out(module: &str) -> Option<PathBuf> {
    match download(module) {
        Ok(folder) => Some(folder),
        Err(why) => {
            let what = format!("left out: a test with files of {module}: {why}; install Go");
            assert!(!tools::in_ci(), "{what} (a failure with CI=true)");
            eprintln!("{what}");
            None
        }
    }
}

fn download(module: &str) -> Result<PathBuf, String> {
    // Not in a folder with a go.mod, which would have its own say.
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
