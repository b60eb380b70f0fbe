//! Objects in the form that a client requested: plain, Table, or metadata only.

use bytes::{BufMut, Bytes, BytesMut};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

use crate::object::encode::Heads;
use crate::object::{Page, Stored};
use crate::request::accept::{Form, Wanted};
use crate::request::query::Query;
use crate::served::ServedResource;
use polity_kinds::status::ApiError;
use polity_kinds::table;

/// The content of `rows[].object` of a Table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RowObject {
    None,
    Metadata,
    Object,
}

/// Writes objects of one kind in one form.
pub struct Renderer {
    def: Arc<ServedResource>,
    form: Form,
    rows: RowObject,
    heads: Heads,
    now: Timestamp,
    /// Only the first Table of a watch defines its columns.
    columns_sent: bool,
}

impl Renderer {
    pub fn new(
        def: &Arc<ServedResource>,
        wanted: Wanted,
        query: &Query,
        now: Timestamp,
    ) -> Result<Self, ApiError> {
        let rows = match query.get("includeObject") {
            "None" => RowObject::None,
            "Object" => RowObject::Object,
            other if matches!(wanted.form, Form::Table(_)) && !matches!(other, "" | "Metadata") => {
                return Err(ApiError::bad_request(format!(
                    "Unable to convert to Table as requested: includeObject: Invalid value: {other:?}: \
                     must be 'Metadata', 'Object', 'None', or empty"
                )));
            }
            _ => RowObject::Metadata,
        };
        Ok(Self {
            def: def.clone(),
            form: wanted.form,
            rows,
            heads: def.heads(),
            now,
            columns_sent: false,
        })
    }

    /// A single object.
    pub fn object(&self, stored: &Stored) -> Result<Bytes, ApiError> {
        match self.form {
            Form::Plain if self.def.is_as_stored(stored) => Ok(self.heads.object(&stored.bytes)),
            Form::PartialList => Err(ApiError::not_acceptable(
                "you requested PartialObjectMetadataList, but the requested object is not a list",
            )),
            _ => Ok(self.value(&self.def.read(stored))),
        }
    }

    /// A single object that is not stored (a dry run, or the last state of a deleted one).
    pub fn value(&self, object: &Value) -> Bytes {
        match self.form {
            Form::Plain | Form::PartialList => bytes(object),
            Form::Partial => bytes(&partial(object)),
            Form::Table(version) => {
                bytes(&self.table(version, std::slice::from_ref(object), &json!({}), true))
            }
        }
    }

    /// A page of a list.
    pub fn list(&self, page: &Page) -> Result<Bytes, ApiError> {
        let mut metadata = json!({"resourceVersion": page.revision.to_string()});
        if let Some(token) = &page.continue_token {
            metadata["continue"] = json!(token);
        }
        if let Some(remaining) = page.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        match self.form {
            Form::Plain => {
                // Lists of custom resources always show where they go on.
                if self.def.is_custom() && page.continue_token.is_none() {
                    metadata["continue"] = json!("");
                }
                Ok(self.plain_list(page, &metadata))
            }
            Form::Partial => Err(ApiError::not_acceptable(
                "you requested PartialObjectMetadata, but the requested object is a list",
            )),
            Form::PartialList => {
                let items: Vec<Value> = page
                    .items
                    .iter()
                    .map(|stored| partial(&self.def.read(stored)))
                    .collect();
                Ok(bytes(&json!({
                    "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                    "metadata": metadata, "items": items,
                })))
            }
            Form::Table(version) => {
                let objects: Vec<Value> = page
                    .items
                    .iter()
                    .map(|stored| self.def.read(stored))
                    .collect();
                Ok(bytes(&self.table(version, &objects, &metadata, true)))
            }
        }
    }

    /// A list straight from stored bytes.
    fn plain_list(&self, page: &Page, metadata: &Value) -> Bytes {
        let size: usize = page.items.iter().map(|stored| stored.bytes.len() + 1).sum();
        let mut out = BytesMut::with_capacity(size + 256);
        out.put_slice(b"{\"kind\":");
        out.put_slice(&bytes(&json!(self.def.list_kind)));
        out.put_slice(b",\"apiVersion\":");
        out.put_slice(&bytes(&json!(self.def.gvk.api_version())));
        out.put_slice(b",\"metadata\":");
        out.put_slice(&bytes(metadata));
        out.put_slice(b",\"items\":[");
        for (index, stored) in page.items.iter().enumerate() {
            if index > 0 {
                out.put_u8(b',');
            }
            out.put_slice(&self.item(stored));
        }
        out.put_slice(b"]}");
        out.freeze()
    }

