//! The message for an unsuccessful response.

use http::StatusCode;
use serde_json::Value;

/// The message for an error response, as in client-go. A Status in the body is used unchanged.
pub(super) fn refusal_text(status: StatusCode, content_type: &str, body: &[u8]) -> String {
    if let Some(message) = status_message(body) {
        return message;
    }
    // Bodies are shown only where they are surely text.
    let is_text = content_type.is_empty() || content_type.starts_with("text/");
    let shown = if is_text {
        String::from_utf8_lossy(body).trim().to_owned()
    } else {
        "unknown".to_owned()
    };
    let fixed = match status.as_u16() {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 if shown.is_empty() || shown == "unknown" => {
            "the server was unable to respond with a content type that the client supports"
        }
        403 | 406 | 415 => return shown,
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        500.. => {
            return format!(
                "an error on the server ({shown:?}) has prevented the request from succeeding"
            );
        }
        code => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    fixed.to_owned()
}

fn status_message(body: &[u8]) -> Option<String> {
    let json: Value = serde_json::from_slice(body).ok()?;
    let is = |name: &str, wanted: &str| json.get(name).and_then(Value::as_str) == Some(wanted);
    if !is("kind", "Status") || !is("apiVersion", "v1") || is("status", "Success") {
        return None;
    }
    Some(
        json.get("message")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each was read off a 1.37 server.
    #[test]
    fn error_answers_read_as_client_go_reads_them() {
        let json = "application/json";
        let status =
            br#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"custom msg"}"#;
        let cases: [(u16, &str, &[u8], &str); 9] = [
            (
                500,
                json,
                b"boom",
                "an error on the server (\"unknown\") has prevented the request from succeeding",
            ),
            (
                500,
                "text/plain",
                b" boom\n",
                "an error on the server (\"boom\") has prevented the request from succeeding",
            ),
            (500, json, status, "custom msg"),
            (
                404,
                json,
                b"nope",
                "the server could not find the requested resource",
            ),
            (
                503,
                json,
                b"",
                "the server is currently unable to handle the request",
            ),
            (
                429,
                json,
                b"",
                "the server has received too many requests and has asked us to try again later",
            ),
            (403, json, b"bad", "unknown"),
            (403, "text/html", b"bad", "bad"),
            (
                302,
                "",
                b"",
                "the server responded with the status code 302 but did not return more information",
            ),
        ];
        for (code, content_type, body, expected) in cases {
            assert_eq!(
                refusal_text(StatusCode::from_u16(code).unwrap(), content_type, body),
                expected,
                "{code}"
            );
        }
    }
}
