//! Connects the engine to the admission chain: builds the reviews and applies the results.

use std::net::SocketAddr;
use std::sync::Arc;

use polity_cel::{AccessDecision, AccessQuery, AccessTarget};
use polity_core::{GroupVersionKind, GroupVersionResource};
use serde_json::{Value, json};

use super::Call;
use crate::cluster::Cluster;
use crate::object::meta;
use crate::request::query::WriteOptions;
use polity_auth::{
    Attributes, AuthorizationMode, Authorizer, Decision, Roles, UserInfo, service_account,
};
use polity_kinds::Subresource;
use polity_kinds::status::ApiError;
use polity_webhooks::{Host, Notes, Operation, Served, endpoints};

/// One write on its way through the chain.
pub struct Review<'a> {
    pub operation: Operation,
    pub options: &'a WriteOptions,
    pub old: Option<&'a Value>,
}

/// Calls the mutating webhooks, which may change the object.
pub async fn mutate(
    call: &Call<'_>,
    review: &Review<'_>,
    object: &mut Value,
) -> Result<(), ApiError> {
    let webhooks = call.cluster.webhooks();
    if webhooks.is_empty() {
        return Ok(());
    }
    let shown = Shown::of(call, review, Some(object))?;
    let mut notes = Notes::default();
    let mutated = webhooks
        .mutate(
            &EngineHost { call },
            &shown.attributes(call),
            shown.object.clone(),
            &mut notes,
        )
        .await;
    tell(call, notes);
    let mutated = mutated?;
    let Some(new) = mutated.object.filter(|_| mutated.changed) else {
        return Ok(());
    };
    if call.subresource == Some(Subresource::Scale) {
        if let Some(changed) = call.scaled(object, &new)? {
            *object = changed;
        }
        return Ok(());
    }
    *object = new;
    // A webhook must not rename the object.
    call.settle_identity(object)
}

/// Calls the validating webhooks for an object.
pub async fn validate(
    call: &Call<'_>,
    review: &Review<'_>,
    object: &Value,
) -> Result<(), ApiError> {
    let webhooks = call.cluster.webhooks();
    if webhooks.is_empty() {
        return Ok(());
    }
    let shown = Shown::of(call, review, Some(object))?;
    let mut notes = Notes::default();
    let verdict = webhooks
        .validate(
            &EngineHost { call },
            &shown.attributes(call),
            shown.object.as_ref(),
            &mut notes,
        )
        .await;
    tell(call, notes);
    verdict
}

/// Calls all webhooks for a deletion. Mutating ones come first, although they cannot change anything.
pub async fn delete(call: &Call<'_>, review: &Review<'_>, options: &Value) -> Result<(), ApiError> {
    let webhooks = call.cluster.webhooks();
    if webhooks.is_empty() {
        return Ok(());
    }
    let shown = Shown {
        options: options.clone(),
        ..Shown::of(call, review, None)?
    };
    let (host, attributes) = (EngineHost { call }, shown.attributes(call));
    let mut notes = Notes::default();
    let verdict = match webhooks.mutate(&host, &attributes, None, &mut notes).await {
        Ok(_) => {
            webhooks
                .validate(&host, &attributes, None, &mut notes)
                .await
        }
        Err(error) => Err(error),
    };
    tell(call, notes);
    verdict
}

fn tell(call: &Call<'_>, notes: Notes) {
    for warning in notes.warnings {
        call.warnings.add(warning);
    }
}

/// A write as webhooks see it.
struct Shown {
    operation: Operation,
    kind: GroupVersionKind,
    resource: GroupVersionResource,
    name: String,
    namespace: String,
    object: Option<Value>,
    old: Option<Value>,
    options: Value,
    dry_run: bool,
}

impl Shown {
    fn of(call: &Call<'_>, review: &Review<'_>, object: Option<&Value>) -> Result<Self, ApiError> {
        let is_scale = call.subresource == Some(Subresource::Scale);
        // The scale subresource takes a Scale, so webhooks see a Scale.
        let view = |value: &Value| {
            if is_scale {
                call.scale_of(value)
            } else {
                Ok(value.clone())
            }
        };
        let name = match object.map(meta::name) {
            Some(name) if call.name.is_empty() => name.to_owned(),
            _ => call.name.to_owned(),
        };
        let is_namespace = call.def.gvk.group.is_empty() && call.def.plural == "namespaces";
        let options_kind = match review.operation {
            Operation::Create => "CreateOptions",
            Operation::Delete => "DeleteOptions",
            Operation::Update | Operation::Connect => "UpdateOptions",
        };
        let mut options = Value::Object(review.options.given.clone());
        options["kind"] = json!(options_kind);
        options["apiVersion"] = json!("meta.k8s.io/v1");
        Ok(Self {
            operation: review.operation,
            kind: if is_scale {
                GroupVersionKind::new("autoscaling", "v1", "Scale")
            } else {
                call.def.gvk.clone()
            },
            resource: call.def.gvr(),
            namespace: if is_namespace {
                name.clone()
            } else {
                call.namespace.to_owned()
            },
            name,
            object: object.map(view).transpose()?,
            old: review.old.map(view).transpose()?,
            options,
            dry_run: review.options.dry_run,
        })
    }

