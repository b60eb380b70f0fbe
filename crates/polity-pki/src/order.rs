//! Certificates that a caller specifies, such as those that templates create: any names, any lifetime, self-signed or
//! signed by any certificate with its key. Nothing is validated here; the peer that receives such a certificate
//! validates it.

use std::net::IpAddr;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyUsagePurpose,
};

use crate::authority::{AuthorityError, alternative_names, blank, read_back};
use crate::certificate::Certificate;
use crate::der::{self, NameOf};
use crate::key::PrivateKey;

/// The content of a certificate. It is valid for servers and clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The subject's common name.
    pub common_name: String,
    /// The DNS names in the subject alternative names.
    pub dns_names: Vec<String>,
    /// The addresses in the subject alternative names.
    pub ip_addresses: Vec<IpAddr>,
    /// The first moment it is valid.
    pub not_before: Timestamp,
    /// The last moment it is valid.
    pub not_after: Timestamp,
    /// Whether it may sign others.
    pub is_authority: bool,
}

/// The signer of an order: a certificate with its key.
#[derive(Debug, Clone, Copy)]
pub struct Signer<'s> {
    /// The source of the issuer name.
    pub certificate: &'s Certificate,
    pub key: &'s PrivateKey,
}

impl Order {
    /// The certificate for `key`, signed with the same key.
    pub fn self_signed(&self, key: &PrivateKey) -> Result<Certificate, AuthorityError> {
        read_back(self.params()?.self_signed(key.pair())?.der())
    }

    /// The certificate for `key`, signed by `signer`, which does not have to be an authority.
    pub fn signed_by(
        &self,
        key: &PrivateKey,
        signer: Signer<'_>,
    ) -> Result<Certificate, AuthorityError> {
        if signer.certificate.public_der() != signer.key.public_der() {
            return Err(AuthorityError::KeyMismatch);
        }
        let mut params = self.params()?;
        let mut issuer = CertificateParams::default();
        if let Some(id) = signer.certificate.key_identifier() {
            params.use_authority_key_identifier_extension = true;
            issuer.key_identifier_method = KeyIdMethod::PreSpecified(id);
        }
        let draft = params.signed_by(key.pair(), &Issuer::new(issuer, signer.key.pair()))?;
        let name = signer.certificate.subject_der();
        let sign = |message: &[u8]| signer.key.sign(message).map_err(AuthorityError::from);
        read_back(&der::with_name(draft.der(), NameOf::Issuer, &name, sign)?)
    }

    fn params(&self) -> Result<CertificateParams, AuthorityError> {
        let mut params = blank(self.not_before, self.not_after)?;
        if !self.common_name.is_empty() {
            params
                .distinguished_name
                .push(DnType::CommonName, self.common_name.as_str());
        }
        params.subject_alt_names = alternative_names(&self.dns_names, &self.ip_addresses)?;
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
        ];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        if self.is_authority {
            params.key_usages.push(KeyUsagePurpose::KeyCertSign);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        } else {
            params.custom_extensions.push(no_authority());
        }
        Ok(params)
    }
}

/// Empty basic constraints. Those of rcgen include a key identifier, which only CA certificates have elsewhere.
fn no_authority() -> CustomExtension {
    const BASIC_CONSTRAINTS: &[u64] = &[2, 5, 29, 19];
    const EMPTY_SEQUENCE: [u8; 2] = [0x30, 0];
    let mut extension =
        CustomExtension::from_oid_content(BASIC_CONSTRAINTS, EMPTY_SEQUENCE.to_vec());
    extension.set_criticality(true);
    extension
}
