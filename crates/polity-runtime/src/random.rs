//! Random bytes from the system, through the crypto provider that is a dependency anyway.

use rustls::crypto::{GetRandomFailed, aws_lc_rs};

pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], GetRandomFailed> {
    let mut bytes = [0; N];
    aws_lc_rs::default_provider()
        .secure_random
        .fill(&mut bytes)?;
    Ok(bytes)
}
