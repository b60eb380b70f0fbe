//! Subresources with a different kind of body: scale, token, eviction, log.

use axum::body::Body;
use http::{Response, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::resources::Context;
use super::respond;
use crate::engine::delete::DeleteOptions;
use crate::engine::patch::PatchKind;
use crate::logs::LogOptions;
use crate::request::body;
use crate::request::query::{Query, WriteOptions};
use polity_auth::token::{TokenRequest, issue_token};
use polity_kinds::Subresource;
use polity_kinds::status::ApiError;

/// Handles a request on such a subresource.
pub async fn answer(
    context: Context<'_>,
    subresource: Subresource,
) -> Result<Response<Body>, ApiError> {
    match (subresource, context.verb) {
        (Subresource::Scale, "get") => scale(&context),
        (Subresource::Scale, "update") => update_scale(context).await,
        (Subresource::Scale, "patch") => patch_scale(context).await,
        (Subresource::Token, "create") => token(context).await,
        (Subresource::Eviction, "create") => eviction(context).await,
        (Subresource::Log, "get") => log(&context),
        _ => Err(context.not_supported()),
    }
}

fn scale(context: &Context<'_>) -> Result<Response<Body>, ApiError> {
    let object = context.call.value(&context.call.live()?);
    let pretty = respond::wants_pretty(&context.incoming);
    Ok(respond::value(
        StatusCode::OK,
        &context.call.scale_of(&object)?,
        pretty,
    ))
}

async fn update_scale(mut context: Context<'_>) -> Result<Response<Body>, ApiError> {
    let pretty = respond::wants_pretty(&context.incoming);
    let options = WriteOptions::from_query(&context.incoming.query, "UpdateOptions")?;
    let decoded = context.decoded().await?;
    Ok(respond::value(
        StatusCode::OK,
        &context.call.update_scale(decoded, &options).await?,
        pretty,
    ))
}

async fn patch_scale(mut context: Context<'_>) -> Result<Response<Body>, ApiError> {
    let pretty = respond::wants_pretty(&context.incoming);
    let options = WriteOptions::from_query(&context.incoming.query, "PatchOptions")?;
    let kind = PatchKind::of(
        body::media_type(&context.incoming.parts.headers).as_deref(),
        context.call.def.is_custom(),
    )?;
    let bytes = context.incoming.read_body(context.call.cluster).await?;
    Ok(respond::value(
        StatusCode::OK,
        &context.call.patch_scale(kind, &bytes, &options).await?,
        pretty,
    ))
}

/// Issues a token of a service account.
async fn token(mut context: Context<'_>) -> Result<Response<Body>, ApiError> {
    let pretty = respond::wants_pretty(&context.incoming);
    WriteOptions::from_query(&context.incoming.query, "CreateOptions")?;
    let decoded = context.decoded().await?;
    let call = &context.call;
    let token_id = Uuid::new_v4().to_string();
    let request = TokenRequest {
        namespace: call.namespace,
        name: call.name,
        body: &decoded.value,
        token_id: &token_id,
        now: call.now,
    };
    let answer = issue_token(
        call.cluster.identity().authenticator().issuer(),
        &call.cluster.bound_objects(),
        &request,
    )?;
    Ok(respond::value(StatusCode::CREATED, &answer, pretty))
}

/// Evicts a Pod by deleting it. Without a disruption controller no budget prevents it.
async fn eviction(mut context: Context<'_>) -> Result<Response<Body>, ApiError> {
    let pretty = respond::wants_pretty(&context.incoming);
    let decoded = context.decoded().await?;
    let name = crate::object::meta::name(&decoded.value);
    if !name.is_empty() && name != context.call.name {
        return Err(ApiError::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    let mut value = decoded
        .value
        .get("deleteOptions")
        .cloned()
        .unwrap_or_else(|| json!({}));
    if !context.incoming.query.all("dryRun").is_empty() {
        value["dryRun"] = json!(context.incoming.query.all("dryRun"));
    }
    let options = DeleteOptions::parse(Some(&value), &Query::default())?;
    context.call.subresource = None;
    context.call.delete(&options).await?;
    let success: Value = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(respond::value(StatusCode::CREATED, &success, pretty))
}

/// Streams the log of a Pod, if a runtime in this process runs it.
fn log(context: &Context<'_>) -> Result<Response<Body>, ApiError> {
    context.call.live()?;
    let options = log_options(&context.incoming.query)?;
    let source = context.call.cluster.log_source();
    let stream =
        source.and_then(|source| source.open(context.call.namespace, context.call.name, &options));
    match stream {
        Some(stream) => Ok(respond::text(StatusCode::OK, Body::from_stream(stream))),
        None => {
            let message = format!(
                "the log of pod {:?} is not available: nothing here runs it",
                context.call.name
            );
            Err(ApiError::new(StatusCode::NOT_FOUND, "NotFound", message))
        }
    }
}

fn log_options(query: &Query) -> Result<LogOptions, ApiError> {
    let number = |key: &str| match query.get(key) {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            ApiError::bad_request(format!("{key} must be a whole number, and is {text:?}"))
        }),
    };
    Ok(LogOptions {
        container: query.get("container").to_owned(),
        follow: query.flag("follow").unwrap_or(false),
        previous: query.flag("previous").unwrap_or(false),
        tail_lines: number("tailLines")?,
        since_seconds: number("sinceSeconds")?,
        timestamps: query.flag("timestamps").unwrap_or(false),
        limit_bytes: number("limitBytes")?,
    })
}
