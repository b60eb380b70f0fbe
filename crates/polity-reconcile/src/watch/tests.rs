//! What a watch makes of the events of the API server.

use k8s_openapi::api::core::v1::ConfigMap;
use polity_runtime::metrics::Metrics;
use serde_json::json;

use super::*;
use crate::cache::Cache;

/// A cache of ConfigMaps by name, with the text of each.
type Texts = SharedCache<String, String>;

fn intake(cache: &Texts) -> Intake<ConfigMap, String, String, ()> {
    Intake::new(
        cache.clone(),
        |metadata| metadata.name.clone().unwrap_or_default(),
        |map: &ConfigMap| map.data.as_ref()?.get("text").cloned(),
    )
}

fn map(name: &str, text: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"text": text}})).unwrap()
}

fn metadata(name: &str) -> Box<ObjectMeta> {
    Box::new(map(name, "").metadata)
}

/// Takes in events and writes down the changes: `+a=1`, `a=1>2`, `-a=2`.
fn changes(
    intake: &mut Intake<ConfigMap, String, String, ()>,
    events: Vec<WatchEvent<ConfigMap>>,
) -> Vec<String> {
    let changes = events.into_iter().flat_map(|event| intake.take(event));
    changes
        .map(|change| match (change.before, change.now) {
            (None, Some(now)) => format!("+{}={now}", change.key),
            (Some(before), Some(now)) => format!("{}={before}>{now}", change.key),
            (Some(before), None) => format!("-{}={before}", change.key),
            (None, None) => unreachable!("not a change"),
        })
        .collect()
}

fn list(objects: Vec<ConfigMap>) -> Vec<WatchEvent<ConfigMap>> {
    let mut events = vec![WatchEvent::ListBegins];
    events.extend(objects.into_iter().map(WatchEvent::Listed));
    events.push(WatchEvent::ListEnds);
    events
}

#[test]
fn what_was_deleted_while_the_watch_was_down_is_noticed_by_the_next_list() {
    let cache = Texts::new(Cache::default());
    let mut intake = intake(&cache);
    let first = changes(&mut intake, list(vec![map("a", "1"), map("b", "1")]));
    assert_eq!(first, ["+a=1", "+b=1"]);
    let watched = changes(
        &mut intake,
        vec![
            WatchEvent::Applied(map("c", "1")),
            WatchEvent::Deleted(metadata("b")),
        ],
    );
    assert_eq!(watched, ["+c=1", "-b=1"]);
    let again = changes(&mut intake, list(vec![map("c", "2")]));
    assert_eq!(again, ["-a=1", "c=1>2"]);
    assert!(changes(&mut intake, list(vec![map("c", "2")])).is_empty());
}

#[test]
fn a_list_that_breaks_off_changes_nothing() {
    let cache = Texts::new(Cache::default());
    let mut intake = intake(&cache);
    changes(&mut intake, list(vec![map("a", "1"), map("b", "1")]));
    let broken = vec![
        WatchEvent::ListBegins,
        WatchEvent::Listed(map("a", "2")),
        WatchEvent::ListBegins,
    ];
    assert!(changes(&mut intake, broken).is_empty());
    let whole = changes(&mut intake, list(vec![map("b", "1")]));
    assert_eq!(whole, ["-a=1"]);
}

#[test]
fn an_object_that_cannot_be_decoded_keeps_its_last_value() {
    let cache = Texts::new(Cache::default());
    let mut intake = intake(&cache);
    changes(&mut intake, list(vec![map("a", "1"), map("b", "1")]));
    let undecodable = ["a", "new"].map(|name| WatchEvent::ListedUndecodable(metadata(name)));
    let mut events = vec![WatchEvent::ListBegins];
    events.extend(undecodable);
    events.push(WatchEvent::ListEnds);
    assert_eq!(changes(&mut intake, events), ["-b=1"]);
    assert_eq!(changes(&mut intake, list(vec![])), ["-a=1"]);
}

#[test]
fn two_watches_that_fill_one_cache_delete_only_their_own_objects() {
    let cache = Texts::new(Cache::default());
    let (mut one, mut other) = (intake(&cache), intake(&cache));
    changes(&mut one, list(vec![map("a", "1")]));
    changes(&mut other, list(vec![map("b", "1")]));
    assert_eq!(changes(&mut one, list(vec![])), ["-a=1"]);
    let left = cache.read(|cache| cache.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>());
    assert_eq!(left, ["b"]);
}

#[test]
fn an_object_without_a_value_is_not_kept() {
    let cache = Texts::new(Cache::default());
    let mut intake = intake(&cache);
    changes(&mut intake, list(vec![map("a", "1")]));
    let mut emptied = map("a", "");
    emptied.data = None;
    let emptied = changes(&mut intake, vec![WatchEvent::Applied(emptied)]);
    assert_eq!(emptied, ["-a=1"]);
}

/// Failures reach neither the cache nor the end of the stream.
#[tokio::test]
async fn failures_and_undecodable_objects_are_counted_and_skipped() {
    let metrics = Metrics::new().unwrap();
    let counting = ControllerMetrics::new(&metrics.meter("test"));
    let decode = |object| serde_json::from_value::<DeserializeGuard<ConfigMap>>(object).unwrap();
    let gone = kube::core::Status::failure("too old", "Expired").with_code(410);
    let denied = kube::core::Status::failure("no", "Forbidden").with_code(403);
    let events = vec![
        Err(watcher::Error::NoResourceVersion),
        Err(watcher::Error::WatchError(gone.boxed())),
        Err(watcher::Error::WatchError(denied.boxed())),
        Ok(watcher::Event::Apply(decode(
            json!({"metadata": {"name": "bad"}, "data": 7}),
        ))),
        Ok(watcher::Event::Apply(decode(
            json!({"metadata": {"name": "good"}}),
        ))),
    ];
    let events = futures::stream::iter(events);
    let seen: Vec<_> = guarded(events, "test", "ConfigMap".to_owned(), counting)
        .collect()
        .await;
    assert!(
        matches!(&seen[..], [WatchEvent::Applied(map)] if map.metadata.name.as_deref() == Some("good"))
    );
    let text = metrics.render().unwrap();
    let labels = r#"{controller="test",kind="ConfigMap"}"#;
    for line in [
        format!("polity_watch_failures_total{labels} 2"),
        format!("polity_undecodable_objects_total{labels} 1"),
    ] {
        assert!(text.contains(&line), "{line} is not in\n{text}");
    }
}
