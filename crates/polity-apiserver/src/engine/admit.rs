//! The engine's side of the admission chain (AD1): what the webhooks are shown and what comes back.

use serde_json::Value;

use super::Call;
use crate::admission::Operation;
use crate::request::query::WriteOptions;
use crate::status::ApiError;

/// One write on its way through the chain.
pub struct Review<'a> {
    pub operation: Operation,
    pub options: &'a WriteOptions,
    pub old: Option<&'a Value>,
}

pub async fn mutate(_call: &Call<'_>, _review: &Review<'_>, _object: &mut Value) -> Result<(), ApiError> {
    Ok(())
}

pub async fn validate(_call: &Call<'_>, _review: &Review<'_>, _object: &Value) -> Result<(), ApiError> {
    Ok(())
}

pub async fn delete(_call: &Call<'_>, _review: &Review<'_>, _options: &Value) -> Result<(), ApiError> {
    Ok(())
}