    fn item(&self, stored: &Stored) -> Bytes {
        match (self.def.is_as_stored(stored), self.def.is_custom()) {
            (true, true) => self.heads.object(&stored.bytes),
            (true, false) => self.heads.bare(&stored.bytes),
            (false, custom) => {
                let mut object = self.def.read(stored);
                if !custom && let Some(root) = object.as_object_mut() {
                    root.remove("apiVersion");
                    root.remove("kind");
                }
                bytes(&object)
            }
        }
    }

    /// One event of a watch, with a stored object.
    pub fn event(&mut self, kind: &str, stored: &Stored) -> Bytes {
        if self.form == Form::Plain && self.def.is_as_stored(stored) {
            let object = self.heads.object(&stored.bytes);
            let mut out = BytesMut::with_capacity(object.len() + 40);
            out.put_slice(b"{\"type\":\"");
            out.put_slice(kind.as_bytes());
            out.put_slice(b"\",\"object\":");
            out.put_slice(&object);
            out.put_slice(b"}\n");
            return out.freeze();
        }
        let value = self.def.read(stored);
        self.event_value(kind, &value)
    }

    /// One event of a watch, with any object.
    pub fn event_value(&mut self, kind: &str, object: &Value) -> Bytes {
        let shown = match self.form {
            Form::Plain | Form::PartialList => return line(kind, object),
            Form::Partial => partial(object),
            Form::Table(version) => {
                let metadata =
                    json!({"resourceVersion": object.pointer("/metadata/resourceVersion")});
                let first = !std::mem::replace(&mut self.columns_sent, true);
                self.table(version, std::slice::from_ref(object), &metadata, first)
            }
        };
        line(kind, &shown)
    }

    fn table(
        &self,
        version: &str,
        objects: &[Value],
        metadata: &Value,
        with_columns: bool,
    ) -> Value {
        let rows: Vec<Value> = objects
            .iter()
            .map(|object| self.row(version, object))
            .collect();
        let columns = if with_columns {
            json!(self.columns())
        } else {
            Value::Null
        };
        let mut metadata = metadata.clone();
        if let (Some(map), [one]) = (metadata.as_object_mut(), objects)
            && let Some(revision) = one.pointer("/metadata/resourceVersion")
        {
            map.entry("resourceVersion")
                .or_insert_with(|| revision.clone());
        }
        json!({
            "kind": "Table", "apiVersion": version, "metadata": metadata,
            "columnDefinitions": columns, "rows": rows,
        })
    }

    fn columns(&self) -> &[table::Column] {
        match &self.def.custom {
            Some(custom) => custom.table.columns(),
            None => table::columns(&self.def),
        }
    }

    fn row(&self, version: &str, object: &Value) -> Value {
        let cells = match &self.def.custom {
            Some(custom) => custom.table.cells(object, self.now),
            None => table::cells(&self.def, object, self.now),
        };
        match self.rows {
            RowObject::None => json!({"cells": cells, "object": null}),
            RowObject::Object => json!({"cells": cells, "object": object}),
            RowObject::Metadata => {
                let mut shown = partial(object);
                shown["apiVersion"] = json!(version);
                json!({"cells": cells, "object": shown})
            }
        }
    }
}

fn partial(object: &Value) -> Value {
    json!({
        "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1",
        "metadata": object.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

fn bytes(value: &Value) -> Bytes {
    serde_json::to_vec(value)
        .expect("a JSON value serialises into memory")
        .into()
}

/// One line of a watch.
pub fn line(kind: &str, object: &Value) -> Bytes {
    let mut out = format!("{{\"type\":\"{kind}\",\"object\":").into_bytes();
    serde_json::to_writer(&mut out, object).expect("a JSON value serialises into memory");
    out.extend_from_slice(b"}\n");
    out.into()
}
