//! The judge, case by case. Times are seconds; generation 1 serves from 10, 2 from 20, 3 from 21, drains take two.

use e2e::subjects::words_of;

use super::*;

const POLICY: &str = "pods";

fn at(second: f64) -> Timestamp {
    Timestamp::from_millisecond((second * 1000.0) as i64).unwrap()
}

fn span(from: f64, until: f64) -> Span {
    Span {
        from: at(from),
        until: at(until),
    }
}

fn history() -> History {
    let switch = |(generation, second)| Switch {
        generation,
        at: at(second),
    };
    let outage = |victim, death: (f64, f64), back| Outage {
        victim,
        death: span(death.0, death.1),
        absence: span(death.0, back),
    };
    History {
        drain: Duration::from_secs(2),
        switches: [(
            POLICY,
            [(1, 10.0), (2, 20.0), (3, 21.0)].map(switch).to_vec(),
        )]
        .into(),
        outages: vec![
            outage(Victim::Replica("a-0".into()), (30.0, 30.1), 35.0),
            outage(Victim::ApiServer, (40.0, 40.1), 42.0),
            outage(Victim::EveryReplica, (50.0, 50.1), 55.0),
        ],
    }
}

fn replica(generation: i64) -> Asked {
    Asked::Replica {
        pod: "a-0".into(),
        generation,
    }
}

fn ghost() -> Asked {
    Asked::Ghost {
        pod: "a-0".into(),
        generation: 9,
    }
}

fn denied_by(generation: i64) -> Answer {
    Answer::Denied(format!(
        "admission webhook denied the request: {}",
        words_of(POLICY, generation)
    ))
}

fn refused(code: u16, text: &str) -> Answer {
    Answer::Refused {
        code,
        text: text.into(),
    }
}

fn lost() -> Answer {
    Answer::Lost("connection refused".into())
}

#[track_caller]
fn check(asked: Asked, from_until: (f64, f64), answer: Answer, expected: Finding) {
    let request = Request {
        policy: POLICY,
        asked,
        is_guilty: !matches!(answer, Answer::Allowed),
        span: span(from_until.0, from_until.1),
        answer,
    };
    assert_eq!(history().judge(&request), expected, "{request:?}");
}

#[test]
fn a_generation_answers_while_it_serves_and_drains() {
    let wrong = Finding::Wrong(Wrong::Generation);
    let cases = [
        ("serves", 1, (11.0, 11.1), Finding::Fine),
        ("drains", 1, (21.5, 21.6), Finding::Fine),
        ("the drain was begun again", 1, (22.9, 23.0), Finding::Fine),
        (
            "asked in the drain, answered after it",
            1,
            (22.9, 30.0),
            Finding::Fine,
        ),
        ("after the drain", 1, (23.1, 23.2), wrong),
        ("before its time", 2, (19.0, 19.9), wrong),
        (
            "asked before its time, answered in it",
            2,
            (19.0, 20.1),
            Finding::Fine,
        ),
        ("never served", 7, (25.0, 25.1), wrong),
        ("serves on", 3, (99.0, 99.1), Finding::Fine),
    ];
    for (case, generation, (from, until), expected) in cases {
        let found = history().judge(&Request {
            policy: POLICY,
            asked: Asked::ApiServer,
            is_guilty: true,
            span: span(from, until),
            answer: denied_by(generation),
        });
        assert_eq!(found, expected, "{case}");
    }
}

#[test]
fn a_replica_answers_for_the_generation_that_it_was_asked_for() {
    let late = Finding::Excused(Excuse::AskedTooLate);
    check(replica(1), (11.0, 11.1), denied_by(1), Finding::Fine);
    check(
        replica(1),
        (11.0, 11.1),
        denied_by(2),
        Finding::Wrong(Wrong::Generation),
    );
    check(replica(1), (23.1, 23.2), denied_by(1), late);
    check(
        replica(1),
        (23.1, 23.2),
        refused(404, "unknown policy"),
        late,
    );
    check(
        replica(1),
        (22.9, 23.1),
        refused(404, "unknown policy"),
        late,
    );
    let missing = Finding::Wrong(Wrong::NotFound);
    check(
        replica(1),
        (22.8, 22.9),
        refused(404, "unknown policy"),
        missing,
    );
    check(
        replica(3),
        (99.0, 99.1),
        refused(404, "unknown policy"),
        missing,
    );
}

