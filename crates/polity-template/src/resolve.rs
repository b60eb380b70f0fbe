//! Resolving the templates in an object: as text, by the rules that make values of other types.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::LazyLock;

use polity_core::yaml_out::{Layout, to_yaml_in};
use regex::Regex;
use serde_json::Value as Json;

use crate::encryption::PREFIX;
use crate::exec::ExecuteError;
use crate::governance::yaml;
use crate::host::{Host, LookupError};
use crate::rules::{Rules, Side};
use crate::run::{Limits, Noticed, Run};
use crate::syntax::lex::Delimiters;
use crate::template::Template;
use crate::value::{Map, Struct, Value};

/// The variables of a template. Any other name is an error.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Context {
    #[default]
    Nothing,
    /// In a hub: the cluster that the policy is resolved for.
    Hub {
        cluster_name: String,
        cluster_labels: BTreeMap<String, String>,
        policy: PolicyMetadata,
    },
    /// In a managed cluster: the object of the definition, as far as it is known.
    Managed {
        namespace: Option<String>,
        name: Option<String>,
        object: Option<Json>,
    },
}

/// `.PolicyMetadata`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyMetadata {
    pub name: String,
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
}

/// An object after its templates were resolved.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolved {
    pub value: Json,
    pub noticed: Noticed,
}

/// Why an object could not be resolved.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    #[error("failed to parse the template JSON string {template}: {message}")]
    Parse { template: String, message: String },
    #[error("failed to resolve the template {template}: {cause}")]
    Execute {
        template: String,
        #[source]
        cause: ExecuteError,
    },
    #[error("decryption failed: {0}")]
    Decrypt(#[from] crate::encryption::DecryptError),
    #[error("failed to convert the resolved template to JSON: {0}")]
    NotYaml(String),
}

impl ResolveError {
    /// Whether a retry may succeed without a change of the template.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Execute {
                cause: ExecuteError::Lookup {
                    cause: LookupError::MissingKind | LookupError::Retryable(_),
                    ..
                },
                ..
            }
        )
    }
}

/// Does the text hold a template of this side? With `encrypted`, an encrypted value counts as one.
pub fn has_template(text: &str, side: Side, encrypted: bool) -> bool {
    text.contains(side.delimiters().left) || (encrypted && text.contains(PREFIX))
}

/// Resolves objects under one set of rules.
#[derive(Clone, Copy)]
pub struct Resolver<'r> {
    pub host: &'r dyn Host,
    pub rules: &'r Rules,
    pub limits: Limits,
}

/// The name that templates have in messages.
const NAME: &str = "tmpl";

impl Resolver<'_> {
    /// Resolves the templates in all strings of an object. An object without templates is returned unchanged.
    pub fn resolve(&self, definition: &Json, context: &Context) -> Result<Resolved, ResolveError> {
        let json = definition.to_string();
        if !has_template(&json, self.rules.side, self.rules.decryption.is_some()) {
            return Ok(Resolved {
                value: definition.clone(),
                noticed: Noticed::default(),
            });
        }
        let text = to_yaml_in(definition, Layout::Indented);
        self.resolve_yaml(&text, &json, context)
    }

    /// Resolves a text that is YAML when it is resolved: `object-templates-raw`.
    pub fn resolve_text(&self, text: &str, context: &Context) -> Result<Resolved, ResolveError> {
        self.resolve_yaml(text, text, context)
    }

    /// Whether the definition uses functions that encrypt values. A template that does not parse does not.
    pub fn uses_encryption(&self, definition: &Json) -> bool {
        if !has_template(&definition.to_string(), self.rules.side, false) {
            return false;
        }
        let text = self.prepare(to_yaml_in(definition, Layout::Indented));
        Template::parse(NAME, &text, self.rules).is_ok_and(|template| template.uses_encryption())
    }

    fn resolve_yaml(
        &self,
        text: &str,
        shown: &str,
        context: &Context,
    ) -> Result<Resolved, ResolveError> {
        let mut run = Run::new(self.host, self.rules, self.limits);
        let decrypted = self.decrypt(text)?;
        if decrypted.is_some() {
            run.noticed.sensitive = true;
            run.hides_source = true;
        }
        let text = self.prepare(decrypted.unwrap_or_else(|| text.to_owned()));
        let template =
            Template::parse(NAME, &text, self.rules).map_err(|error| ResolveError::Parse {
                template: shown.to_owned(),
                message: error.0,
            })?;
        let written = template
            .execute_in(&mut run, context.value())
            .map_err(|cause| ResolveError::Execute {
                template: shown.to_owned(),
                cause,
            })?;
        let value = yaml::parse(&written).map_err(|message| {
            // The message may quote the text that could not be parsed.
            ResolveError::NotYaml(if run.noticed.sensitive {
                "it is no YAML".to_owned()
            } else {
                message
            })
        })?;
        Ok(Resolved {
            value,
            noticed: run.noticed,
        })
    }

    /// The unquote rule and the autoindent rule.
    fn prepare(&self, text: String) -> String {
        let patterns = match self.rules.side {
            Side::Hub => &*HUB_PATTERNS,
            Side::Plain | Side::Managed => &*MANAGED_PATTERNS,
        };
        let text = if CONVERSIONS.iter().any(|name| text.contains(name)) {
            patterns.unquote(&text)
        } else {
            text
        };
        if !text.contains("autoindent") {
            return text;
        }
        let extra = self.rules.side.extra_indent();
        let indented = patterns
            .autoindent
            .replace_all(&text, |found: &regex::Captures<'_>| {
                let spaces = found[1].len() as i64 - extra;
                let action = found[3].replacen("autoindent", &format!("indent {spaces}"), 1);
                let quote = found.get(2).map_or("", |quote| quote.as_str());
                format!("{}{quote}{action}", &found[1])
            });
        indented.into_owned()
    }

    /// The text with its encrypted values in the clear; `None` when there are none.
    fn decrypt(&self, text: &str) -> Result<Option<String>, ResolveError> {
        let Some(keys) = &self.rules.decryption else {
            return Ok(None);
        };
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(PREFIX) {
            out.push_str(&rest[..at]);
            let encoded = &rest[at + PREFIX.len()..];
            let end = encoded
                .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=')))
                .unwrap_or(encoded.len());
            // The prefix alone is a text like any other.
            if end == 0 {
                out.push_str(PREFIX);
            } else {
                out.push_str(&keys.reveal(&encoded[..end])?.replace('\n', "\\n"));
            }
            rest = &encoded[end..];
        }
        if rest.len() == text.len() {
            return Ok(None);
        }
        out.push_str(rest);
        Ok(Some(out))
    }
}

