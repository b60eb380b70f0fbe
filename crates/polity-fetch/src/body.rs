//! Reads response bodies up to a limit, whatever the server sends.

use futures::StreamExt as _;
use polity_core::causes::innermost;
use reqwest::Response;

/// Why a body could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("it is larger than {limit} bytes")]
    TooLarge { limit: u64 },
    #[error("the download broke off: {reason}")]
    BrokenOff { reason: String },
}

/// Reads a body of at most `limit` bytes. `advances` is called with the number of bytes read so far.
pub(crate) async fn read(
    response: Response,
    limit: u64,
    advances: impl Fn(u64),
) -> Result<Vec<u8>, BodyError> {
    let too_large = BodyError::TooLarge { limit };
    if response
        .content_length()
        .is_some_and(|length| length > limit)
    {
        return Err(too_large);
    }
    let mut content = Vec::new();
    let mut body = response.bytes_stream();
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|error| BodyError::BrokenOff {
            reason: innermost(&error),
        })?;
        if content.len() as u64 + chunk.len() as u64 > limit {
            return Err(too_large);
        }
        content.extend_from_slice(&chunk);
        advances(content.len() as u64);
    }
    Ok(content)
}

/// Reads the start of a body of any size, and drops the rest.
pub(crate) async fn read_beginning(response: Response, limit: usize) -> Vec<u8> {
    let mut content = Vec::new();
    let mut body = response.bytes_stream();
    while let Some(Ok(chunk)) = body.next().await {
        let room = limit - content.len();
        content.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if content.len() == limit {
            break;
        }
    }
    content
}
