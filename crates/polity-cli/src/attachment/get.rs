//! `polity get`: tables of Gateway API objects and policies, as users of gwctl know them.

use std::io::Write as _;

use anyhow::bail;
use jiff::Timestamp;
use polity_attach::{Class, GATEWAY_GROUP, Graph, ObjectRef, ROUTES};
use polity_core::selector::LabelSelector;
use serde_json::Value;

use super::source::{SourceArgs, Wanted, ending};
use super::text::{age_of, condition, row};
use crate::exit::{Exit, Hinted};
use crate::output::columns;
use polity_source::attachment::{Family, NameError, Names};

/// The kinds of Gateway API besides routes.
const GATEWAY_KINDS: [&str; 4] = ["GatewayClass", "Gateway", "ListenerSet", "ReferenceGrant"];

/// List policies, policy kinds, Gateways, routes, Services and Namespaces
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  polity get policies -A
  polity get policycrds
  polity get gateways,httproutes -n shop -o wide
  polity get httproute web -o yaml -m manifests/

`policies` lists policies of all families; the column POLICIES of other types
counts attached ones only.

Exit codes: 0 complete, 1 the object of this name does not exist, 2 error,
3 incomplete: something could not be read.")]
pub struct GetArgs {
    /// What to list: policies, policycrds, gatewayclasses, gateways, httproutes and other routes, services, namespaces; several with commas, or TYPE/NAME
    #[arg(value_name = "TYPE[,TYPE]")]
    types: String,

    /// Only the object of this name
    name: Option<String>,

    /// All namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    output: GetFormat,

    #[command(flatten)]
    source: SourceArgs,
}

/// The forms of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum GetFormat {
    #[default]
    Table,
    Wide,
    Json,
    Yaml,
    /// A picture for Graphviz
    Graph,
}

/// What is listed, and how.
pub(super) struct Listing<'a> {
    pub(super) graph: &'a Graph,
    pub(super) namespace: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) selector: LabelSelector,
    pub(super) wide: bool,
    pub(super) now: Timestamp,
}

impl GetArgs {
    pub async fn run(self, now: Timestamp) -> anyhow::Result<Exit> {
        let answer = self.answer(now).await?;
        if !answer.text.is_empty() {
            writeln!(std::io::stdout().lock(), "{}", answer.text)?;
        }
        for line in answer.absent {
            eprintln!("{line}");
        }
        Ok(answer.exit)
    }

    pub(super) async fn answer(self, now: Timestamp) -> anyhow::Result<Answer> {
        let Self {
            types,
            name,
            all_namespaces,
            selector,
            output,
            source,
        } = self;
        let (types, name) = split(&types, name)?;
        let (graph, missing) = source.graph(Wanted::default()).await?;
        let names = Names::of(&graph);
        let selector = match selector {
            Some(text) => text.parse::<LabelSelector>()?,
            None => LabelSelector::everything(),
        };
        let listing = Listing {
            graph: &graph,
            namespace: (!all_namespaces).then_some(source.namespace.as_str()),
            name: name.as_deref(),
            selector,
            wide: output == GetFormat::Wide,
            now,
        };
        let known = types.iter().try_for_each(|kind| check_kind(&names, kind));
        known.map_err(|error| elsewhere(error, source.manifests.given()))?;
        let mut types = types;
        let mut absent = Vec::new();
        if output != GetFormat::Graph {
            for kind in std::mem::take(&mut types) {
                match listing.absent(&names, &kind)? {
                    Some(line) => absent.push(line),
                    None => types.push(kind),
                }
            }
        }
        let text = match output {
            _ if types.is_empty() => String::new(),
            GetFormat::Table | GetFormat::Wide => {
                let tables: Result<Vec<String>, anyhow::Error> = types
                    .iter()
                    .map(|kind| listing.table(&names, kind))
                    .collect();
                tables?.join("\n")
            }
            GetFormat::Graph => graph.topology(listing.namespace, None).to_dot(),
            GetFormat::Json | GetFormat::Yaml => {
                let mut items = Vec::new();
                for kind in &types {
                    items.extend(
                        listing
                            .objects(&names, kind)?
                            .into_iter()
                            .map(|(_, value)| value.clone()),
                    );
                }
                let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
                if output == GetFormat::Json {
                    serde_json::to_string_pretty(&list)?
                } else {
                    serde_saphyr::to_string(&list)?
                }
            }
        };
        let exit = match ending(&missing) {
            Exit::Fine if !absent.is_empty() => Exit::Findings,
            exit => exit,
        };
        Ok(Answer {
            text: text.trim_end().to_owned(),
            absent,
            exit,
        })
    }
}

