//! Serves the webhooks over TLS, and registers them once they answer.

use std::net::SocketAddr;

use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;
use kube::{Api, Client};
use polity_runtime::serve::{BindError, Server};
use polity_runtime::tls::{ServerTls, TlsError, TlsMaterial};
use polity_runtime::{Clock, Shutdown};
use tracing::{info, warn};

use super::{Registration, RestoreError, Reviewer, Verb, configuration_name, router};
use crate::certificates::{Authorities, CHECK_EVERY, Contents};
use crate::names::UniqueNames;
use crate::objects::Setup;
use crate::servers::{SecretError, ensure_authorities, ensure_webhook_certificate};

/// Why the webhooks cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is taken, or not ours.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The certificate cannot be served with.
    #[error("serving with our own certificate")]
    Tls(#[from] TlsError),
    /// The certificate could not be made or stored.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// The configurations could not be written.
    #[error("registering our own webhooks")]
    Register(#[source] RestoreError),
    /// The API server did not answer as which user it knows this process.
    #[error("asking the API server for our own user name")]
    Api(#[from] kube::Error),
}

/// Whether some controller has registered its webhooks. From then on they fill in defaults.
pub async fn are_registered(client: &Client) -> kube::Result<bool> {
    let api: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let found = api
        .get_metadata_opt(&configuration_name(Verb::Mutate))
        .await?;
    Ok(found.is_some())
}

/// Serves the webhooks for our own kinds. Every controller does, whether it leads or not.
#[derive(Clone)]
pub struct Webhooks {
    /// The client that answers are looked up with.
    pub client: Client,
    /// The time.
    pub clock: Clock,
    /// Where it listens.
    pub listen: SocketAddr,
    /// How API servers are told to call it.
    pub registration: Registration,
    /// How policy servers are set up.
    pub setup: Setup,
    /// How ids are spelled.
    pub unique_names: UniqueNames,
}

/// Webhooks that listen and are not registered yet.
pub struct BoundWebhooks {
    webhooks: Webhooks,
    server: Server,
    tls: ServerTls,
    reviewer: Reviewer,
    authorities: Authorities,
}

impl BoundWebhooks {
    /// The address at which it listens, for the endpoints of the Service.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Serves until the shutdown.
    pub async fn run(self, shutdown: Shutdown) -> Result<(), ServeError> {
        let Self {
            webhooks,
            server,
            tls,
            reviewer,
            authorities,
        } = self;
        // The listener queues connections from here on, so that every call is answered.
        webhooks.register(&authorities).await?;
        info!(address = %server.address(), "serving the webhooks for our own kinds");
        let serving = server.run(router(reviewer), shutdown.clone());
        let renewing = shutdown.run_until(webhooks.renew(&tls));
        tokio::join!(serving, renewing);
        Ok(())
    }
}

impl Webhooks {
    /// Listens, with a certificate for the name of the Service.
    pub async fn bind(self) -> Result<BoundWebhooks, ServeError> {
        let (authorities, certificate) = self.certificate().await?;
        let tls = ServerTls::new(&material(&certificate))?;
        let server = Server::bind(self.listen).await?.with_tls(tls.clone());
        let reviewer = Reviewer::new(
            self.client.clone(),
            self.setup.clone(),
            self.unique_names,
            self.own_user().await?,
        );
        Ok(BoundWebhooks {
            webhooks: self,
            server,
            tls,
            reviewer,
            authorities,
        })
    }

    async fn certificate(&self) -> Result<(Authorities, Contents), SecretError> {
        let (client, namespace, now) = (&self.client, &self.setup.namespace, self.clock.now());
        let authorities = ensure_authorities(client, namespace, now).await?;
        let certificate = ensure_webhook_certificate(
            client,
            namespace,
            self.registration.service(),
            &authorities,
            now,
        )
        .await?;
        Ok((authorities, certificate))
    }

    async fn register(&self, authorities: &Authorities) -> Result<(), ServeError> {
        let registered = self.registration.register(authorities).await;
        registered.map_err(ServeError::Register)
    }

    /// Renews the certificate. API servers trust a new authority before it signs what is served.
    async fn renew(&self, tls: &ServerTls) {
        loop {
            self.clock.sleep(CHECK_EVERY).await;
            if let Err(error) = self.renew_once(tls).await {
                warn!(
                    error = &error as &dyn std::error::Error,
                    "could not renew the certificate of the webhooks"
                );
            }
        }
    }

    async fn renew_once(&self, tls: &ServerTls) -> Result<(), ServeError> {
        let (authorities, certificate) = self.certificate().await?;
        self.register(&authorities).await?;
        tls.swap(&material(&certificate))?;
        Ok(())
    }

    /// The user name by which the API server knows this process.
    async fn own_user(&self) -> Result<String, kube::Error> {
        let api: Api<SelfSubjectReview> = Api::all(self.client.clone());
        let review = api
            .create(&PostParams::default(), &SelfSubjectReview::default())
            .await?;
        let user = review.status.and_then(|status| status.user_info);
        Ok(user.and_then(|user| user.username).unwrap_or_default())
    }
}

fn material(certificate: &Contents) -> TlsMaterial {
    let text = |key: &str| certificate.get(key).cloned().unwrap_or_default();
    TlsMaterial::new(text("tls.crt"), text("tls.key"))
}
