//! An HTTP server for modules, shared by the test process. Policies that cannot read files pull from it.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::OnceLock;
use std::thread;

use peers::Tool;

/// A module whose download never completes.
pub(crate) const HANGS: &str = "hangs.wasm";

/// The address of the server. A policy server must list it in `insecureSources`.
pub(crate) fn host() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();
    HOST.get_or_init(|| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let modules = modules();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let modules = modules.clone();
                thread::spawn(move || respond(stream, &modules));
            }
        });
        host
    })
}

/// The URI of one of our policies on this server.
pub(crate) fn uri(name: &str) -> String {
    format!("http://{}/{name}.wasm", host())
}

fn modules() -> HashMap<String, Vec<u8>> {
    let folder = Tool::Policies.or_skip();
    let entries = folder.and_then(|folder| fs::read_dir(folder).ok());
    let entries = entries.into_iter().flatten().filter_map(Result::ok);
    entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some((format!("/{name}"), fs::read(entry.path()).ok()?))
        })
        .collect()
}

/// Handles one request per connection. A client that starts with TLS gets no response and falls back to HTTP.
fn respond(mut stream: TcpStream, modules: &HashMap<String, Vec<u8>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut lines = reader.by_ref().lines().map_while(Result::ok);
    let Some(line) = lines.next() else { return };
    let Some(path) = line
        .strip_prefix("GET ")
        .and_then(|rest| rest.split(' ').next())
    else {
        return;
    };
    // Skip the remaining headers.
    while lines.next().is_some_and(|line| !line.is_empty()) {}
    if path.ends_with(HANGS) {
        // Wait until the client closes the connection.
        lines.next();
        return;
    }
    let (status, body) = match modules.get(path) {
        Some(module) => ("200 OK", module.as_slice()),
        None => ("404 Not Found", &b""[..]),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(body))
        .ok();
}
