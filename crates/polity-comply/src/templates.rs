//! Go templates as configuration policies use them, through the template engine. See docs/spec/governance.md#12.

use polity_template::{
    Context, Host, Limits, ResolveError, Resolver, Rules, Side, Template, Value as TemplateValue,
};
use serde_json::Value;

use crate::cluster::{Resolved, TemplateContext, Templates};

/// Templates of a managed cluster, resolved by the engine over a host.
pub struct GoTemplates<'h> {
    host: &'h dyn Host,
    rules: Rules,
    limits: Limits,
}

impl<'h> GoTemplates<'h> {
    /// `rules` say how values are decrypted and which functions are refused; the side is always the managed one.
    pub fn new(host: &'h dyn Host, rules: Rules, limits: Limits) -> Self {
        let rules = Rules {
            side: Side::Managed,
            ..rules
        };
        Self {
            host,
            rules,
            limits,
        }
    }

    fn resolver(&self) -> Resolver<'_> {
        Resolver {
            host: self.host,
            rules: &self.rules,
            limits: self.limits,
        }
    }
}

impl Templates for GoTemplates<'_> {
    fn resolve(
        &self,
        definition: &Value,
        context: TemplateContext<'_>,
    ) -> Result<Resolved, String> {
        let context = Context::Managed {
            namespace: context.namespace.map(str::to_owned),
            name: context.name.map(str::to_owned),
            object: context.object.map(shown_object),
        };
        lowered(self.resolver().resolve(definition, &context))
    }

    fn resolve_text(&self, text: &str) -> Result<Resolved, String> {
        lowered(self.resolver().resolve_text(text, &Context::Nothing))
    }

    fn message(&self, template: &str, data: &Value) -> Result<String, String> {
        // Messages know the language and sprig, and nothing of clusters.
        let rules = Rules::of(Side::Plain);
        let template = Template::parse("custom-msg", template, &rules)
            .map_err(|error| format!("failed to parse custom template: {error}"))?;
        template
            .execute(TemplateValue::from(data), self.host, &rules, self.limits)
            .map(|execution| execution.text)
            .map_err(|error| format!("failed to execute: {error}"))
    }
}

/// The object without the list of who owns which field, whose keys no template can name.
fn shown_object(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}

fn lowered(resolved: Result<polity_template::Resolved, ResolveError>) -> Result<Resolved, String> {
    resolved
        .map(|resolved| Resolved {
            value: resolved.value,
            sensitive: resolved.noticed.sensitive,
            skipped: resolved.noticed.skip_object,
        })
        .map_err(|error| error.to_string())
}
