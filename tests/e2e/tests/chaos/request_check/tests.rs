//! Tests of the request check. Times are in seconds. Generation 1 serves from 10, generation 2 from 20, generation 3
//! from 21. Drains take two seconds.

use e2e::test_policies::denial_message;

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
    let outage = |target, termination: (f64, f64), back| Outage {
        target,
        termination: span(termination.0, termination.1),
        downtime: span(termination.0, back),
    };
    History {
        drain: Duration::from_secs(2),
        switches: [(
            POLICY,
            [(1, 10.0), (2, 20.0), (3, 21.0)].map(switch).to_vec(),
        )]
        .into(),
        outages: vec![
            outage(FaultTarget::Replica("a-0".into()), (30.0, 30.1), 35.0),
            outage(FaultTarget::ApiServer, (40.0, 40.1), 42.0),
            outage(FaultTarget::EveryReplica, (50.0, 50.1), 55.0),
        ],
    }
}

fn replica(generation: i64) -> Destination {
    Destination::Replica {
        pod: "a-0".into(),
        generation,
    }
}

fn absent_generation() -> Destination {
    Destination::AbsentGeneration {
        pod: "a-0".into(),
        generation: 9,
    }
}

fn denied_by(generation: i64) -> AdmissionOutcome {
    AdmissionOutcome::Denied(format!(
        "admission webhook denied the request: {}",
        denial_message(POLICY, generation)
    ))
}

fn refused(code: u16, text: &str) -> AdmissionOutcome {
    AdmissionOutcome::HttpError {
        code,
        text: text.into(),
    }
}

fn lost() -> AdmissionOutcome {
    AdmissionOutcome::NoResponse("connection refused".into())
}

#[track_caller]
fn check(
    destination: Destination,
    from_until: (f64, f64),
    outcome: AdmissionOutcome,
    expected: CheckResult,
) {
    let request = Request {
        policy: POLICY,
        destination,
        violates: !matches!(outcome, AdmissionOutcome::Allowed),
        span: span(from_until.0, from_until.1),
        outcome,
    };
    assert_eq!(history().check(&request), expected, "{request:?}");
}

#[test]
fn a_generation_answers_while_it_serves_and_drains() {
    let wrong = CheckResult::Violation(Violation::Generation);
    let cases = [
        ("serves", 1, (11.0, 11.1), CheckResult::Correct),
        ("drains", 1, (21.5, 21.6), CheckResult::Correct),
        (
            "the drain was started again",
            1,
            (22.9, 23.0),
            CheckResult::Correct,
        ),
        (
            "sent in the drain, answered after it",
            1,
            (22.9, 30.0),
            CheckResult::Correct,
        ),
        ("after the drain", 1, (23.1, 23.2), wrong),
        ("before its time", 2, (19.0, 19.9), wrong),
        (
            "sent before its time, answered in it",
            2,
            (19.0, 20.1),
            CheckResult::Correct,
        ),
        ("never served", 7, (25.0, 25.1), wrong),
        ("serves on", 3, (99.0, 99.1), CheckResult::Correct),
    ];
    for (case, generation, (from, until), expected) in cases {
        let found = history().check(&Request {
            policy: POLICY,
            destination: Destination::ApiServer,
            violates: true,
            span: span(from, until),
            outcome: denied_by(generation),
        });
        assert_eq!(found, expected, "{case}");
    }
}

