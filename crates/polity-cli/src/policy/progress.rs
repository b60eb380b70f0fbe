//! Progress on stderr for what takes long: nothing for two seconds, then a bar or a line.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use polity_fetch::Progress;
use polity_host::LoadProgress;

/// What is over sooner needs no bar.
const SHOWN_AFTER: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(120);

/// Progress with one module.
pub(super) struct Bar {
    bar: ProgressBar,
    doing: Mutex<String>,
    name: String,
}

impl Bar {
    fn new(name: &str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        bar.set_style(spinner());
        let bar = Self {
            bar,
            doing: Mutex::default(),
            name: name.to_owned(),
        };
        bar.does("fetching");
        bar
    }

    fn does(&self, what: &str) {
        let text = format!("{what} {}", self.name);
        self.bar.set_message(text.clone());
        *self.doing.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }

    fn show(&self) {
        let target = ProgressDrawTarget::stderr();
        if target.is_hidden() {
            let doing = self.doing.lock().unwrap_or_else(PoisonError::into_inner);
            eprintln!("{doing} …");
            return;
        }
        self.bar.set_draw_target(target);
        self.bar.enable_steady_tick(TICK);
    }
}

impl Progress for Bar {
    fn starts(&self, bytes: Option<u64>) {
        self.does("downloading");
        if let Some(bytes) = bytes {
            self.bar.set_style(transfer());
            self.bar.set_length(bytes);
        }
    }

    fn advances(&self, bytes: u64) {
        self.bar.set_position(bytes);
    }
}

impl LoadProgress for Bar {
    fn compiles(&self) {
        self.bar.set_style(spinner());
        self.does("compiling");
    }
}

/// Does something about a module, with progress once it takes long.
pub(super) async fn with<T, F: Future<Output = T>>(
    name: &str,
    work: impl FnOnce(Arc<Bar>) -> F,
) -> T {
    let bar = Arc::new(Bar::new(name));
    let mut work = std::pin::pin!(work(bar.clone()));
    let done = tokio::select! {
        done = &mut work => done,
        () = tokio::time::sleep(SHOWN_AFTER) => {
            bar.show();
            work.await
        }
    };
    bar.bar.finish_and_clear();
    done
}

fn spinner() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {msg} ({elapsed})")
        .expect("the template is well-formed")
}

fn transfer() -> ProgressStyle {
    ProgressStyle::with_template("{msg} {bar:30} {bytes}/{total_bytes} ({bytes_per_sec})")
        .expect("the template is well-formed")
}
