//! Requests on resources: the verb, the options, the engine call, the response.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures::stream;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};
use http_body::Body as _;
use polity_core::name;
use polity_store::Revision;
use serde_json::{Value, json};

use super::{Incoming, respond, subresources};
use crate::cluster::Cluster;
use crate::engine::delete::{DeleteOptions, Deleted};
use crate::engine::patch::PatchKind;
use crate::engine::{Call, Warnings, Written};
use crate::heavy::{self, LARGE_BYTES};
use crate::render::Renderer;
use crate::request::accept;
use crate::request::body;
use crate::request::path::ResourceRequest;
use crate::request::query::{ListOptions, WriteOptions, not_a_version};
use crate::served::ServedResource;
use polity_auth::{Authorizer, UserInfo, reviews};
use polity_kinds::Subresource;
use polity_kinds::status::ApiError;

/// Everything a handler of a resource request needs.
pub struct Context<'a> {
    pub call: Call<'a>,
    pub incoming: Incoming,
    pub verb: &'a str,
}

/// Handles a request on a resource.
pub async fn answer(
    cluster: &Arc<Cluster>,
    incoming: Incoming,
    request: ResourceRequest,
    user: &UserInfo,
    warnings: &Warnings,
) -> Result<Response<Body>, ApiError> {
    let registry = cluster.registry();
    let Some(def) = registry
        .get(&request.group, &request.version, &request.resource)
        .cloned()
    else {
        return respond::nothing_at(&incoming.path);
    };
    let Ok(subresource) = subresource(&def, &request) else {
        return respond::nothing_at(&incoming.path);
    };
    // A namespace is an object at the cluster scope whose URL looks like a folder.
    let namespace = if def.is_namespaced() {
        request.namespace.as_str()
    } else {
        ""
    };
    if def.is_namespaced() == request.namespace.is_empty()
        && !is_across_namespaces(&def, &request)
        && !is_namespace_object(&def, &request)
    {
        return respond::nothing_at(&incoming.path);
    }
    if let Err(why) = name::path_segment(&request.name) {
        return Err(ApiError::bad_request(format!(
            "Name parameter invalid: {:?}: {}",
            request.name,
            why.join(";")
        )));
    }
    if let Some(warning) = def
        .custom
        .as_ref()
        .and_then(|custom| custom.deprecation_warning.as_ref())
    {
        warnings.add(warning);
    }
    let single_name = matches!(request.verb.as_str(), "list" | "watch" | "deletecollection");
    let call = Call {
        cluster,
        registry,
        def,
        user,
        namespace,
        name: if single_name { "" } else { &request.name },
        subresource,
        warnings,
        now: cluster.now(),
        default_manager: incoming.default_manager(),
    };
    let context = Context {
        call,
        incoming,
        verb: &request.verb,
    };
    if context.is_large() {
        let user = context.call.user;
        Box::pin(heavy::run(&user.username, context.answer_any())).await
    } else {
        context.answer_any().await
    }
}

/// A path below an object that its kind does not have.
struct NoSuchPath;

fn subresource(
    def: &ServedResource,
    request: &ResourceRequest,
) -> Result<Option<Subresource>, NoSuchPath> {
    if !request.rest.is_empty() {
        return Err(NoSuchPath);
    }
    if request.subresource.is_empty() {
        return Ok(None);
    }
    def.subresources
        .iter()
        .find(|sub| sub.name() == request.subresource)
        .map(|sub| Some(*sub))
        .ok_or(NoSuchPath)
}

fn is_across_namespaces(def: &ServedResource, request: &ResourceRequest) -> bool {
    def.is_namespaced()
        && request.namespace.is_empty()
        && matches!(
            request.verb.as_str(),
            "list" | "watch" | "deletecollection" | "create"
        )
}

fn is_namespace_object(def: &ServedResource, request: &ResourceRequest) -> bool {
    def.gvk.group.is_empty() && def.plural == "namespaces" && request.namespace == request.name
}

