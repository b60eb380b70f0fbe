//! Why a request gets no verdict, and the response that its caller gets.

use http::StatusCode;
use polity_eval::ReviewError;

use crate::body::BodyError;
use crate::reply::{self, Reply};
use crate::turnstile::Shed;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("expected a request with `Content-Type: application/json`")]
    MediaType,
    #[error(transparent)]
    Body(BodyError),
    #[error(transparent)]
    Review(#[from] ReviewError),
    #[error("unknown policy: {0}")]
    Unknown(String),
    #[error("{}", .0.message())]
    Shed(Shed),
    /// An internal error: the log has the details, the caller does not get them.
    #[error("Something went wrong")]
    Fault,
}

impl From<BodyError> for Refusal {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::NoRoom => Self::Shed(Shed::Memory),
            error => Self::Body(error),
        }
    }
}

impl Refusal {
    pub(crate) fn reply(&self) -> Reply {
        reply::problem(self.status(), &self.to_string())
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Body(BodyError::TooLarge { .. }) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Body(BodyError::TooSlow) => StatusCode::REQUEST_TIMEOUT,
            Self::Body(BodyError::Broken(_)) => StatusCode::BAD_REQUEST,
            Self::Body(BodyError::NoRoom) | Self::Shed(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Review(error) => {
                StatusCode::from_u16(error.http_status()).unwrap_or(StatusCode::BAD_REQUEST)
            }
            Self::Unknown(_) => StatusCode::NOT_FOUND,
            Self::Fault => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}