/// What a listing prints, and how the command ends.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) text: String,
    /// One error for each object that was named and does not exist.
    pub(super) absent: Vec<String>,
    pub(super) exit: Exit,
}

/// The error for a kind that is not listed here, with the command that lists it.
pub(super) fn elsewhere(error: NameError, from_manifests: bool) -> anyhow::Error {
    let NameError::UnknownKind { text, similar, .. } = &error else {
        return error.into();
    };
    if from_manifests {
        return error.into();
    }
    let lower = text.to_lowercase();
    let name = lower.split('.').next().unwrap_or_default();
    let is_named = |kind: &str| {
        let kind = kind.to_lowercase();
        name == kind || name == format!("{kind}s") || name == format!("{kind}es")
    };
    let mut of_gateway_api = GATEWAY_KINDS.into_iter().chain(ROUTES);
    if of_gateway_api.any(is_named) {
        return Hinted::new(
            format!("the cluster has no {text}: Gateway API is not installed"),
            "install its CRDs; in a local instance, `polity up --gateway-api` does",
        )
        .into();
    }
    if !similar.is_empty() {
        return error.into();
    }
    Hinted::new(
        format!("`polity get` lists policies and what they attach to, not {text}"),
        format!("use `kubectl get {text}`; `polity explain KIND/NAME` works with all kinds"),
    )
    .into()
}

/// `TYPE/NAME` is one type and one name; with several types it means nothing.
fn split(types: &str, name: Option<String>) -> anyhow::Result<(Vec<String>, Option<String>)> {
    match (types.split_once('/'), name) {
        (Some(_), _) if types.contains(',') => {
            bail!(Hinted::new(
                "TYPE/NAME cannot be combined with several types",
                "write TYPE NAME"
            ))
        }
        (Some((kind, name)), None) => Ok((vec![kind.to_owned()], Some(name.to_owned()))),
        (Some(_), Some(_)) => bail!(Hinted::new(
            "the name is given twice",
            "write TYPE/NAME or TYPE NAME"
        )),
        (None, name) => Ok((types.split(',').map(str::to_owned).collect(), name)),
    }
}

/// Whether objects of this type are listed.
fn check_kind(names: &Names, kind: &str) -> Result<(), NameError> {
    match kind.to_lowercase().as_str() {
        "policy" | "policies" | "policycrd" | "policycrds" => Ok(()),
        _ => names.kind(kind).map(drop),
    }
}

