//! `status --watch` and `wait`.

use std::io;
use std::time::Duration;

use kube::api::DeleteParams;
use polity_runtime::Clock;
use serde_json::{Value, json};

use super::super::goal::Goal;
use super::super::kind::PolicyKind;
use super::super::screen::Screen;
use super::super::status::follow;
use super::super::wait::{Waited, wait};
use super::{LONG, Setup, active, failed, owner_of_policies};
use crate::exit::Exit;
use crate::output::{Format, Paint};

/// Takes what is written, until it breaks.
#[derive(Default)]
struct Pipe {
    texts: tokio::sync::watch::Sender<Vec<String>>,
    breaks_at: Option<usize>,
}

impl io::Write for &Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.breaks_at == Some(self.texts.borrow().len()) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        self.texts.send_modify(|texts| texts.push(text));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_shows_each_change_until_the_policy_is_gone() {
    let setup = Setup::start().await;
    setup
        .create(PolicyKind::AdmissionPolicy, "shop", "team-label")
        .await;
    let rules = json!([owner_of_policies()]);
    let owner = setup.account("ann", rules).await;
    let found = setup
        .find_as(owner, &["team-label", "-n", "shop"])
        .await
        .unwrap();
    let pipe = Pipe::default();
    let mut texts = pipe.texts.subscribe();
    let clock = Clock::system();
    let mut screen = Screen::new(&pipe, Format::Json, Paint::plain(), false);
    let story = async {
        texts.wait_for(|texts| texts.len() == 1).await.unwrap();
        setup.status("team-label", active(1)).await;
        texts.wait_for(|texts| texts.len() == 2).await.unwrap();
        let api = setup.api(PolicyKind::AdmissionPolicy, "shop");
        api.delete("team-label", &DeleteParams::default())
            .await
            .unwrap();
    };
    let (ended, ()) = tokio::join!(follow(&found, &mut screen, &clock), story);
    assert_eq!(ended.unwrap(), Exit::Fine);
    let phases: Vec<Value> = texts
        .borrow()
        .iter()
        .map(|text| serde_json::from_str::<Value>(text).unwrap()["phase"].clone())
        .collect();
    assert_eq!(phases, [Value::Null, json!("Active")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_when_nobody_reads_on() {
    let setup = Setup::start().await;
    setup
        .create(PolicyKind::AdmissionPolicy, "shop", "team-label")
        .await;
    let found = setup.find(&["team-label", "-n", "shop"]).await;
    let pipe = Pipe {
        breaks_at: Some(1),
        ..Pipe::default()
    };
    let mut texts = pipe.texts.subscribe();
    let clock = Clock::system();
    let mut screen = Screen::new(&pipe, Format::Table, Paint::plain(), false);
    let story = async {
        texts.wait_for(|texts| texts.len() == 1).await.unwrap();
        setup.status("team-label", active(1)).await;
    };
    let (ended, ()) = tokio::join!(follow(&found, &mut screen, &clock), story);
    let error = ended.unwrap_err();
    let error = error.downcast_ref::<io::Error>().unwrap();
    assert_eq!(
        error.kind(),
        io::ErrorKind::BrokenPipe,
        "and main ends quietly"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_is_not_allowed_is_an_error() {
    let setup = Setup::start().await;
    setup
        .create(PolicyKind::AdmissionPolicy, "shop", "team-label")
        .await;
    let mut rule = owner_of_policies();
    rule["verbs"] = json!(["get"]);
    let reader = setup.account("bob", json!([rule])).await;
    let found = setup
        .find_as(reader, &["team-label", "-n", "shop"])
        .await
        .unwrap();
    let error = wait(&found, Goal::Active, LONG, &Clock::system())
        .await
        .unwrap_err();
    assert!(format!("{error:#}").contains("forbidden"), "{error:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_returns_on_the_change() {
    let setup = Setup::start().await;
    setup
        .create(PolicyKind::AdmissionPolicy, "shop", "team-label")
        .await;
    let clock = Clock::system();
    let words = ["team-label", "-n", "shop"];

    let found = setup.find(&words).await;
    let late = wait(&found, Goal::Active, Duration::ZERO, &clock)
        .await
        .unwrap();
    let why = "not active after 0s. No controller has seen the policy yet.";
    assert_eq!(late, Waited::Missed(why.to_owned()));

    let (waited, ()) = tokio::join!(
        wait(&found, Goal::Active, LONG, &clock),
        setup.status("team-label", active(1))
    );
    assert_eq!(
        waited.unwrap(),
        Waited::Reached("generation 1 is enforced".to_owned())
    );

    // A new generation: the old success is no answer, the failure is.
    setup
        .patch(
            "team-label",
            json!({"spec": {"module": "registry://r.example/team-label:v2"}}),
        )
        .await;
    let found = setup.find(&words).await;
    let (waited, ()) = tokio::join!(
        wait(&found, Goal::Active, LONG, &clock),
        setup.status("team-label", failed(2, 1))
    );
    let why = "Generation 2 cannot be served (PullError: no such tag); generation 1 is enforced."
        .to_owned();
    assert_eq!(waited.unwrap(), Waited::Missed(why.clone()));
    let waited = wait(&setup.find(&words).await, Goal::Failed, LONG, &clock).await;
    assert_eq!(waited.unwrap(), Waited::Reached(why));

    // It recovers by itself.
    let found = setup.find(&words).await;
    let goal = Goal::Generation(3);
    let story = async {
        setup
            .patch(
                "team-label",
                json!({"spec": {"module": "registry://r.example/team-label:v3"}}),
            )
            .await;
        setup.status("team-label", active(3)).await;
    };
    let (waited, ()) = tokio::join!(wait(&found, goal, LONG, &clock), story);
    assert_eq!(
        waited.unwrap(),
        Waited::Reached("generation 3 is enforced".to_owned())
    );

    let api = setup.api(PolicyKind::AdmissionPolicy, "shop");
    let found = setup.find(&words).await;
    let story = async {
        api.delete("team-label", &DeleteParams::default())
            .await
            .unwrap()
    };
    let (waited, _) = tokio::join!(wait(&found, Goal::Failed, LONG, &clock), story);
    assert_eq!(
        waited.unwrap(),
        Waited::Missed("the policy was deleted".to_owned())
    );
}
