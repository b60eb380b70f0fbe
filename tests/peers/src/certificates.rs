//! The certificates of a temporary cluster.
//!
//! They are not created with polity-pki, so that the reference cluster does not depend on the code under test.

use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
};

/// A certificate and its key, as files.
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// All certificates that the programs of a cluster need.
pub(crate) struct Certificates {
    pub(crate) authority: PathBuf,
    pub(crate) serving: Pair,
    pub(crate) admin: Pair,
    pub(crate) controller_manager: Pair,
    pub(crate) service_account_key: PathBuf,
    pub(crate) service_account_public_key: PathBuf,
}

impl Certificates {
    /// Creates all certificates in `folder`. `addresses` are those of the API server.
    pub(crate) fn create(folder: &Path, addresses: &[IpAddr]) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let authority = authority()?;
        let authority_path = folder.join("ca.crt");
        fs::write(&authority_path, authority.pem())?;
        let service_account = KeyPair::generate()?;
        let service_account_key = folder.join("service-account.key");
        let service_account_public_key = folder.join("service-account.pub");
        write_secret(&service_account_key, &service_account.serialize_pem())?;
        fs::write(
            &service_account_public_key,
            service_account.public_key_pem(),
        )?;
        Ok(Self {
            serving: leaf(folder, "serving", serving(addresses)?, &authority)?,
            admin: leaf(
                folder,
                "admin",
                client("admin", Some("system:masters")),
                &authority,
            )?,
            controller_manager: leaf(
                folder,
                "controller-manager",
                client("system:kube-controller-manager", None),
                &authority,
            )?,
            authority: authority_path,
            service_account_key,
            service_account_public_key,
        })
    }
}

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Result<Authority> {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject("peers", None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

fn serving(addresses: &[IpAddr]) -> Result<CertificateParams> {
    let names = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
    ];
    let mut params = CertificateParams::new(names.map(str::to_owned))?;
    params
        .subject_alt_names
        .extend(addresses.iter().copied().map(SanType::IpAddress));
    params.distinguished_name = subject("kube-apiserver", None);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}

fn client(user: &str, group: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject(user, group);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params
}

fn subject(common_name: &str, organization: Option<&str>) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        subject.push(DnType::OrganizationName, organization);
    }
    subject
}

fn leaf(
    folder: &Path,
    name: &str,
    mut params: CertificateParams,
    authority: &Authority,
) -> Result<Pair> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let pair = Pair {
        certificate: folder.join(format!("{name}.crt")),
        key: folder.join(format!("{name}.key")),
    };
    fs::write(&pair.certificate, params.signed_by(&key, authority)?.pem())?;
    write_secret(&pair.key, &key.serialize_pem())?;
    Ok(pair)
}

/// Writes a file that only its owner can read.
pub(crate) fn write_secret(path: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    let mut options = fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())
        .with_context(|| format!("writing {}", path.display()))
}
