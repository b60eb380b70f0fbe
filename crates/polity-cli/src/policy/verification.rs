//! Flags about signatures. They are known, so that nobody who asks for verification is served unverified: as long
//! as signatures cannot be checked, asking is refused.

use std::path::PathBuf;

use crate::exit::Hinted;

/// What must have signed a module.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Signatures (not yet: refused when given)")]
pub(super) struct VerificationArgs {
    /// YAML file with the required signatures
    #[arg(long, value_name = "FILE")]
    verification_config_path: Option<PathBuf>,
    /// A key that must have signed the module
    #[arg(short = 'k', long, value_name = "FILE")]
    verification_key: Vec<PathBuf>,
    /// An annotation that the signature must have
    #[arg(short = 'a', long, value_name = "KEY=VALUE")]
    verification_annotation: Vec<String>,
    /// The issuer of the signer's certificate
    #[arg(long, value_name = "URL")]
    cert_oidc_issuer: Option<String>,
    /// The address in the signer's certificate
    #[arg(long, value_name = "ADDRESS")]
    cert_email: Option<String>,
    /// The owner of the repository whose workflow signed the module
    #[arg(long, value_name = "NAME")]
    github_owner: Option<String>,
    /// The repository whose workflow signed the module
    #[arg(long, value_name = "NAME")]
    github_repo: Option<String>,
    /// The Sigstore instance to trust
    #[arg(long, value_name = "FILE", alias = "sigstore-trust-config")]
    trust_config: Option<PathBuf>,
}

impl VerificationArgs {
    /// Nothing that asks for verification goes on without it.
    pub(super) fn refuse(&self) -> anyhow::Result<()> {
        let Self {
            verification_config_path,
            verification_key,
            verification_annotation,
            cert_oidc_issuer,
            cert_email,
            github_owner,
            github_repo,
            trust_config,
        } = self;
        let given = [
            (
                "--verification-config-path",
                verification_config_path.is_some(),
            ),
            ("--verification-key", !verification_key.is_empty()),
            (
                "--verification-annotation",
                !verification_annotation.is_empty(),
            ),
            ("--cert-oidc-issuer", cert_oidc_issuer.is_some()),
            ("--cert-email", cert_email.is_some()),
            ("--github-owner", github_owner.is_some()),
            ("--github-repo", github_repo.is_some()),
            ("--trust-config", trust_config.is_some()),
        ];
        match given.into_iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((flag, _)) => Err(Hinted::new(
                format!("{flag}: signatures cannot be checked yet, and nothing is used unverified that was to be verified"),
                "leave the flag out, and pin the module by its digest: registry://host/name@sha256:…",
            )
            .into()),
        }
    }
}
