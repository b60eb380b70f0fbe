//! Applies one object of a policy server, and sends nothing when the object is as wanted.

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Resource, ResourceExt as _};
use polity_api::policies::v1::PolicyServer;
use polity_runtime::write::Writer;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{MANAGER, ServerError, Servers};
use crate::names::spelled;

/// Annotation: a hash of everything that was applied. A field that is no longer wanted is still in the object and looks
/// like a field of another manager; the changed hash shows that the object must be applied again.
const APPLIED: &str = "polity.dev/applied";

impl Servers {
    /// Applies an object in the namespace of the policy servers.
    pub(super) async fn ensure<K>(
        &self,
        server: &PolicyServer,
        object: &K,
    ) -> Result<(), ServerError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        ensure_in(self.namespaced(), server, object).await
    }
}

/// Applies an object unless it is as wanted already. An object of its name that this PolicyServer does not own is an
/// error.
pub(super) async fn ensure_in<K>(
    api: Api<K>,
    server: &PolicyServer,
    object: &K,
) -> Result<(), ServerError>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Serialize + DeserializeOwned,
{
    let mut object = object.clone();
    let wanted = json(&object);
    let hash = spelled(&wanted.to_string(), 16);
    object
        .annotations_mut()
        .insert(APPLIED.to_owned(), hash.clone());
    if let Some(found) = api.get_opt(&object.name_any()).await? {
        check_owner(&found, server)?;
        if found.annotations().get(APPLIED) == Some(&hash) && includes(&json(&found), &wanted) {
            return Ok(());
        }
    }
    Writer::new(api, (), MANAGER).apply(&object).await?;
    Ok(())
}

/// Refuses an object that is not this policy server's.
pub(super) fn check_owner<K: Resource<DynamicType = ()>>(
    found: &K,
    server: &PolicyServer,
) -> Result<(), ServerError> {
    if is_owned_by(found, server) {
        return Ok(());
    }
    let owners = found.meta().owner_references.iter().flatten();
    let owner = owners.into_iter().next();
    Err(ServerError::Foreign {
        kind: K::kind(&()).into_owned(),
        name: found.name_any(),
        owner: owner.map_or_else(
            || "not owned by this PolicyServer".to_owned(),
            |owner| format!("owned by {} {}", owner.kind, owner.name),
        ),
    })
}

/// Whether this policy server owns the object.
pub(super) fn is_owned_by<K: Resource>(found: &K, server: &PolicyServer) -> bool {
    let uid = server.uid().unwrap_or_default();
    found
        .owner_references()
        .iter()
        .any(|owner| owner.uid == uid)
}

fn json(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// Whether everything wanted is there. Other fields may stand beside it, since the API server fills in defaults; lists
/// have exactly the wanted items, and selectors exactly the wanted labels.
fn includes(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (_, Value::Null) => true,
        (Value::Object(found), Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| {
            let found = found.get(key).unwrap_or(&Value::Null);
            includes(found, wanted)
                && (key != "selector" || wanted.is_null() || includes(wanted, found))
        }),
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len()
                && found
                    .iter()
                    .zip(wanted)
                    .all(|(found, wanted)| includes(found, wanted))
        }
        // The API server does not store empty lists and maps.
        (Value::Null, Value::Object(wanted)) => wanted.is_empty(),
        (Value::Null, Value::Array(wanted)) => wanted.is_empty(),
        (found, wanted) => found == wanted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_server_fills_in_is_not_an_edit() {
        let wanted = json!({
            "a": {"b": 1}, "list": [{"name": "x"}], "none": null, "empty": {}, "selector": {"app": "x"},
        });
        let found = json!({
            "a": {"b": 1, "c": 2}, "list": [{"name": "x", "more": true}], "d": 3, "selector": {"app": "x"},
        });
        assert!(includes(&found, &wanted));
        let mut narrowed = found.clone();
        narrowed["selector"]["pod"] = json!("none");
        for edited in [
            narrowed,
            json!({"a": {"b": 2}, "list": [{"name": "x"}]}),
            json!({"a": {}, "list": [{"name": "x"}]}),
            json!({"a": {"b": 1}, "list": [{"name": "x"}, {"name": "y"}]}),
            json!({"a": {"b": 1}}),
        ] {
            assert!(!includes(&edited, &wanted), "{edited}");
        }
    }
}
