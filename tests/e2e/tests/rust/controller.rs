//! A whole controller of Widgets: finalizer, a child by server-side apply, status, events.

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

use crate::world::{World, soon};

const FINALIZER: &str = "e2e.polity.dev/widgets";

/// What a controller needs, and what it did outside the cluster.
struct Context {
    world: World,
    recorder: Recorder,
    cleaned_up: Mutex<BTreeSet<String>>,
}

/// A controller at work.
pub(crate) struct Running {
    context: Arc<Context>,
    shutdown: Shutdown,
    task: JoinHandle<()>,
}

/// The same short pause after every error: the usual one grows to half a minute, with two watches in it twice as fast.
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
    /// Starts it on the Widgets of a namespace, whose kind must be there.
    pub(crate) fn start(world: &World, config: &watcher::Config) -> Self {
        let reporter = Reporter {
            controller: FINALIZER.into(),
            instance: None,
        };
        let context = Arc::new(Context {
            world: world.clone(),
            recorder: Recorder::new(world.client.clone(), reporter),
            cleaned_up: Mutex::default(),
        });
        let shutdown = Shutdown::new();
        let again = |_: Arc<Widget>, _: &kube::Error, _: Arc<Context>| {
            Action::requeue(Duration::from_millis(100))
        };
        let run = Controller::new(world.api::<Widget>(), config.clone())
            .owns(world.api::<ConfigMap>(), config.clone())
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

    /// The Widgets whose end it has seen to.
    pub(crate) fn cleaned_up(&self) -> BTreeSet<String> {
        self.context.cleaned_up.lock().unwrap().clone()
    }

    /// Stops it cleanly.
    pub(crate) async fn stop(self) {
        self.shutdown.trigger();
        tokio::time::timeout(Duration::from_mins(1), self.task)
            .await
            .expect("it stops in time")
            .unwrap();
    }
}

async fn reconcile(object: Arc<Widget>, context: Arc<Context>) -> kube::Result<Action> {
    let widgets: Api<Widget> = context.world.api();
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
        .world
        .api::<ConfigMap>()
        .patch(&name, &ours, &Patch::Apply(child))
        .await?;
    let status = json!({
        "apiVersion": Widget::api_version(&()), "kind": Widget::kind(&()),
        "status": {"size": object.spec.size, "observedGeneration": object.metadata.generation},
    });
    let widgets: Api<Widget> = context.world.api();
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

/// Waits until a widget and its child are as its spec says.
pub(crate) async fn in_shape(world: &World, name: &str, size: i32) {
    let (widgets, maps) = (world.api::<Widget>(), world.api::<ConfigMap>());
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

/// Asks for another size.
pub(crate) async fn resize(world: &World, name: &str, size: i32) {
    let patch = Patch::Merge(json!({"spec": {"size": size}}));
    world
        .api::<Widget>()
        .patch(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Makes a Widget.
pub(crate) async fn create(world: &World, name: &str, size: i32) {
    world
        .api()
        .create(&PostParams::default(), &widget(name, size))
        .await
        .unwrap();
}
