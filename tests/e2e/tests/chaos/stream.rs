//! The streams of requests: through the API server, straight to replicas, and for generations that must not be there.
//! They flow at a steady pace whatever becomes of the answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use e2e::door::{Answer, Door};
use e2e::signposts::Hook;
use e2e::subjects::{SUBJECTS, Subject};
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use polity_core::causes::in_one_line;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::judge::Asked;
use crate::ledger::{Begun, Ledger};
use crate::view::View;

/// Twenty, a hundred and ten each second: far below what is shed by replicas that share two busy cores.
const TO_API_SERVER_EVERY: Duration = Duration::from_millis(50);
const TO_REPLICAS_EVERY: Duration = Duration::from_millis(10);
const TO_GHOSTS_EVERY: Duration = Duration::from_millis(100);
/// Requests that are under way at once. More than ever are, unless somebody hangs.
const MOST_UNDER_WAY: usize = 256;
/// Longer than any webhook may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long replicas have to hear that a generation was disabled.
const HEARD_WITHIN: Duration = Duration::from_secs(5);

/// All of them.
pub(crate) struct Streams {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

/// What a stream needs.
#[derive(Clone)]
struct Source {
    client: Client,
    ledger: Arc<Ledger>,
    view: watch::Receiver<View>,
    under_way: Arc<Semaphore>,
    stopped: watch::Receiver<bool>,
}

impl Streams {
    /// Starts them on the current runtime.
    pub(crate) fn start(
        client: &Client,
        ledger: &Arc<Ledger>,
        view: &watch::Receiver<View>,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let source = || Source {
            client: client.clone(),
            ledger: ledger.clone(),
            view: view.clone(),
            under_way: Arc::new(Semaphore::new(MOST_UNDER_WAY)),
            stopped: stopped.clone(),
        };
        let tasks = vec![
            tokio::spawn(source().ask_the_api_server()),
            tokio::spawn(source().ask_replicas()),
            tokio::spawn(source().ask_ghosts()),
        ];
        Self { stop, tasks }
    }

