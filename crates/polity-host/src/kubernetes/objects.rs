//! The objects of one list: an index that watch events change and host calls read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::api::DynamicObject;
use kube::runtime::watcher::Event;
use polity_eval::{ListResources, prune_object};
use serde_json::Value;

/// Namespace and name, in the order of a list.
type Key = (String, String);

/// Objects as pruned JSON text, so that a host call parses nothing.
#[derive(Debug)]
pub(super) struct Objects {
    api_version: String,
    kind: String,
    masks: Option<BTreeSet<String>>,
    current: BTreeMap<Key, String>,
    /// A new list that is not complete yet; the old one is used until then.
    coming: Option<BTreeMap<Key, String>>,
    n_bytes: usize,
    rendered: Option<Arc<[u8]>>,
}

/// The effect of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// No visible change.
    None,
    /// The list is complete, for the first time or again.
    Listed,
    /// One object was added, changed or deleted.
    One,
}

impl Objects {
    pub(super) fn new(query: &ListResources) -> Self {
        Self {
            api_version: query.api_version.clone(),
            kind: query.kind.clone(),
            masks: query.field_masks.clone(),
            current: BTreeMap::new(),
            coming: None,
            n_bytes: 0,
            rendered: None,
        }
    }

    /// Applies an event.
    pub(super) fn apply(&mut self, event: Event<DynamicObject>) -> Change {
        match event {
            Event::Init => {
                self.n_bytes -= self.coming.take().iter().map(size_of_all).sum::<usize>();
                self.coming = Some(BTreeMap::new());
                Change::None
            }
            Event::InitApply(object) => {
                let (key, text) = self.entry(object);
                self.n_bytes += size(&key, &text);
                let coming = self.coming.get_or_insert_default();
                if let Some((key, text)) = replace(coming, key, text) {
                    self.n_bytes -= size(&key, &text);
                }
                Change::None
            }
            Event::InitDone => {
                let coming = self.coming.take().unwrap_or_default();
                let gone = std::mem::replace(&mut self.current, coming);
                self.n_bytes -= size_of_all(&gone);
                self.rendered = None;
                Change::Listed
            }
            Event::Apply(object) => {
                let (key, text) = self.entry(object);
                if self.current.get(&key) == Some(&text) {
                    return Change::None;
                }
                self.n_bytes += size(&key, &text);
                if let Some((key, text)) = replace(&mut self.current, key, text) {
                    self.n_bytes -= size(&key, &text);
                }
                self.rendered = None;
                Change::One
            }
            Event::Delete(object) => {
                let key = key(&object);
                let Some(text) = self.current.remove(&key) else {
                    return Change::None;
                };
                self.n_bytes -= size(&key, &text);
                self.rendered = None;
                Change::One
            }
        }
    }

    /// Removes all objects.
    pub(super) fn clear(&mut self) {
        self.current.clear();
        self.coming = None;
        self.rendered = None;
        self.n_bytes = 0;
    }

    /// The approximate size in bytes.
    pub(super) fn n_bytes(&self) -> usize {
        self.n_bytes + self.rendered.as_ref().map_or(0, |bytes| bytes.len())
    }

