//! A constant stream of requests, straight to replicas, while one policy after the other is changed: how many were lost
//! or judged wrongly. It flows at its pace whatever becomes of the answers.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use e2e::door::{Answer, Door};
use e2e::signposts::{Hook, replica};
use e2e::subjects::{SUBJECTS, Subject, generation_in};
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::ListParams;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use peers::Tool;
use polity_runtime::Clock;
use tokio::sync::{Semaphore, watch};
use tokio::time::MissedTickBehavior;

use crate::hub::{Hub, NAMESPACE, SET};
use crate::{SETTLED_AFTER, shown};

const N_REPLICAS: usize = 3;
/// Requests that are under way at once. More than ever are, unless nobody keeps up; then fewer are sent.
const MOST_UNDER_WAY: u32 = 4096;
/// Before the first change.
const UNDISTURBED: Duration = Duration::from_secs(3);

/// Where the webhooks of the subjects point.
type Hooks = BTreeMap<&'static str, Hook>;

/// What became of a stream.
pub(crate) struct Stream {
    /// Requests each second that were meant to be sent.
    pub(crate) pace: u32,
    took: Duration,
    tally: Tally,
}

/// Answers by what they were.
#[derive(Debug, Default)]
struct Tally {
    took: Vec<Duration>,
    n_not_found: usize,
    n_errors: usize,
    n_other: usize,
    n_lost: usize,
    /// Refusals of what every generation allows.
    n_refused: usize,
    /// Allowances of what every generation refuses.
    n_allowed: usize,
    /// Refusals by another generation than the one that was asked.
    n_by_others: usize,
    /// The first that was wrong.
    example: Option<String>,
}

/// What a stream needs.
struct Source {
    clock: Clock,
    door: Door,
    replicas: Vec<SocketAddr>,
    hooks: watch::Receiver<Hooks>,
    tally: Arc<Mutex<Tally>>,
}

/// One request.
struct Question {
    subject: &'static Subject,
    is_guilty: bool,
    generation: i64,
    replica: SocketAddr,
}

pub(crate) async fn measure(hub: &Hub, (pace, n_changes): (u32, usize)) -> Stream {
    hub.scale(N_REPLICAS).await;
    for subject in &SUBJECTS {
        hub.create_with(subject.name, subject.spec(&module(subject), 1))
            .await;
    }
    let (seen, hooks) = watch::channel(Hooks::new());
    tokio::spawn(follow(hub.client.clone(), seen));
    let source = Source::open(hub, hooks).await;
    let tally = source.tally.clone();
    let (stop, stopped) = watch::channel(false);
    let began = hub.clock.moment();
    let stream = tokio::spawn(source.flow(pace, stopped));
    hub.clock.sleep(UNDISTURBED).await;
    let mut changes = Vec::new();
    for n in 0..n_changes {
        let subject = &SUBJECTS[n % SUBJECTS.len()];
        let generation = 2 + (n / SUBJECTS.len()) as i64;
        let spec = subject.spec(&module(subject), generation);
        changes.push(hub.change_to(subject.name, spec).await);
    }
    // What was replaced is let go under the stream, too.
    hub.clock.sleep(SETTLED_AFTER).await;
    stop.send_replace(true);
    let took = hub.clock.moment().since(began);
    stream.await.expect("the stream flows to its end");
    let tally = std::mem::take(&mut *tally.lock().unwrap_or_else(PoisonError::into_inner));
    let stream = Stream { pace, took, tally };
    stream.print(&mut changes);
    hub.delete_all().await;
    stream
}

fn module(subject: &Subject) -> String {
    let folder = Tool::Policies.find();
    let folder = folder.unwrap_or_else(|missing| panic!("run: {}", missing.mend));
    let path = folder.join(subject.module).with_extension("wasm");
    format!("file://{}", path.display())
}

/// Follows the webhooks of the subjects.
async fn follow(client: Client, hooks: watch::Sender<Hooks>) {
    let api: Api<ValidatingWebhookConfiguration> = Api::all(client);
    let changes = watcher(api, watcher::Config::default()).default_backoff();
    let mut changes = changes.applied_objects().boxed();
    while let Ok(Some(object)) = changes.try_next().await {
        let name = object.name_any();
        let subject = name.strip_prefix("clusterwide-").and_then(Subject::of);
        if let Some((subject, hook)) = subject.zip(Hook::read(&object)) {
            hooks.send_modify(|hooks| drop(hooks.insert(subject.name, hook)));
        }
    }
}

impl Source {
    /// Waits until all webhooks are there.
    async fn open(hub: &Hub, mut hooks: watch::Receiver<Hooks>) -> Self {
        let all = hooks.wait_for(|hooks| hooks.len() == SUBJECTS.len()).await;
        let authorities = all.expect("webhooks are watched")[SUBJECTS[0].name]
            .authorities
            .clone();
        let slices: Api<EndpointSlice> = Api::namespaced(hub.client.clone(), NAMESPACE);
        let of_set = ListParams::default().labels(&format!("kubernetes.io/service-name={SET}"));
        let slices = slices.list(&of_set).await.expect("a list");
        let replicas = slices.iter().filter_map(replica);
        let replicas: Vec<SocketAddr> = replicas.map(|(_, address)| address).collect();
        assert_eq!(replicas.len(), N_REPLICAS, "all take requests");
        Self {
            clock: hub.clock.clone(),
            door: Door::of("default", &authorities),
            replicas,
            hooks,
            tally: Arc::default(),
        }
    }

