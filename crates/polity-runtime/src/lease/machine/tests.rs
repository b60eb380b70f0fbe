//! One candidate, step by step.

use std::time::Duration;

use super::*;

/// The start of the wall clock, for people to read.
fn wall(seconds: u64) -> Timestamp {
    let start: Timestamp = "2026-11-15T12:00:00Z".parse().unwrap();
    start + Duration::from_secs(seconds)
}

fn at(seconds: u64) -> Moment {
    Moment::START + Duration::from_secs(seconds)
}

/// A record of `holder`, taken and renewed at these seconds, after some changes of hands.
fn record(holder: &str, acquired: u64, renewed: u64, transitions: u32) -> LeaseRecord {
    LeaseRecord {
        holder: holder.to_owned(),
        lease_duration: Some(Duration::from_secs(15)),
        acquired: Some(wall(acquired)),
        renewed: Some(wall(renewed)),
        transitions,
    }
}

fn version(record: LeaseRecord, resource_version: &str) -> Observed {
    Observed {
        record,
        resource_version: resource_version.to_owned(),
    }
}

fn update(record: LeaseRecord, resource_version: &str) -> Action {
    Action::Update {
        record,
        resource_version: resource_version.to_owned(),
    }
}

fn following(leader: &str) -> Leadership {
    Leadership::Following {
        leader: Some(leader.to_owned()).filter(|leader| !leader.is_empty()),
    }
}

/// A candidate "me" and the current second.
struct Me {
    elector: Elector,
    now: u64,
}

impl Me {
    fn new() -> Self {
        Self {
            elector: Elector::new("me", LeaseTiming::default()).unwrap(),
            now: 0,
        }
    }

    /// A leader since second 0, with version "1".
    fn leading() -> Self {
        let mut me = Self::new();
        me.asks(&Action::Read);
        me.hears(Outcome::Missing);
        me.asks(&Action::Create(record("me", 0, 0, 0)));
        me.hears(Outcome::Written(version(record("me", 0, 0, 0), "1")));
        me.leads(true);
        me
    }

    fn at(&mut self, seconds: u64) -> &mut Self {
        self.now = seconds;
        self
    }

    fn asks(&mut self, expected: &Action) -> &mut Self {
        assert_eq!(
            self.elector.next(at(self.now), wall(self.now)),
            *expected,
            "at {}",
            self.now
        );
        self
    }

    fn hears(&mut self, outcome: Outcome) -> &mut Self {
        self.hears_late(outcome, self.now)
    }

    /// Processes an outcome now that was requested earlier.
    fn hears_late(&mut self, outcome: Outcome, asked_at: u64) -> &mut Self {
        self.elector
            .observe(outcome, at(asked_at), at(self.now), 0.0);
        self
    }

    fn leads(&mut self, expected: bool) -> &mut Self {
        let leadership = self.elector.leadership(at(self.now));
        assert_eq!(
            leadership.leads_at(at(self.now)),
            expected,
            "at {}: {leadership:?}",
            self.now
        );
        self
    }
}

#[test]
fn a_missing_lease_is_created_and_renewed() {
    let mut me = Me::leading();
    me.asks(&Action::Wait(at(2)));
    me.at(2).asks(&update(record("me", 0, 2, 0), "1"));
    me.hears(Outcome::Written(version(record("me", 0, 2, 0), "2")));
    me.at(11).leads(true);
    me.at(12).leads(false);
}

#[test]
fn a_held_lease_is_waited_for_by_our_own_clock() {
    let mut me = Me::new();
    // The clock of the holder is far in the past. Only the time when we saw the change counts.
    let long_ago = LeaseRecord {
        renewed: Some(wall(0) - Duration::from_hours(9)),
        ..record("other", 0, 0, 3)
    };
    me.at(100)
        .asks(&Action::Read)
        .hears(Outcome::Found(version(long_ago.clone(), "1")));
    assert_eq!(me.elector.leadership(at(100)), following("other"));
    me.asks(&Action::Wait(at(102)));
    // A renewal restarts the wait.
    let renewed = LeaseRecord {
        renewed: Some(wall(1)),
        ..long_ago
    };
    me.at(102)
        .asks(&Action::Read)
        .hears(Outcome::Found(version(renewed.clone(), "2")));
    // A version without another record does not.
    me.at(110)
        .asks(&Action::Read)
        .hears(Outcome::Found(version(renewed.clone(), "3")));
    me.at(116)
        .asks(&Action::Read)
        .hears(Outcome::Found(version(renewed.clone(), "3")));
    me.asks(&Action::Wait(at(118)));
    me.at(118)
        .asks(&Action::Read)
        .hears(Outcome::Found(version(renewed, "3")));
    me.asks(&update(record("me", 118, 118, 4), "3"))
        .leads(false);
    me.hears(Outcome::Written(version(record("me", 118, 118, 4), "4")))
        .leads(true);
}

