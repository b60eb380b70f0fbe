//! A place in the network where modules are, for policies that may not read files: one of each test process.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::OnceLock;
use std::thread;

use peers::Tool;

/// The module that never comes.
pub(crate) const HANGS: &str = "hangs.wasm";

/// Its address. A policy server has to be told that it is insecure.
pub(crate) fn host() -> &'static str {
    static HOST: OnceLock<String> = OnceLock::new();
    HOST.get_or_init(|| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let modules = modules();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let modules = modules.clone();
                thread::spawn(move || answer(stream, &modules));
            }
        });
        host
    })
}

/// The URI of one of our own policies.
pub(crate) fn uri(name: &str) -> String {
    format!("http://{}/{name}.wasm", host())
}

fn modules() -> HashMap<String, Vec<u8>> {
    let folder = Tool::Policies.or_leave_out();
    let entries = folder.and_then(|folder| fs::read_dir(folder).ok());
    let entries = entries.into_iter().flatten().filter_map(Result::ok);
    entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some((format!("/{name}"), fs::read(entry.path()).ok()?))
        })
        .collect()
}

/// One request to a connection. Whoever speaks TLS first hears that nobody understands it.
fn answer(mut stream: TcpStream, modules: &HashMap<String, Vec<u8>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut lines = reader.by_ref().lines().map_while(Result::ok);
    let Some(line) = lines.next() else { return };
    let Some(path) = line
        .strip_prefix("GET ")
        .and_then(|rest| rest.split(' ').next())
    else {
        return;
    };
    // The rest of the head.
    while lines.next().is_some_and(|line| !line.is_empty()) {}
    if path.ends_with(HANGS) {
        // Until the other side has had enough.
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
