//! The request that a policy is asked about: an AdmissionReview, an AdmissionRequest, or any JSON for raw policies.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use polity_eval::AdmissionRequest;
use serde::Deserialize;
use serde_json::value::RawValue;

/// A request as text, and what to call it.
pub(super) struct Request {
    name: String,
    text: String,
}

impl Request {
    /// Reads a file, or standard input for `-`.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let request = if path == Path::new("-") {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .context("reading the request from standard input")?;
            Self {
                name: "standard input".to_owned(),
                text,
            }
        } else {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path)
                .with_context(|| format!("reading the request {name}"))?;
            Self { name, text }
        };
        request.body()?;
        Ok(request)
    }

    /// What is asked: the `request` of a review, or the whole document.
    pub(super) fn body(&self) -> anyhow::Result<&RawValue> {
        #[derive(Deserialize)]
        struct Review<'a> {
            #[serde(borrow)]
            request: &'a RawValue,
        }
        let whole: &RawValue = serde_json::from_str(&self.text)
            .with_context(|| format!("{} is not JSON", self.name))?;
        Ok(match serde_json::from_str::<Review<'_>>(whole.get()) {
            Ok(Review { request }) => request,
            Err(_) => whole,
        })
    }

    /// An admission request.
    pub(super) fn admission(&self) -> anyhow::Result<AdmissionRequest<'_>> {
        serde_json::from_str(self.body()?.get()).with_context(|| {
            format!(
                "{} is neither an AdmissionReview nor an AdmissionRequest",
                self.name
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Request {
        Request {
            name: "r.json".to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn reviews_requests_and_raw_documents_are_told_apart() {
        for (text, expected) in [
            (r#"{"request": {"a": 1}}"#, r#"{"a": 1}"#),
            (
                r#"{"apiVersion":"x","kind":"AdmissionReview","request":[1]}"#,
                "[1]",
            ),
            (r#"{"uid":"u"}"#, r#"{"uid":"u"}"#),
            ("[1, 2]", "[1, 2]"),
            ("3", "3"),
        ] {
            assert_eq!(request(text).body().unwrap().get(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let error = request("{").body().unwrap_err();
        assert!(error.to_string().contains("r.json is not JSON"), "{error}");
        let error = format!("{:#}", request("{}").admission().unwrap_err());
        assert!(
            error.starts_with(
                "r.json is neither an AdmissionReview nor an AdmissionRequest: missing field `uid`"
            ),
            "{error}"
        );
    }
}
