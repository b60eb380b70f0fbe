//! Health: `/healthz`, `/livez`, `/readyz`, whole or check by check.

use axum::body::Body;
use http::{Response, StatusCode};

use super::Incoming;
use super::respond;
use crate::cluster::Check;

/// Handles a health path. Returns `None` for other paths.
pub fn answer(incoming: &Incoming, path: &str, checks: &[Check]) -> Option<Response<Body>> {
    let (endpoint, single) = split(path)?;
    // Liveness does not depend on being ready, or a slow start would look like a dead server.
    let relevant =
        |check: &&Check| endpoint == "readyz" || !matches!(check.name, "readiness" | "shutdown");
    if let Some(name) = single {
        let check = checks
            .iter()
            .filter(relevant)
            .find(|check| check.name == name);
        return Some(match check {
            None => respond::page_not_found(),
            Some(check) if check.passes => respond::text(StatusCode::OK, "ok"),
            Some(_) => respond::text(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("internal server error: {name} check failed\n"),
            ),
        });
    }
    let excluded = incoming.query.all("exclude");
    let considered: Vec<&Check> = checks
        .iter()
        .filter(relevant)
        .filter(|check| !excluded.iter().any(|name| name == check.name))
        .collect();
    let passes = considered.iter().all(|check| check.passes);
    let verbose = incoming.query.has("verbose") || !passes;
    let code = if passes {
        StatusCode::OK
    } else {
        StatusCode::INTERNAL_SERVER_ERROR
    };
    if !verbose {
        return Some(respond::text(code, "ok"));
    }
    let mut body: String = considered
        .iter()
        .map(|check| {
            if check.passes {
                format!("[+]{} ok\n", check.name)
            } else {
                format!("[-]{} failed: reason withheld\n", check.name)
            }
        })
        .collect();
    body.push_str(&format!(
        "{endpoint} check {}\n",
        if passes { "passed" } else { "failed" }
    ));
    Some(respond::text(code, body))
}

fn split(path: &str) -> Option<(&str, Option<&str>)> {
    let rest = path.strip_prefix('/')?;
    let (endpoint, single) = match rest.split_once('/') {
        Some((endpoint, name)) => (endpoint, Some(name).filter(|name| !name.is_empty())),
        None => (rest, None),
    };
    matches!(endpoint, "healthz" | "livez" | "readyz").then_some((endpoint, single))
}

#[cfg(test)]
mod tests {
    use http::Request;
    use http_body_util::BodyExt;

    use super::*;

    async fn get(url: &str, ready: bool) -> (u16, String) {
        let request = Request::get(url).body(Body::empty()).unwrap();
        let path = request.uri().path().to_owned();
        let checks = [
            Check {
                name: "ping",
                passes: true,
            },
            Check {
                name: "readiness",
                passes: ready,
            },
        ];
        let response = answer(&Incoming::new(request, path.clone()), &path, &checks).unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn forms_of_health() {
        assert_eq!(get("/healthz", true).await, (200, "ok".into()));
        assert_eq!(
            get("/readyz?verbose", true).await,
            (
                200,
                "[+]ping ok\n[+]readiness ok\nreadyz check passed\n".into()
            )
        );
        assert_eq!(get("/readyz/ping", true).await, (200, "ok".into()));
        assert_eq!(get("/readyz/nothing", true).await.0, 404);
    }

    #[tokio::test]
    async fn not_ready_is_alive() {
        assert_eq!(
            get("/readyz", false).await,
            (
                500,
                "[+]ping ok\n[-]readiness failed: reason withheld\nreadyz check failed\n".into()
            )
        );
        assert_eq!(
            get("/readyz?exclude=readiness", false).await,
            (200, "ok".into())
        );
        assert_eq!(get("/livez", false).await, (200, "ok".into()));
    }
}
