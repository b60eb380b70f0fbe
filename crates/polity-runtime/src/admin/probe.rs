//! Checks whether a process on this machine is ready.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// How long a port of this machine may take to respond.
const PATIENCE: Duration = Duration::from_millis(500);

/// Whether a GET request to a path returns status 200, over plain HTTP. A listener on all addresses is called on
/// loopback. Blocks for at most one second.
pub fn is_ready(listener: SocketAddr, path: &str) -> bool {
    let ip = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    let ask = || -> std::io::Result<bool> {
        let address = SocketAddr::new(ip, listener.port());
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let request =
            format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut head = [0; 12];
        stream.read_exact(&mut head)?;
        Ok(&head == b"HTTP/1.1 200")
    };
    ask().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn only_status_200_is_ready() {
        for (response, expected) in [
            ("HTTP/1.1 200 OK\r\n\r\n", true),
            ("HTTP/1.1 503 Service Unavailable\r\n\r\n", false),
            ("", false),
        ] {
            let listener = TcpListener::bind("0.0.0.0:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 18];
                stream.read_exact(&mut request).unwrap();
                stream.write_all(response.as_bytes()).unwrap();
                request
            });
            assert_eq!(is_ready(address, "/ready"), expected, "{response}");
            assert_eq!(&server.join().unwrap(), b"GET /ready HTTP/1.", "{response}");
        }
    }

    #[test]
    fn a_closed_port_is_not_ready() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        assert!(!is_ready(address, "/ready"));
    }
}
