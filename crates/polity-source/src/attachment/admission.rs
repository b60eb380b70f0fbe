//! Which admission policies act on an object, by whether they are served, their rules and their selectors.
//!
//! The policy is read, not its webhook. Match conditions are not evaluated, so the result `depends` on them.

use polity_attach::{
    Effect, Generations, Graph, ObjectRef, PolicyEntry, PolicyRef, VerdictEntry, Why,
};
use polity_core::FieldPath;
use polity_core::selector::LabelSelector;
use serde_json::Value;

use super::families::{Family, resource_of};

/// The usual namespace of an installation, which policies leave out unless they say otherwise.
const OWN_NAMESPACE: &str = "kubewarden";

/// The object to explain.
pub struct Subject<'a> {
    pub reference: &'a ObjectRef,
    pub object: &'a Value,
    /// The resource of its kind; unknown for kinds that nothing defines.
    resource: Option<String>,
    /// The labels of its namespace, if that was read.
    namespace_labels: Option<&'a Value>,
    /// Whether the policies are stored in a cluster, where a controller decides whether they are served.
    is_live: bool,
}

impl<'a> Subject<'a> {
    pub fn new(graph: &'a Graph, reference: &'a ObjectRef, is_live: bool) -> Option<Self> {
        let namespace = match (&reference.namespace, reference.kind.as_str()) {
            (Some(namespace), _) => Some(namespace.as_str()),
            (None, "Namespace") => Some(reference.name.as_str()),
            (None, _) => None,
        };
        let namespace = namespace.and_then(|name| graph.object(&ObjectRef::of_namespace(name)));
        Some(Self {
            reference,
            object: graph.object(reference)?,
            resource: resource_of(graph, &reference.group, &reference.kind),
            namespace_labels: namespace.map(|namespace| &namespace["metadata"]["labels"]),
            is_live,
        })
    }
}

/// What every admission policy of the graph does to an object; those that act come first.
pub fn entries(graph: &Graph, subject: &Subject<'_>) -> Vec<PolicyEntry> {
    let all = graph.objects();
    let policies = all.iter().filter(|(object, _)| {
        Family::of_kind(&object.group, &object.kind) == Some(Family::Admission)
    });
    let mut entries: Vec<PolicyEntry> = policies
        .map(|(reference, policy)| entry(reference, policy, subject))
        .collect();
    let order = ["yes", "depends", "pending", "no"];
    entries.sort_by_cached_key(|entry| {
        let acts = order.iter().position(|acts| *acts == entry.acts);
        (acts, entry.reference.object.clone())
    });
    entries
}

fn entry(reference: &ObjectRef, policy: &Value, subject: &Subject<'_>) -> PolicyEntry {
    let (spec, metadata) = (&policy["spec"], &policy["metadata"]);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let operations = operations(spec, subject);
    let why = steps(reference, policy, subject, &operations);
    let acts = why
        .iter()
        .map(|step| step.result)
        .find(|result| *result == "no")
        .or_else(|| last_unsure(&why))
        .unwrap_or("yes");
    PolicyEntry {
        family: Family::Admission.as_str(),
        reference: PolicyRef {
            object: reference.clone(),
            version: text(&policy["apiVersion"]).and_then(|version| {
                version
                    .split_once('/')
                    .map(|(_, version)| version.to_owned())
            }),
            uid: text(&metadata["uid"]),
        },
        created_at: text(&metadata["creationTimestamp"]),
        generation: Generations {
            current: metadata["generation"].as_i64(),
            acting: policy["status"]["servingGeneration"].as_i64(),
        },
        mode: mode(spec),
        acts,
        effect: effect(spec, &operations),
        operations,
        why,
        settings: Vec::new(),
        ancestors: Vec::new(),
        provenance: Vec::new(),
        verdict: VerdictEntry {
            result: "-".to_owned(),
            message: "this command does not read reports; `polity report view` shows them"
                .to_owned(),
            state: "never",
            source: "none",
        },
        redacted: Vec::new(),
    }
}

/// `pending` before `depends`: a policy that is not served does not act, whatever its conditions are.
fn last_unsure(why: &[Why]) -> Option<&'static str> {
    let found = |result: &'static str| why.iter().any(|step| step.result == result);
    ["pending", "depends"]
        .into_iter()
        .find(|result| found(result))
}

fn mode(spec: &Value) -> &'static str {
    if spec["mode"] == "monitor" {
        "monitor"
    } else {
        "protect"
    }
}

fn effect(spec: &Value, operations: &[String]) -> Effect {
    let blocks_on_outage = spec["failurePolicy"] != "Ignore";
    let operations = operations.join(",");
    let (kind, mut text) = match (mode(spec), spec["mutating"] == true) {
        ("monitor", _) => ("report", "reports only".to_owned()),
        (_, true) => ("change", format!("may change {operations}")),
        (_, false) => ("deny", format!("may deny {operations}")),
    };
    text.truncate(text.trim_end().len());
    if blocks_on_outage {
        text.push_str("; blocks when the server is down");
    }
    Effect {
        kind,
        blocks_on_outage,
        text,
    }
}

/// The steps by which it is decided whether a policy acts; the first `no` ends them.
fn steps(
    reference: &ObjectRef,
    policy: &Value,
    subject: &Subject<'_>,
    operations: &[String],
) -> Vec<Why> {
    let spec = &policy["spec"];
    let all = [
        Some(serving(policy, subject)),
        in_namespace(reference, subject),
        Some(rules(subject, operations)),
        namespace_selector(spec, subject),
        object_selector(spec, subject),
        match_conditions(spec),
    ];
    let mut steps = Vec::new();
    for step in all.into_iter().flatten() {
        let is_over = step.result == "no";
        steps.push(step);
        if is_over {
            break;
        }
    }
    steps
}