    /// Ends them when everything that was asked has its answer.
    pub(crate) async fn finish(self) {
        self.stop.send(true).unwrap();
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

impl Source {
    async fn ask_the_api_server(self) {
        self.flow(TO_API_SERVER_EVERY, |n| {
            let (subject, is_guilty) = chosen(n);
            let begun = self.ledger.begin(subject.name, Asked::ApiServer, is_guilty);
            let client = self.client.clone();
            Some((begun, async move {
                ask_api_server(&client, subject, is_guilty).await
            }))
        })
        .await;
    }

    async fn ask_replicas(self) {
        let mut way = Way::default();
        self.flow(TO_REPLICAS_EVERY, |n| {
            let (subject, is_guilty) = chosen(n);
            let generation = self.view.borrow().hooks.get(subject.name)?.generation;
            let (pod, address) = self.replica(n / SUBJECTS.len())?;
            let asked = Asked::Replica { pod, generation };
            let door = way.door(&self.view.borrow(), subject.name)?;
            let begun = self.ledger.begin(subject.name, asked, is_guilty);
            Some((begun, async move {
                ask_replica(&door, address, subject, generation, is_guilty).await
            }))
        })
        .await;
    }

    async fn ask_ghosts(self) {
        let mut way = Way::default();
        self.flow(TO_GHOSTS_EVERY, |n| {
            let (policy, generation) = self.ghost(n)?;
            let subject = Subject::of(policy)?;
            let (pod, address) = self.replica(n)?;
            let asked = Asked::Ghost { pod, generation };
            let door = way.door(&self.view.borrow(), policy)?;
            let begun = self.ledger.begin(policy, asked, true);
            Some((begun, async move {
                ask_replica(&door, address, subject, generation, true).await
            }))
        })
        .await;
    }

    /// Asks at a steady pace, and waits for the last answers.
    async fn flow<F>(&self, every: Duration, mut next: impl FnMut(usize) -> Option<(Begun, F)>)
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        let mut pace = tokio::time::interval(every);
        pace.set_missed_tick_behavior(MissedTickBehavior::Skip);
        for n in 0.. {
            pace.tick().await;
            if *self.stopped.borrow() {
                break;
            }
            let Ok(place) = self.under_way.clone().try_acquire_owned() else {
                continue;
            };
            if let Some((begun, ask)) = next(n) {
                let ledger = self.ledger.clone();
                tokio::spawn(async move {
                    let answer = tokio::time::timeout(PATIENCE, ask).await;
                    let silence = || Answer::Lost(format!("no answer in {PATIENCE:?}"));
                    ledger.end(begun, answer.unwrap_or_else(|_| silence()));
                    drop(place);
                });
            }
        }
        let all = u32::try_from(MOST_UNDER_WAY).unwrap();
        drop(self.under_way.acquire_many(all).await.unwrap());
    }

    /// A replica that is ready.
    fn replica(&self, n: usize) -> Option<(String, SocketAddr)> {
        let view = self.view.borrow();
        let n = n.checked_rem(view.replicas.len())?;
        let replica = view.replicas.iter().nth(n);
        replica.map(|(pod, address)| (pod.clone(), *address))
    }

    /// A generation that must not answer: broken, never there, or disabled for so long that everybody has heard.
    fn ghost(&self, n: usize) -> Option<(&'static str, i64)> {
        match n % 3 {
            0 => self.ledger.broken_one(n / 3),
            1 => {
                let subject = chosen(n).0;
                let view = self.view.borrow();
                let serving = view.hooks.get(subject.name)?.generation;
                Some((subject.name, serving + 1_000_000))
            }
            _ => {
                let heard = self.ledger.now() - HEARD_WITHIN;
                let view = self.view.borrow();
                let retired = view.retired.iter().rev();
                let mut retired = retired
                    .filter(|(_, _, since)| *since < heard && self.ledger.could_hear_since(*since));
                retired
                    .next()
                    .map(|(policy, generation, _)| (*policy, *generation))
            }
        }
    }
}

/// Policies take turns, and so do the guilty and the innocent; more of the former, whose answers say who spoke.
fn chosen(n: usize) -> (&'static Subject, bool) {
    (
        &SUBJECTS[n % SUBJECTS.len()],
        !(n / SUBJECTS.len()).is_multiple_of(3),
    )
}

/// The way in to replicas, for those who trust whom the webhook trusts.
#[derive(Default)]
struct Way(Option<(Arc<str>, Door)>);

impl Way {
    fn door(&mut self, view: &View, policy: &str) -> Option<Door> {
        let Hook { authorities, .. } = view.hooks.get(policy)?;
        match &self.0 {
            Some((trusted, door)) if trusted == authorities => Some(door.clone()),
            _ => {
                let door = Door::of("default", authorities);
                self.0 = Some((authorities.clone(), door.clone()));
                Some(door)
            }
        }
    }
}

async fn ask_replica(
    door: &Door,
    address: SocketAddr,
    subject: &Subject,
    generation: i64,
    is_guilty: bool,
) -> Answer {
    let path = format!("validate/{}/{generation}", subject.id());
    let review = subject.review(is_guilty).to_string();
    door.ask(address, &path, review.into()).await
}

async fn ask_api_server(client: &Client, subject: &Subject, is_guilty: bool) -> Answer {
    let body = subject.object(is_guilty).to_string().into_bytes();
    let request = http::Request::post(subject.path())
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(body))
        .unwrap();
    let response = match client.send(request).await {
        Ok(response) => response,
        Err(error) => return Answer::Lost(in_one_line(&error)),
    };
    let code = response.status().as_u16();
    let body = match response.into_body().collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return Answer::Lost(in_one_line(&error)),
    };
    let text = String::from_utf8_lossy(&body).into_owned();
    match code {
        201 => Answer::Allowed,
        // The API server's own refusals read otherwise.
        400..=499 if text.contains("denied the request: ") => Answer::Denied(text),
        _ => Answer::Refused { code, text },
    }
}
