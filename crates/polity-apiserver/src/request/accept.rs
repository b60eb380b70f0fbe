//! Content negotiation of responses: the `Accept` header.

use http::StatusCode;

use polity_kinds::status::ApiError;

/// One clause of an Accept header, in order of preference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause {
    /// Lower-case `type/subtype`.
    pub media: String,
    params: Vec<(String, String)>,
}

impl Clause {
    /// A parameter's value, `""` when absent.
    pub fn param(&self, key: &str) -> &str {
        self.params
            .iter()
            .find(|(k, _)| k == key)
            .map_or("", |(_, value)| value.as_str())
    }

    fn is_json(&self) -> bool {
        matches!(
            self.media.as_str(),
            "application/json" | "*/*" | "application/*"
        )
    }

    fn is_yaml(&self) -> bool {
        self.media == "application/yaml"
    }
}

/// The clauses of a header, most wanted first; an absent header is one `*/*`.
pub fn clauses(header: Option<&str>) -> Vec<Clause> {
    let text = header.unwrap_or("*/*");
    let mut weighted: Vec<(i32, Clause)> = text.split(',').filter_map(clause).collect();
    weighted.sort_by_key(|(weight, _)| -weight);
    weighted.into_iter().map(|(_, clause)| clause).collect()
}

fn clause(text: &str) -> Option<(i32, Clause)> {
    let mut parts = text.split(';').map(str::trim);
    let media = parts.next()?.to_ascii_lowercase();
    if media.is_empty() {
        return None;
    }
    let params: Vec<(String, String)> = parts
        .filter_map(|part| part.split_once('='))
        .map(|(key, value)| {
            (
                key.trim().to_ascii_lowercase(),
                value.trim().trim_matches('"').to_owned(),
            )
        })
        .collect();
    let weight = params
        .iter()
        .find(|(key, _)| key == "q")
        .and_then(|(_, value)| value.parse::<f32>().ok())
        .map_or(1000, |q| (q.clamp(0.0, 1.0) * 1000.0) as i32);
    Some((weight, Clause { media, params }))
}

/// The form of objects in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Plain,
    /// `as=Table`; holds the apiVersion of the Table.
    Table(&'static str),
    Partial,
    PartialList,
}

/// The negotiated format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    pub form: Form,
    pub pretty: bool,
    pub yaml: bool,
}

/// Chooses the form of objects. Returns 406 if no clause can be served.
pub fn choose(header: Option<&str>) -> Result<Wanted, ApiError> {
    let clauses = clauses(header);
    for clause in &clauses {
        let yaml = clause.is_yaml();
        if !(clause.is_json() || yaml) {
            continue;
        }
        let meta = clause.param("g") == "meta.k8s.io";
        let form = match (clause.param("as"), clause.param("v")) {
            ("", _) => Form::Plain,
            ("Table", "v1") if meta => Form::Table("meta.k8s.io/v1"),
            ("Table", "v1beta1") if meta => Form::Table("meta.k8s.io/v1beta1"),
            ("PartialObjectMetadata", "v1") if meta => Form::Partial,
            ("PartialObjectMetadataList", "v1") if meta => Form::PartialList,
            _ => continue,
        };
        return Ok(Wanted {
            form,
            pretty: clause.param("pretty") == "1",
            yaml,
        });
    }
    Err(not_acceptable())
}

/// Chooses the format of documents that have one form: JSON, or 406.
pub fn accepts_json(header: Option<&str>) -> bool {
    clauses(header).iter().any(Clause::is_json)
}

/// The version of aggregated discovery a client wants, or `None` for the plain form.
pub fn discovery_version(header: Option<&str>) -> Option<&'static str> {
    for clause in clauses(header) {
        if !clause.is_json() {
            continue;
        }
        if clause.param("as").is_empty() {
            return None;
        }
        if clause.param("as") == "APIGroupDiscoveryList"
            && clause.param("g") == "apidiscovery.k8s.io"
        {
            match clause.param("v") {
                "v2" => return Some("v2"),
                "v2beta1" => return Some("v2beta1"),
                _ => {}
            }
        }
    }
    None
}

/// None of the wanted forms can be served.
pub fn not_acceptable() -> ApiError {
    let message =
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml";
    ApiError::bare(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(header: &str) -> Option<Form> {
        choose(Some(header)).ok().map(|wanted| wanted.form)
    }

    #[test]
    fn the_first_acceptable_clause_wins() {
        assert_eq!(choose(None).unwrap().form, Form::Plain);
        assert_eq!(form("*/*"), Some(Form::Plain));
        assert_eq!(
            form("application/vnd.kubernetes.protobuf,application/json"),
            Some(Form::Plain)
        );
        assert_eq!(form("text/html"), None);
        assert_eq!(
            form("application/json;q=0.5,application/json;as=Table;v=v1;g=meta.k8s.io"),
            Some(Form::Table("meta.k8s.io/v1"))
        );
    }

    #[test]
    fn tables_of_both_versions() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(form(kubectl), Some(Form::Table("meta.k8s.io/v1")));
        assert_eq!(
            form("application/json;as=Table;v=v1beta1;g=meta.k8s.io"),
            Some(Form::Table("meta.k8s.io/v1beta1"))
        );
        assert_eq!(
            form("application/json;as=Table;v=v7;g=meta.k8s.io,application/json"),
            Some(Form::Plain)
        );
    }

    #[test]
    fn protobuf_alone_and_n12_cbor_are_not_served() {
        assert_eq!(form("application/vnd.kubernetes.protobuf"), None);
        assert_eq!(form("application/cbor"), None);
        assert_eq!(
            choose(Some("application/cbor")).unwrap_err().code.as_u16(),
            406
        );
    }

    #[test]
    fn discovery_answers_the_version_asked_for() {
        let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        let beta = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
        assert_eq!(
            discovery_version(Some(&format!("{v2},{beta},application/json"))),
            Some("v2")
        );
        assert_eq!(
            discovery_version(Some(&format!("{beta},application/json"))),
            Some("v2beta1")
        );
        assert_eq!(discovery_version(Some("application/json")), None);
        assert_eq!(discovery_version(None), None);
    }
}
