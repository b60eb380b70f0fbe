//! Reads, plans and writes the Secrets with certificates.

use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client, ResourceExt as _};
use polity_api::policies::v1::PolicyServer;
use polity_pki::AuthorityError;
use polity_reconcile::{WriteError, Writer};

use super::callers::Caller;
use super::ensure::check_owner;
use super::{MANAGER, ServerError, texts};
use crate::certificates::{Authorities, CA_SECRET, Contents, WEBHOOK_SECRET};
use crate::names;
use crate::objects::{Setup, metadata_of};

/// Annotation on a Secret: how its certificates are laid out.
const FORMAT: (&str, &str) = ("kubewarden.io/cert-format-version", "1");

/// Why a certificate could not be made or stored.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// A request to the API server failed.
    #[error("reading a certificate")]
    Api(#[from] kube::Error),
    /// A certificate could not be stored.
    #[error("storing a certificate")]
    Write(#[from] WriteError),
    /// The certificate could not be made.
    #[error("making a certificate")]
    Authority(#[from] AuthorityError),
}

/// Reads the authority of this installation; creates or renews it when that is due.
pub async fn ensure_authorities(
    client: &Client,
    namespace: &str,
    now: Timestamp,
) -> Result<Authorities, SecretError> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    loop {
        let stored = secrets.get_opt(CA_SECRET).await?;
        let before = stored.as_ref().map(texts);
        let due = Authorities::due(before.as_ref(), now)?;
        let contents = due.contents();
        if before.as_ref() == Some(&contents) {
            return Ok(due);
        }
        let metadata = ObjectMeta {
            name: Some(CA_SECRET.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        };
        match store(client, stored, metadata, contents).await {
            // Another controller was faster, and its authority counts.
            Err(WriteError::Conflict { .. } | WriteError::AlreadyExists { .. }) => {}
            other => {
                other?;
                return Ok(due);
            }
        }
    }
}

/// The certificate of the controller's own webhooks, for the name of their Service.
pub async fn ensure_webhook_certificate(
    client: &Client,
    namespace: &str,
    service: &str,
    authorities: &Authorities,
    now: Timestamp,
) -> Result<Contents, SecretError> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let dns_name = format!("{service}.{namespace}.svc");
    loop {
        let stored = secrets.get_opt(WEBHOOK_SECRET).await?;
        let before = stored.as_ref().map(texts).unwrap_or_default();
        let Some(due) = authorities.serving_due(Some(&before), &dns_name, now)? else {
            return Ok(before);
        };
        let metadata = ObjectMeta {
            name: Some(WEBHOOK_SECRET.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        };
        match store(client, stored, metadata, due.clone()).await {
            // Another controller was faster, and its certificate is as good.
            Err(WriteError::Conflict { .. } | WriteError::AlreadyExists { .. }) => {}
            other => {
                other?;
                return Ok(due);
            }
        }
    }
}

/// Writes the serving certificate of a policy server, and the key that signs its cache.
pub(super) async fn ensure(
    client: &Client,
    setup: &Setup,
    server: &PolicyServer,
    authorities: &Authorities,
    now: Timestamp,
) -> Result<(), ServerError> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &setup.namespace);
    let name = server.name_any();
    let service = names::policy_server(&name);
    let dns_name = format!("{service}.{}.svc", setup.namespace);
    let stored = secrets.get_opt(&service).await?;
    if let Some(stored) = &stored {
        check_owner(stored, server)?;
    }
    let before = stored.as_ref().map(texts);
    let due = authorities.serving_due(before.as_ref(), &dns_name, now);
    let serving = due.map_err(SecretError::from)?;
    let signer = names::cache_signer(&name);
    let signer_stored = secrets.get_opt(&signer).await?;
    if let Some(stored) = &signer_stored {
        check_owner(stored, server)?;
    }
    let before = signer_stored.as_ref().map(texts);
    let due = authorities.signer_due(before.as_ref(), &setup.namespace, &name, now);
    if let Some(contents) = due.map_err(SecretError::from)? {
        let metadata = metadata_of(server, setup, signer);
        let stored = store(client, signer_stored, metadata, contents).await;
        stored.map_err(SecretError::from)?;
    }
    let Some(contents) = serving else {
        return Ok(());
    };
    // Also after a restart in the middle of a rotation: replicas keep their certificate until every webhook trusts the
    // next one.
    let callers = Caller::list(client, &setup.namespace, &service).await?;
    if !callers.iter().all(|caller| caller.trusts(authorities)) {
        return Err(ServerError::NotTrustedYet);
    }
    let metadata = metadata_of(server, setup, service);
    let stored = store(client, stored, metadata, contents).await;
    Ok(stored.map_err(SecretError::from)?)
}

/// Creates a Secret, or replaces the version that was read.
async fn store(
    client: &Client,
    stored: Option<Secret>,
    mut metadata: ObjectMeta,
    contents: Contents,
) -> Result<(), WriteError> {
    let (key, value) = FORMAT;
    metadata
        .annotations
        .get_or_insert_default()
        .insert(key.to_owned(), value.to_owned());
    let data = contents
        .into_iter()
        .map(|(key, text)| (key, ByteString(text.into_bytes())));
    let data = Some(data.collect());
    let writer = Writer::new(client, MANAGER);
    match stored {
        Some(stored) => writer.update(&Secret { data, ..stored }).await.map(drop),
        None => {
            let secret = Secret {
                metadata,
                data,
                type_: Some("Opaque".to_owned()),
                ..Secret::default()
            };
            writer.create(&secret).await.map(drop)
        }
    }
}
