//! Which Kubernetes this is.

use serde_json::{Value, json};

/// The version behaviour is matched to, with our mark.
pub const GIT_VERSION: &str = "v1.37.1+polity";

/// `GET /version`
pub fn document() -> Value {
    json!({
        "major": "1", "minor": "37", "emulationMajor": "1", "emulationMinor": "37",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "36",
        "gitVersion": GIT_VERSION, "gitCommit": "", "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "none", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, go_architecture(std::env::consts::ARCH)),
    })
}

fn go_architecture(arch: &str) -> &str {
    match arch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