#[test]
fn a_released_lease_is_taken_at_once() {
    let mut me = Me::new();
    me.asks(&Action::Read)
        .hears(Outcome::Found(version(record("", 0, 0, 7), "1")));
    me.asks(&update(record("me", 0, 0, 8), "1"));
}

#[test]
fn our_own_lease_is_kept_after_a_restart() {
    let mut me = Me::new();
    me.at(50)
        .asks(&Action::Read)
        .hears(Outcome::Found(version(record("me", 10, 49, 2), "9")));
    me.leads(false).asks(&update(record("me", 10, 50, 2), "9"));
    me.hears(Outcome::Written(version(record("me", 10, 50, 2), "10")))
        .leads(true);
}

#[test]
fn a_refused_write_is_a_lost_try() {
    let mut me = Me::new();
    me.asks(&Action::Read).hears(Outcome::Missing);
    me.asks(&Action::Create(record("me", 0, 0, 0)))
        .hears(Outcome::Refused);
    me.leads(false).asks(&Action::Wait(at(2)));
    me.at(2)
        .asks(&Action::Read)
        .hears(Outcome::Found(version(record("other", 0, 0, 0), "1")));
    me.asks(&Action::Wait(at(4)));
}

#[test]
fn followers_wait_a_little_longer_at_random() {
    for (jitter, seconds) in [(0.0, 2.0), (0.5, 3.2), (1.0, 4.4), (9.0, 4.4)] {
        let mut elector = Elector::new("me", LeaseTiming::default()).unwrap();
        elector.observe(Outcome::Failed, at(0), at(0), jitter);
        let until = Moment::START + Duration::from_secs_f64(seconds);
        assert_eq!(elector.next(at(0), wall(0)), Action::Wait(until));
    }
}

#[test]
fn a_leader_looks_when_its_write_fails() {
    for failure in [Outcome::Refused, Outcome::Failed] {
        let mut me = Me::leading();
        me.at(2)
            .asks(&update(record("me", 0, 2, 0), "1"))
            .hears(failure);
        // The write may have succeeded although the response was lost: then the version is new.
        me.leads(true)
            .asks(&Action::Read)
            .hears(Outcome::Found(version(record("me", 0, 2, 0), "2")));
        me.asks(&update(record("me", 0, 2, 0), "2"));
        me.hears(Outcome::Written(version(record("me", 0, 2, 0), "3")));
        me.at(11).leads(true);
    }
}

#[test]
fn a_leader_that_cannot_renew_steps_down_at_the_deadline() {
    let mut me = Me::leading();
    for second in [2, 4, 6, 8] {
        me.at(second)
            .asks(&update(record("me", 0, second, 0), "1"))
            .hears(Outcome::Failed);
        me.asks(&Action::Read).hears(Outcome::Failed).leads(true);
    }
    me.at(9).leads(true);
    me.at(10).leads(false).asks(&Action::Read);
    // Connected again: the lease still names us, and no other candidate has taken it.
    me.hears(Outcome::Found(version(record("me", 0, 0, 0), "1")))
        .leads(false);
    me.asks(&update(record("me", 0, 10, 0), "1"));
    me.hears(Outcome::Written(version(record("me", 0, 10, 0), "2")))
        .leads(true);
}

#[test]
fn a_term_counts_from_the_question() {
    let mut me = Me::leading();
    me.at(2).asks(&update(record("me", 0, 2, 0), "1"));
    me.at(9)
        .hears_late(Outcome::Written(version(record("me", 0, 2, 0), "2")), 2);
    // Overdue: the response took longer than the retry period.
    me.asks(&update(record("me", 0, 9, 0), "2"));
    me.at(11).leads(true);
    me.at(12).leads(false);
}

#[test]
fn an_answer_after_the_deadline_makes_no_leader() {
    let mut me = Me::new();
    me.asks(&Action::Read)
        .hears(Outcome::Missing)
        .asks(&Action::Create(record("me", 0, 0, 0)));
    me.at(30)
        .hears_late(Outcome::Written(version(record("me", 0, 0, 0), "1")), 0);
    me.leads(false).asks(&Action::Read);
}

#[test]
fn a_candidate_that_finds_another_holder_follows() {
    let mut me = Me::leading();
    me.at(2)
        .asks(&update(record("me", 0, 2, 0), "1"))
        .hears(Outcome::Refused);
    me.asks(&Action::Read)
        .hears(Outcome::Found(version(record("usurper", 1, 1, 1), "2")));
    me.leads(false).asks(&Action::Wait(at(4)));
    assert_eq!(me.elector.leadership(at(2)), following("usurper"));
}

#[test]
fn a_yes_that_shows_another_holder_is_none() {
    let mut me = Me::new();
    me.asks(&Action::Read)
        .hears(Outcome::Missing)
        .asks(&Action::Create(record("me", 0, 0, 0)));
    me.hears(Outcome::Written(version(record("other", 0, 0, 0), "1")))
        .leads(false);
}

