//! Starts a policy server for a test.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::polity::{self, Polity, ProcessExit};
use peers::Tool;
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Authority, Client};

/// A running policy server with its folder of policies, certificate and store.
pub(crate) struct Server {
    pub(crate) process: Polity,
    pub(crate) address: SocketAddr,
    pub(crate) readiness: SocketAddr,
    pub(crate) home: Home,
}

/// The folder and the CA with which a server is started.
pub(crate) struct Home {
    folder: TempDir,
    pub(crate) authority: Authority,
}

impl Home {
    /// Creates a folder with a certificate and this policy file.
    pub(crate) fn new(policies: &str) -> Self {
        let home = Self {
            folder: polity::folder(),
            authority: Authority::new(),
        };
        home.write_policies(policies);
        home.write_certificate(&home.authority);
        fs::write(home.path("ca.crt"), home.authority.pem()).unwrap();
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Replaces the policy file atomically.
    pub(crate) fn write_policies(&self, policies: &str) {
        let draft = self.path("policies.draft");
        fs::write(&draft, policies).unwrap();
        fs::rename(draft, self.path("policies.yml")).unwrap();
    }

    /// Writes a new serving certificate.
    pub(crate) fn write_certificate(&self, authority: &Authority) {
        let (certificate, key) = authority.serving();
        fs::write(self.path("tls.crt"), certificate).unwrap();
        fs::write(self.path("tls.key"), key).unwrap();
    }

    /// Compiles a guest from text, and adds the metadata section with its protocol version.
    pub(crate) fn write_guest(&self, name: &str, text: &str) -> String {
        let mode = match text.contains("\"_start\"") {
            true => "wasi",
            false => "kubewarden-wapc",
        };
        let metadata = format!(
            r#"{{"protocolVersion":"v1","rules":[],"mutating":false,"executionMode":"{mode}"}}"#
        );
        let section = "io.kubewarden.metadata";
        let mut content = vec![section.len() as u8];
        content.extend_from_slice(section.as_bytes());
        content.extend_from_slice(metadata.as_bytes());
        let mut module = wat::parse_str(text).unwrap();
        // The length takes two bytes from 128 on.
        let length = content.len();
        assert!((128..1 << 14).contains(&length) || length < 128);
        module.push(0);
        if length >= 128 {
            module.extend([(length & 0x7f) as u8 | 0x80, (length >> 7) as u8]);
        } else {
            module.push(length as u8);
        }
        module.extend(content);
        let path = self.path(name);
        fs::write(&path, module).unwrap();
        format!("file://{}", path.display())
    }

    /// The command line of a server in this folder.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = polity::command(self.folder.path());
        let text = |path: PathBuf| path.display().to_string();
        command.args(["server", "--standalone"]);
        command.env("KUBEWARDEN_LOG_FMT", "json");
        command.env("KUBEWARDEN_PORT", "0");
        command.env("KUBEWARDEN_READINESS_PROBE_PORT", "0");
        command.args(["--addr", "127.0.0.1", "--shutdown-delay", "0s"]);
        command.args(["--policies", &text(self.path("policies.yml"))]);
        command.args(["--policies-download-dir", &text(self.path("store"))]);
        command.args(["--cert-file", &text(self.path("tls.crt"))]);
        command.args(["--key-file", &text(self.path("tls.key"))]);
        command.args(arguments);
        command
    }

    /// Starts a server in this folder.
    pub(crate) fn start(self, arguments: &[&str]) -> Server {
        self.try_start(arguments)
            .unwrap_or_else(|exit| panic!("polity server exited: {exit:?}"))
    }

    /// Starts a server with these environment variables.
    pub(crate) fn start_with(self, arguments: &[&str], variables: &[(&str, &str)]) -> Server {
        let mut command = self.command(arguments);
        command.envs(variables.iter().copied());
        self.run(command)
            .unwrap_or_else(|exit| panic!("polity server exited: {exit:?}"))
    }

    pub(crate) fn try_start(self, arguments: &[&str]) -> Result<Server, ProcessExit> {
        let command = self.command(arguments);
        self.run(command)
    }

    fn run(self, mut command: Command) -> Result<Server, ProcessExit> {
        let (process, (address, readiness)) = Polity::start_until(&mut command, serving)?;
        Ok(Server {
            process,
            address,
            readiness,
            home: self,
        })
    }
}

impl Server {
    /// A client that trusts the CA of this server.
    pub(crate) fn client(&self) -> Client {
        Client::new(self.address, &self.home.authority)
    }
}

/// Parses the addresses from the log line, in JSON or text format.
fn serving(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    let Ok(line) = serde_json::from_str::<Value>(line) else {
        let (_, fields) = line.split_once(": serving ")?;
        let address = |name: &str| {
            let mut fields = fields.split(' ').filter_map(|field| field.split_once('='));
            fields.find(|(key, _)| *key == name)?.1.parse().ok()
        };
        return Some((address("address")?, address("readiness")?));
    };
    let fields = &line["fields"];
    if fields["message"] != "serving" {
        return None;
    }
    let address = |name: &str| fields[name].as_str()?.parse().ok();
    Some((address("address")?, address("readiness")?))
}

/// The URI of one of our policies. Returns `None` after printing that the test is skipped.
pub(crate) fn ours(name: &str) -> Option<String> {
    // The module of the AssemblyScript policy is committed beside its source.
    let committed = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../policies")
        .join(name)
        .join(format!("{name}.wasm"));
    let path = match committed.canonicalize() {
        Ok(path) => path,
        Err(_) => Tool::Policies.or_skip()?.join(format!("{name}.wasm")),
    };
    Some(format!("file://{}", path.display()))
}

/// A waPC guest in text that always returns this response and accepts any settings.
pub(crate) fn answering(answer: &str) -> String {
    let escaped: String = answer.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    wapc(&format!(
        r#"(data (i32.const 0) "{escaped}")
        (func $validate (call $response (i32.const 0) (i32.const {})))"#,
        answer.len()
    ))
}

/// A waPC guest in text with this `$validate` function.
pub(crate) fn wapc(functions: &str) -> String {
    format!(
        r#"(module
  (import "wapc" "__guest_response" (func $response (param i32 i32)))
  (import "wapc" "__host_call" (func $host_call (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 65000) "{{\"valid\":true}}")
  (func (export "__guest_call") (param $op i32) (param i32) (result i32)
    (if (i32.eq (local.get $op) (i32.const 8))
      (then (call $validate))
      (else (call $response (i32.const 65000) (i32.const 14))))
    (i32.const 1))
  {functions})"#
    )
}
