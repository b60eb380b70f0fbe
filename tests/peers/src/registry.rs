//! A real OCI registry on loopback: Debian's `docker-registry`, with or without TLS and passwords.

use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use tempfile::TempDir;

use crate::certificates::Certificates;
use crate::process::{Lifetime, Process};
use crate::tools::Tool;

/// The user and password of a registry with authentication.
pub const USER: &str = "polity";
pub const PASSWORD: &str = "wasm-modules";
/// [`PASSWORD`] as `htpasswd -B` writes it.
const PASSWORD_FILE: &str = "polity:$2y$05$9GwuftTpotoEhNDO1eU0ZuYRlxdTZd/rgtE/vyjfWBbRJsmOmvjnC\n";

/// Delay between two readiness checks.
const PAUSE: Duration = Duration::from_millis(20);
const MAX_CHECKS: u32 = 1500;

/// Options of a registry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Setup {
    pub tls: bool,
    /// Whether it requires [`USER`] and [`PASSWORD`].
    pub password: bool,
}

/// A running registry. It is stopped when this value is dropped.
#[derive(Debug)]
pub struct Registry {
    _process: Process,
    host: String,
    authority: Option<String>,
    folder: TempDir,
}

impl Registry {
    /// Starts an empty registry and waits until it listens.
    pub fn start(setup: Setup) -> Result<Self> {
        let program = Tool::Registry
            .find()
            .map_err(|missing| anyhow!("{}; run: {}", missing.why, missing.install_command))?;
        let folder = tempfile::Builder::new()
            .prefix("polity-registry-")
            .tempdir()?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let certificates = if setup.tls {
            let addresses = [Ipv4Addr::LOCALHOST.into()];
            Some(Certificates::create(
                &folder.path().join("pki"),
                &addresses,
            )?)
        } else {
            None
        };
        let configuration = configuration(folder.path(), port, setup, certificates.as_ref());
        let path = folder.path().join("config.yml");
        fs::write(&path, configuration)?;
        fs::write(folder.path().join("htpasswd"), PASSWORD_FILE)?;
        let arguments = [OsString::from("serve"), path.into_os_string()];
        let mut process = Process::start(&program, &arguments, folder.path(), Lifetime::Guarded)?;
        for _ in 0..MAX_CHECKS {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                let authority = certificates
                    .map(|certificates| fs::read_to_string(certificates.authority))
                    .transpose()?;
                return Ok(Self {
                    _process: process,
                    host: format!("127.0.0.1:{port}"),
                    authority,
                    folder,
                });
            }
            if process.exit_status().is_some() {
                bail!("the registry ended: {}", process.log_tail());
            }
            thread::sleep(PAUSE); // tidy: a condition with a deadline
        }
        bail!("the registry does not listen: {}", process.log_tail())
    }

    /// `127.0.0.1:PORT`.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The CA certificate in PEM, if the registry uses TLS.
    pub fn authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }

    /// The folder in which the registry stores its content.
    pub fn content(&self) -> std::path::PathBuf {
        self.folder.path().join("content")
    }
}

fn configuration(
    folder: &Path,
    port: u16,
    setup: Setup,
    certificates: Option<&Certificates>,
) -> String {
    let folder = folder.display();
    let mut text = format!(
        "version: 0.1\nlog: {{level: warn}}\nstorage: {{filesystem: {{rootdirectory: {folder}/content}}}}\n"
    );
    if setup.password {
        text.push_str(&format!(
            "auth: {{htpasswd: {{realm: polity, path: {folder}/htpasswd}}}}\n"
        ));
    }
    text.push_str(&format!("http:\n  addr: 127.0.0.1:{port}\n"));
    if let Some(certificates) = certificates {
        text.push_str(&format!(
            "  tls: {{certificate: {}, key: {}}}\n",
            certificates.serving.certificate.display(),
            certificates.serving.key.display()
        ));
    }
    text
}
