//! Query parameters of reads and writes, checked as a real server checks them.

use std::collections::BTreeMap;

use polity_core::field::{FieldError, FieldPath};
use serde_json::{Map, Value, json};

use super::path::pairs;
use polity_kinds::status::ApiError;

/// The parameters of a request; the first value of a repeated one counts.
#[derive(Debug, Clone, Default)]
pub struct Query(BTreeMap<String, Vec<String>>);

impl Query {
    pub fn parse(text: &str) -> Self {
        let mut map: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, value) in pairs(text) {
            map.entry(key).or_default().push(value);
        }
        Self(map)
    }

    /// The value of a parameter, `""` when it is absent.
    pub fn get(&self, key: &str) -> &str {
        self.0
            .get(key)
            .and_then(|values| values.first())
            .map_or("", String::as_str)
    }

    /// Whether the query has the parameter, with or without a value.
    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// All values of a repeated parameter.
    pub fn all(&self, key: &str) -> &[String] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    /// A boolean parameter as Kubernetes parses it: present means true unless it is `0` or `false`.
    pub fn flag(&self, key: &str) -> Option<bool> {
        let values = self.0.get(key)?;
        let first = values.first().map_or("", String::as_str);
        Some(!matches!(
            first.to_ascii_lowercase().as_str(),
            "0" | "false"
        ))
    }

    /// A whole number; `None` when it is absent.
    pub fn integer(&self, key: &str) -> Result<Option<i64>, ApiError> {
        match self.get(key) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!(
                    "strconv.ParseInt: parsing {text:?}: invalid syntax"
                ))
            }),
        }
    }
}

/// How a list or watch names the version it wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionMatch {
    Unset,
    Exact,
    NotOlderThan,
}

/// The parameters of list, watch and deletecollection.
#[derive(Debug, Clone)]
pub struct ListOptions {
    pub label_selector: String,
    pub field_selector: String,
    pub limit: u64,
    pub continue_token: String,
    pub resource_version: String,
    pub version_match: VersionMatch,
    pub timeout_seconds: Option<u64>,
    pub allow_bookmarks: bool,
    pub send_initial_events: Option<bool>,
    verb: ListVerb,
}

/// The operation on a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListVerb {
    List,
    Watch,
}

impl ListOptions {
    /// Parses and checks the parameters. `watch` selects the rules.
    pub fn from_query(query: &Query, watch: bool) -> Result<Self, ApiError> {
        let version_match = match query.get("resourceVersionMatch") {
            "" => VersionMatch::Unset,
            "Exact" => VersionMatch::Exact,
            "NotOlderThan" => VersionMatch::NotOlderThan,
            other => {
                let field = FieldPath::of("resourceVersionMatch");
                let error = FieldError::not_supported(
                    &field,
                    &json!(other),
                    &["Exact", "NotOlderThan", ""],
                );
                return Err(invalid_list_options(&[error]));
            }
        };
        let options = Self {
            label_selector: query.get("labelSelector").to_owned(),
            field_selector: query.get("fieldSelector").to_owned(),
            limit: query.integer("limit")?.unwrap_or(0).max(0) as u64,
            continue_token: query.get("continue").to_owned(),
            resource_version: query.get("resourceVersion").to_owned(),
            version_match,
            timeout_seconds: query
                .integer("timeoutSeconds")?
                .map(|seconds| seconds.max(0) as u64),
            allow_bookmarks: query.flag("allowWatchBookmarks").unwrap_or(false),
            send_initial_events: query.flag("sendInitialEvents"),
            verb: if watch {
                ListVerb::Watch
            } else {
                ListVerb::List
            },
        };
        let errors = if watch {
            options.watch_errors()
        } else {
            options.list_errors()
        };
        if errors.is_empty() {
            Ok(options)
        } else {
            Err(invalid_list_options(&errors))
        }
    }