/// The functions whose result is not a text.
const CONVERSIONS: [&str; 5] = [
    "toInt",
    "toBool",
    "toLiteral",
    "copyConfigMapData",
    "copySecretData",
];

struct Patterns {
    delimiters: Delimiters,
    unquote: Regex,
    autoindent: Regex,
}

static HUB_PATTERNS: LazyLock<Patterns> = LazyLock::new(|| Patterns::of(Side::Hub));
static MANAGED_PATTERNS: LazyLock<Patterns> = LazyLock::new(|| Patterns::of(Side::Managed));

impl Patterns {
    fn of(side: Side) -> Self {
        let delimiters = side.delimiters();
        let (left, right) = (
            regex::escape(delimiters.left),
            regex::escape(delimiters.right),
        );
        // Behind a colon, an optional block marker and quote: one line of template that ends in a
        // conversion or copies data.
        let converts =
            r"(?:.*\|\s*(?:toInt|toBool|toLiteral)|.*(?:copyConfigMapData|copySecretData))";
        let unquote = format!(r":\s+(?:[\|>]-?\s+)?'?\s*({left}-?{converts}.*{right})(?:\s*')?");
        let autoindent = format!(r#"( *)('|")?({left}.*\| *autoindent *-?{right})"#);
        let compile =
            |pattern: &str| Regex::new(pattern).expect("the pattern is fixed but for escaped text");
        Self {
            delimiters,
            unquote: compile(&unquote),
            autoindent: compile(&autoindent),
        }
    }

    /// Removes the quotes, and trim markers at the edges: they would trim the space between the value and its key or
    /// the next key.
    fn unquote(&self, text: &str) -> String {
        let Delimiters { left, right } = self.delimiters;
        let unquoted = self
            .unquote
            .replace_all(text, |found: &regex::Captures<'_>| {
                let inner = &found[1][left.len()..found[1].len() - right.len()];
                let inner = inner.strip_prefix('-').unwrap_or(inner);
                let inner = inner.strip_suffix('-').unwrap_or(inner);
                format!(": {left}{inner}{right}")
            });
        unquoted.into_owned()
    }
}

impl Context {
    /// As the dot of a template.
    fn value(&self) -> Value {
        let mut fields = Vec::new();
        match self {
            Self::Nothing => {}
            Self::Hub {
                cluster_name,
                cluster_labels,
                policy,
            } => {
                fields.push(("ManagedClusterName", Value::text(cluster_name)));
                fields.push(("ManagedClusterLabels", texts(cluster_labels)));
                fields.push(("PolicyMetadata", policy.value()));
            }
            Self::Managed {
                namespace,
                name,
                object,
            } => {
                if let Some(namespace) = namespace {
                    fields.push(("ObjectNamespace", Value::text(namespace)));
                }
                if let Some(name) = name {
                    fields.push(("ObjectName", Value::text(name)));
                    let object = object.as_ref();
                    let none = Json::Object(serde_json::Map::new());
                    fields.push(("Object", Value::from(object.unwrap_or(&none))));
                }
            }
        }
        Value::Struct(Rc::new(Struct {
            type_name: "context",
            fields,
        }))
    }
}

impl PolicyMetadata {
    fn value(&self) -> Value {
        Value::map([
            (Rc::from("name"), Value::text(&self.name)),
            (Rc::from("namespace"), Value::text(&self.namespace)),
            (Rc::from("labels"), texts(&self.labels)),
            (Rc::from("annotations"), texts(&self.annotations)),
        ])
    }
}

fn texts(map: &BTreeMap<String, String>) -> Value {
    let entries = map
        .iter()
        .map(|(key, value)| (Rc::from(key.as_str()), Value::text(value)));
    Value::Map(Rc::new(Map::of_texts(entries)))
}
