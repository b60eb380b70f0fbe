//! A WASI policy: a command that reads a request and prints a verdict. Warns about images without a digest, and
//! refuses those whose tag it was told to refuse; may ask the host which digest a tag has at the moment.

mod host;

use std::{
    collections::BTreeSet,
    io::{self, Read},
    process::ExitCode,
};

use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// Tags that are refused.
    refused: BTreeSet<String>,
    /// Whether to tell the digest of every tag.
    tell_digests: bool,
}

#[derive(Deserialize)]
struct Payload {
    request: Value,
    settings: Settings,
}

fn main() -> ExitCode {
    let mut input = String::new();
    let outcome = io::stdin()
        .read_to_string(&mut input)
        .map_err(|error| error.to_string())
        .and_then(|_| match std::env::args().nth(1).as_deref() {
            Some("validate") => validate(&input),
            Some("validate-settings") => Ok(validate_settings(&input)),
            other => Err(format!("unknown command {other:?}")),
        });
    match outcome {
        Ok(answer) => {
            println!("{answer}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn validate(input: &str) -> Result<Value, String> {
    let Payload { request, settings } =
        serde_json::from_str(input).map_err(|error| error.to_string())?;
    let images: Vec<&str> = request["object"]["spec"]["containers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|container| container["image"].as_str())
        .collect();
    if let Some(image) = images.iter().find(|image| settings.refuses(image)) {
        return Ok(
            json!({"accepted": false, "message": format!("the tag of {image} is not allowed"), "code": 403}),
        );
    }
    let mut warnings = Vec::new();
    for image in images.iter().filter(|image| !image.contains('@')) {
        warnings.push(if settings.tell_digests {
            format!("{image} is {} at the moment", host::manifest_digest(image)?)
        } else {
            format!("{image} is not pinned by digest")
        });
    }
    Ok(json!({"accepted": true, "warnings": warnings}))
}

fn validate_settings(input: &str) -> Value {
    match serde_json::from_str::<Settings>(input) {
        Ok(_) => json!({"valid": true}),
        Err(error) => json!({"valid": false, "message": error.to_string()}),
    }
}

impl Settings {
    fn refuses(&self, image: &str) -> bool {
        let tag = match image.rsplit_once(':') {
            _ if image.contains('@') => return false,
            Some((_, tag)) if !tag.contains('/') => tag,
            _ => "latest",
        };
        self.refused.contains(tag)
    }
}