    fn attributes<'a>(&'a self, call: &'a Call<'_>) -> polity_webhooks::Attributes<'a> {
        polity_webhooks::Attributes {
            operation: self.operation,
            kind: &self.kind,
            resource: &self.resource,
            subresource: call.subresource.map_or("", Subresource::name),
            name: &self.name,
            namespace: &self.namespace,
            user: call.user,
            old_object: self.old.as_ref(),
            options: &self.options,
            dry_run: self.dry_run,
        }
    }
}

/// The cluster as seen by admission.
struct EngineHost<'a> {
    call: &'a Call<'a>,
}

impl Host for EngineHost<'_> {
    fn namespace(&self, name: &str) -> Option<Arc<Value>> {
        parsed(self.call.cluster, "namespaces", "", name).map(Arc::new)
    }

    fn equivalents(&self, resource: &GroupVersionResource, subresource: &str) -> Vec<Served> {
        let Some(def) =
            self.call
                .registry
                .get(&resource.group, &resource.version, &resource.resource)
        else {
            return Vec::new();
        };
        self.call
            .registry
            .siblings(def)
            .chain(std::iter::once(def))
            .map(|def| Served {
                resource: def.gvr(),
                kind: if subresource == "scale" {
                    GroupVersionKind::new("autoscaling", "v1", "Scale")
                } else {
                    def.gvk.clone()
                },
            })
            .collect()
    }

    fn endpoints(
        &self,
        namespace: &str,
        service: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, String> {
        let cluster = self.call.cluster;
        let found = parsed(cluster, "services", namespace, service);
        let snapshot = cluster.store().current();
        let slices: Vec<Value> = snapshot
            .range("endpointslices.discovery.k8s.io", Some(namespace), None)
            .filter(|slice| {
                slice
                    .index
                    .labels
                    .get("kubernetes.io/service-name")
                    .is_some_and(|name| name == service)
            })
            .filter_map(|slice| serde_json::from_slice(&slice.bytes).ok())
            .collect();
        endpoints::resolve(service, found.as_ref(), &slices, port)
    }

    fn accept_patched(
        &self,
        kind: &GroupVersionKind,
        mut object: Value,
    ) -> Result<Value, ApiError> {
        let def = self
            .call
            .registry
            .of_kind(&kind.group, &kind.kind)
            .filter(|def| def.gvk.version == kind.version);
        let def = def.or_else(|| (self.call.def.gvk == *kind).then_some(&self.call.def));
        let Some(def) = def.cloned() else {
            return Ok(object);
        };
        let call = Call {
            def,
            ..self.call.clone()
        };
        polity_merge::schema::prune(&call.def.schema, &mut object);
        call.check_types(&object)
            .map_err(|error| ApiError::internal(error.message))?;
        call.default(&mut object);
        Ok(object)
    }

    fn authorizer(&self, user: &UserInfo) -> Arc<dyn polity_cel::Authorizer> {
        Arc::new(Rights {
            mode: self.call.cluster.authorization(),
            roles: self.call.cluster.roles(),
            user: user.clone(),
        })
    }
}

fn parsed(cluster: &Cluster, bucket: &str, namespace: &str, name: &str) -> Option<Value> {
    serde_json::from_slice(&cluster.get(bucket, namespace, name)?.bytes).ok()
}

/// The permissions of a user, for match conditions.
struct Rights {
    mode: AuthorizationMode,
    roles: Arc<Roles>,
    user: UserInfo,
}

impl polity_cel::Authorizer for Rights {
    fn authorize(&self, query: &AccessQuery) -> AccessDecision {
        let account = query.service_account.as_ref().map(|account| UserInfo {
            username: service_account::username(&account.namespace, &account.name),
            groups: service_account::groups(&account.namespace),
            ..UserInfo::default()
        });
        let user = account.as_ref().unwrap_or(&self.user);
        let attributes = match &query.target {
            AccessTarget::Path(path) => Attributes::NonResource {
                verb: &query.verb,
                path,
            },
            AccessTarget::Resource {
                group,
                resource,
                subresource,
                namespace,
                name,
                ..
            } => Attributes::Resource {
                verb: &query.verb,
                group,
                version: "*",
                resource,
                subresource,
                name,
                namespace,
            },
        };
        match (Authorizer {
            mode: self.mode,
            roles: &self.roles,
        })
        .decide(user, &attributes)
        {
            Decision::Allow { reason } => AccessDecision {
                allowed: true,
                reason,
                error: None,
            },
            Decision::NoOpinion { reason } => AccessDecision {
                allowed: false,
                reason,
                error: None,
            },
        }
    }
}
