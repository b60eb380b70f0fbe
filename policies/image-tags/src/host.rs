//! Calls to the host: four texts out, the answer comes in on standard input.

use serde_json::{Value, json};

#[cfg(target_arch = "wasm32")]
#[link(wasm_import_module = "host")]
unsafe extern "C" {
    #[link_name = "call"]
    unsafe fn host_call(
        binding: *const u8,
        binding_len: usize,
        namespace: *const u8,
        namespace_len: usize,
        operation: *const u8,
        operation_len: usize,
        payload: *const u8,
        payload_len: usize,
    ) -> i32;
}

/// The digest that an image has at the moment.
pub(crate) fn manifest_digest(image: &str) -> Result<String, String> {
    let answer = call("oci", "v1/manifest_digest", &json!(image).to_string())?;
    let answer: Value = serde_json::from_str(&answer).map_err(|error| error.to_string())?;
    answer["digest"]
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| "the host knows no digest".to_owned())
}

#[cfg(target_arch = "wasm32")]
fn call(namespace: &str, operation: &str, payload: &str) -> Result<String, String> {
    use std::io::Read;

    let binding = "kubewarden";
    // SAFETY: the host reads these texts and nothing else, before it returns.
    let code = unsafe {
        host_call(
            binding.as_ptr(),
            binding.len(),
            namespace.as_ptr(),
            namespace.len(),
            operation.as_ptr(),
            operation.len(),
            payload.as_ptr(),
            payload.len(),
        )
    };
    let mut answer = String::new();
    std::io::stdin()
        .read_to_string(&mut answer)
        .map_err(|error| error.to_string())?;
    if code == 0 { Ok(answer) } else { Err(answer) }
}

#[cfg(not(target_arch = "wasm32"))]
fn call(namespace: &str, operation: &str, _: &str) -> Result<String, String> {
    Err(format!("no host to ask for {namespace}/{operation}"))
}