    /// Asks at a steady pace, and waits for the last answers.
    async fn flow(self, pace: u32, stopped: watch::Receiver<bool>) {
        let under_way = Arc::new(Semaphore::new(MOST_UNDER_WAY as usize));
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / pace);
        // What was missed while others had the processor is sent at once: the pace holds on the whole.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for n in 0.. {
            ticks.tick().await;
            if *stopped.borrow() {
                break;
            }
            let place = under_way.clone().acquire_owned().await;
            let (question, door) = (self.question(n), self.door.clone());
            let (clock, tally) = (self.clock.clone(), self.tally.clone());
            tokio::spawn(async move {
                let began = clock.moment();
                let answer = question.ask(&door).await;
                let took = clock.moment().since(began);
                let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                tally.note(&question, &answer, took);
                drop(place);
            });
        }
        drop(under_way.acquire_many(MOST_UNDER_WAY).await);
    }

    /// Subjects, the guilty and the innocent, and replicas take turns. The webhook says which generation is asked.
    fn question(&self, n: usize) -> Question {
        let subject = &SUBJECTS[n % SUBJECTS.len()];
        let n = n / SUBJECTS.len();
        Question {
            subject,
            is_guilty: n.is_multiple_of(2),
            generation: self.hooks.borrow()[subject.name].generation,
            replica: self.replicas[n / 2 % self.replicas.len()],
        }
    }
}

impl Question {
    async fn ask(&self, door: &Door) -> Answer {
        let path = format!("validate/{}/{}", self.subject.id(), self.generation);
        let review = self.subject.review(self.is_guilty).to_string();
        door.ask(self.replica, &path, review.into()).await
    }
}

impl Tally {
    fn note(&mut self, question: &Question, answer: &Answer, took: Duration) {
        self.took.push(took);
        let Question {
            subject, is_guilty, ..
        } = question;
        let wrong = match answer {
            Answer::Allowed if *is_guilty => &mut self.n_allowed,
            Answer::Denied(_) if !is_guilty => &mut self.n_refused,
            Answer::Denied(words)
                if generation_in(subject.name, words) != Some(question.generation) =>
            {
                &mut self.n_by_others
            }
            Answer::Allowed | Answer::Denied(_) => return,
            Answer::Refused { code: 404, .. } => &mut self.n_not_found,
            Answer::Refused { code: 500.., .. } => &mut self.n_errors,
            Answer::Refused { .. } => &mut self.n_other,
            Answer::Lost(_) => &mut self.n_lost,
        };
        *wrong += 1;
        self.example
            .get_or_insert_with(|| format!("{}: {answer:?}", subject.name));
    }

    /// What is wrong, each with its name.
    fn wrong(&self) -> [(&'static str, usize); 7] {
        [
            ("404", self.n_not_found),
            ("5xx", self.n_errors),
            ("other answers", self.n_other),
            ("no answer", self.n_lost),
            ("what both allow refused", self.n_refused),
            ("what both refuse allowed", self.n_allowed),
            ("answered by another generation", self.n_by_others),
        ]
    }
}

impl Stream {
    /// Requests each second that were sent.
    pub(crate) fn rate(&self) -> f64 {
        self.n_answered() as f64 / self.took.as_secs_f64()
    }

    /// All that were sent: each has come to some end.
    pub(crate) fn n_answered(&self) -> usize {
        self.tally.took.len()
    }

    pub(crate) fn n_wrong(&self) -> usize {
        self.tally.wrong().iter().map(|(_, n)| n).sum()
    }

    fn print(&self, changes: &mut [Duration]) {
        let mut took = self.tally.took.clone();
        took.sort();
        changes.sort();
        let at = |all: &[Duration], part: usize| {
            let found = all.get((all.len() * part / 1000).min(all.len().saturating_sub(1)));
            shown_finely(found.copied().unwrap_or_default())
        };
        println!("### Requests while policies change\n\n| | |\n|---|---|");
        println!(
            "| sent straight to {N_REPLICAS} replicas | {} in {:.1} s, {:.0} each second |",
            self.n_answered(),
            self.took.as_secs_f64(),
            self.rate()
        );
        println!(
            "| changes meanwhile | {}, each active after {} (p50) |",
            changes.len(),
            shown(changes.get(changes.len() / 2).copied().unwrap_or_default())
        );
        println!(
            "| answered after | {} (p50), {} (p99), {} (max) |",
            at(&took, 500),
            at(&took, 990),
            at(&took, 1000)
        );
        for (what, n) in self.tally.wrong() {
            println!("| {what} | {n} |");
        }
        println!();
        if let Some(example) = &self.tally.example {
            eprintln!("  the first that was wrong: {example}");
        }
    }
}

fn shown_finely(took: Duration) -> String {
    format!("{:.1} ms", took.as_secs_f64() * 1000.0)
}