impl Listing<'_> {
    fn is_wanted(&self, object: &ObjectRef, value: &Value) -> bool {
        let namespace = match (&object.namespace, self.namespace) {
            (Some(own), Some(wanted)) => own == wanted,
            _ => true,
        };
        namespace
            && self.name.is_none_or(|name| object.name == name)
            && self.selector.matches(&value["metadata"]["labels"])
    }

    /// The error if an object was named that does not exist.
    fn absent(&self, names: &Names, kind: &str) -> anyhow::Result<Option<String>> {
        let Some(name) = self.name else {
            return Ok(None);
        };
        if !self.objects(names, kind)?.is_empty() {
            return Ok(None);
        }
        let everywhere = Listing {
            namespace: None,
            selector: self.selector.clone(),
            ..*self
        };
        let others = everywhere.objects(names, kind)?;
        let other = others
            .iter()
            .find_map(|(object, _)| object.namespace.as_ref());
        let hint = other.map(|namespace| format!("\nhint: there is one in -n {namespace}"));
        Ok(Some(format!(
            "error: {kind} {name:?} not found{}",
            hint.unwrap_or_default()
        )))
    }

    /// The objects of a type.
    pub(super) fn objects(
        &self,
        names: &Names,
        kind: &str,
    ) -> anyhow::Result<Vec<(&ObjectRef, &Value)>> {
        let policies = matches!(kind.to_lowercase().as_str(), "policy" | "policies");
        let crds = matches!(kind.to_lowercase().as_str(), "policycrd" | "policycrds");
        let wanted = if policies || crds {
            None
        } else {
            Some(names.kind(kind)?)
        };
        let all = self.graph.objects().into_iter();
        Ok(all
            .filter(|(object, value)| match &wanted {
                Some((group, kind)) => object.group == *group && object.kind == *kind,
                None if policies => is_policy(self.graph, object),
                None => self.policy_kind(object, value).is_some(),
            })
            .filter(|(object, value)| self.is_wanted(object, value))
            .collect())
    }

    fn policy_kind(&self, object: &ObjectRef, value: &Value) -> Option<&polity_attach::PolicyKind> {
        if object.kind != "CustomResourceDefinition" {
            return None;
        }
        self.graph.kind(
            value["spec"]["group"].as_str()?,
            value["spec"]["names"]["kind"].as_str()?,
        )
    }

    pub(super) fn table(&self, names: &Names, kind: &str) -> anyhow::Result<String> {
        let objects = self.objects(names, kind)?;
        let lower = kind.to_lowercase();
        let all = self.namespace.is_none();
        let (header, rows): (Vec<&str>, Vec<Vec<String>>) = if lower.starts_with("policycrd") {
            (
                if self.wide {
                    vec!["NAME", "POLICY TYPE", "SCOPE", "POLICIES COUNT", "AGE"]
                } else {
                    vec!["NAME", "POLICY TYPE", "SCOPE", "AGE"]
                },
                objects
                    .iter()
                    .map(|(object, value)| self.crd_row(object, value))
                    .collect(),
            )
        } else if lower.starts_with("polic") {
            (
                vec![
                    "NAME",
                    "KIND",
                    "TARGET(S)",
                    "POLICY TYPE",
                    "ACCEPTED",
                    "AGE",
                ],
                objects
                    .iter()
                    .map(|(object, value)| self.policy_row(object, value))
                    .collect(),
            )
        } else {
            let (group, kind) = names.kind(kind)?;
            self.object_table(&group, &kind, &objects)
        };
        if objects.is_empty() {
            return Ok(format!("no {kind} found\n"));
        }
        let mut out = vec![
            header
                .iter()
                .map(|cell| (*cell).to_owned())
                .collect::<Vec<_>>(),
        ];
        out.extend(rows);
        if all && objects.iter().any(|(object, _)| object.namespace.is_some()) {
            out[0].insert(0, "NAMESPACE".to_owned());
            for (row, (object, _)) in out[1..].iter_mut().zip(&objects) {
                row.insert(0, object.namespace.clone().unwrap_or_default());
            }
        }
        Ok(columns(&out))
    }

    fn crd_row(&self, object: &ObjectRef, value: &Value) -> Vec<String> {
        let kind = self.policy_kind(object, value);
        let class = kind.map_or("", |kind| class(kind.class));
        let scope = value["spec"]["scope"].as_str().unwrap_or("");
        let mut cells = row(&[object.name.as_str(), class, scope]);
        if self.wide {
            let count = self.graph.policies().into_iter().filter(|policy| {
                kind.is_some_and(|kind| {
                    policy.group == kind.kind.group && policy.kind == kind.kind.kind
                })
            });
            cells.push(count.count().to_string());
        }
        cells.push(age_of(value, self.now));
        cells
    }

    fn policy_row(&self, object: &ObjectRef, value: &Value) -> Vec<String> {
        if let Some(family) = Family::of_kind(&object.group, &object.kind) {
            return family_row(family, object, value, self.now);
        }
        let targets = self.graph.targets(object);
        let mut shown: Vec<String> = targets
            .iter()
            .take(2)
            .map(|(target, section, _)| {
                let section = section
                    .as_deref()
                    .map_or_else(String::new, |name| format!("#{name}"));
                format!("{}/{}{section}", target.kind_and_group(), target.path())
            })
            .collect();
        if targets.len() > 2 {
            shown.push("...".to_owned());
        }
        let kind = self.graph.kind(&object.group, &object.kind);
        vec![
            object.name.clone(),
            object.kind_and_group(),
            shown.join(", "),
            kind.map_or("", |kind| class(kind.class)).to_owned(),
            accepted(self.graph, object),
            age_of(value, self.now),
        ]
    }

    fn object_table(
        &self,
        group: &str,
        kind: &str,
        objects: &[(&ObjectRef, &Value)],
    ) -> (Vec<&'static str>, Vec<Vec<String>>) {
        let n_policies = |object: &ObjectRef| self.graph.affected_by(object).len().to_string();
        let n_below = |object: &ObjectRef, kind: &str| {
            let below = self.graph.neighbours(object).below;
            below
                .iter()
                .filter(|other| other.kind == kind)
                .count()
                .to_string()
        };
        let (mut header, wide): (Vec<&str>, Vec<&str>) = match kind {
            "Gateway" if group == GATEWAY_GROUP => (
                vec!["NAME", "CLASS", "ADDRESSES", "PORTS", "PROGRAMMED", "AGE"],
                vec!["POLICIES", "HTTPROUTES"],
            ),
            "GatewayClass" => (
                vec!["NAME", "CONTROLLER", "ACCEPTED", "AGE"],
                vec!["GATEWAYS"],
            ),
            route if ROUTES.contains(&route) => (
                vec![
                    "NAME",
                    "HOSTNAMES",
                    "PARENT REFS",
                    "ACCEPTED",
                    "RESOLVED",
                    "AGE",
                ],
                vec!["POLICIES"],
            ),
            "Service" => (
                vec!["NAME", "TYPE", "AGE"],
                vec!["REFERRED BY ROUTES", "POLICIES"],
            ),
            "Namespace" => (vec!["NAME", "STATUS", "AGE"], vec!["POLICIES"]),
            _ => (vec!["NAME", "AGE"], vec!["POLICIES"]),
        };
        let rows = objects
            .iter()
            .map(|(object, value)| {
                let age = age_of(value, self.now);
                let mut cells = vec![object.name.clone()];
                cells.extend(match kind {
                    "Gateway" if group == GATEWAY_GROUP => gateway_cells(value),
                    "GatewayClass" => vec![
                        value["spec"]["controllerName"]
                            .as_str()
                            .unwrap_or("")
                            .to_owned(),
                        condition(&value["status"]["conditions"], "Accepted"),
                    ],
                    route if ROUTES.contains(&route) => route_cells(value),
                    "Service" => vec![
                        value["spec"]["type"]
                            .as_str()
                            .unwrap_or("ClusterIP")
                            .to_owned(),
                    ],
                    "Namespace" => vec![
                        value["status"]["phase"]
                            .as_str()
                            .unwrap_or("Active")
                            .to_owned(),
                    ],
                    _ => Vec::new(),
                });
                cells.push(age);
                if self.wide {
                    match kind {
                        "Gateway" => {
                            let routes = self.routes_below(object);
                            cells.extend([n_policies(object), routes]);
                        }
                        "GatewayClass" => cells.push(n_below(object, "Gateway")),
                        "Service" => {
                            let above = self.graph.neighbours(object).above;
                            let mut names: Vec<String> =
                                above.iter().take(2).map(ObjectRef::path).collect();
                            if above.len() > 2 {
                                names.push(format!("+ {} more", above.len() - 2));
                            }
                            cells.extend([names.join(", "), n_policies(object)]);
                        }
                        _ => cells.push(n_policies(object)),
                    }
                }
                cells
            })
            .collect();
        if self.wide {
            header.extend(wide);
        }
        (header, rows)
    }

    fn routes_below(&self, gateway: &ObjectRef) -> String {
        let sets = self.graph.neighbours(gateway).below;
        let mut routes: std::collections::BTreeSet<ObjectRef> = std::collections::BTreeSet::new();
        for object in std::iter::once(gateway.clone()).chain(sets) {
            routes.extend(
                self.graph
                    .neighbours(&object)
                    .below
                    .into_iter()
                    .filter(|other| other.kind == "HTTPRoute"),
            );
        }
        routes.len().to_string()
    }
}