#[test]
fn a_replica_answers_for_the_generation_that_it_was_asked_for() {
    let late = CheckResult::Excused(Excuse::GenerationDrained);
    check(replica(1), (11.0, 11.1), denied_by(1), CheckResult::Correct);
    check(
        replica(1),
        (11.0, 11.1),
        denied_by(2),
        CheckResult::Violation(Violation::Generation),
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
    let missing = CheckResult::Violation(Violation::NotFound);
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
fn a_generation_that_must_be_absent_gets_404() {
    check(
        absent_generation(),
        (11.0, 11.1),
        refused(404, "unknown policy"),
        CheckResult::Correct,
    );
    let wrong = CheckResult::Violation(Violation::Generation);
    check(absent_generation(), (11.0, 11.1), denied_by(9), wrong);
    check(
        absent_generation(),
        (11.0, 11.1),
        AdmissionOutcome::Allowed,
        wrong,
    );
    check(
        absent_generation(),
        (11.0, 11.1),
        refused(500, "x"),
        CheckResult::Violation(Violation::HttpError),
    );
    check(
        absent_generation(),
        (31.0, 31.1),
        lost(),
        CheckResult::Excused(Excuse::ReplicaDown),
    );
}

#[test]
fn only_violating_objects_are_denied() {
    let check = |violates, outcome| {
        history().check(&Request {
            policy: POLICY,
            destination: Destination::ApiServer,
            violates,
            span: span(11.0, 11.1),
            outcome,
        })
    };
    assert_eq!(
        check(false, AdmissionOutcome::Allowed),
        CheckResult::Correct
    );
    let wrong = CheckResult::Violation(Violation::Verdict);
    assert_eq!(check(true, AdmissionOutcome::Allowed), wrong);
    assert_eq!(check(false, denied_by(1)), wrong);
    assert_eq!(
        check(
            true,
            AdmissionOutcome::Denied("container is privileged".into())
        ),
        wrong
    );
    let of_another = AdmissionOutcome::Denied(denial_message("services", 1));
    assert_eq!(
        check(true, of_another),
        wrong,
        "the message of another policy"
    );
}

#[test]
fn an_excuse_needs_a_fault_of_the_destination_at_that_time() {
    let excused = CheckResult::Excused;
    let wrong = CheckResult::Violation;
    check(
        replica(3),
        (29.9, 30.05),
        lost(),
        excused(Excuse::ReplicaKilled),
    );
    check(
        replica(3),
        (31.0, 31.1),
        lost(),
        excused(Excuse::ReplicaDown),
    );
    check(
        replica(3),
        (35.1, 35.2),
        lost(),
        wrong(Violation::NoResponse),
    );
    let other = Destination::Replica {
        pod: "a-1".into(),
        generation: 3,
    };
    check(other, (30.0, 30.1), lost(), wrong(Violation::NoResponse));
    check(
        replica(3),
        (30.0, 30.1),
        refused(503, "busy"),
        wrong(Violation::HttpError),
    );

    check(
        Destination::ApiServer,
        (39.9, 40.0),
        lost(),
        excused(Excuse::ApiServerDown),
    );
    check(
        Destination::ApiServer,
        (41.0, 41.1),
        lost(),
        excused(Excuse::ApiServerDown),
    );
    check(
        Destination::ApiServer,
        (42.1, 42.2),
        lost(),
        wrong(Violation::NoResponse),
    );
    check(
        Destination::ApiServer,
        (41.0, 41.1),
        refused(503, "starting"),
        wrong(Violation::HttpError),
    );
}

#[test]
fn a_failed_webhook_call_is_excused_only_if_a_replica_was_killed_during_it() {
    let cut_off = || refused(500, "failed calling webhook \"x\": Post \"y\": EOF");
    let check = |time, outcome, expected| check(Destination::ApiServer, time, outcome, expected);
    check(
        (29.9, 30.05),
        cut_off(),
        CheckResult::Excused(Excuse::ReplicaKilled),
    );
    check(
        (30.2, 30.3),
        cut_off(),
        CheckResult::Violation(Violation::HttpError),
    );
    let dial = || {
        refused(
            500,
            "failed calling webhook \"x\": dial tcp: connect: connection refused",
        )
    };
    // An API server that cannot connect tries another replica, so this is no excuse.
    check(
        (29.9, 30.05),
        dial(),
        CheckResult::Violation(Violation::HttpError),
    );
    check(
        (52.0, 52.1),
        dial(),
        CheckResult::Excused(Excuse::NoReplicaAlive),
    );
    let missing = "failed calling webhook \"x\": the server could not find the requested resource";
    check(
        (29.9, 30.05),
        refused(500, missing),
        CheckResult::Violation(Violation::NotFound),
    );
}