fn step(step: &'static str, result: &'static str, detail: impl Into<String>) -> Why {
    Why {
        step,
        result,
        detail: detail.into(),
    }
}

fn serving(policy: &Value, subject: &Subject<'_>) -> Why {
    let status = &policy["status"];
    if !subject.is_live {
        return step("serving", "yes", "as if it were served");
    }
    match status["servingGeneration"].as_i64() {
        Some(generation) => step(
            "serving",
            "yes",
            format!("generation {generation} is served"),
        ),
        None => {
            let phase = status["phase"]
                .as_str()
                .unwrap_or("not looked at by a controller");
            let message = status["message"].as_str().unwrap_or_default();
            step("serving", "pending", format!("{phase}: {message}"))
        }
    }
}

/// A policy of a namespace acts there and nowhere else.
fn in_namespace(reference: &ObjectRef, subject: &Subject<'_>) -> Option<Why> {
    let own = reference.namespace.as_ref()?;
    let is_there = subject.reference.namespace.as_ref() == Some(own);
    let result = if is_there { "yes" } else { "no" };
    Some(step(
        "namespace",
        result,
        format!("acts in namespace {own}"),
    ))
}

fn rules(subject: &Subject<'_>, operations: &[String]) -> Why {
    match (&subject.resource, operations) {
        (None, _) => step("rules", "depends", "the resource of the kind is not known"),
        (Some(resource), []) => step("rules", "no", format!("no rule names {resource}")),
        (Some(resource), some) => step("rules", "yes", format!("{} of {resource}", some.join(","))),
    }
}

/// The operations of all rules that name the object.
fn operations(spec: &Value, subject: &Subject<'_>) -> Vec<String> {
    let mut operations = Vec::new();
    // Equivalent, which is the default, also takes requests for other versions of the kind.
    let is_exact = spec["matchPolicy"] == "Exact";
    for rule in spec["rules"].as_array().into_iter().flatten() {
        if names_object(rule, subject, is_exact) {
            operations.extend(texts(&rule["operations"]).map(str::to_owned));
        }
    }
    if operations.iter().any(|operation| operation == "*") {
        operations = ["CREATE", "UPDATE", "DELETE", "CONNECT"]
            .map(str::to_owned)
            .into();
    }
    operations.sort();
    operations.dedup();
    operations
}

fn names_object(rule: &Value, subject: &Subject<'_>, is_exact: bool) -> bool {
    let group = subject.reference.group.as_str();
    let version = subject.object["apiVersion"].as_str().unwrap_or_default();
    let version = version.rsplit('/').next().unwrap_or_default();
    let holds = |field: &str, wanted: &str| {
        texts(&rule[field]).any(|named| named == "*" || named == wanted)
    };
    let scope = match rule["scope"].as_str() {
        Some("Namespaced") => subject.reference.namespace.is_some(),
        Some("Cluster") => subject.reference.namespace.is_none(),
        _ => true,
    };
    // Without a known resource every rule of the group may be meant.
    let resource = subject.resource.as_deref().is_none_or(|resource| {
        texts(&rule["resources"]).any(|named| named == "*" || named == "*/*" || named == resource)
    });
    scope && resource && holds("apiGroups", group) && (!is_exact || holds("apiVersions", version))
}

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

fn namespace_selector(spec: &Value, subject: &Subject<'_>) -> Option<Why> {
    const STEP: &str = "namespaceSelector";
    let is_own = subject.reference.namespace.as_deref() == Some(OWN_NAMESPACE);
    let allows = spec["allowInsideAdmissionControllerNamespace"] == true
        || spec["allowInsideKubewardenNamespace"] == true;
    if is_own && !allows {
        let detail = "policies leave out the namespace that Polity is installed in";
        return Some(step(STEP, "depends", detail));
    }
    let is_namespaced =
        subject.reference.namespace.is_some() || subject.reference.kind == "Namespace";
    if spec["namespaceSelector"].is_null() || !is_namespaced {
        return None;
    }
    let Some(labels) = subject.namespace_labels else {
        return Some(step(
            STEP,
            "depends",
            "the labels of the namespace are not known",
        ));
    };
    Some(selected(STEP, &spec["namespaceSelector"], labels))
}

fn object_selector(spec: &Value, subject: &Subject<'_>) -> Option<Why> {
    let selector = &spec["objectSelector"];
    let labels = &subject.object["metadata"]["labels"];
    (!selector.is_null()).then(|| selected("objectSelector", selector, labels))
}

fn selected(name: &'static str, selector: &Value, labels: &Value) -> Why {
    match LabelSelector::from_json(selector, &FieldPath::root()) {
        Ok(selector) if selector.matches(labels) => step(name, "yes", "the labels match"),
        Ok(_) => step(name, "no", "the labels do not match"),
        Err(_) => step(name, "depends", "the selector cannot be read"),
    }
}

fn match_conditions(spec: &Value) -> Option<Why> {
    let conditions = spec["matchConditions"].as_array()?;
    let names: Vec<&str> = conditions
        .iter()
        .filter_map(|condition| condition["name"].as_str())
        .collect();
    let detail = format!("not evaluated: {}", names.join(", "));
    (!conditions.is_empty()).then(|| step("matchConditions", "depends", detail))
}

#[cfg(test)]
mod tests;