    /// The version as a number; `None` when absent or `0` would mean "any" is left to the caller.
    pub fn version_number(&self) -> Result<Option<u64>, ApiError> {
        match self.resource_version.as_str() {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| match self.verb {
                ListVerb::List => ApiError::bad_request(format!(
                    "invalid resource version: {}",
                    not_a_version(text)
                )),
                ListVerb::Watch => ApiError::unexpected(not_a_version(text)),
            }),
        }
    }

    fn list_errors(&self) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let field = FieldPath::of("resourceVersionMatch");
        if self.version_match != VersionMatch::Unset {
            if self.resource_version.is_empty() {
                errors.push(FieldError::forbidden(
                    &field,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                ));
            }
            if !self.continue_token.is_empty() {
                errors.push(FieldError::forbidden(
                    &field,
                    "resourceVersionMatch is forbidden when continue is provided",
                ));
            }
            if self.version_match == VersionMatch::Exact && self.resource_version == "0" {
                errors.push(FieldError::forbidden(
                    &field,
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
                ));
            }
        }
        if self.send_initial_events.is_some() {
            errors.push(FieldError::forbidden(
                &FieldPath::of("sendInitialEvents"),
                "sendInitialEvents is forbidden for list",
            ));
        }
        errors
    }

    fn watch_errors(&self) -> Vec<FieldError> {
        let field = FieldPath::of("resourceVersionMatch");
        let incomplete = || {
            FieldError::forbidden(
                &field,
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            )
        };
        match (self.send_initial_events, self.version_match) {
            (None, VersionMatch::Unset) | (Some(_), VersionMatch::NotOlderThan) => Vec::new(),
            (None, _) => vec![FieldError::forbidden(
                &field,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            )],
            (Some(_), VersionMatch::Unset) => vec![incomplete()],
            (Some(_), VersionMatch::Exact) => {
                vec![
                    incomplete(),
                    FieldError::not_supported(&field, &json!("Exact"), &["NotOlderThan"]),
                ]
            }
        }
    }
}

/// The error for a version that is not a number.
pub fn not_a_version(text: &str) -> String {
    format!(
        "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
    )
}

fn invalid_list_options(errors: &[FieldError]) -> ApiError {
    ApiError::invalid("ListOptions", "meta.k8s.io", "", errors)
}

/// How to treat unknown and duplicate fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

/// The parameters every write understands.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    pub dry_run: bool,
    /// Empty when the client named none.
    pub field_manager: String,
    pub field_validation: FieldValidation,
    pub force: Option<bool>,
    /// The options of the client, as shown to admission.
    pub given: Map<String, Value>,
}

impl WriteOptions {
    /// The options of writes by the server's own controllers.
    pub fn internal() -> Self {
        Self {
            dry_run: false,
            field_manager: String::new(),
            field_validation: FieldValidation::Ignore,
            force: None,
            given: Map::new(),
        }
    }

    /// Reads and checks the parameters; `kind` is the options object that errors name.
    pub fn from_query(query: &Query, kind: &str) -> Result<Self, ApiError> {
        let mut errors = Vec::new();
        let dry_run = check_dry_run(query.all("dryRun"), &mut errors);
        let field_manager = query.get("fieldManager").to_owned();
        check_field_manager(&field_manager, &mut errors);
        let field_validation = match query.get("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Ignore" => FieldValidation::Ignore,
            "Strict" => FieldValidation::Strict,
            other => {
                let field = FieldPath::of("fieldValidation");
                errors.push(FieldError::not_supported(
                    &field,
                    &json!(other),
                    &["", "Ignore", "Strict", "Warn"],
                ));
                FieldValidation::Warn
            }
        };
        if errors.is_empty() {
            let mut given = Map::new();
            for key in ["fieldManager", "fieldValidation"] {
                if !query.get(key).is_empty() {
                    given.insert(key.to_owned(), json!(query.get(key)));
                }
            }
            if dry_run {
                given.insert("dryRun".to_owned(), json!(["All"]));
            }
            Ok(Self {
                dry_run,
                field_manager,
                field_validation,
                force: query.flag("force"),
                given,
            })
        } else {
            Err(ApiError::invalid(kind, "meta.k8s.io", "", &errors))
        }
    }
}