fn is_policy(graph: &Graph, object: &ObjectRef) -> bool {
    let is_attached = graph.kind(&object.group, &object.kind).is_some();
    is_attached || Family::of_kind(&object.group, &object.kind).is_some()
}

/// An admission or configuration policy: what it selects, and whether it is in force.
fn family_row(family: Family, object: &ObjectRef, value: &Value, now: Timestamp) -> Vec<String> {
    let status = &value["status"];
    let (type_, accepted) = match family {
        Family::Admission => {
            let is_served = status["servingGeneration"].is_i64();
            let is_failed = status["phase"] == "Failed";
            let accepted = match (is_failed, is_served) {
                (true, _) => "False",
                (false, true) => "True",
                (false, false) => "Unknown",
            };
            ("Admission", accepted)
        }
        Family::Configuration | Family::Attachment => ("Configuration", "Unknown"),
    };
    let rules = value["spec"]["rules"].as_array().into_iter().flatten();
    let mut targets: Vec<&str> = rules
        .flat_map(|rule| rule["resources"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .collect();
    let n_targets = targets.len();
    targets.truncate(2);
    if n_targets > 2 {
        targets.push("...");
    }
    vec![
        object.name.clone(),
        object.kind_and_group(),
        targets.join(", "),
        type_.to_owned(),
        accepted.to_owned(),
        age_of(value, now),
    ]
}

fn class(class: Class) -> &'static str {
    match class {
        Class::Direct => "Direct",
        Class::Inherited => "Inherited",
    }
}

/// Whether a policy is accepted, over all its ancestors: `True`, `False`, `Partial`, `Unknown`.
fn accepted(graph: &Graph, policy: &ObjectRef) -> String {
    let Some(status) = graph.policy_status(policy) else {
        return "Unknown".to_owned();
    };
    let of = |ancestor: &polity_attach::Ancestor| {
        ancestor
            .condition("Accepted")
            .is_some_and(|condition| condition.status == "True")
    };
    let n = status
        .ancestors
        .iter()
        .filter(|ancestor| of(ancestor))
        .count();
    let word = match (n, status.ancestors.len()) {
        (_, 0) => "Unknown",
        (0, _) => "False",
        (n, all) if n == all => "True",
        _ => "Partial",
    };
    word.to_owned()
}

fn gateway_cells(value: &Value) -> Vec<String> {
    let texts = |list: &Value, field: &str| -> Vec<String> {
        let items = list.as_array().into_iter().flatten();
        items.map(|item| super::text::short(&item[field])).collect()
    };
    let mut addresses = texts(&value["status"]["addresses"], "value");
    if addresses.is_empty() {
        addresses = texts(&value["spec"]["addresses"], "value");
    }
    let mut ports = texts(&value["spec"]["listeners"], "port");
    ports.dedup();
    vec![
        value["spec"]["gatewayClassName"]
            .as_str()
            .unwrap_or("")
            .to_owned(),
        addresses.join(","),
        ports.join(","),
        condition(&value["status"]["conditions"], "Programmed"),
    ]
}

fn route_cells(value: &Value) -> Vec<String> {
    let hostnames: Vec<&str> = value["spec"]["hostnames"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut shown = hostnames
        .iter()
        .take(2)
        .copied()
        .collect::<Vec<_>>()
        .join(",");
    if hostnames.len() > 2 {
        shown.push_str(&format!(" + {} more", hostnames.len() - 2));
    }
    let parents = value["spec"]["parentRefs"].as_array().map_or(0, Vec::len);
    let joined = |kind: &str| {
        let all = value["status"]["parents"].as_array().into_iter().flatten();
        let words: Vec<String> = all
            .map(|parent| condition(&parent["conditions"], kind))
            .collect();
        match words.as_slice() {
            [] => "Unknown".to_owned(),
            [first, rest @ ..] if rest.iter().all(|word| word == first) => first.clone(),
            _ => "Mixed".to_owned(),
        }
    };
    vec![
        if shown.is_empty() {
            "None".to_owned()
        } else {
            shown
        },
        parents.to_string(),
        joined("Accepted"),
        joined("ResolvedRefs"),
    ]
}