#[test]
fn ghosts_are_not_there() {
    check(
        ghost(),
        (11.0, 11.1),
        refused(404, "unknown policy"),
        Finding::Fine,
    );
    let wrong = Finding::Wrong(Wrong::Generation);
    check(ghost(), (11.0, 11.1), denied_by(9), wrong);
    check(ghost(), (11.0, 11.1), Answer::Allowed, wrong);
    check(
        ghost(),
        (11.0, 11.1),
        refused(500, "x"),
        Finding::Wrong(Wrong::Refused),
    );
    check(
        ghost(),
        (31.0, 31.1),
        lost(),
        Finding::Excused(Excuse::DeadReplica),
    );
}

#[test]
fn the_guilty_are_refused_and_the_innocent_pass() {
    let judge = |is_guilty, answer| {
        history().judge(&Request {
            policy: POLICY,
            asked: Asked::ApiServer,
            is_guilty,
            span: span(11.0, 11.1),
            answer,
        })
    };
    assert_eq!(judge(false, Answer::Allowed), Finding::Fine);
    let wrong = Finding::Wrong(Wrong::Verdict);
    assert_eq!(judge(true, Answer::Allowed), wrong);
    assert_eq!(judge(false, denied_by(1)), wrong);
    assert_eq!(
        judge(true, Answer::Denied("container is privileged".into())),
        wrong
    );
    let of_another = Answer::Denied(words_of("services", 1));
    assert_eq!(judge(true, of_another), wrong, "another policy's words");
}

#[test]
fn an_excuse_is_a_trouble_at_that_time_that_names_who_was_asked() {
    let excused = Finding::Excused;
    let wrong = Finding::Wrong;
    check(
        replica(3),
        (29.9, 30.05),
        lost(),
        excused(Excuse::OnKilledReplica),
    );
    check(
        replica(3),
        (31.0, 31.1),
        lost(),
        excused(Excuse::DeadReplica),
    );
    check(replica(3), (35.1, 35.2), lost(), wrong(Wrong::Lost));
    let other = Asked::Replica {
        pod: "a-1".into(),
        generation: 3,
    };
    check(other, (30.0, 30.1), lost(), wrong(Wrong::Lost));
    check(
        replica(3),
        (30.0, 30.1),
        refused(503, "busy"),
        wrong(Wrong::Refused),
    );

    check(
        Asked::ApiServer,
        (39.9, 40.0),
        lost(),
        excused(Excuse::ApiServerDown),
    );
    check(
        Asked::ApiServer,
        (41.0, 41.1),
        lost(),
        excused(Excuse::ApiServerDown),
    );
    check(Asked::ApiServer, (42.1, 42.2), lost(), wrong(Wrong::Lost));
    check(
        Asked::ApiServer,
        (41.0, 41.1),
        refused(503, "starting"),
        wrong(Wrong::Refused),
    );
}

#[test]
fn a_call_that_failed_is_excused_only_if_a_replica_died_under_it() {
    let cut_off = || refused(500, "failed calling webhook \"x\": Post \"y\": EOF");
    let check = |time, answer, expected| check(Asked::ApiServer, time, answer, expected);
    check(
        (29.9, 30.05),
        cut_off(),
        Finding::Excused(Excuse::OnKilledReplica),
    );
    check((30.2, 30.3), cut_off(), Finding::Wrong(Wrong::Refused));
    let dial = || {
        refused(
            500,
            "failed calling webhook \"x\": dial tcp: connect: connection refused",
        )
    };
    // Whoever does not answer the telephone can be passed over.
    check((29.9, 30.05), dial(), Finding::Wrong(Wrong::Refused));
    check((52.0, 52.1), dial(), Finding::Excused(Excuse::NobodyAlive));
    let missing = "failed calling webhook \"x\": the server could not find the requested resource";
    check(
        (29.9, 30.05),
        refused(500, missing),
        Finding::Wrong(Wrong::NotFound),
    );
}