/// The only valid value of `dryRun` is `All`.
pub fn check_dry_run(values: &[String], errors: &mut Vec<FieldError>) -> bool {
    for value in values {
        if value != "All" {
            let shown = json!(values);
            errors.push(FieldError::not_supported(
                &FieldPath::of("dryRun"),
                &shown,
                &["All"],
            ));
            return false;
        }
    }
    !values.is_empty()
}

fn check_field_manager(name: &str, errors: &mut Vec<FieldError>) {
    let field = FieldPath::of("fieldManager");
    if name.len() > 128 {
        errors.push(FieldError::too_long(&field, 128));
    }
    if let Some((at, odd)) = name.char_indices().find(|(_, c)| c.is_control()) {
        let detail = format!(
            "invalid character U+{:04X} (at position {at})",
            u32::from(odd)
        );
        errors.push(FieldError::invalid(&field, &Value::from(name), &detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn list(query: &str, expected: &str) {
        check(query, false, expected);
    }

    #[track_caller]
    fn watch(query: &str, expected: &str) {
        check(query, true, expected);
    }

    #[track_caller]
    fn check(query: &str, watch: bool, expected: &str) {
        let answer = match ListOptions::from_query(&Query::parse(query), watch) {
            Ok(_) => "ok".to_owned(),
            Err(error) => format!("{} {}", error.code.as_u16(), error.reason),
        };
        assert_eq!(answer, expected, "{query}");
    }

    #[test]
    fn unknown_parameters_are_ignored_broken_ones_refused() {
        list("whatever=1", "ok");
        list("limit=abc", "400 BadRequest");
        list("timeoutSeconds=1.5", "400 BadRequest");
    }

    #[test]
    fn version_parameters() {
        list("resourceVersion=5&resourceVersionMatch=Exact", "ok");
        list("resourceVersionMatch=Exact", "422 Invalid");
        list(
            "resourceVersion=0&resourceVersionMatch=Exact",
            "422 Invalid",
        );
        list(
            "resourceVersion=5&resourceVersionMatch=NotOlderThan&continue=x",
            "422 Invalid",
        );
        list(
            "resourceVersion=5&resourceVersionMatch=Sometimes",
            "422 Invalid",
        );
    }

    #[test]
    fn a_list_has_no_initial_events() {
        list(
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=0",
            "422 Invalid",
        );
    }

    #[test]
    fn initial_events_and_version_match_go_together() {
        watch(
            "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
            "ok",
        );
        watch("sendInitialEvents=true", "422 Invalid");
        watch("resourceVersionMatch=NotOlderThan", "422 Invalid");
        watch(
            "sendInitialEvents=true&resourceVersionMatch=Exact",
            "422 Invalid",
        );
    }

    #[test]
    fn write_options() {
        let parse = |text: &str| WriteOptions::from_query(&Query::parse(text), "CreateOptions");
        assert!(parse("dryRun=All").unwrap().dry_run);
        assert!(!parse("").unwrap().dry_run);
        assert_eq!(
            parse("fieldValidation=Strict").unwrap().field_validation,
            FieldValidation::Strict
        );
        for bad in [
            "dryRun=Some",
            "fieldValidation=Maybe",
            &format!("fieldManager={}", "x".repeat(129)),
            "fieldManager=a%00b",
        ] {
            let error = parse(bad).unwrap_err();
            assert_eq!(error.code.as_u16(), 422, "{bad}");
            assert!(
                error
                    .message
                    .starts_with("CreateOptions.meta.k8s.io \"\" is invalid: "),
                "{}",
                error.message
            );
        }
    }
}
