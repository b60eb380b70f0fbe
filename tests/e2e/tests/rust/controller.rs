//! A complete controller for Widgets, with finalizer, a child object by server-side apply, status and events.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::runtime::finalizer::{Error as Failure, Event as Finalizer, finalizer};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher;
use kube::{Api, Resource as _, ResourceExt as _};
use polity_runtime::Shutdown;
use polity_testing::objects::{Widget, config_map, owned_by, widget};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::test_namespace::{TestNamespace, soon};

const FINALIZER: &str = "e2e.polity.dev/widgets";

/// The client of the controller, and the side effects that it has outside the cluster.
struct Context {
    test_namespace: TestNamespace,
    recorder: Recorder,
    cleaned_up: Mutex<BTreeSet<String>>,
}

/// A running controller.
pub(crate) struct Running {
    context: Arc<Context>,
    shutdown: Shutdown,
    task: JoinHandle<()>,
}

/// A constant short delay after every error. The default back-off grows to half a minute, and twice as fast with two
/// watches.
struct Steady;

impl Iterator for Steady {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(100))
    }
}

impl Backoff for Steady {
    fn reset(&mut self) {}
}

impl Running {
    /// Starts the controller for the Widgets of a namespace. The CRD must exist.
    pub(crate) fn start(test_namespace: &TestNamespace, config: &watcher::Config) -> Self {
        let reporter = Reporter {
            controller: FINALIZER.into(),
            instance: None,
        };
        let context = Arc::new(Context {
            test_namespace: test_namespace.clone(),
            recorder: Recorder::new(test_namespace.client.clone(), reporter),
            cleaned_up: Mutex::default(),
        });
        let shutdown = Shutdown::new();
        let again = |_: Arc<Widget>, _: &kube::Error, _: Arc<Context>| {
            Action::requeue(Duration::from_millis(100))
        };
        let run = Controller::new(test_namespace.api::<Widget>(), config.clone())
            .owns(test_namespace.api::<ConfigMap>(), config.clone())
            .trigger_backoff(Steady)
            .graceful_shutdown_on(shutdown.triggered())
            .run(reconcile, again, context.clone())
            .for_each(|_| async {});
        Self {
            context,
            shutdown,
            task: tokio::spawn(run),
        }
    }

    /// The Widgets that the controller has finalized.
    pub(crate) fn cleaned_up(&self) -> BTreeSet<String> {
        self.context.cleaned_up.lock().unwrap().clone()
    }

    /// Stops the controller gracefully.
    pub(crate) async fn stop(self) {
        self.shutdown.trigger();
        tokio::time::timeout(Duration::from_mins(1), self.task)
            .await
            .expect("it stops in time")
            .unwrap();
    }
}

async fn reconcile(object: Arc<Widget>, context: Arc<Context>) -> kube::Result<Action> {
    let widgets: Api<Widget> = context.test_namespace.api();
    let outcome = finalizer(&widgets, FINALIZER, object, |event| async {
        match event {
            Finalizer::Apply(object) => keep_in_shape(&object, &context).await,
            Finalizer::Cleanup(object) => {
                context.cleaned_up.lock().unwrap().insert(object.name_any());
                Ok(Action::await_change())
            }
        }
    });
    outcome.await.map_err(|error| match error {
        Failure::ApplyFailed(error)
        | Failure::CleanupFailed(error)
        | Failure::AddFinalizer(error)
        | Failure::RemoveFinalizer(error) => error,
        other => panic!("{other}"),
    })
}

async fn keep_in_shape(object: &Widget, context: &Context) -> kube::Result<Action> {
    let name = object.name_any();
    let size = object.spec.size.to_string();
    let child = owned_by(config_map(&name, [("size", &size)]), object);
    let ours = PatchParams::apply(FINALIZER).force();
    context
        .test_namespace
        .api::<ConfigMap>()
        .patch(&name, &ours, &Patch::Apply(child))
        .await?;
    let status = json!({
        "apiVersion": Widget::api_version(&()), "kind": Widget::kind(&()),
        "status": {"size": object.spec.size, "observedGeneration": object.metadata.generation},
    });
    let widgets: Api<Widget> = context.test_namespace.api();
    widgets
        .patch_status(&name, &ours, &Patch::Apply(status))
        .await?;
    let event = Event {
        type_: EventType::Normal,
        reason: "InShape".into(),
        note: None,
        action: "Shape".into(),
        secondary: None,
    };
    context
        .recorder
        .publish(&event, &object.object_ref(&()))
        .await?;
    Ok(Action::await_change())
}

/// Waits until a Widget and its child match the spec.
pub(crate) async fn in_shape(test_namespace: &TestNamespace, name: &str, size: i32) {
    let (widgets, maps) = (
        test_namespace.api::<Widget>(),
        test_namespace.api::<ConfigMap>(),
    );
    soon(&format!("{name} is of size {size}"), || async {
        let object = widgets
            .get_opt(name)
            .await
            .map_err(|error| error.to_string())?;
        let child = maps
            .get_opt(name)
            .await
            .map_err(|error| error.to_string())?;
        let status = object.as_ref().and_then(|object| object.status.clone());
        let has_child = child
            .as_ref()
            .and_then(|map| map.data.as_ref()?.get("size"))
            == Some(&size.to_string());
        let is_done = status.and_then(|status| status.size) == Some(size) && has_child;
        if is_done {
            Ok(())
        } else {
            Err(format!("{object:?} {child:?}"))
        }
    })
    .await;
}

/// Changes the size of a Widget.
pub(crate) async fn resize(test_namespace: &TestNamespace, name: &str, size: i32) {
    let patch = Patch::Merge(json!({"spec": {"size": size}}));
    test_namespace
        .api::<Widget>()
        .patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

pub(crate) async fn create(test_namespace: &TestNamespace, name: &str, size: i32) {
    test_namespace
        .api()
        .create(&PostParams::default(), &widget(name, size))
        .await
        .unwrap();
}