#[test]
fn a_deleted_lease_still_counts_for_candidates_that_saw_it() {
    let mut me = Me::new();
    me.asks(&Action::Read)
        .hears(Outcome::Found(version(record("other", 0, 0, 5), "1")));
    me.at(10)
        .asks(&Action::Read)
        .hears(Outcome::Missing)
        .asks(&Action::Wait(at(12)));
    me.at(15).asks(&Action::Read).hears(Outcome::Missing);
    me.asks(&Action::Create(record("me", 15, 15, 6)));

    let mut leader = Me::leading();
    leader
        .at(2)
        .asks(&update(record("me", 0, 2, 0), "1"))
        .hears(Outcome::Refused);
    leader
        .asks(&Action::Read)
        .hears(Outcome::Missing)
        .leads(false);
    leader.asks(&Action::Create(record("me", 0, 2, 0)));
}

#[test]
fn a_record_without_a_duration_is_given_ours() {
    let mut me = Me::new();
    let terse = LeaseRecord {
        holder: "other".to_owned(),
        ..LeaseRecord::default()
    };
    me.asks(&Action::Read)
        .hears(Outcome::Found(version(terse.clone(), "1")));
    me.at(14)
        .asks(&Action::Read)
        .hears(Outcome::Found(version(terse.clone(), "1")))
        .asks(&Action::Wait(at(16)));
    me.at(16)
        .asks(&Action::Read)
        .hears(Outcome::Found(version(terse, "1")));
    me.asks(&update(record("me", 16, 16, 1), "1"));
}

#[test]
fn a_leader_gives_the_lease_back() {
    let released = LeaseRecord {
        lease_duration: Some(Duration::from_secs(1)),
        ..record("", 3, 3, 0)
    };
    let mut me = Me::leading();
    me.elector.release();
    me.at(3).leads(false).asks(&Action::Read);
    // A renewal that was still on its way got there first.
    me.hears(Outcome::Found(version(record("me", 0, 1, 0), "1")))
        .asks(&update(released.clone(), "1"));
    me.hears(Outcome::Refused).at(5).asks(&Action::Read);
    me.at(3)
        .hears(Outcome::Found(version(record("me", 0, 2, 0), "2")))
        .asks(&update(released.clone(), "2"));
    me.hears(Outcome::Written(version(released, "3")))
        .asks(&Action::Finished)
        .leads(false);
}

#[test]
fn only_our_own_lease_is_given_back() {
    let mut follower = Me::new();
    follower
        .asks(&Action::Read)
        .hears(Outcome::Found(version(record("other", 0, 0, 0), "1")));
    follower.elector.release();
    follower.asks(&Action::Finished);

    for outcome in [
        Outcome::Missing,
        Outcome::Found(version(record("other", 0, 0, 1), "2")),
    ] {
        let mut deposed = Me::leading();
        deposed.elector.release();
        deposed
            .asks(&Action::Read)
            .hears(outcome)
            .asks(&Action::Finished);
    }
}

#[test]
fn a_write_that_was_under_way_is_given_back_too() {
    let mut me = Me::new();
    me.asks(&Action::Read).hears(Outcome::Missing);
    me.asks(&Action::Create(record("me", 0, 0, 0)));
    me.elector.release();
    me.asks(&Action::Read)
        .hears(Outcome::Found(version(record("me", 0, 0, 0), "1")));
    assert!(
        matches!(me.elector.next(at(0), wall(0)), Action::Update { record, .. } if record.holder.is_empty())
    );
}

#[test]
fn identities_are_unique() {
    let [one, other] = [(); 2].map(|()| super::super::unique_identity("host").unwrap());
    assert!(one.starts_with("host_") && one.len() == other.len());
    assert_ne!(one, other);
}

#[test]
fn unsafe_timings_are_refused() {
    let timing = |lease, renew, retry| LeaseTiming {
        lease_duration: Duration::from_millis(lease),
        renew_deadline: Duration::from_millis(renew),
        retry_period: Duration::from_millis(retry),
    };
    for (timing, expected) in [
        (LeaseTiming::default(), Ok(())),
        (timing(10_000, 10_000, 2_000), Err(BadTiming::LeaseTooShort)),
        (
            timing(15_000, 2_400, 2_000),
            Err(BadTiming::DeadlineTooShort),
        ),
        (
            timing(15_500, 10_000, 2_000),
            Err(BadTiming::NotWholeSeconds),
        ),
        (timing(15_000, 10_000, 0), Err(BadTiming::NoRetryPeriod)),
    ] {
        assert_eq!(Elector::new("me", timing).map(drop), expected, "{timing:?}");
    }
    let nameless = Elector::new("", LeaseTiming::default());
    assert_eq!(nameless.map(drop), Err(BadTiming::NoIdentity));
}