    /// The list as JSON, built once between two changes.
    pub(super) fn render(&mut self) -> Arc<[u8]> {
        if let Some(rendered) = &self.rendered {
            return rendered.clone();
        }
        let head = serde_json::json!({
            "apiVersion": self.api_version,
            "kind": format!("{}List", self.kind),
            "metadata": {},
        });
        let mut bytes = head.to_string().into_bytes();
        bytes.pop();
        bytes.extend_from_slice(b",\"items\":[");
        for (n, text) in self.current.values().enumerate() {
            if n > 0 {
                bytes.push(b',');
            }
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes.extend_from_slice(b"]}");
        let rendered: Arc<[u8]> = bytes.into();
        self.rendered = Some(rendered.clone());
        rendered
    }

    fn entry(&self, object: DynamicObject) -> (Key, String) {
        let key = key(&object);
        let mut value = to_value(object, &self.api_version, &self.kind);
        prune_object(&mut value, self.masks.as_ref());
        (key, value.to_string())
    }
}

/// An object as JSON. Objects of a list have no `apiVersion` and `kind`, so they are added.
pub(super) fn to_value(mut object: DynamicObject, api_version: &str, kind: &str) -> Value {
    object.types = None;
    let mut value = serde_json::to_value(&object).unwrap_or_default();
    if let Value::Object(fields) = &mut value {
        fields.insert("apiVersion".to_owned(), api_version.into());
        fields.insert("kind".to_owned(), kind.into());
    }
    value
}

fn key(object: &DynamicObject) -> Key {
    let metadata = &object.metadata;
    (
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}

/// The entry that this one replaced.
fn replace(entries: &mut BTreeMap<Key, String>, key: Key, text: String) -> Option<(Key, String)> {
    let old = entries.remove_entry(&key);
    entries.insert(key, text);
    old
}

fn size((namespace, name): &Key, text: &str) -> usize {
    // Three strings and a tree node take memory besides their characters.
    namespace.len() + name.len() + text.len() + 128
}

fn size_of_all(entries: &BTreeMap<Key, String>) -> usize {
    entries.iter().map(|(key, text)| size(key, text)).sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(name: &str, colour: &str) -> DynamicObject {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "ns", "managedFields": [{"manager": "m"}]},
            "spec": {"colour": colour, "size": 1},
        }))
        .unwrap()
    }

    fn objects(masks: Option<&[&str]>) -> Objects {
        Objects::new(&ListResources {
            api_version: "shop/v1".to_owned(),
            kind: "Toy".to_owned(),
            namespace: None,
            label_selector: None,
            field_selector: None,
            field_masks: masks.map(|masks| masks.iter().map(|&mask| mask.to_owned()).collect()),
        })
    }

    /// The names in the response with their colours, and a check of the counters.
    fn seen(objects: &mut Objects) -> Vec<String> {
        let list: Value = serde_json::from_slice(&objects.render()).unwrap();
        assert_eq!(list["apiVersion"], "shop/v1");
        assert_eq!(list["kind"], "ToyList");
        assert_eq!(list["metadata"], json!({}));
        let coming = objects.coming.iter().map(size_of_all).sum::<usize>();
        assert_eq!(objects.n_bytes, size_of_all(&objects.current) + coming);
        let items = list["items"].as_array().unwrap();
        items
            .iter()
            .map(|item| {
                assert_eq!(
                    (&item["apiVersion"], &item["kind"]),
                    (&json!("shop/v1"), &json!("Toy"))
                );
                assert_eq!(item["metadata"].get("managedFields"), None);
                let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
                format!(
                    "{}:{}",
                    text(&item["metadata"]["name"]),
                    text(&item["spec"]["colour"])
                )
            })
            .collect()
    }

    #[test]
    fn events_change_the_visible_objects() {
        let mut toys = objects(None);
        for (event, change, expected) in [
            (Event::Init, Change::None, &[][..]),
            (Event::InitApply(object("b", "red")), Change::None, &[]),
            (Event::InitApply(object("a", "red")), Change::None, &[]),
            (Event::InitDone, Change::Listed, &["a:red", "b:red"]),
            (
                Event::Apply(object("a", "blue")),
                Change::One,
                &["a:blue", "b:red"],
            ),
            (
                Event::Apply(object("a", "blue")),
                Change::None,
                &["a:blue", "b:red"],
            ),
            (Event::Delete(object("b", "red")), Change::One, &["a:blue"]),
            (Event::Delete(object("b", "red")), Change::None, &["a:blue"]),
            (Event::Init, Change::None, &["a:blue"]),
            (
                Event::InitApply(object("c", "red")),
                Change::None,
                &["a:blue"],
            ),
            (Event::Init, Change::None, &["a:blue"]),
            (
                Event::InitApply(object("d", "red")),
                Change::None,
                &["a:blue"],
            ),
            (
                Event::InitApply(object("d", "red")),
                Change::None,
                &["a:blue"],
            ),
            (Event::InitDone, Change::Listed, &["d:red"]),
        ] {
            let shown = format!("{event:?}");
            assert_eq!(toys.apply(event), change, "{shown}");
            assert_eq!(seen(&mut toys), expected, "{shown}");
        }
    }

    #[test]
    fn masks_hide_changes_of_masked_fields() {
        let mut toys = objects(Some(&["spec.size"]));
        toys.apply(Event::InitDone);
        assert_eq!(toys.apply(Event::Apply(object("a", "red"))), Change::One);
        assert_eq!(toys.apply(Event::Apply(object("a", "blue"))), Change::None);
        assert_eq!(seen(&mut toys), ["a:-"]);
    }

    #[test]
    fn an_answer_is_made_once() {
        let mut toys = objects(None);
        toys.apply(Event::Apply(object("a", "red")));
        assert!(Arc::ptr_eq(&toys.render(), &toys.render()));
    }
}