impl Context<'_> {
    /// Whether the request, the change or the response is large enough to take long to compute.
    fn is_large(&self) -> bool {
        let length = self.incoming.body.size_hint();
        // Without a known length it may be anything up to the limit.
        if length
            .upper()
            .is_none_or(|n_bytes| n_bytes >= LARGE_BYTES as u64)
        {
            return true;
        }
        // The length of YAML does not bound its cost: aliases and merge keys repeat what they name.
        let media = body::media_type(&self.incoming.parts.headers);
        if media.is_some_and(|media| media.ends_with("yaml")) {
            return true;
        }
        let snapshot = self.call.cluster.store().current();
        if self.call.name.is_empty() {
            let namespace = Some(self.call.namespace).filter(|namespace| !namespace.is_empty());
            let lists = matches!(self.verb, "list" | "deletecollection");
            return lists && heavy::is_large_list(&snapshot, &self.call.def.bucket, namespace);
        }
        let live = snapshot.get(&self.call.key());
        live.is_some_and(|live| live.bytes.len() >= LARGE_BYTES)
    }

    async fn answer_any(self) -> Result<Response<Body>, ApiError> {
        match self.call.subresource {
            None | Some(Subresource::Status | Subresource::Finalize) => self.answer().await,
            Some(other) => subresources::answer(self, other).await,
        }
    }

    async fn answer(self) -> Result<Response<Body>, ApiError> {
        let def = &self.call.def;
        if def.flags.create_only {
            return match self.verb {
                "create" => self.review().await,
                _ => Err(self.not_supported()),
            };
        }
        match (self.verb, self.call.subresource) {
            ("get", None | Some(Subresource::Status)) => self.get().await,
            ("list", None) => self.list().await,
            ("watch", None) => self.watch().await,
            ("create", None)
                if self.call.name.is_empty()
                    && !(def.is_namespaced() && self.call.namespace.is_empty()) =>
            {
                self.create().await
            }
            ("update" | "patch", _) if self.call.name.is_empty() => Err(self.not_supported()),
            ("update", _) => self.update().await,
            ("patch", None | Some(Subresource::Status)) => self.patch().await,
            ("delete", None) => self.delete().await,
            ("deletecollection", None) if !def.flags.no_delete_collection => {
                self.delete_collection().await
            }
            _ => Err(self.not_supported()),
        }
    }

    pub fn not_supported(&self) -> ApiError {
        if self.call.def.is_custom() {
            ApiError::method_not_allowed(self.call.def.resource_name(), self.verb)
        } else {
            ApiError::no_such_method()
        }
    }

    fn renderer(&self) -> Result<(Renderer, bool), ApiError> {
        let wanted = accept::choose(self.incoming.header(ACCEPT))?;
        let renderer = Renderer::new(&self.call.def, wanted, &self.incoming.query, self.call.now)?;
        Ok((
            renderer,
            wanted.pretty || respond::wants_pretty(&self.incoming),
        ))
    }

    async fn get(self) -> Result<Response<Body>, ApiError> {
        let (renderer, pretty) = self.renderer()?;
        let version = self.incoming.query.get("resourceVersion");
        if !matches!(version, "" | "0") {
            let wanted = version
                .parse()
                .map_err(|_| ApiError::unexpected(not_a_version(version)))?;
            self.call.reach(Revision(wanted)).await?;
        }
        Ok(respond::json(
            StatusCode::OK,
            renderer.object(&self.call.live()?)?,
            pretty,
        ))
    }

    async fn list(self) -> Result<Response<Body>, ApiError> {
        let (renderer, pretty) = self.renderer()?;
        let options = ListOptions::from_query(&self.incoming.query, false)?;
        let page = self.call.list(&options).await?;
        Ok(respond::json(StatusCode::OK, renderer.list(&page)?, pretty))
    }

    /// The headers go out at once, then a line for each event.
    async fn watch(self) -> Result<Response<Body>, ApiError> {
        let (renderer, _) = self.renderer()?;
        let options = ListOptions::from_query(&self.incoming.query, true)?;
        let watch = self.call.watch(&options, renderer).await?;
        let lines = stream::unfold(watch, |mut watch| async move {
            let line = watch.next().await?;
            Some((Ok::<Bytes, std::convert::Infallible>(line), watch))
        });
        let mut response = Response::new(Body::from_stream(lines));
        response
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(response)
    }

    pub async fn decoded(&mut self) -> Result<body::Decoded, ApiError> {
        let media = body::media_type(&self.incoming.parts.headers);
        let bytes = self.incoming.read_body(self.call.cluster).await?;
        body::decode(media.as_deref(), &bytes)
    }

    async fn create(mut self) -> Result<Response<Body>, ApiError> {
        let (renderer, pretty) = self.renderer()?;
        let options = WriteOptions::from_query(&self.incoming.query, "CreateOptions")?;
        let decoded = self.decoded().await?;
        let written = self.call.create(decoded, &options).await?;
        Ok(respond::json(
            StatusCode::CREATED,
            rendered(&renderer, &written)?,
            pretty,
        ))
    }

    async fn update(mut self) -> Result<Response<Body>, ApiError> {
        let (renderer, pretty) = self.renderer()?;
        let options = WriteOptions::from_query(&self.incoming.query, "UpdateOptions")?;
        let decoded = self.decoded().await?;
        let (written, created) = self.call.update(decoded, &options).await?;
        let code = if created {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        Ok(respond::json(code, rendered(&renderer, &written)?, pretty))
    }

    async fn patch(mut self) -> Result<Response<Body>, ApiError> {
        let (renderer, pretty) = self.renderer()?;
        let media = body::media_type(&self.incoming.parts.headers);
        let kind = PatchKind::of(media.as_deref(), self.call.def.is_custom())?;
        let options = WriteOptions::from_query(&self.incoming.query, "PatchOptions")?;
        let bytes = self.incoming.read_body(self.call.cluster).await?;
        let (written, created) = self.call.patch(kind, &bytes, &options).await?;
        let code = if created {
            StatusCode::CREATED
        } else {
            StatusCode::OK
        };
        Ok(respond::json(code, rendered(&renderer, &written)?, pretty))
    }

    async fn delete_options(&mut self) -> Result<DeleteOptions, ApiError> {
        let media = body::media_type(&self.incoming.parts.headers);
        let bytes = self.incoming.read_body(self.call.cluster).await?;
        let body = if bytes.is_empty() {
            None
        } else {
            Some(body::decode(media.as_deref(), &bytes)?.value)
        };
        DeleteOptions::parse(body.as_ref(), &self.incoming.query)
    }

    async fn delete(mut self) -> Result<Response<Body>, ApiError> {
        let (renderer, pretty) = self.renderer()?;
        let options = self.delete_options().await?;
        let deleted = self.call.delete(&options).await?;
        let code = deleted.code(&options);
        // The object was deleted, and its kind responds with a Status instead of the object.
        if deleted.gone && !self.call.def.flags.delete_returns_object {
            return Ok(respond::value(code, &self.success(&deleted), pretty));
        }
        Ok(respond::json(code, renderer.value(&deleted.object), pretty))
    }

    fn success(&self, deleted: &Deleted) -> Value {
        let mut details = json!({"name": self.call.name, "kind": self.call.def.plural, "uid": crate::object::meta::uid(&deleted.object)});
        if !self.call.def.gvk.group.is_empty() {
            details["group"] = json!(self.call.def.gvk.group);
        }
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
    }

    async fn delete_collection(mut self) -> Result<Response<Body>, ApiError> {
        let (renderer, pretty) = self.renderer()?;
        let list = ListOptions::from_query(&self.incoming.query, false)?;
        let options = self.delete_options().await?;
        let page = self.call.delete_collection(&list, &options).await?;
        Ok(respond::json(StatusCode::OK, renderer.list(&page)?, pretty))
    }

    /// The virtual kinds, which have a response but are never stored.
    async fn review(mut self) -> Result<Response<Body>, ApiError> {
        let pretty = respond::wants_pretty(&self.incoming);
        accept::choose(self.incoming.header(ACCEPT))?;
        WriteOptions::from_query(&self.incoming.query, "CreateOptions")?;
        let mut decoded = self.decoded().await?;
        self.call.settle_identity(&mut decoded.value)?;
        let cluster = self.call.cluster;
        let roles = cluster.roles();
        let context = reviews::ReviewContext {
            user: self.call.user,
            namespace: self.call.namespace,
            authorizer: Authorizer {
                mode: cluster.authorization(),
                roles: &roles,
            },
            authenticator: cluster.identity().authenticator(),
            objects: &cluster.bound_objects(),
            now: self.call.now,
        };
        let answer = reviews::answer(&self.call.def.plural, &decoded.value, &context)?;
        Ok(respond::value(StatusCode::CREATED, &answer, pretty))
    }
}

/// The response to a write in the requested form.
pub fn rendered(renderer: &Renderer, written: &Written) -> Result<Bytes, ApiError> {
    match written {
        Written::Stored(stored) => renderer.object(stored),
        Written::Dry(value) => Ok(renderer.value(value)),
    }
}
