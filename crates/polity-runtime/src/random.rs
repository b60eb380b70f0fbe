//! Random bytes from the system, by way of the crypto provider that is there anyway.

use rustls::crypto::{GetRandomFailed, aws_lc_rs};

/// `N` random bytes.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], GetRandomFailed> {
    let mut bytes = [0; N];
    aws_lc_rs::default_provider()
        .secure_random
        .fill(&mut bytes)?;
    Ok(bytes)
}
